// Tables of NVIDIA's and PyTorch's own trainers, 2024 and later: flash attention, everything that can be hidden is.
#include <array>

#include <fmt/format.h>

#include "harness/plan/suite.h"
#include "results/analysis/csv.h"
#include "results/analysis/projection/published.h"

namespace dettax::published {
namespace {

Software of_2025() {
  Software software;
  software.gradient_bytes = 2;  // grad_reduce_in_fp32 is off in NeMo's performance recipes
  return software;
}

struct KnownModel {
  const char* published;
  const char* file;  // empty: why it is left out stands in `reason`
  const char* reason;
};
constexpr auto kModels = std::to_array<KnownModel>({
    {"llama3.1-70b", "llama3-70b", ""},
    {"llama3.1-8b", "llama3-8b", ""},
    {"llama3.1-405b", "llama3.1-405b", ""},
    {"maxtext-llama3-70b", "llama3-70b", ""},
    {"nemotron4-15b", "published/models/nemotron4-15b.yaml", ""},
    {"nemotron4-340b", "published/models/nemotron4-340b.yaml", ""},
    {"deepseek-v3-671b", "deepseek-v3", ""},
    {"nemotron-h-56b-hybrid", "", "state-space layers are not modelled"},
    {"llama4-maverick-400b", "", "experts in every other layer are not modelled"},
    {"LLAMA3_70B", "llama3-70b", ""},
    {"LLAMA3_8B", "llama3-8b", ""},
    {"DeepSeekV3", "deepseek-v3", ""},
    {"Qwen3_30B_a3B", "published/models/qwen3-30b-a3b.yaml", ""},
    {"GPT OSS 120B", "published/models/gpt-oss-120b.yaml", ""},
    {"Nemotron_3_Nano", "", "state-space layers are not modelled"},
    {"Nemotron_3_5_Lightning", "", "state-space layers are not modelled"},
});

// The model of a row, or why it is left out.
void set_model(PublishedRow& row, const std::string& name) {
  for (const KnownModel& known : kModels) {
    if (name != known.published) continue;
    row.left_out = known.reason;
    const std::string file = known.file;
    if (file.empty()) return;
    row.plan.model = load_model(file.find('/') == std::string::npos ? file : path(file.substr(10)));
    return;
  }
  row.left_out = fmt::format("model {} is not known here", name);
}

std::string machine_of(const std::string& gpu) {
  if (gpu == "H100") return "h100";
  if (gpu == "B200") return "b200";
  if (gpu == "B300") return "b300";
  return gpu == "GB200" ? "gb200-nvl72" : "gb300-nvl72";
}

void set_precision(PublishedRow& row, const std::string& name) {
  if (name == "bf16" || name == "BF16") {
    row.plan.precision = Precision::bf16;
  } else if (name == "MXFP8") {
    row.plan.precision = Precision::fp8_mx;
  } else if (name == "NVFP4") {
    row.plan.precision = Precision::nvfp4;
  } else {
    row.plan.precision = Precision::fp8_cs;
  }
}

int axis(const CsvTable& csv, size_t row, const char* column) {
  return static_cast<int>(csv.integer_or(row, column, 1));
}

// Axes of both NVIDIA tables; dp follows from the number of GPUs.
void set_layout(PublishedRow& row, const CsvTable& csv, size_t i) {
  Layout& l = row.plan.layout;
  l.tp = axis(csv, i, "tp");
  l.pp = axis(csv, i, "pp");
  l.cp = axis(csv, i, "cp");
  l.vp = axis(csv, i, "vp");
  l.ep = axis(csv, i, "ep");
  const int64_t gpus = csv.integer_or(i, "gpus", 1);
  l.dp = static_cast<int>(gpus / (int64_t{l.tp} * l.pp * l.cp));
  l.sequence_parallel = l.tp > 1;
  l.zero_stage = 1;
  const bool interleaved = l.vp > 1 && l.pp > 1;
  row.plan.schedule = interleaved ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b;
  if (!interleaved) l.vp = 1;
  row.plan.software = of_2025();
  row.plan.batch = {csv.integer_or(i, "mbs", 1), csv.integer_or(i, "gbs", 1),
                    csv.integer_or(i, "seq", 1)};
  if (const int64_t shard = csv.integer_or(i, "fsdp", 0); shard > 0) {
    l.zero_stage = 3;
    row.plan.software.shard_ranks = shard;
  }
}

void finish(PublishedRow& row, const char* table, size_t i) {
  row.table = table;
  row.row = i + 1;
  row.group = fmt::format("{}/{}{}", table, row.machine, row.plan.model.moe ? "/experts" : "");
  if (row.left_out.empty()) row.label = label(row);
}

}  // namespace

std::vector<PublishedRow> dgxc_benchmarking() {
  const CsvTable csv = CsvTable::read(path("dgxc_benchmarking.csv"));
  std::vector<PublishedRow> rows;
  for (size_t i = 0; i < csv.rows(); ++i) {
    PublishedRow r;
    r.machine = machine_of(csv.text(i, "gpu"));
    set_precision(r, csv.text(i, "precision"));
    set_layout(r, csv, i);
    set_model(r, csv.text(i, "model"));
    if (r.left_out.empty()) r.plan.model.layers = csv.integer_or(i, "layers", r.plan.model.layers);
    r.step_seconds = csv.need_number(i, "step_time_s");
    finish(r, "dgxc_benchmarking", i);
    if (r.left_out.empty()) r.label = csv.text(i, "release").substr(0, 6) + " " + r.label;
    rows.push_back(std::move(r));
  }
  return rows;
}

std::vector<PublishedRow> megatron_bridge_perf() {
  const CsvTable csv = CsvTable::read(path("megatron_bridge_perf.csv"));
  std::vector<PublishedRow> rows;
  for (size_t i = 0; i < csv.rows(); ++i) {
    PublishedRow r;
    r.machine = machine_of(csv.text(i, "system").substr(4));
    set_precision(r, csv.text(i, "precision"));
    set_layout(r, csv, i);
    set_model(r, csv.text(i, "model"));
    if (csv.text(i, "section") == "lora") r.left_out = "adapters: most weights have no gradient";
    if (csv.text(i, "variant") == "tokendrop") r.left_out = "tokens are dropped";
    r.step_seconds = csv.need_number(i, "derived_step_time_s");
    finish(r, "megatron_bridge_perf", i);
    if (r.left_out.empty()) r.label = csv.text(i, "release") + " " + r.label;
    rows.push_back(std::move(r));
  }
  return rows;
}

std::vector<PublishedRow> torchtitan() {
  const CsvTable csv = CsvTable::read(path("torchtitan.csv"));
  std::vector<PublishedRow> rows;
  for (size_t i = 0; i < csv.rows(); ++i) {
    const std::string& technique = csv.text(i, "technique");
    PublishedRow r;
    r.machine = "h100";
    r.system = "H100 of 96 GB and 500 W";
    const bool fp8 = technique.find("fp8") != std::string::npos;
    r.plan.precision = fp8 ? Precision::fp8_cs : Precision::bf16;
    set_model(r, csv.text(i, "model"));
    Layout& l = r.plan.layout;
    const int64_t shard = csv.integer_or(i, "fsdp", 1);
    l.tp = axis(csv, i, "tp");
    l.cp = axis(csv, i, "cp");
    l.dp = static_cast<int>(csv.integer_or(i, "gpus", 1) / (int64_t{l.tp} * l.cp));
    l.zero_stage = 3;
    l.sequence_parallel = l.tp > 1;
    l.recompute = csv.text(i, "recompute") == "full" ? Recompute::full : Recompute::selective;
    r.plan.software = of_2025();
    // pytorch/torchtitan's selective checkpointing by operation keeps every second product, attention and what was reduced.
    if (l.recompute == Recompute::selective) r.plan.software.recomputed_products_ratio = 0.5;
    r.plan.software.gradient_bytes = 4;
    r.plan.software.fused_loss = false;
    r.plan.software.shard_ranks = shard * l.cp;
    const bool asynchronous = technique.find("sync TP") != std::string::npos &&
                              technique.find("async") != std::string::npos;
    r.plan.software.tensor_overlap = asynchronous || technique.find("AsyncTP") != std::string::npos;
    r.plan.software.bulk_overlap = r.plan.software.tensor_overlap;
    const int64_t local = csv.integer_or(i, "local_batch", 1);
    const int64_t length = csv.integer_or(i, "seq", 1);
    r.plan.batch = {local, local * l.dp, length};
    const double gpus = csv.need_number(i, "gpus");
    r.step_seconds =
        static_cast<double>(r.plan.tokens_per_step()) / (csv.need_number(i, "tps_per_gpu") * gpus);
    if (technique == "FSDP") r.left_out = "operations one by one, not compiled: not modelled";
    finish(r, "torchtitan", i);
    if (r.left_out.empty()) r.label += " " + technique;
    rows.push_back(std::move(r));
  }
  return rows;
}

}  // namespace dettax::published
