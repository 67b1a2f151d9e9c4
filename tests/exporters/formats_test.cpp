// What every format has in common, and how each looks.
#include <algorithm>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exporters/escape.h"
#include "exporters/metrics.h"
#include "harness/base/error.h"
#include "harness/base/text.h"
#include "tests/exporters/consumers.h"
#include "tests/exporters/samples.h"

namespace dettax {
namespace {

using testing::HasSubstr;
using testing::Not;

std::vector<std::string> formats() {
  std::vector<std::string> names;
  for (const Exporter& exporter : exporter_table()) names.emplace_back(exporter.format);
  return names;
}

class EveryFormat : public testing::TestWithParam<std::string> {};
std::string test_name(const testing::TestParamInfo<std::string>& format) {
  std::string name = format.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Formats, EveryFormat, testing::ValuesIn(formats()), test_name);

TEST_P(EveryFormat, IsTakenByItsReader) {
  EXPECT_EQ(refusal_by_consumer(GetParam(), exported(GetParam(), every_verdict())), "");
}

TEST_P(EveryFormat, TakesHostileText) {
  const std::string text = exported(GetParam(), {hostile(), sample_record()});
  EXPECT_EQ(refusal_by_consumer(GetParam(), text), "");
  EXPECT_FALSE(first_bad_utf8(text).has_value());
  if (GetParam() == "markdown" || GetParam() == "html" || GetParam() == "junit") {
    EXPECT_THAT(text, Not(HasSubstr("<script>alert")));
  }
}

TEST_P(EveryFormat, TakesNoRecordAtAll) {
  if (GetParam() == "csv") return;  // a header alone, which the check below calls empty
  EXPECT_EQ(refusal_by_consumer(GetParam(), exported(GetParam(), {})), "");
}

TEST_P(EveryFormat, IsAFunctionOfTheRecords) {
  EXPECT_EQ(exported(GetParam(), every_verdict()), exported(GetParam(), every_verdict()));
}

// The tax of the sample: what no reader may take for one where it is none.
TEST_P(EveryFormat, ShowsNoNumberThatIsNoTax) {
  if (GetParam() == "json") return;  // holds the raw record, with `published` beside it
  for (const Record& record :
       {not_reproducible(), emulated(), control_differs(), crashed(), skipped(), incomplete()}) {
    const std::string text = exported(GetParam(), {record});
    for (const char* number : {"1.0163", "1.63 %", "1.0101", "1.0225"})
      EXPECT_THAT(text, Not(HasSubstr(number))) << record.case_id;
  }
  const std::string undecided = exported(GetParam(), {inconclusive()});
  for (const char* number : {"1.0163", "1.63 %"}) EXPECT_THAT(undecided, Not(HasSubstr(number)));
  const std::string passed = exported(GetParam(), {sample_record()});
  EXPECT_TRUE(passed.find("1.0163") != std::string::npos ||
              passed.find("1.63 %") != std::string::npos)
      << "a tax that was measured is shown";
}

TEST(Exporters, AnUnknownFormatNamesTheNearest) {
  try {
    exporter_named("junot");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("did you mean \"junit\"?"));
  }
}

TEST(Golden, Json) {
  // The record's own form is tested with the record.
  EXPECT_THAT(exported("json", {skipped()}),
              testing::StartsWith("{\"schema_version\": 1, \"run_id\": \"20260301T120000Z-quick\", "
                                  "\"exit_code\": 77, \"records\": [{\n"));
}
TEST(Golden, Markdown) { expect_golden(exported("markdown", every_verdict()), "all.md"); }
TEST(Golden, MarkdownOfHostileText) {
  expect_golden(exported("markdown", {hostile()}), "hostile.md");
}
TEST(Golden, Csv) { expect_golden(exported("csv", every_verdict()), "all.csv"); }
TEST(Golden, JUnit) { expect_golden(exported("junit", every_verdict()), "all.junit.xml"); }
TEST(Golden, JUnitOfHostileText) {
  expect_golden(exported("junit", {hostile()}), "hostile.junit.xml");
}
TEST(Golden, GoogleBenchmark) {
  expect_golden(exported("google-benchmark", every_verdict()), "all.google-benchmark.json");
}
TEST(Golden, Mllog) { expect_golden(exported("mllog", {sample_record(), skipped()}), "two.mllog"); }
TEST(Golden, OpenMetrics) { expect_golden(exported("openmetrics", every_verdict()), "all.prom"); }

TEST(JUnit, StrictMakesAnInconclusiveCaseAFailure) {
  ExportSettings strict;
  strict.strict = true;
  EXPECT_THAT(exported("junit", {inconclusive()}), HasSubstr("<skipped message="));
  const std::string text = exported("junit", {inconclusive()}, strict);
  EXPECT_THAT(text, HasSubstr("<failure message=\"The interval does not decide."));
  EXPECT_THAT(text, HasSubstr("failures=\"1\" errors=\"0\" skipped=\"0\""));
  EXPECT_EQ(refusal_by_consumer("junit", text), "");
}

TEST(JUnit, RunsAreSuites) {
  Record other = sample_record();
  other.run_id = "20260302T120000Z-quick";
  const std::string text = exported("junit", {sample_record(), other});
  EXPECT_EQ(refusal_by_consumer("junit", text), "") << "the same case twice, in two runs";
  EXPECT_THAT(text, HasSubstr("<testsuites name=\"dettax\" tests=\"2\""));
}

TEST(GoogleBenchmark, TheNumberOfRepetitionsDoesNotDependOnHowLongItWasMeasured) {
  Record longer = sample_record();
  for (ArmResult& arm : longer.arms) {
    for (int i = 0; i < 13; ++i) arm.blocks.push_back(sample_block(4 + i, 100 + i, 0.0124));
  }
  EXPECT_THAT(exported("google-benchmark", {longer}), HasSubstr("mode:fast/repeats:9"));
  for (ArmResult& arm : longer.arms) arm.blocks.insert(arm.blocks.end(), 20, arm.blocks[0]);
  EXPECT_THAT(exported("google-benchmark", {longer}), HasSubstr("mode:fast/repeats:9"));
}

TEST(GoogleBenchmark, CompareReadsTwoExportsAndSeesTheChange) {
  Record slower = sample_record();
  Record base = sample_record();
  for (ArmResult& arm : base.arms) {
    arm.blocks.clear();
    for (int i = 0; i < 12; ++i) arm.blocks.push_back(sample_block(i, i, 0.0100 + 1e-5 * i));
  }
  for (ArmResult& arm : slower.arms) {
    arm.blocks.clear();
    for (int i = 0; i < 12; ++i) arm.blocks.push_back(sample_block(i, i, 0.0120 + 1e-5 * i));
  }
  const std::string script = "/usr/share/benchmark/compare.py";
  ASSERT_EQ(ask("test -f " + script).code, 0)
      << "install libbenchmark-tools and python3-scipy (they are on the package list)";
  const std::string command = fmt::format(
      "cat > FILE.new <<'END'\n{}END\n/usr/bin/python3 {} --no-color benchmarks FILE FILE.new; "
      "code=$?; rm FILE.new; exit $code",
      exported("google-benchmark", {slower, crashed()}), script);
  const Answer answer = ask(command, exported("google-benchmark", {base, crashed()}));
  EXPECT_EQ(answer.code, 0) << answer.text;
  EXPECT_THAT(answer.text, HasSubstr("mode:deterministic/repeats:9_pvalue"));
  EXPECT_THAT(answer.text, HasSubstr("U Test, Repetitions: 9 vs 9"));
  EXPECT_THAT(answer.text, HasSubstr("+0.1"));
  EXPECT_THAT(answer.text, Not(HasSubstr("WARNING")));
}

TEST(GoogleBenchmark, KernelsAloneAreEntriesThatCompareReads) {
  const std::string text = exported("google-benchmark", {record_with_kernels()});
  EXPECT_EQ(refusal_by_consumer("google-benchmark", text), "");
  EXPECT_THAT(text, HasSubstr("/kernel:layer_norm_backward/ordered\""));
  EXPECT_THAT(text, HasSubstr("\"of_roofline_ratio\": 0.8"));
  EXPECT_THAT(exported("google-benchmark", {sample_record()}), Not(HasSubstr("kernel:")));
}

TEST(OpenMetrics, HasAConstantNumberOfSeriesAConfig) {
  Record large = sample_record();
  for (ArmResult& arm : large.arms) {
    arm.blocks.clear();
    for (int i = 0; i < 50; ++i) {
      Block block = sample_block(i, i, 0.0123);
      block.step_time_seconds.assign(64, std::vector<double>(10, 0.0123));
      arm.blocks.push_back(block);
    }
  }
  const auto count = [](const std::string& text) {
    return std::count(text.begin(), text.end(), '\n');
  };
  EXPECT_EQ(count(exported("openmetrics", {large})),
            count(exported("openmetrics", {sample_record()})));
}

TEST(OpenMetrics, OfTwoResultsOfAConfigTheLatestCounts) {
  Record newer = sample_record();
  newer.run_id = "20260302T120000Z-quick";
  newer.environment.started_at = "2026-03-02T12:00:00Z";
  newer.taxes[0].overhead_ratio = {1.5, 1.4, 1.6, 4};
  std::vector<std::string> warnings;
  ExportSettings settings;
  settings.warn = [&](const std::string& warning) { warnings.push_back(warning); };
  for (const auto& records :
       {std::vector<Record>{sample_record(), newer}, std::vector<Record>{newer, sample_record()}}) {
    const std::string text = exported("openmetrics", records, settings);
    EXPECT_THAT(text, HasSubstr("} 1.5\n"));
    EXPECT_THAT(text, Not(HasSubstr("} 1.0163\n")));
    EXPECT_EQ(refusal_by_consumer("openmetrics", text), "");
  }
  EXPECT_THAT(warnings, testing::Each(HasSubstr("1 older results")));
  EXPECT_EQ(warnings.size(), 2U);
}

TEST(OpenMetrics, ALastSuccessOutlivesARunThatFailed) {
  const auto stamp = [](const std::string& text) {
    const size_t at = text.find("\ndettax_last_success_timestamp_seconds{");
    return at == std::string::npos ? "" : text.substr(at + 1, text.find('\n', at + 1) - at - 1);
  };
  ExportSettings settings;
  settings.previous = exported("openmetrics", {sample_record()});
  ASSERT_NE(stamp(settings.previous), "");
  Record broken = crashed();
  broken.case_id = sample_record().case_id;
  broken.arms.push_back(sample_arm("deterministic", "deterministic", 0.0125));
  EXPECT_EQ(stamp(exported("openmetrics", {broken})), "");
  EXPECT_EQ(stamp(exported("openmetrics", {broken}, settings)), stamp(settings.previous));
  settings.previous = "no metrics\n{\ndettax_last_success_timestamp_seconds{config_id=\"x";
  EXPECT_EQ(stamp(exported("openmetrics", {broken}, settings)), "");
}

TEST(OpenMetrics, TheJobIsOnTheInfoMetricAlone) {
  Record record = sample_record();
  record.environment.variables["SLURM_JOB_ID"] = "4711";
  const std::string text = exported("openmetrics", {record});
  for (const std::string& line : split(text, '\n')) {
    if (line.starts_with("dettax_run_info{") || line.starts_with("#")) continue;
    for (const char* word : {"4711", "run_id", "host", "commit"})
      EXPECT_THAT(line, Not(HasSubstr(word)));
  }
  EXPECT_THAT(text, HasSubstr("slurm_job_id=\"4711\""));
}

TEST(OpenMetrics, PartsAndResidualMakeTheWhole) {
  Record record = sample_record();
  record.contrasts = {
      {"deterministic", "other", "gemm", "ordered", "arrival", {}, {1e-4, 0, 0, 4}, ""},
      {"another", "fast", "norm", "ordered", "arrival", {}, {7e-4, 0, 0, 4}, ""}};
  const Metrics metrics = metrics_of({record}, {});
  double sum = 0;
  for (size_t i = 0; i < metric_families().size(); ++i) {
    const std::string_view name = metric_families()[i].name;
    if (name != "dettax_overhead_attributed_seconds" &&
        name != "dettax_attribution_residual_seconds")
      continue;
    for (const Sample& sample : metrics.samples[i]) sum += sample.value;
  }
  EXPECT_DOUBLE_EQ(sum, 0.0125 - 0.0123);
}

const std::vector<Sample>& samples_of(const Metrics& metrics, std::string_view name) {
  const auto& families = metric_families();
  const auto family = std::find_if(families.begin(), families.end(),
                                   [&](const MetricFamily& one) { return one.name == name; });
  return metrics.samples.at(static_cast<size_t>(family - families.begin()));
}

double sum_of(const std::vector<Sample>& samples) {
  double sum = 0;
  for (const Sample& sample : samples) sum += sample.value;
  return sum;
}

TEST(OpenMetrics, KnobsAreCausesAndWhatTheyDoTogetherIsResidual) {
  Record record = record_with_causes();
  const std::string text = exported("openmetrics", {record});
  EXPECT_EQ(refusal_by_consumer("openmetrics", text), "");
  EXPECT_THAT(text, HasSubstr("cause=\"attention\"} 0.0036"));
  EXPECT_THAT(text, HasSubstr("cause=\"memory_fill\"} 8e-04"));
  const Metrics metrics = metrics_of({record}, {});
  EXPECT_NEAR(sum_of(samples_of(metrics, "dettax_overhead_attributed_seconds")) +
                  sum_of(samples_of(metrics, "dettax_attribution_residual_seconds")),
              0.0125 - 0.0123, 1e-12);
  record.ablation->refusal = "too little memory";
  EXPECT_THAT(exported("openmetrics", {record}), Not(HasSubstr("cause=\"")));
}

TEST(OpenMetrics, MechanismsAddUpToTheRecordedDifferenceAndAreAClosedList) {
  Record record = record_with_causes();
  for (const char* mechanism : {"idle.host", "idle.alloc", "a new one", "another"})
    record.profiles[0].mechanisms.push_back({mechanism, 1e-3, 2e-3, 1e-3});
  const Metrics metrics = metrics_of({record}, {});
  const auto& samples = samples_of(metrics, "dettax_overhead_mechanism_seconds");
  EXPECT_EQ(samples.size(), 5U) << "compute, exposed_comm, idle, other, unmapped";
  EXPECT_NEAR(sum_of(samples), 4e-3 + 4e-3, 1e-12);
}

TEST(OpenMetrics, AVoidTaxHasNoCauses) {
  Record record = not_reproducible();
  record.profiles = record_with_causes().profiles;
  record.ablation = record_with_causes().ablation;
  const std::string text = exported("openmetrics", {record});
  for (const char* label : {"cause=", "mechanism="}) EXPECT_THAT(text, Not(HasSubstr(label)));
}

TEST(Escape, CutsBetweenCharacters) {
  EXPECT_EQ(first_line("caf\xc3\xa9 au lait\nmore", 4), "caf");
  EXPECT_EQ(first_line("caf\xc3\xa9 au lait\nmore", 5), "caf\xc3\xa9");
  EXPECT_EQ(first_line("short\nmore", 100), "short");
}

}  // namespace
}  // namespace dettax
