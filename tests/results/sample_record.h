#pragma once

#include <limits>

#include "results/reason.h"
#include "results/record.h"

namespace dettax {

inline Block sample_block(int round, int position, double seconds) {
  Block block;
  block.round = round;
  block.position = position;
  block.start_seconds = 0.25 * position;
  block.step_time_seconds = {{seconds, seconds * 1.01, seconds * 0.99},
                             {seconds * 0.98, seconds, seconds}};
  block.steal_ratio = 0.001;
  block.other_load_ratio = 0.02;
  block.pressure_ratio = 0.1;
  block.frequency_hz = 3.1e9;
  return block;
}

inline ArmResult sample_arm(const std::string& arm, const std::string& mode, double seconds) {
  ArmResult result;
  result.arm = arm;
  result.mode = mode;
  result.mode_hash = "0123456789abcdef";
  result.claims_reproducible = mode != "fast";
  result.knobs = {{"gemm", mode == "fast" ? "arrival" : "ordered"}, {"moe", "arrival"}};
  result.engaged = {{"gemm", mode == "fast" ? "arrival" : "ordered"}, {"moe", ""}};
  result.environment = {{"CUBLAS_WORKSPACE_CONFIG", ":4096:8"}};
  result.warmup_step_time_seconds = {seconds * 3, seconds * 1.1};
  for (int round = 0; round < 4; ++round) {
    result.blocks.push_back(sample_block(round, 4 * round, seconds));
    result.blocks.push_back(sample_block(round, 4 * round + 3, seconds));
  }
  result.step_time_seconds = Estimate{seconds, seconds * 0.99, seconds * 1.01, 8};
  result.tokens_per_second = 512 / seconds;
  result.memory_peak_bytes = 325058560;
  result.memory_estimate_bytes = 319815680;
  return result;
}

inline Environment sample_environment() {
  Environment e;
  e.tool_version = "0.1.0";
  e.git_commit = "0123456";
  e.compiler = "GNU 12.2.0";
  e.build_type = "Release";
  e.host = "node1";
  e.cpu_model = "Example CPU";
  e.kernel = "Linux 6.1";
  e.simd_target = "AVX2";
  e.cores = 2;
  e.memory_bytes = 8LL << 30;
  e.variables = {{"NCCL_ALGO", "Ring"}};
  e.started_at = "2026-03-01T12:00:00Z";
  return e;
}

// A case that passed, with every field set to something other than its default.
inline Record sample_record() {
  Record record;
  record.run_id = "20260301T120000Z-quick";
  record.suite = "quick";
  record.suite_hash = "fedcba9876543210";
  record.case_id = "tiny.fp32.dp2.t1.b8x64";
  Model& model = record.planned.model;
  model.name = "tiny";
  model.vocabulary = 512;
  model.context = 128;
  model.layers = 2;
  model.published_layers = 2;
  model.width = 64;
  model.heads = 4;
  model.key_value_heads = 2;
  model.head_width = 16;
  model.ffn_width = 256;
  model.norm = NormKind::rms_norm;
  model.activation = Activation::swiglu;
  model.position = Position::rope;
  model.moe = Moe{8, 2, 64, 1, 1};
  model.source = "made for tests";
  record.planned.layout.dp = 2;
  record.planned.batch = {4, 8, 64};
  record.planned.seed = 18446744073709551615ULL;
  record.planned.data.kind = "text";
  record.planned.data.path = "data/caf\xc3\xa9.txt";
  record.planned.data.bytes = 2048;
  record.planned.data.hash = std::string(32, 'd');
  record.environment = sample_environment();
  record.arms = {sample_arm("fast", "fast", 0.0123), sample_arm("control", "fast", 0.01231),
                 sample_arm("deterministic", "deterministic", 0.0125)};
  Tax tax;
  tax.arm = "deterministic";
  tax.overhead_ratio = {1.0163, 1.0101, 1.0225, 4};
  tax.control_ratio = Estimate{1.0008, 0.9961, 1.0055, 4};
  tax.min_detectable_overhead_ratio = 1.0071;
  tax.published = true;
  tax.drift_ratio_per_hour = -0.01;
  record.taxes = {tax};
  const ScopeEvidence equal_twice{"same_process", true, true, 480, 2, "", "", "", ""};
  const ScopeEvidence equal_again{"relaunch", true, true, 480, 2, "", "", "", ""};
  const ScopeEvidence differs{"same_process",
                              true,
                              false,
                              480,
                              2,
                              "step 0, rank 0, backward/layer1/attention: dqkv differs (97 later "
                              "entries differ downstream)",
                              "backward/layer1/attention",
                              "order of sums: attention",
                              "knob attention: ordered is to fix it"};
  record.evidence.arms = {
      {"fast", false, {differs}, std::string(32, 'a'), "tiny.fast.ledger.jsonl", {}},
      {"deterministic",
       true,
       {equal_twice, equal_again},
       std::string(32, 'b'),
       "tiny.deterministic.ledger.jsonl",
       {true, true, 96, ""}}};
  record.evidence.fast_differed = true;
  const auto control = [](const char* knob, ControlStatus status, int64_t runs,
                          const char* first_op, const char* reason) {
    return KnobControl{"deterministic", knob, status, runs, first_op, reason};
  };
  record.evidence.controls = {
      control("gemm", ControlStatus::caught, 2, "backward/layer1/mlp_down_weight", ""),
      control("norm", ControlStatus::caught, 3, "backward/final_norm", ""),
      control("loss", ControlStatus::not_shown, 12, "", "equal in 12 runs"),
      control("collectives", ControlStatus::not_shown, 0, "", "one rank")};
  record.verdict = make_verdict("within_limit", "deterministic: +1.6 %, limit +10.0 %.");
  record.duration_seconds = 21.5;
  return record;
}

inline KnobCost sample_knob_cost(const std::string& knob, const std::string& part, double compute,
                                 double exposed) {
  KnobCost cost;
  cost.knob = knob;
  cost.part = part;
  cost.cells = {compute, exposed, 0};
  cost.recording_seconds = 0.1e-3;
  const double seconds = compute + exposed + cost.recording_seconds;
  cost.seconds = Estimate{seconds, seconds - 0.5e-3, seconds + 0.5e-3, 6};
  cost.first_in_seconds = seconds + 0.2e-3;
  cost.last_in_seconds = seconds - 0.2e-3;
  return cost;
}

// The same case when it was also profiled and its knobs turned.
inline Record record_with_causes() {
  Record record = sample_record();
  ArmProfile profile;
  profile.arm = "deterministic";
  profile.ranks = 2;
  profile.steps = 24;
  profile.fast_seconds = 40e-3;
  profile.deterministic_seconds = 44e-3;
  profile.mechanisms = {{"compute", 30e-3, 35e-3, 5e-3},
                        {"exposed_comm.transfer", 9e-3, 8e-3, -1e-3},
                        {"unmapped", 1e-3, 1e-3, 0}};
  profile.paths = {{"backward/layer0/attention", "compute", 4e-3, 8e-3, 4e-3},
                   {"reduce/bucket", "exposed_comm.transfer", 9e-3, 8e-3, -1e-3}};
  profile.distortion_seconds = 0.2e-3;
  profile.fast_recording_ratio = Estimate{1.004, 0.999, 1.009, 6};
  profile.recording_ratio = Estimate{1.002, 0.997, 1.007, 6};
  profile.notes = {"links are emulated"};
  record.profiles = {profile};
  Ablation ablation;
  ablation.arm = "deterministic";
  ablation.rounds = 6;
  ablation.mechanisms = {"compute", "exposed_comm.transfer", "unmapped"};
  ablation.knobs = {sample_knob_cost("attention", "ordering", 4.5e-3, -1e-3),
                    sample_knob_cost("memory_fill", "framework", 0.7e-3, 0)};
  ablation.interaction = sample_knob_cost("interaction", "", -0.2e-3, 0);
  ablation.total = sample_knob_cost("total", "", 5e-3, -1e-3);
  ablation.total.recording_seconds = 0.3e-3;
  ablation.total.seconds = Estimate{4.3e-3, 3.8e-3, 4.8e-3, 6};
  ablation.sufficient = {{"attention"}, true, 7, Estimate{1.09, 1.08, 1.1, 6}, ""};
  ablation.notes = {"one round was disturbed"};
  record.ablation = ablation;
  return record;
}

// The same case with its kernels measured alone.
inline Record record_with_kernels() {
  Record record = sample_record();
  record.kernels = KernelSuite{230e9,
                               20e9,
                               {{"layer_norm_backward/arrival_static", 80e-6, 16e9, 0, 0.8, 5},
                                {"layer_norm_backward/ordered", 100e-6, 12e9, 0, 0.6, 5},
                                {"linear/forward/static", 400e-6, 0, 184e9, 0.8, 8}}};
  return record;
}

}  // namespace dettax
