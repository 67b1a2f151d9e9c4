#include "tests/exporters/samples.h"

#include <cstdlib>
#include <filesystem>
#include <limits>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "results/reason.h"
#include "results/run_folder.h"

namespace dettax {

void expect_golden(const std::string& text, const std::string& name) {
  const std::filesystem::path path =
      std::filesystem::path(DETTAX_SOURCE_DIR) / "tests/exporters/golden" / name;
  if (std::getenv("DETTAX_APPROVE") != nullptr) return write_file_atomically(path, text);
  EXPECT_EQ(text, read_file(path))
      << "if the change is meant: DETTAX_APPROVE=1, then read the difference";
}

std::string exported(const std::string& format, const std::vector<Record>& records,
                     const ExportSettings& settings) {
  std::ostringstream out;
  exporter_named(format).write(out, records, settings);
  return out.str();
}

Record not_reproducible() {
  Record record = sample_record();
  record.case_id = "small.fp32.dp1.t2.b8x256";
  record.taxes[0].published = false;
  record.evidence.arms[1].reproducible = false;
  ScopeEvidence& relaunch = record.evidence.arms[1].scopes[1];
  relaunch.equal = false;
  relaunch.first_difference =
      "step 0, rank 1, backward/layer3/attention: dqkv differs (412 later entries differ "
      "downstream)";
  relaunch.first_difference_op = "backward/layer3/attention";
  record.verdict = make_verdict("not_reproducible",
                                "deterministic, relaunch: " + relaunch.first_difference + ".");
  return record;
}

Record inconclusive() {
  Record record = sample_record();
  record.case_id = "gpt2-124m.fp32.dp1.t2.b4x64";
  record.planned.model.layers = 2;
  record.planned.model.published_layers = 12;
  record.planned.injections = {{"slow", "deterministic", 0, 0, "", "", 0.03}};
  record.taxes[0].control_ratio.reset();
  record.taxes[0].min_detectable_overhead_ratio = std::numeric_limits<double>::infinity();
  record.taxes[0].warnings = {
      "noise: round 5 has a ratio of 1.300 against 1.000 elsewhere; it counts in full",
      "load: 1 disturbed round was repeated"};
  record.evidence.fast_differed = false;
  record.evidence.arms[0].scopes[0].equal = true;
  record.evidence.blindness =
      "the fast arm repeated its bits too, in 2 comparisons: there is nothing to pay for, or the "
      "case cannot show it.";
  record.verdict =
      make_verdict("not_resolved",
                   "deterministic: +1.6 % (+1.0 % to +2.2 %, 95 % interval, n = 4 rounds), limit "
                   "+2.0 %. About 4 s more of measuring is likely to resolve it.");
  record.verdict.seconds_needed = 3.2;
  return record;
}

Record crashed() {
  Record record = sample_record();
  record.case_id = "llama-tiny.fp32.dp2.t1.b8x64";
  record.taxes.clear();
  record.evidence = {};
  record.arms.pop_back();
  record.arms[1].failure_code = "rank_crashed";
  record.arms[1].failure = "rank 1 ended by signal 11 in forward/layer0/qkv at step 7";
  record.arms[1].step_time_seconds.reset();
  record.arms[1].memory_peak_bytes = 0;
  record.verdict = make_verdict("rank_crashed", "control: " + record.arms[1].failure);
  return record;
}

Record skipped() {
  Record record = sample_record();
  record.case_id = "gpt3-175b.bf16.dp1.t2.b1x2048";
  record.planned.precision = Precision::bf16;
  record.arms.clear();
  record.taxes.clear();
  record.evidence = {};
  record.verdict = make_verdict("refused", "It needs 2.45 TiB, and 7.60 GiB are available.");
  return record;
}

// As a run folder makes it of a case that was planned and has no record.
Record incomplete() {
  Record record;
  record.run_id = sample_record().run_id;
  record.case_id = "mixtral-8x7b-l2.bf16.dp2.t1.b8x64";
  record.verdict = make_verdict("incomplete", "It was interrupted; --resume runs it.");
  return record;
}

Record over_limit() {
  Record record = sample_record();
  record.case_id = "gpt-tiny.fp32.dp2.tp2.t1.b8x64";
  record.planned.layout.tp = 2;
  record.taxes[0].overhead_ratio = {1.12, 1.115, 1.125, 4};
  record.verdict = make_verdict("over_limit", "deterministic: +12.0 %, limit +10.0 %.");
  return record;
}

Record emulated() {
  Record record = sample_record();
  record.case_id = "tiny.bf16.dp2.t1.b8x64";
  record.planned.precision = Precision::bf16;
  record.precision_note = "bf16 is emulated on this CPU: its bits are right, its speed is not.";
  record.taxes[0].published = false;
  record.verdict = make_verdict("emulated", "");
  return record;
}

Record control_differs() {
  Record record = sample_record();
  record.case_id = "tiny.fp32.dp2.t2.b8x64";
  record.planned.topology.threads_per_rank = 2;
  record.taxes[0].control_ratio = Estimate{1.05, 1.04, 1.06, 4};
  record.verdict = make_verdict("control_differs", "control / fast is +4.0 % to +6.0 %.");
  return record;
}

std::vector<Record> every_verdict() {
  std::vector<Record> records{sample_record(), inconclusive(),     skipped(),
                              crashed(),       not_reproducible(), incomplete(),
                              over_limit(),    emulated(),         control_differs()};
  for (Record& record : records) {
    if (record.arms.empty() && record.environment.started_at.empty()) continue;
    record.planned.model.name = record.case_id.substr(0, record.case_id.find('.'));
  }
  return records;
}

Record hostile() {
  Record record = sample_record();
  const std::string name = "<script>alert(\"1 & 2\")</script>|`*_caf\xc3\xa9_*`\\'$x$";
  record.suite = name;
  record.planned.model.name = name;
  record.planned.label = name;
  record.case_id = name + ".fp32.dp2.t1.b8x64";
  record.environment.cpu_model = "CPU, \"quoted\"\nsecond line\ttab \x1b[31mred\x1b[0m";
  record.taxes[0].warnings = {"]]> --> <!-- ${x} {{y}} \xe2\x80\xa8 \xf0\x9f\x98\x80"};
  record.verdict = make_verdict(
      "over_limit", std::string("first\nsecond \x1b[31mred \x0b \xef\xbf\xbe \xed\xa0\x80 ]]> ") +
                        std::string(1, '\0') + " \xff end");
  return record;
}

std::vector<Record> many_records(int count) {
  const std::vector<Record> kinds = every_verdict();
  std::vector<Record> records;
  records.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    Record record = kinds[static_cast<size_t>(i) % kinds.size()];
    record.planned.label = fmt::format("n{}", i);
    record.case_id += "." + record.planned.label;
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace dettax
