#include <cmath>
#include <fstream>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/plan/loaders.h"
#include "harness/plan/suite.h"
#include "results/analysis/csv.h"
#include "results/analysis/projection/measured_factors.h"
#include "results/analysis/projection/projection_json.h"
#include "results/analysis/projection/traffic_cost.h"
#include "tests/results/sample_record.h"

namespace dettax {
namespace {

using testing::HasSubstr;

Layout layout(const std::string& text) { return read_layout(yaml_scalar(text), "layout"); }

TrainingPlan plan_of(const std::string& model, const std::string& text, int64_t global,
                     int64_t length, Precision precision = Precision::bf16) {
  TrainingPlan plan;
  plan.model = load_model(model);
  plan.layout = layout(text);
  plan.schedule = plan.layout.vp > 1 ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b;
  plan.precision = precision;
  plan.batch = {1, global, length};
  return plan;
}

const DeterminismCost kFast;

double seconds(const Hardware& machine, const TrainingPlan& plan) {
  return simulate(Situation{machine, plan, kFast}).step_seconds;
}

std::vector<TrainingPlan> plans() {
  return {plan_of("llama3-70b", "dp4.tp4.pp4.vp5.cp2.sp.zero1", 256, 8192),
          plan_of("llama3-8b", "dp16.zero1", 128, 8192),
          plan_of("llama3-8b", "dp16.zero3", 128, 8192),
          plan_of("llama3-70b", "dp2.tp8.pp8.full", 64, 4096),
          plan_of("mixtral-8x7b", "dp16.ep8.zero1", 128, 4096),
          plan_of("deepseek-v3", "dp64.pp4.vp4.ep64.zero1", 1024, 4096)};
}

TEST(Collectives, MoreBandwidthIsNeverSlower) {
  const AlgorithmSet all = AlgorithmSet::all();
  for (const std::string& name : list_hardware()) {
    const Hardware slow = load_hardware(name);
    if (slow.link_bytes_per_second == 0 || slow.network_bytes_per_second == 0) continue;
    Hardware fast = slow;
    fast.link_bytes_per_second *= 2;
    fast.network_bytes_per_second *= 2;
    for (const auto collective :
         {CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
          CollectiveKind::all_to_all, CollectiveKind::point_to_point}) {
      for (const int64_t ranks : {2, 8, 64, 1024}) {
        for (double bytes = 8; bytes < 1e11; bytes *= 16) {
          const GroupShape group = group_shape(slow, ranks, 1);
          EXPECT_LE(collective_seconds(fast, collective, bytes, group, all),
                    collective_seconds(slow, collective, bytes, group, all));
          EXPECT_LE(collective_seconds(slow, collective, bytes, group, all),
                    collective_seconds(slow, collective, bytes, group,
                                       AlgorithmSet::only(CollectiveAlgorithm::ring)));
        }
      }
    }
  }
}

TEST(Collectives, LargeAllReducesComeNearThePublishedBandwidths) {
  const CsvTable csv = CsvTable::read(find_home() + "/configs/published/nccl_nvls_ablation.csv");
  int compared = 0;
  for (size_t row = 0; row < csv.rows(); ++row) {
    const std::string& hardware = csv.text(row, "hw");
    if (hardware != "8xH200" && hardware != "8xB200") continue;
    if (csv.text(row, "bytes") != "8GiB") continue;
    const Hardware machine = load_hardware(hardware == "8xH200" ? "h200" : "b200");
    const auto ranks = static_cast<double>(csv.integer_or(row, "ranks", 8));
    const GroupShape group = group_shape(machine, csv.integer_or(row, "ranks", 8), 1);
    const double bytes = 8 * 1024.0 * 1024 * 1024;
    const double moved = 2 * (ranks - 1) / ranks * bytes;
    AlgorithmSet off = AlgorithmSet::named("^NVLS");
    const double by_default = moved / collective_seconds(machine, CollectiveKind::all_reduce, bytes,
                                                         group, AlgorithmSet::all());
    const double without =
        moved / collective_seconds(machine, CollectiveKind::all_reduce, bytes, group, off);
    EXPECT_NEAR(by_default / 1e9 / csv.need_number(row, "busbw_default"), 1, 0.06)
        << csv.place(row);
    EXPECT_NEAR(without / 1e9 / csv.need_number(row, "busbw_nvls_off"), 1, 0.06) << csv.place(row);
    ++compared;
  }
  EXPECT_EQ(compared, 10);
}

TEST(Collectives, RingsGrowLinearlyWithRanksAndTreesDoNot) {
  const Hardware machine = load_hardware("h100");
  const auto at = [&](CollectiveAlgorithm algorithm, int64_t ranks) {
    return collective_seconds(machine, CollectiveKind::all_reduce, 1024,
                              group_shape(machine, ranks, 1), AlgorithmSet::only(algorithm));
  };
  EXPECT_NEAR(at(CollectiveAlgorithm::ring, 4096) / at(CollectiveAlgorithm::ring, 1024), 4, 0.2);
  EXPECT_LT(at(CollectiveAlgorithm::tree, 4096), 1.5 * at(CollectiveAlgorithm::tree, 1024));
}

TEST(Collectives, AnUnknownAlgorithmIsNamed) {
  EXPECT_FALSE(AlgorithmSet::named("Ring,Tree").has(CollectiveAlgorithm::nvls));
  EXPECT_TRUE(AlgorithmSet::named("^NVLS").has(CollectiveAlgorithm::ring));
  EXPECT_THROW(AlgorithmSet::named("Rung"), Error);
}

TEST(Simulation, MoreBandwidthIsNeverSlower) {
  for (const char* name : {"a100", "h100", "gb200-nvl72"}) {
    const Hardware machine = load_hardware(name);
    for (const TrainingPlan& plan : plans()) {
      const double before = seconds(machine, plan);
      Hardware links = machine, network = machine, memory = machine;
      links.link_bytes_per_second *= 2;
      network.network_bytes_per_second *= 2;
      memory.memory_bytes_per_second *= 2;
      for (const Hardware& better : {links, network, memory})
        EXPECT_LE(seconds(better, plan), before * (1 + 1e-12))
            << name << " " << plan_layout_text(plan);
    }
  }
}

TEST(Simulation, EndlessBandwidthLeavesNoTailAndNoWait) {
  Hardware machine = load_hardware("h100");
  machine.link_bytes_per_second = machine.network_bytes_per_second = 1e18;
  for (const TrainingPlan& plan : plans()) {
    const Projection p = simulate(Situation{machine, plan, kFast});
    EXPECT_LT(p.reduce_tail + p.gather_wait, 0.01 * p.step_seconds) << plan_layout_text(plan);
  }
}

TEST(Simulation, PartsAddUpToTheStep) {
  const Hardware machine = load_hardware("h100");
  for (const TrainingPlan& plan : plans()) {
    for (const Projection& p : {simulate(Situation{machine, plan, kFast}),
                                simulate({machine, plan, kFast}, StepJitter{}, 4)}) {
      const double sum = p.gather_wait + p.compute + p.bubble + p.reduce_tail + p.optimizer +
                         p.host + p.slowest_rank + p.jitter;
      EXPECT_NEAR(sum, p.step_seconds, 1e-9 * p.step_seconds);
      EXPECT_GT(p.mfu_ratio, 0.02);
      EXPECT_LT(p.mfu_ratio, 0.8);
    }
  }
}

TEST(Simulation, WithoutNoiseTheSampledStepIsTheMean) {
  const Hardware machine = load_hardware("h100");
  StepJitter none;
  none.pass_cv = none.step_cv = 0;
  for (const TrainingPlan& plan : plans()) {
    const double quiet = seconds(machine, plan);
    EXPECT_NEAR(simulate({machine, plan, kFast}, none, 3).step_seconds, quiet, 1e-12 * quiet);
    EXPECT_GT(simulate({machine, plan, kFast}, StepJitter{}, 3).step_seconds, quiet);
  }
}

TEST(Simulation, ProductsThatAreComputedAgainTakeTheirShare) {
  const Hardware machine = load_hardware("h100");
  TrainingPlan plan = plan_of("llama3-8b", "dp8", 8, 8192);
  const double none = seconds(machine, plan);
  plan.software.recomputed_products_ratio = 0.5;
  const double half = seconds(machine, plan);
  plan.software.recomputed_products_ratio = 1;
  const double all = seconds(machine, plan);
  plan.software.recomputed_products_ratio = 0;
  plan.layout.recompute = Recompute::full;
  EXPECT_GT(half, 1.05 * none);
  EXPECT_GT(all, half);
  EXPECT_LT(all, seconds(machine, plan)) << "attention is kept";
}

TEST(Simulation, SlowHostsMakeStepsLonger) {
  const Hardware machine = load_hardware("h100");
  StepJitter slow;
  slow.slow_host_share = 0.2;
  EXPECT_GT(simulate({machine, plans()[0], kFast}, slow, 16).step_seconds,
            1.02 * simulate({machine, plans()[0], kFast}, StepJitter{}, 16).step_seconds);
}

TEST(Simulation, MemoryOfAKnownModelIsThatOfThePaper) {
  const CsvTable csv = CsvTable::read(find_home() + "/configs/published/seqpar2022_memory.csv");
  std::vector<PublishedRow> rows = published::seqpar2022();
  constexpr double kGiB = 1024.0 * 1024 * 1024;
  for (size_t row = 0; row < csv.rows(); ++row) {
    const bool large = csv.text(row, "model") == "530B";
    const bool sharded = csv.text(row, "mode") == "seq+sel";
    TrainingPlan plan = rows[large ? 3 : 1].plan;
    if (!sharded) {
      plan.layout.sequence_parallel = false;
      plan.layout.recompute = Recompute::none;
    }
    const ProjectedMemory memory = projected_memory(plan);
    EXPECT_NEAR(memory.activations / kGiB / csv.need_number(row, "act_GiB"), 1, 0.25)
        << csv.place(row);
  }
}

std::string json_of(uint64_t seed) {
  const Hardware machine = load_hardware("h100");
  const TrainingPlan plan = plans()[0];
  const Mode mode = load_mode("megatron-det");
  const Mode fast = load_mode("fast");
  const DeterminismRanges ranges = load_determinism_ranges();
  TaxRequest request{machine, plan, mode, fast, ranges};
  request.jitter.seed = seed;
  request.draws = 20;
  return projections_json(machine, {{plan, mode.name, project_tax(request)}});
}

TEST(Simulation, TheSameInputGivesTheSameBytesAndAnotherSeedOthers) {
  EXPECT_EQ(json_of(1), json_of(1));
  EXPECT_NE(json_of(1), json_of(2));
}

ProjectedTax tax_of(const std::string& machine_name, const TrainingPlan& plan, Mode mode,
                    bool lose_overlap = false) {
  const Hardware machine = load_hardware(machine_name);
  const Mode fast = load_mode("fast");
  const DeterminismRanges ranges = load_determinism_ranges();
  TaxRequest request{machine, plan, mode, fast, ranges};
  request.lose_tensor_overlap = lose_overlap;
  request.draws = 60;
  return project_tax(request);
}

TEST(ProjectedTaxes, AModeWithoutChangesCostsNothing) {
  const ProjectedTax tax = tax_of("h100", plans()[0], load_mode("fast"));
  EXPECT_EQ(tax.typical, 0);
  EXPECT_EQ(tax.p90, 0);
  EXPECT_TRUE(tax.parts.empty());
}

TEST(ProjectedTaxes, PartsAndInteractionAddUpToTheTotal) {
  const ProjectedTax tax = tax_of("h100", plans()[0], load_mode("megatron-det"), true);
  double sum = tax.interaction;
  for (const CausePart& part : tax.parts) sum += part.ratio;
  EXPECT_NEAR(sum, tax.typical, 1e-12);
  EXPECT_LE(tax.p10, tax.p50);
  EXPECT_LE(tax.p50, tax.p90);
}

TEST(ProjectedTaxes, LieInThePublishedRange) {
  Mode no_fill = load_mode("megatron-det");
  no_fill.knobs.memory_fill = false;
  // Large dense: about 4 % published, 3 to 7 % by the closed form (knowledge of Megatron's op catalog).
  const ProjectedTax dense =
      tax_of("h100", plan_of("llama3.1-405b", "dp4.tp8.pp9.vp7.cp2.sp.zero1", 252, 8192), no_fill);
  EXPECT_GT(dense.typical, 0.01);
  EXPECT_LT(dense.typical, 0.08);
  // Experts, fill on: +8.5 % (DeepSeek-V3, 256 GB200) to +17.4 % (a hybrid model) published.
  const TrainingPlan experts = plan_of("deepseek-v3", "dp64.pp4.vp4.ep64.zero1", 2048, 4096);
  const ProjectedTax filled = tax_of("gb200-nvl72", experts, load_mode("megatron-det"));
  const ProjectedTax unfilled = tax_of("gb200-nvl72", experts, no_fill);
  EXPECT_GT(filled.typical, 0.05);
  EXPECT_LT(filled.typical, 0.25);
  EXPECT_LT(unfilled.typical, filled.typical);
}

TEST(ProjectedTaxes, LostOverlapCostsWhatItHadHidden) {
  const TrainingPlan plan = plan_of("llama3-70b", "dp4.tp8.pp2.sp.zero1", 64, 8192);
  const ProjectedTax kept = tax_of("h100", plan, load_mode("deterministic"));
  const ProjectedTax lost = tax_of("h100", plan, load_mode("deterministic"), true);
  EXPECT_GT(lost.typical, kept.typical + 0.01);
  TrainingPlan one =
      plan_of("llama3-8b", "dp8.zero1", 64, 8192);  // without tensor parallelism nothing was hidden
  EXPECT_NEAR(tax_of("h100", one, load_mode("deterministic"), true).typical,
              tax_of("h100", one, load_mode("deterministic")).typical, 1e-12);
}

TEST(Plans, ImpossibleLayoutsGetOneSentence) {
  const auto refusal = [](const TrainingPlan& plan) {
    return plan_refusal(plan).value_or("accepted");
  };
  EXPECT_THAT(refusal(plan_of("llama3-70b", "dp4.tp7", 64, 8192)),
              HasSubstr("heads 64 is not divisible by tp 7"));
  EXPECT_THAT(refusal(plan_of("llama3-70b", "dp5", 64, 8192)),
              HasSubstr("global batch 64 is not divisible"));
  EXPECT_THAT(refusal(plan_of("llama3-8b", "dp1.pp64", 64, 8192)),
              HasSubstr("more than the 32 layers"));
  EXPECT_THAT(refusal(plan_of("llama3-8b", "dp8.ep2", 64, 8192)), HasSubstr("has no experts"));
  EXPECT_THAT(refusal(plan_of("llama3-70b", "dp1.pp4.vp2", 6, 8192)),
              HasSubstr("not divisible by pp 4"));
  for (const auto kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::zbv}) {
    TrainingPlan plan = plan_of("llama3-8b", "pp2.vp2", 8, 8192);
    plan.schedule = kind;
    EXPECT_THAT(refusal(plan), HasSubstr("has no use for vp 2"));
  }
  EXPECT_EQ(refusal(plans()[0]), "accepted");
}

TEST(Plans, LayersAreSpreadWithFewerAtTheEnds) {
  const auto counts =
      layers_of_chunks(plan_of("llama3.1-405b", "dp1.tp4.pp8.vp8.cp2.sp", 64, 8192));
  EXPECT_EQ(counts.size(), 64U);
  EXPECT_EQ(counts.front(), 1);
  EXPECT_EQ(counts.back(), 1);
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), int64_t{0}), 126);
}

TEST(Sweeps, TheFastestThatFitsComesFirst) {
  const Hardware machine = load_hardware("h100");
  const Sweep sweep = sweep_layouts(machine, plan_of("llama3-8b", "dp64", 256, 8192), 400);
  ASSERT_GT(sweep.rows.size(), 50U);
  EXPECT_TRUE(sweep.rows.front().fits);
  for (size_t i = 1; i < sweep.rows.size() && sweep.rows[i].fits; ++i)
    EXPECT_LE(sweep.rows[i - 1].projection.step_seconds, sweep.rows[i].projection.step_seconds);
  for (const SweepRow& row : sweep.rows) EXPECT_EQ(row.plan.ranks(), 64);
}

TEST(OpTables, ReadingsAreInterpolatedByWorkAndReplaceTheRoofline) {
  OpTable table;
  table.add("gemm", "bf16", "fast", 1e9, 1e-4);
  table.add("gemm", "bf16", "fast", 1e11, 1e-3);
  EXPECT_NEAR(*table.seconds("gemm", "bf16", "fast", 1e10), std::sqrt(1e-7), 1e-12);
  EXPECT_NEAR(*table.seconds("gemm", "bf16", "fast", 1e12), 1e-2, 1e-12);
  EXPECT_FALSE(table.seconds("gemm", "fp8", "fast", 1e10));
  EXPECT_THAT(table.missing({"gemm", "attention_forward"}, "bf16", "fast"),
              testing::ElementsAre("attention_forward"));
  const Hardware machine = load_hardware("h100");
  const TrainingPlan plan = plan_of("llama3-8b", "dp8", 8, 8192);
  OpTable slow;
  slow.add("gemm", "bf16", "fast", 1e12, 1.0);
  EXPECT_GT(simulate(Situation{machine, plan, kFast, &slow}).step_seconds,
            10 * seconds(machine, plan));
}

TEST(OpTables, KernelBenchesAreReadAsTheyAreWritten) {
  const std::string path = ::testing::TempDir() + "/kernel_bench.json";
  std::ofstream(path) << R"({"benchmarks": [
    {"name": "linear/forward/static/model:gpt2/tokens:256/inputs:768/outputs:768/min_time:0.200/manual_time",
     "run_type": "iteration", "real_time": 2.0, "time_unit": "ms"},
    {"name": "linear/weight_gradient/ordered/model:gpt2/tokens:256/inputs:768/outputs:768/min_time:0.200/manual_time",
     "run_type": "iteration", "real_time": 3.0, "time_unit": "ms"},
    {"name": "attention_forward/gpt2_B4T64/real_time", "run_type": "iteration", "real_time": 400, "time_unit": "us",
     "flops_per_second": 1e11},
    {"name": "attention_backward/gpt2_B4T64/ordered/real_time", "run_type": "iteration", "real_time": 900,
     "time_unit": "us", "flops_per_second": 1e11},
    {"name": "add/gpt2_B4T64/real_time", "run_type": "iteration", "real_time": 70, "time_unit": "us",
     "bytes_per_second": 3e10},
    {"name": "somebody_elses/1", "run_type": "iteration", "real_time": 1, "time_unit": "ns"}]})";
  const OpTable table = OpTable::read(path);
  EXPECT_EQ(table.size(), 6U);  // the forward product serves two modes
  const double work = 2.0 * 256 * 768 * 768;
  EXPECT_NEAR(table.seconds("gemm", "fp32", "fast", work).value(), 2e-3, 1e-12);
  EXPECT_NEAR(table.seconds("weight_product", "fp32", "ordered", work).value(), 3e-3, 1e-12);
  EXPECT_NEAR(table.seconds("attention_forward", "fp32", "fast", 4e7).value(), 400e-6, 1e-12);
  EXPECT_NEAR(table.seconds("attention_backward", "fp32", "ordered", 9e7).value(), 900e-6, 1e-12);
  EXPECT_NEAR(table.seconds("elementwise", "fp32", "fast", 2.1e6).value(), 70e-6, 1e-12);
  std::ofstream(path) << "{\"benchmarks\": []}";
  EXPECT_THROW(OpTable::read(path), Error);
}

TEST(Plans, StepsTooLargeToCountAreRefusedWithTheLargestThatIsNot) {
  const auto refusal = [](const std::string& layout_text, int64_t micro, int64_t global,
                          int64_t length) {
    TrainingPlan plan = plan_of("llama3-8b", layout_text, global, length);
    plan.batch.micro = micro;
    return plan_refusal(plan).value_or("accepted");
  };
  const int64_t huge = int64_t{1} << 62;
  EXPECT_THAT(refusal("dp1000000.cp1000000", 1, 8, 8192), HasSubstr("at most 1000000 are"));
  EXPECT_THAT(refusal("dp8", huge, huge, 8192), HasSubstr("at most 1000000 is"));
  EXPECT_THAT(refusal("dp8", 1, huge, 8192), HasSubstr("at most 1000000000 is"));
  EXPECT_THAT(refusal("dp8", 1, 8, huge), HasSubstr("at most 100000000 is"));
  EXPECT_THAT(refusal("tp8.pp4.sp", 1, 1'000'000, 8192), HasSubstr("batch of up to 125000"));
  EXPECT_EQ(refusal("tp8.pp4.sp", 1, 125'000, 8192), "accepted");
  const TrainingPlan one = plan_of("llama3-8b", "dp1", 8, 8192);
  EXPECT_THROW(on_ranks(one, int64_t{1} << 32), Error);
  EXPECT_EQ(on_ranks(one, 1'000'000).ranks(), 1'000'000);
}

TEST(OpTables, RowsThatNothingWouldAskForAreRefusedByFileAndLine) {
  const std::string path = testing::TempDir() + "op_rows.csv";
  const auto fault = [&](const std::string& row) -> std::string {
    std::ofstream(path) << "op,precision,mode,m,n,k,seconds\ngemm,bf16,fast,8,8,8,1e-3\n" << row;
    try {
      OpTable::read(path);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(fault("all_reduce,,ordered,1024,8,8,1e-5"), "accepted");
  EXPECT_EQ(fault("embedding_backward,fp32,generic,1024,1,1,1e-5"), "accepted");
  EXPECT_THAT(fault("foo,bf16,fast,8,8,8,1e-3"), HasSubstr("op_rows.csv:3: op: must be one of"));
  EXPECT_THAT(fault("gemm,bf16,ordred,8,8,8,1e-3"), HasSubstr("op_rows.csv:3: mode:"));
  EXPECT_THAT(fault("gemm,bf99,fast,8,8,8,1e-3"), HasSubstr("op_rows.csv:3: precision:"));
  EXPECT_THAT(fault("gemm,bf16,fast,8,8,8,1e300"), HasSubstr("seconds: must be above 0 and at"));
  EXPECT_THAT(fault("gemm,bf16,fast,1e300,8,8,1"), HasSubstr("m: must be above 0 and at most"));
}

TEST(Simulations, AStepThatTakesNoFiniteTimeIsRefused) {
  OpTable table;
  table.add("gemm", "bf16", "fast", 1e9, 1e305);
  const Hardware machine = load_hardware("h100");
  const TrainingPlan plan = plan_of("llama3-8b", "dp8", 8, 8192);
  EXPECT_THROW(simulate(Situation{machine, plan, kFast, &table}), Error);
}

TEST(OpTables, RunsKernelsAreReadFromTheirRecords) {
  Record record = sample_record();
  record.kernels =
      KernelSuite{1e12,
                  1e11,
                  {{"linear/forward/static/tokens:256/inputs:768/outputs:768", 2e-3, 0, 0, 0.5, 1},
                   {"layer_norm_backward/arrival_dynamic", 1e-4, 1e9, 0, 0.5, 1},
                   {"layer_norm_backward/ordered", 2e-4, 5e8, 0, 0.5, 1},
                   {"embedding_backward/arrival_dynamic", 1e-4, 1e9, 0, 0.5, 1},
                   {"embedding_backward/generic", 5e-4, 2e8, 0, 0.5, 1},
                   {"all_reduce/direct/arrival/ranks:2/bytes:1048576", 1e-4, 0, 0, 0.5, 0},
                   {"all_reduce/direct/ordered/ranks:2/bytes:1048576", 3e-4, 0, 0, 0.5, 0},
                   {"all_reduce/ring/ordered/ranks:2/bytes:1048576", 1e-5, 0, 0, 0.5, 0}}};
  const OpTable own = OpTable::of_records({record}, "a run");
  EXPECT_NEAR(*own.seconds("gemm", "fp32", "fast", 2.0 * 256 * 768 * 768), 2e-3, 1e-12);
  EXPECT_NEAR(*own.ratio("layer_norm_backward", "fp32", "ordered", "fast"), 2, 1e-9);
  EXPECT_NEAR(*own.ratio("embedding_backward", "fp32", "generic", "fast"), 5, 1e-9);
  EXPECT_FALSE(own.ratio("embedding_backward", "fp32", "ordered", "fast"));
  EXPECT_NEAR(*own.collective_seconds("all_reduce", "ordered", {2, 2}, 1048576), 3e-4, 1e-12);
  EXPECT_THROW(OpTable::of_records({sample_record()}, "a run"), Error);
}

TEST(OpTables, MeasuredCollectivesStandBeforeTheModelAndLieAlike) {
  const Hardware machine = load_hardware("h100");
  const TrainingPlan plan = plan_of("llama3-8b", "dp8", 8, 8192);
  OpTable table;
  table.add_collective("all_reduce", "fast", {8, 8}, 1e6, 0.5);
  table.add_collective("all_reduce", "ordered", {8, 8}, 1e6, 0.7);
  DeterminismCost ordered;
  ordered.collective_order = Order::ordered;
  const Situation fast{machine, plan, kFast, &table}, bare{machine, plan, kFast};
  const auto time = [](const Situation& s, CollectiveKind kind, const GroupShape& group) {
    return traffic_seconds(s, kind, 1e6, group);
  };
  EXPECT_EQ(time(fast, CollectiveKind::all_reduce, {8, 8}), 0.5);
  EXPECT_EQ(time({machine, plan, ordered, &table}, CollectiveKind::all_reduce, {8, 8}), 0.7);
  EXPECT_EQ(time(fast, CollectiveKind::all_gather, {8, 8}),
            time(bare, CollectiveKind::all_gather, {8, 8}));
  // Of four: the curve of eight, by what the model says of the difference.
  EXPECT_NEAR(time(fast, CollectiveKind::all_reduce, {4, 4}) / 0.5,
              time(bare, CollectiveKind::all_reduce, {4, 4}) /
                  time(bare, CollectiveKind::all_reduce, {8, 8}),
              1e-9);
  // Over a network it was not measured.
  EXPECT_EQ(time(fast, CollectiveKind::all_reduce, {64, 8}),
            time(bare, CollectiveKind::all_reduce, {64, 8}));
}

TEST(OpTables, AVariantWithoutItsFastTwinIsNoTax) {
  const Hardware machine = load_hardware("h100");
  const TrainingPlan plan = plan_of("llama3-8b", "dp8", 8, 8192);
  OpTable table;
  table.add("attention_backward", "bf16", "ordered", 1e9, 1.0);
  table.add_collective("all_reduce", "ordered", {8, 8}, 1e6, 1.0);
  DeterminismCost ordered;
  ordered.attention_order = ordered.collective_order = Order::ordered;
  EXPECT_EQ(simulate(Situation{machine, plan, kFast, &table}).step_seconds,
            simulate(Situation{machine, plan, ordered, &table}).step_seconds);
}

TEST(ProjectedTaxes, MeasuredVariantsStandBeforeTheRanges) {
  const Hardware machine = load_hardware("local");
  TrainingPlan plan = plan_of("gpt-small", "dp1", 4, 256);
  plan.precision = Precision::fp32;
  const Mode mode = load_mode("deterministic"), fast = load_mode("fast");
  OpTable table;
  table.add("layer_norm_backward", "fp32", "fast", 1e6, 1e-4);
  table.add("layer_norm_backward", "fp32", "ordered", 1e6, 9e-4);
  DeterminismCost cost =
      determinism_cost(mode, fast, machine.generation, load_determinism_ranges(), kMedian);
  const double embedding = cost.embedding_backward_ratio;
  use_measured_factors(cost, table, mode, fast, plan.model, plan.precision, "");
  EXPECT_NEAR(cost.norm_backward_ratio, 9, 1e-9);
  EXPECT_EQ(cost.embedding_backward_ratio, embedding) << "not measured";
  DeterminismCost other;
  use_measured_factors(other, table, mode, fast, plan.model, plan.precision, "gemm");
  EXPECT_EQ(other.norm_backward_ratio, 1) << "another knob's part";
}

TEST(Machines, EveryOneShippedIsReadAndHasItsSources) {
  for (const char* name : {"a100", "h100", "h200", "b200", "gb200-nvl72", "local"}) {
    const Hardware machine = load_hardware(name);
    EXPECT_GT(machine.memory_bytes_per_second, 0) << name;
    EXPECT_FALSE(machine.sources.empty()) << name;
  }
}

}  // namespace
}  // namespace dettax
