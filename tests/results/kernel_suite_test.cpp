#include "results/kernel_suite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "results/run_folder.h"
#include "tests/results/sample_record.h"

namespace dettax {
namespace {

using testing::HasSubstr;
using testing::Not;

// As Google Benchmark 1.7 writes it.
constexpr const char* kBench = R"({
  "context": {"date": "2026-03-01T12:00:00+00:00", "library_build_type": "debug",
              "peak_flops_per_second": "2.3e+11", "memory_bytes_per_second": "2e+10"},
  "benchmarks": [
    {"name": "adamw/case/real_time", "run_type": "iteration", "iterations": 10, "real_time": 250.5,
     "cpu_time": 249.0, "time_unit": "us", "bytes_per_second": 1.6e10, "of_roofline_ratio": 0.8,
     "calls": 1.0},
    {"name": "adamw/case/real_time_mean", "run_type": "aggregate", "real_time": 250.5, "time_unit": "us"},
    {"name": "linear/forward/static/case/tokens:64/manual_time", "run_type": "iteration",
     "real_time": 2.0, "time_unit": "ms", "flops_per_second": 2e11, "of_roofline_ratio": 0.87}
  ]
})";

TEST(KernelSuite, TakesTimesRatesAndTheRooflineOfTheSameRun) {
  KernelSuite suite;
  add_kernels(suite, kBench, "kernel_bench", "case");
  EXPECT_EQ(suite.peak_flops_per_second, 2.3e11);
  EXPECT_EQ(suite.memory_bytes_per_second, 2e10);
  ASSERT_EQ(suite.kernels.size(), 2U) << "aggregates are no kernels";
  EXPECT_EQ(suite.kernels[0].name, "adamw");
  EXPECT_DOUBLE_EQ(suite.kernels[0].seconds, 250.5e-6);
  EXPECT_EQ(suite.kernels[0].bytes_per_second, 1.6e10);
  EXPECT_EQ(suite.kernels[0].calls_per_step, 1);
  EXPECT_EQ(suite.kernels[1].name, "linear/forward/static/tokens:64");
  EXPECT_DOUBLE_EQ(suite.kernels[1].seconds, 2e-3);
  EXPECT_EQ(suite.kernels[1].of_roofline_ratio, 0.87);
}

std::string refusal(const std::string& json) {
  KernelSuite suite;
  try {
    add_kernels(suite, json, "kernel_bench", "case");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::infrastructure);
    return error.what();
  }
  return "";
}

TEST(KernelSuite, AKernelThatFailedAndJsonOfAnotherFormAreRefused) {
  EXPECT_THAT(refusal("{\"context\": {}}"), HasSubstr("is no JSON of Google Benchmark"));
  EXPECT_THAT(refusal(R"({"context": {}, "benchmarks": [{"real_time": NaN}]})"),
              HasSubstr("kernel_bench: is no JSON"));
  EXPECT_EQ(refusal(R"({"context": {}, "benchmarks": [{"name": "a/case", "run_type": "iteration",
                        "error_occurred": true, "error_message": "too large"}]})"),
            "kernel_bench: a: too large");
  EXPECT_EQ(refusal(kBench), "");
}

TEST(KernelSuite, IsKeptByARecordThatNeedNotHaveIt) {
  const std::string with = to_json(record_with_kernels());
  EXPECT_EQ(to_json(parse_record(with, "record")), with);
  const std::string without = to_json(sample_record());
  EXPECT_THAT(without, Not(HasSubstr("\"kernels\"")));
  EXPECT_FALSE(parse_record(without, "record").kernels.has_value());
}

}  // namespace
}  // namespace dettax
