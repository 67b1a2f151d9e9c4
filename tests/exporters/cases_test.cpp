// The cases of users that are about exports (and about noise, where an export has to tell of it).
#include <algorithm>
#include <cmath>
#include <limits>
#include <locale>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exporters/metrics.h"
#include "harness/base/text.h"
#include "results/run_folder.h"
#include "tests/exporters/consumers.h"
#include "tests/exporters/samples.h"

namespace dettax {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

size_t series(const std::vector<Record>& records) {
  size_t count = 0;
  for (const auto& family : metrics_of(records, {}).samples) count += family.size();
  return count;
}

// 64 ranks x `steps` steps, ledgers and causes named after kernels with template arguments.
Record large_case(int steps) {
  const std::string kernel = "void cutlass::Kernel2<" + std::string(280, 'x') + ">(Params) 0x7f00";
  Record record = sample_record();
  record.planned.topology.ranks_per_node = 64;
  for (ArmResult& arm : record.arms) {
    arm.blocks = {sample_block(0, 0, 0.0123)};
    arm.blocks[0].step_time_seconds.assign(64,
                                           std::vector<double>(static_cast<size_t>(steps), 0.01));
  }
  for (int op = 0; op < 14; ++op) {
    record.contrasts.push_back(
        {"deterministic", "fast", kernel + std::to_string(op), "", "", {}, {1e-6, 0, 0, 4}, ""});
    record.evidence.controls.push_back(
        {"deterministic", "gemm", ControlStatus::caught, 2, kernel + std::to_string(op), ""});
  }
  record.evidence.arms[1].scopes[1].first_difference_op = kernel;
  record.contrasts.push_back({"deterministic", "fast", "gemm", "", "", {}, {2e-4, 0, 0, 4}, ""});
  return record;
}

TEST(Export01, SeriesDoNotGrowWithStepsRanksOrOps) {
  const std::string text = exported("openmetrics", {large_case(5000)});
  EXPECT_EQ(series({large_case(5000)}), series({large_case(5)}));
  EXPECT_LE(series({large_case(5000)}), 50U);
  EXPECT_THAT(text, Not(HasSubstr("cutlass")));
  EXPECT_THAT(text, Not(HasSubstr("0x7f00")));
  for (const std::string& line : split(text, '\n'))
    EXPECT_LE(std::count(line.begin(), line.end(), '='), 11) << line;
  EXPECT_EQ(refusal_by_consumer("openmetrics", text), "");
}

TEST(Export01, CausesOffTheListAreOneSeriesAndSaidSo) {
  std::vector<std::string> warnings;
  ExportSettings settings;
  settings.warn = [&](const std::string& warning) { warnings.push_back(warning); };
  const std::string text = exported("openmetrics", {large_case(5)}, settings);
  EXPECT_THAT(text, HasSubstr("cause=\"other\"} 1.4"));
  EXPECT_THAT(text, HasSubstr("cause=\"gemm\"} 2e-04"));
  EXPECT_EQ(warnings.size(), 14U);
  EXPECT_THAT(warnings, testing::Each(HasSubstr("it counts as \"other\"")));
  warnings.clear();
  exported("openmetrics", {sample_record()}, settings);
  EXPECT_THAT(warnings, testing::IsEmpty());
}

TEST(Export01, ALongNameIsCutAndStaysApart) {
  Record one = sample_record(), two = sample_record();
  one.case_id = std::string(400, 'm') + ".fp32.dp1.t1.b1x8.one";
  two.case_id = std::string(400, 'm') + ".fp32.dp1.t1.b1x8.two";
  const std::string text = exported("openmetrics", {one, two});
  EXPECT_THAT(text, Not(HasSubstr(std::string(200, 'm'))));
  EXPECT_EQ(refusal_by_consumer("openmetrics", text), "") << "no two series are the same";
}

Record record_without_numbers() {
  Record record = sample_record();
  record.taxes[0].overhead_ratio = {kNan, kNan, kNan, 4};  // 0 / 0
  record.taxes[0].min_detectable_overhead_ratio = kInfinity;
  record.arms[0].step_time_seconds.reset();
  record.arms[2].tokens_per_second = kInfinity;
  record.arms[2].blocks[0].step_time_seconds[0] = {kNan, kNan, kNan};
  return record;
}

TEST(Export02, AnUndefinedRatioHasNoSampleButAGauge) {
  const std::string text = exported("openmetrics", {record_without_numbers()});
  EXPECT_THAT(text, Not(HasSubstr("\ndettax_overhead_ratio{")));
  EXPECT_THAT(text,
              Not(HasSubstr("dettax_tokens_per_second{config_id=\"tiny.fp32.dp2.t1.b8x64/"
                            "deterministic\",precision=\"fp32\",gpu_model=\"none\",mode=\"det\"")));
  EXPECT_THAT(text, testing::ContainsRegex("\ndettax_nonfinite\\{[^\n]*\\} 1\n"));
  EXPECT_THAT(text, testing::ContainsRegex("\ndettax_overhead_present\\{[^\n]*\\} 0\n"));
  EXPECT_EQ(refusal_by_consumer("openmetrics", text), "");
  const std::string whole = exported("openmetrics", {sample_record()});
  EXPECT_THAT(whole, testing::ContainsRegex("\ndettax_nonfinite\\{[^\n]*\\} 0\n"));
  EXPECT_THAT(whole, testing::ContainsRegex("\ndettax_overhead_present\\{[^\n]*\\} 1\n"));
}

TEST(Export02, InfinityIsSpelledAsReadersWantIt) {
  Record record = sample_record();
  record.taxes[0].min_detectable_overhead_ratio = kInfinity;
  const std::string text = exported("openmetrics", {record});
  EXPECT_THAT(
      text, testing::ContainsRegex("\ndettax_min_detectable_overhead_ratio\\{[^\n]*\\} \\+Inf\n"));
  EXPECT_THAT(text, Not(HasSubstr(" inf")));
}

// A decimal comma, whatever locales are installed.
struct Comma : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  std::string do_grouping() const override { return "\3"; }
  char do_thousands_sep() const override { return '.'; }
};

TEST(Export02, ALocaleChangesNothing) {
  std::vector<std::string> before;
  for (const Exporter& exporter : exporter_table())
    before.push_back(exported(std::string(exporter.format), every_verdict()));
  const std::locale old = std::locale::global(std::locale(std::locale(), new Comma));
  std::vector<std::string> after;
  for (const Exporter& exporter : exporter_table())
    after.push_back(exported(std::string(exporter.format), every_verdict()));
  std::locale::global(old);
  EXPECT_EQ(before, after);
}

TEST(Export04, WhatIsNoNumberIsNullAndSaysWhich) {
  Record record = record_without_numbers();
  record.verdict = make_verdict("non_finite", "deterministic: the loss is nan at step 3.");
  record.taxes[0].drift_ratio_per_hour = -0.0;
  record.taxes[0].overhead_ratio = {kNan, -kInfinity, 1e308, 4};
  record.planned.model.name = "two\nlines";
  for (const char* format : {"json", "google-benchmark", "mllog"})
    EXPECT_EQ(refusal_by_consumer(format, exported(format, {record})), "") << format;
  const std::string json = exported("json", {record});
  EXPECT_THAT(json, HasSubstr("\"value_reason\": \"not a number\""));
  EXPECT_THAT(json, HasSubstr("\"low_reason\": \"negative infinity\""));
  EXPECT_THAT(json, HasSubstr("\"drift_ratio_per_hour\": -0.0"));
  const Record back = parse_record(to_json(record), "record");
  EXPECT_TRUE(std::isnan(back.taxes[0].overhead_ratio.value));
  EXPECT_EQ(back.taxes[0].overhead_ratio.low, -kInfinity);
  EXPECT_EQ(back.taxes[0].overhead_ratio.high, 1e308);
  EXPECT_TRUE(std::signbit(back.taxes[0].drift_ratio_per_hour));
  EXPECT_FALSE(back.arms[0].step_time_seconds.has_value()) << "missing is not NaN";
}

TEST(Export04, AStrictReaderWouldRefuseABareNan) {
  EXPECT_THAT(refusal_by_consumer("json", "{\"exit_code\": NaN, \"records\": []}"),
              HasSubstr("NaN is no JSON"));
  EXPECT_THAT(refusal_by_consumer("json", "{\"exit_code\": 0, \"exit_code\": 0, \"records\": []}"),
              HasSubstr("a key twice"));
}

TEST(Export05, JUnitOfColouredTextIsWellFormed) {
  Record record = sample_record();
  const std::string text = std::string("\x1b[31mred\x1b[0m \x0b \xef\xbf\xbe \xed\xa0\x80 ]]> ") +
                           std::string(1, '\0') + "\nsecond line\n" + std::string(2 << 20, 'z') +
                           "\nthe end";
  record.verdict = make_verdict("over_limit", text);
  const std::string junit = exported("junit", {record, sample_record()});
  EXPECT_EQ(refusal_by_consumer("junit", exported("junit", {record})), "");
  EXPECT_THAT(junit, HasSubstr("\\x1b[31mred\\x1b[0m \\x0b \\ufffe \\xed\\xa0\\x80 ]]&gt; \\x00"));
  EXPECT_THAT(junit, HasSubstr("the end</failure>"));
  const size_t message = junit.find("<failure message=\"") + 18;
  const std::string first = junit.substr(message, junit.find('"', message) - message);
  EXPECT_THAT(first, Not(HasSubstr("second line")));
  EXPECT_THAT(junit, HasSubstr("tests=\"2\" failures=\"1\""));
  EXPECT_NE(refusal_by_consumer("junit", "<testsuites>\x1b</testsuites>"), "")
      << "the reader used here does refuse such characters";
}

TEST(Export06, AFailedCellIsCountedAndNeverEqual) {
  Record slower = sample_record();
  slower.arms[2].step_time_seconds = Estimate{0.0150, 0.0149, 0.0151, 8};
  slower.taxes[0].overhead_ratio = {1.2196, 1.21, 1.23, 4};
  EXPECT_EQ(compare_runs({sample_record()}, {slower}, {}).exit_code, 1);
  Record failed = crashed();
  failed.case_id = sample_record().case_id;
  EXPECT_EQ(compare_runs({sample_record()}, {failed}, {}).exit_code, 4);
  for (const Exporter& exporter : exporter_table()) {
    const std::string format(exporter.format);
    EXPECT_EQ(refusal_by_consumer(format, exported(format, {slower, crashed()})), "") << format;
  }
}

TEST(Export06, JUnitCountsAreThoseOfTheRecords) {
  const std::vector<Record> records = every_verdict();
  const auto count = [&](Status status) {
    return std::count_if(records.begin(), records.end(),
                         [&](const Record& record) { return record.verdict.status == status; });
  };
  EXPECT_THAT(exported("junit", records),
              HasSubstr(fmt::format("tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\"",
                                    records.size(), count(Status::fail), count(Status::error),
                                    count(Status::skipped) + count(Status::inconclusive))));
}

TEST(Export07, SeriesOfManyRunsAreThoseOfTheirCells) {
  std::vector<Record> runs;
  for (int run = 0; run < 20; ++run) {
    for (Record record : many_records(40)) {
      record.run_id = fmt::format("run{}", run);
      record.environment.started_at = fmt::format("2026-03-{:02}T12:00:00Z", run + 1);
      runs.push_back(record);
    }
  }
  const size_t cells = 40;
  EXPECT_EQ(series(runs), series(many_records(40)));
  EXPECT_LE(series(runs), cells * 50);
  EXPECT_EQ(refusal_by_consumer("openmetrics", exported("openmetrics", runs)), "");
}

TEST(Noise02, ADriftIsSaidWhereverTheTaxIs) {
  Record record = sample_record();
  record.taxes[0].warnings = {"drift: the fast arm became 5.0 % slower over the case"};
  for (const char* format : {"markdown", "csv", "junit", "mllog", "html"})
    EXPECT_THAT(exported(format, {record}), HasSubstr("became 5.0")) << format;
}

TEST(Noise04, TheMinimumDetectableOverheadIsPrinted) {
  for (const char* format : {"csv", "junit", "openmetrics"})
    EXPECT_THAT(exported(format, {sample_record()}), HasSubstr("1.0071")) << format;
  for (const char* format : {"markdown", "html"})
    EXPECT_THAT(exported(format, {sample_record()}), HasSubstr("0.71 %")) << format;
}

}  // namespace
}  // namespace dettax
