#include "results/analysis/projection/published.h"

#include <filesystem>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/plan/suite.h"
#include "results/analysis/csv.h"

namespace dettax {
namespace published {

std::string path(const std::string& file) {
  return (std::filesystem::path(find_home()) / "configs/published" / file).string();
}

std::string label(const PublishedRow& row) {
  const Layout& l = row.plan.layout;
  std::string text = fmt::format("{} {} {} GPUs tp{}", row.plan.model.name,
                                 to_string(row.plan.precision), l.ranks(), l.tp);
  for (const auto& [name, size] :
       {std::pair{"pp", l.pp}, {"vp", l.vp}, {"cp", l.cp}, {"ep", l.ep}}) {
    if (size > 1) text += fmt::format(".{}{}", name, size);
  }
  return text + fmt::format(".dp{} micro-batch {}", l.dp, row.plan.batch.micro);
}

namespace {

// Before flash attention, and before anything hid data-parallel traffic.
Software of_2021() {
  Software software;
  software.attention = AttentionKind::materialised;
  software.tensor_overlap = software.bulk_overlap = software.data_overlap = false;
  software.fused_loss = false;
  software.gradient_bytes = 2;
  return software;
}

// GPT of these sizes, as Megatron-LM trains it.
Model gpt(const std::string& name, int64_t layers, int64_t width, int64_t heads, int64_t ffn,
          int64_t vocabulary, int64_t length) {
  Model m;
  m.name = name;
  m.vocabulary = vocabulary;
  m.context = length;
  m.layers = m.published_layers = layers;
  m.width = width;
  m.heads = m.key_value_heads = heads;
  m.head_width = width / heads;
  m.ffn_width = ffn;
  m.tied_head = true;
  return m;
}

int axis(const CsvTable& csv, size_t row, const char* column) {
  return static_cast<int>(csv.integer_or(row, column, 1));
}

void set_interleaving(TrainingPlan& plan) {
  plan.schedule = plan.layout.vp > 1 && plan.layout.pp > 1 ? ScheduleKind::interleaved
                                                           : ScheduleKind::one_f_one_b;
}

PublishedRow gpt_row(const CsvTable& csv, size_t row, const char* table) {
  PublishedRow r;
  r.table = table;
  r.row = row + 1;
  r.group = std::string(table) + "/a100";
  r.machine = "a100";
  r.plan.precision = Precision::fp16;
  r.plan.layout.tp = axis(csv, row, "tp");
  r.plan.layout.pp = axis(csv, row, "pp");
  r.plan.layout.vp = axis(csv, row, "vp");
  r.plan.layout.dp = axis(csv, row, "dp");
  r.plan.layout.recompute = Recompute::full;
  r.plan.batch = {csv.integer_or(row, "mbs", 1), csv.integer_or(row, "gbs", 1),
                  csv.integer_or(row, "seq", 1)};
  r.plan.software = of_2021();
  set_interleaving(r.plan);
  const auto integer = [&](const char* column) { return csv.integer_or(row, column, 1); };
  r.plan.model = gpt("gpt", integer("layers"), integer("hidden"), integer("heads"), integer("ffn"),
                     integer("vocab"), integer("seq"));
  return r;
}

}  // namespace

std::vector<PublishedRow> megatron_sc21() {
  const CsvTable csv = CsvTable::read(path("megatron_sc21.csv"));
  std::vector<PublishedRow> rows;
  for (size_t i = 0; i < csv.rows(); ++i) {
    PublishedRow r = gpt_row(csv, i, "megatron_sc21");
    r.plan.model.name = "gpt-" + csv.text(i, "params_B") + "b";
    r.step_seconds = csv.need_number(i, "derived_iter_time_s_from_eq3");
    r.label = label(r);
    rows.push_back(std::move(r));
  }
  return rows;
}

std::vector<PublishedRow> seqpar2022() {
  const CsvTable csv = CsvTable::read(path("seqpar2022.csv"));
  std::vector<PublishedRow> rows;
  for (size_t i = 0; i < csv.rows(); ++i) {
    PublishedRow r = gpt_row(csv, i, "seqpar2022");
    const bool selective = csv.text(i, "recompute") == "selective";
    r.plan.model.name = "gpt-" + csv.text(i, "model");
    r.plan.layout.recompute = selective ? Recompute::selective : Recompute::full;
    r.plan.layout.sequence_parallel = selective;
    r.plan.software.bulk_overlap = true;
    r.step_seconds = csv.need_number(i, "iter_time_s");
    r.label = label(r);
    rows.push_back(std::move(r));
  }
  return rows;
}

std::vector<PublishedRow> vtrain(const std::string& table) {
  const CsvTable csv = CsvTable::read(path(table + ".csv"));
  std::vector<PublishedRow> rows;
  for (size_t i = 0; i < csv.rows(); ++i) {
    PublishedRow r;
    r.table = table;
    r.row = i + 1;
    r.group = table + "/a100";
    r.machine = "a100";
    const auto integer = [&](const char* column) { return csv.integer_or(i, column, 1); };
    r.plan.layout.tp = axis(csv, i, "tensor_parallelism");
    r.plan.layout.pp = axis(csv, i, "pipeline_parallelism");
    r.plan.layout.dp = axis(csv, i, "data_parallelism");
    r.plan.layout.recompute = Recompute::full;
    r.plan.precision = Precision::fp16;
    r.plan.batch = {integer("micro_batch"), integer("global_batch"), integer("sequence_length")};
    r.plan.software = of_2021();
    const int64_t width = integer("hidden_size");
    r.plan.model = gpt("gpt", integer("n_layers"), width, integer("attention_heads"), 4 * width,
                       51200, integer("sequence_length"));
    r.step_seconds = csv.need_number(i, "iteration_time_ms") * 1e-3;
    r.label = label(r);
    rows.push_back(std::move(r));
  }
  return rows;
}

}  // namespace published

namespace {

void mark_calibration(std::vector<PublishedRow>& rows) {
  const CsvTable csv = CsvTable::read(published::path("calibration_rows.csv"));
  for (size_t i = 0; i < csv.rows(); ++i) {
    bool found = false;
    for (PublishedRow& row : rows) {
      if (row.table != csv.text(i, "table") ||
          static_cast<int64_t>(row.row) != csv.integer_or(i, "row", 0))
        continue;
      row.calibration = found = true;
    }
    if (!found) throw Error(ErrorKind::config, csv.place(i) + ": there is no such row");
  }
}

}  // namespace

std::vector<PublishedRow> load_published() {
  std::vector<PublishedRow> all;
  for (auto& rows :
       {published::megatron_sc21(), published::seqpar2022(), published::vtrain("vtrain_multi"),
        published::vtrain("vtrain_single"), published::dgxc_benchmarking(),
        published::megatron_bridge_perf(), published::torchtitan()}) {
    all.insert(all.end(), rows.begin(), rows.end());
  }
  for (PublishedRow& row : all) {
    if (row.system.empty()) row.system = row.machine;
    if (!row.left_out.empty()) continue;
    if (const auto reason = plan_refusal(row.plan)) row.left_out = *reason;
  }
  mark_calibration(all);
  return all;
}

}  // namespace dettax
