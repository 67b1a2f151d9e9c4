// What a device profiler told, as numbers made by hand, to a Trace.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "profiles/capture/trace_of_capture.h"
#include "profiles/steps.h"

namespace dettax {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class CaptureOf {
 public:
  CaptureOf& range(const char* name, uint32_t thread, int64_t start, int64_t end,
                   const char* domain = "") {
    DeviceRecord record;
    record.kind = RecordKind::range;
    record.domain = capture_.names.intern(domain);
    return add(record, name, thread, start, end);
  }
  // A launch that takes 10, and its kernel.
  CaptureOf& launch(const char* kernel, uint32_t thread, int64_t at, int64_t start, int64_t end) {
    DeviceRecord call;
    call.kind = RecordKind::call;
    call.correlation = ++correlation_;
    add(call, "cudaLaunchKernel", thread, at, at + 10);
    DeviceRecord work;
    work.correlation = correlation_;
    work.stream = 7;
    return add(work, kernel, 0, start, end);
  }
  Capture& capture() { return capture_; }

  static std::vector<std::string> paths(const Trace& trace) {
    std::vector<std::string> paths;
    for (const Span& span : trace.spans) {
      if (is_work(span.category)) paths.push_back(trace.paths[span.path]);
    }
    return paths;
  }

 private:
  CaptureOf& add(DeviceRecord record, const char* name, uint32_t thread, int64_t start,
                 int64_t end) {
    record.name = capture_.names.intern(name);
    record.thread = thread;
    record.start_ns = start;
    record.end_ns = end;
    capture_.records.push_back(record);
    return *this;
  }
  Capture capture_;
  uint32_t correlation_ = 0;
};

TEST(TraceOfCapture, TakesPathsFromRangesOpenAtTheLaunch) {
  CaptureOf of;
  of.range("forward", 1, 10, 100).range("mlp", 1, 20, 60).launch("gemm", 1, 30, 200, 300);
  of.launch("norm", 1, 70, 300, 310);
  of.range("backward", 1, 110, 190);
  of.launch("gemm_backward", 2, 120, 320, 330);  // a thread without ranges takes the main one's
  EXPECT_THAT(CaptureOf::paths(trace_of_capture(of.capture(), "here")),
              ElementsAre("forward/mlp", "forward", "backward"));
}

TEST(TraceOfCapture, KnowsCollectivesByTheirOwnRangesWhateverTheirKernelIsCalled) {
  CaptureOf of;
  of.range("backward", 1, 10, 100).range("ncclAllReduce", 1, 20, 60, "NCCL");
  of.launch("some_kernel", 1, 30, 200, 300);
  of.launch("ncclDevKernel_ReduceScatter_Sum", 1, 70, 300, 310);
  const Trace trace = trace_of_capture(of.capture(), "here");
  std::vector<std::string> kinds;
  for (const Span& span : trace.spans) {
    if (!is_work(span.category)) continue;
    EXPECT_EQ(span.category, Category::communication);
    kinds.push_back(trace.names[trace.collectives[span.collective].name]);
  }
  EXPECT_THAT(kinds, ElementsAre("allreduce", "reducescatter"));
}

TEST(TraceOfCapture, FindsStepsByTheNamesOfRanges) {
  CaptureOf of;
  of.range("iteration 4", 1, 10, 100).launch("gemm", 1, 30, 40, 90);
  of.range("iteration 5", 1, 100, 200).launch("gemm", 1, 130, 140, 190);
  of.range("iteration 6", 1, 200, 300).launch("gemm", 1, 230, 240, 290);
  const std::vector<StepWindow> windows = step_windows(trace_of_capture(of.capture(), "here"));
  ASSERT_EQ(windows.size(), 3U);
  EXPECT_EQ(windows[0].index, 4);
  EXPECT_EQ(windows[0].incomplete, "");
  EXPECT_EQ(windows[0].length_ns(), 100);
  try {
    trace_of_capture(of.capture(), "here", {.step_name = "batch"});
    FAIL() << "took steps that are not there";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("--step batch: here marks no such step"));
  }
}

}  // namespace
}  // namespace dettax
