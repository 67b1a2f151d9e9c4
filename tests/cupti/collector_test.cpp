// CUPTI's collector against a library that plays CUPTI. Nothing here has met a device.
#include <algorithm>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include "harness/base/error.h"
#include "profiles/attribution.h"
#include "profiles/capture/trace_of_capture.h"
#include "profiles/cupti/cupti_collector.h"
#include "profiles/summary.h"
#include "tests/cupti/fake_device.h"
#include "tests/profiles/resolved.h"

namespace dettax {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int64_t kBegin = 1'786'000'000'000'000'000;
// Of the collector under test.
int64_t clock_ns = kBegin;  // NOLINT(*-avoid-non-const-global-variables)

template <typename Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

class Collector : public testing::Test {
 protected:
  Collector() : fake_(fake_cupti_of(FAKE_CUPTI)), device_(fake_, kBegin) {
    fake_.reset();
    clock_ns = kBegin;
  }

  void make(CuptiCollector::Settings settings = {}) {
    settings.now_ns = [] { return clock_ns; };
    collector_ = std::make_unique<CuptiCollector>(load_cupti(FAKE_CUPTI), settings);
    collector_->attach();
  }
  void begin(CuptiCollector::Settings settings = {}) {
    make(settings);
    collector_->start();
  }
  // The device is waited for, and the window ends.
  Trace finish() {
    device_.synchronize();
    clock_ns = device_.now_ns();
    collector_->stop();
    return trace_of_capture(collector_->take(), "here");
  }
  void step(int64_t index, int64_t first_ns = 10'000) {
    clock_ns = device_.now_ns();
    collector_->begin_step(index);
    device_.kernel("gemm", first_ns);
    clock_ns = device_.now_ns();
    collector_->end_step();
  }
  static void expect_refused(const Trace& trace, const std::string& why) {
    EXPECT_THAT(error_of([&] { refuse_if_unusable(trace, summarize(trace)); }), HasSubstr(why));
  }

  FakeCupti& fake_;
  FakeDevice device_;
  std::unique_ptr<CuptiCollector> collector_;
};

TEST_F(Collector, MakesTheTraceThatTheRecordsTell) {
  begin();
  device_.kernel("_Z4gemmPf", 10'000);
  device_.kernel("ncclDevKernel_AllReduce_Sum_bf16_RING", 50'000, 20);
  CUpti_ActivityMemset4 memset{};
  memset.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  memset.correlationId = device_.call(CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020);
  memset.start = static_cast<uint64_t>(kBegin + 20'000);
  memset.end = static_cast<uint64_t>(kBegin + 21'000);
  memset.bytes = 4096;
  memset.contextId = 1;
  memset.streamId = 7;
  device_.emit(memset);
  device_.synchronize(20);
  const Trace trace = finish();

  const std::string thread = "77";
  const auto call = [&](int64_t start, int64_t end, uint64_t correlation, const char* name,
                        Category category) {
    return ResolvedSpan{kBegin + start, kBegin + end, 0,  correlation, name, "", 0, false, 0, 0,
                        thread,         category,     "", "",          -1,   0};
  };
  const auto work = [&](int64_t start, int64_t end, int64_t bytes, uint64_t correlation,
                        const char* name, int64_t stream, Category category, const char* kind) {
    return ResolvedSpan{kBegin + start, kBegin + end, bytes,    correlation, name, "", 0, true, 0,
                        stream,         "",           category, kind,        "",   -1, 0};
  };
  std::vector<ResolvedSpan> expected{
      call(0, 4000, 1, "cudaLaunchKernel", Category::launch),
      call(4000, 8000, 2, "cudaLaunchKernel", Category::launch),
      call(8000, 12'000, 3, "cudaMemsetAsync", Category::launch),
      call(12'000, 61'000, 4, "cudaStreamSynchronize", Category::synchronize),
      call(61'000, 65'000, 5, "cudaStreamSynchronize", Category::synchronize),
      work(6000, 16'000, 0, 1, "gemm(float*)", 7, Category::compute, ""),
      work(10'000, 60'000, 0, 2, "ncclDevKernel_AllReduce_Sum_bf16_RING", 20,
           Category::communication, "allreduce"),
      work(20'000, 21'000, 4096, 3, "Memset", 7, Category::memset, "")};
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(resolved(trace), expected);
  EXPECT_EQ(trace.losses, Losses{});
  EXPECT_THAT(trace.notes, IsEmpty());
  EXPECT_EQ(trace.kind, TraceKind::device);
}

TEST_F(Collector, GivesPathsOfPushesAndStepsOfMarks) {
  begin({.external = true});
  const uint32_t path = collector_->path("forward/layer0/mlp");
  for (const int64_t index : {4, 5, 6}) {
    clock_ns = device_.now_ns();
    collector_->begin_step(index);
    for (const uint32_t ordinal : {0U, 1U}) {
      collector_->push(path, ordinal);
      device_.kernel("gemm", 10'000);
      collector_->pop();
    }
    clock_ns = device_.now_ns();
  }
  const Trace trace = finish();
  ASSERT_THAT(trace.steps, SizeIs(3));
  EXPECT_EQ(trace.steps[1].index, 5);
  int64_t second = 0;
  for (const Span& span : trace.spans) {
    if (!is_work(span.category)) continue;
    EXPECT_EQ(trace.paths[span.path], "forward/layer0/mlp");
    second += span.ordinal;
  }
  EXPECT_EQ(second, 3);
}

TEST_F(Collector, LetsGoOfCuptiAtTheEndOfTheWindow) {
  begin();
  EXPECT_TRUE(fake_.enabled[CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL]);
  EXPECT_FALSE(fake_.enabled[CUPTI_ACTIVITY_KIND_KERNEL]) << "serialises kernels";
  EXPECT_EQ(fake_.subscriptions, 1);
  finish();
  EXPECT_TRUE(std::none_of(std::begin(fake_.enabled), std::end(fake_.enabled),
                           [](bool enabled) { return enabled; }));
  EXPECT_EQ(fake_.subscriptions, 0);
}

TEST_F(Collector, CanBeUsedForOneWindowAfterAnother) {
  begin();
  device_.kernel("gemm", 10'000);
  EXPECT_THAT(finish().spans, SizeIs(3));
  collector_->attach();
  clock_ns = device_.now_ns();
  collector_->start();
  device_.kernel("gemm", 10'000);
  device_.kernel("gemm", 10'000);
  const Trace second = finish();
  EXPECT_THAT(second.spans, SizeIs(5));
  EXPECT_EQ(second.losses, Losses{});
}

TEST_F(Collector, NamesTheProfilerThatHasCupti) {
  fake_.subscribe = CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  fake_.other_tool = "Nsight Systems";
  EXPECT_THAT(error_of([&] { make(); }),
              AllOf(HasSubstr("another profiler has it (Nsight Systems)"), HasSubstr("CUPTI")));
  EXPECT_EQ(fake_.enable_calls + fake_.attribute_calls, 0) << "touches nothing of the other's";
  fake_.reset();
  EXPECT_EQ(error_of([&] { make(); }), "") << "a collector that failed does not stay in the way";
}

TEST_F(Collector, SaysThatThereIsNoDriver) {
  fake_.subscribe = CUPTI_ERROR_UNKNOWN;
  EXPECT_THAT(error_of([&] { make(); }),
              AllOf(HasSubstr("CUPTI_ERROR_UNKNOWN (999)"), HasSubstr("is there a driver?")));
}

TEST_F(Collector, IsOneAProcess) {
  make();
  CuptiCollector second(load_cupti(FAKE_CUPTI), {});
  EXPECT_THAT(error_of([&] { second.attach(); }), HasSubstr("another collector"));
}

TEST_F(Collector, NeedsEveryKind) {
  make();
  fake_.enable = CUPTI_ERROR_NOT_SUPPORTED;
  EXPECT_THAT(error_of([&] { collector_->start(); }), HasSubstr("cuptiActivityEnable(10)"));
}

TEST(CuptiTable, SaysInASentenceWhatIsMissing) {
  EXPECT_THAT(error_of([] { load_cupti("/nowhere/libcupti.so"); }),
              AllOf(HasSubstr("CUPTI: /nowhere/libcupti.so: "), HasSubstr("No such file")));
  EXPECT_THAT(error_of([] { load_cupti("libm.so.6"); }),
              HasSubstr("CUPTI: libm.so.6: has no function cuptiGetVersion"));
}

// --- Losses ------------------------------------------------------------------------------------

TEST_F(Collector, RefusesWhatCuptiDropped) {
  begin();
  device_.kernel("gemm", 10'000);
  fake_.dropped = 12;
  const Trace trace = finish();
  EXPECT_EQ(trace.losses.dropped, 12);
  expect_refused(trace, "CUPTI dropped 12 records");
}

TEST_F(Collector, CountsBuffersThatItHadNotToGive) {
  begin({.buffer_bytes = 4096, .buffers = 2});
  for (int i = 0; i < 40; ++i) device_.kernel("gemm", 10'000);  // 256 bytes each: 15 a buffer
  const Trace trace = finish();
  EXPECT_GT(fake_.refused, 0);
  EXPECT_EQ(trace.losses.dropped, 2 * fake_.refused) << "by CUPTI's count and by ours";
  EXPECT_EQ(trace.events + fake_.refused, 81);
  expect_refused(trace, "no buffer was free");
}

TEST_F(Collector, LosesNothingWhereBuffersAreDrainedMeanwhile) {
  begin({.buffer_bytes = 4096, .buffers = 2});
  for (int i = 0; i < 40; ++i) {
    device_.kernel("gemm", 10'000);
    collector_->drain();
  }
  const Trace trace = finish();
  EXPECT_EQ(trace.losses, Losses{});
  EXPECT_EQ(trace.events, 81);
}

TEST_F(Collector, RefusesBuffersThatEndWithinARecord) {
  begin();
  device_.kernel("gemm", 10'000);
  fake_.cut_bytes = 8;
  const Trace trace = finish();
  EXPECT_EQ(trace.events, 2) << "the call and the kernel in front of it stay";
  expect_refused(trace, "1 buffer could not be decoded to the end");
}

TEST_F(Collector, RefusesRecordsThatNobodyCanDecode) {
  begin();
  CUpti_ActivityName record{};
  record.kind = static_cast<CUpti_ActivityKind>(60);
  device_.emit(record, true);
  device_.kernel("gemm", 10'000);
  expect_refused(finish(), "1 buffer could not be decoded to the end");
}

TEST_F(Collector, PassesOverKindsThatItDidNotAskFor) {
  begin();
  device_.kernel("gemm", 10'000);
  CUpti_ActivityName record{};
  record.kind = CUPTI_ACTIVITY_KIND_NAME;
  device_.emit(record, true);
  const Trace trace = finish();
  EXPECT_THAT(trace.spans, SizeIs(3));
  EXPECT_EQ(trace.losses, Losses{});
  EXPECT_THAT(trace.notes, testing::ElementsAre("1 record of kinds that were not asked for"));
}

TEST_F(Collector, RefusesWhereFlushingFails) {
  begin();
  device_.kernel("gemm", 10'000);
  fake_.flush = CUPTI_ERROR_UNKNOWN;
  expect_refused(finish(), "cuptiActivityFlushAll: CUPTI_ERROR_UNKNOWN (999)");
}

TEST_F(Collector, RefusesWhereLossesCannotBeAskedFor) {
  begin();
  device_.kernel("gemm", 10'000);
  fake_.dropped_call = CUPTI_ERROR_UNKNOWN;
  expect_refused(finish(), "cuptiActivityGetNumDroppedRecords");
}

TEST_F(Collector, RefusesWhereBuffersAreBusyAndTakesNoLateOnes) {
  begin();
  device_.kernel("gemm", 10'000);
  fake_.keeps_buffers = true;
  const Trace trace = finish();
  expect_refused(trace, "CUPTI kept 1 buffers back");
  EXPECT_THAT(trace.spans, IsEmpty());
  fake_.complete();  // comes too late: the window was taken
  EXPECT_THAT(collector_->take().records, IsEmpty());
}

TEST_F(Collector, CountsWorkWithoutTimes) {
  begin();
  const uint32_t first = device_.call(CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000);
  device_.emit(device_.kernel_record("gemm", first, 0, 0));
  const uint32_t second = device_.call(CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000);
  device_.emit(device_.kernel_record("gemm", second, kBegin + 5000, 0));  // still running
  const Trace trace = finish();
  EXPECT_EQ(trace.losses.untimed, 2);
  EXPECT_THAT(trace.spans, SizeIs(3));
}

TEST_F(Collector, RefusesTimesThatRunBack) {
  begin();
  const uint32_t correlation = device_.call(CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000);
  device_.emit(device_.kernel_record("gemm", correlation, kBegin + 9000, kBegin + 8000));
  expect_refused(finish(), "1 record with an end before the begin");
}

TEST_F(Collector, RefusesADeviceThatWorkedLongerThanItWasWatched) {
  begin();
  const uint32_t correlation = device_.call(CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000);
  device_.emit(device_.kernel_record("gemm", correlation, kBegin + 9000, kBegin + 1'000'000));
  expect_refused(finish(), "the device was busy for 991000 ns in a window of 8000 ns");
}

TEST_F(Collector, LeavesOutWhatIsNotOfTheWindow) {
  make();
  collector_->enable();
  device_.kernel("early", 1000);
  device_.synchronize();
  clock_ns = device_.now_ns();
  collector_->start();
  device_.kernel("gemm", 10'000);
  device_.synchronize();
  clock_ns = device_.now_ns();
  collector_->capture().end_ns = clock_ns;
  device_.kernel("late", 10'000);
  const Trace trace = finish();
  EXPECT_FALSE(trace.names.find("early"));
  EXPECT_FALSE(trace.names.find("late"));
  EXPECT_TRUE(trace.names.find("gemm"));
  EXPECT_EQ(trace.losses, Losses{});
}

TEST_F(Collector, FreesTheDataOfOverheadRecords) {
  begin();
  constexpr size_t kBytes = 100'000;  // below what malloc gives by mmap
  const size_t before = mallinfo2().uordblks;
  CUpti_ActivityOverhead3 overhead{};
  overhead.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
  overhead.overheadKind = CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL;
  overhead.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
  overhead.objectId.pt.threadId = FakeDevice::kThread;
  overhead.start = static_cast<uint64_t>(kBegin);
  overhead.end = static_cast<uint64_t>(kBegin + 500);
  for (int i = 0; i < 4; ++i) {
    overhead.overheadData = malloc(kBytes);  // NOLINT: as CUPTI does
    device_.emit(overhead);
  }
  const Trace trace = finish();
  EXPECT_LT(mallinfo2().uordblks, before + 2 * kBytes);
  EXPECT_EQ(std::count_if(trace.spans.begin(), trace.spans.end(),
                          [&](const Span& span) {
                            return span.category == Category::profiler &&
                                   trace.names[span.name] == "command buffer full";
                          }),
            4);
}

// --- Calls -------------------------------------------------------------------------------------

TEST_F(Collector, TakesACallOfTheDriverWithinOneOfTheRuntimeForOne) {
  begin();
  const auto driver_call = [&](uint32_t correlation, int64_t start, int64_t end) {
    CUpti_ActivityAPI api{};
    api.kind = CUPTI_ACTIVITY_KIND_DRIVER;
    api.cbid = CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel;
    api.threadId = FakeDevice::kThread;
    api.correlationId = correlation;
    api.start = static_cast<uint64_t>(start);
    api.end = static_cast<uint64_t>(end);
    device_.emit(api);
  };
  device_.call(CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000);
  driver_call(100, kBegin + 1000, kBegin + 3000);
  device_.emit(device_.kernel_record("gemm", 100, kBegin + 6000, kBegin + 7000));
  driver_call(101, kBegin + 8000, kBegin + 9000);  // of a launcher without the runtime
  device_.emit(device_.kernel_record("triton", 101, kBegin + 9500, kBegin + 9900));
  device_.pass(20'000);
  const Trace trace = finish();
  const TraceSummary summary = summarize(trace);
  EXPECT_EQ(summary.launches, 2);
  EXPECT_EQ(summary.answered, 2);
}

TEST_F(Collector, TellsTheWaitInACopyThatBlocks) {
  begin();
  const uint32_t correlation = device_.call(CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy_v3020, 9000);
  CUpti_ActivityMemcpy6 copy{};
  copy.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  copy.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_DTOH;
  copy.correlationId = correlation;
  copy.bytes = 64;
  copy.start = static_cast<uint64_t>(kBegin + 5000);
  copy.end = static_cast<uint64_t>(kBegin + 6000);
  copy.streamId = 7;
  device_.emit(copy);
  CUpti_ActivitySynchronization2 wait{};
  wait.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  wait.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE;
  wait.correlationId = correlation;
  wait.start = static_cast<uint64_t>(kBegin + 1000);
  wait.end = static_cast<uint64_t>(kBegin + 8000);
  device_.emit(wait);
  wait.type =
      CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT;  // the device's, not the host's
  device_.emit(wait);
  const Trace trace = finish();
  int64_t waited = 0;
  for (const Span& span : trace.spans) {
    if (trace.names[span.name] == "Stream Sync") waited += span.end_ns - span.start_ns;
    EXPECT_NE(trace.names[span.name], "Stream Wait Event");
  }
  EXPECT_EQ(waited, 7000);
  EXPECT_TRUE(trace.names.find("Memcpy DtoH"));
}

// --- Attribution -------------------------------------------------------------------------------

// Known lengths, so that each mechanism's difference is known to the nanosecond.
struct FakeStep {
  int64_t attention_ns = 20'000, exposed_ns = 5000, host_ns = 3000;
  bool two_kernels = false;
};

Trace steps_of(const FakeStep& step) {
  FakeCupti& fake = fake_cupti_of(FAKE_CUPTI);
  fake.reset();
  clock_ns = kBegin;
  CuptiCollector collector(load_cupti(FAKE_CUPTI),
                           {.external = true, .now_ns = [] { return clock_ns; }});
  collector.attach();
  collector.start();
  FakeDevice device(fake, kBegin);
  const auto under = [&](const char* path, const char* kernel, int64_t length,
                         uint32_t stream = 7) {
    collector.push(collector.path(path), 0);
    device.kernel(kernel, length, stream);
    collector.pop();
  };
  for (int64_t index = 0; index < 5; ++index) {
    clock_ns = device.now_ns();
    collector.begin_step(index);
    under("forward/attention", "flash_forward", 20'000);
    device.synchronize();
    if (step.two_kernels) {
      under("backward/attention", "backward_ordered", step.attention_ns - 8000);
      under("backward/attention", "backward_reduce", 8000);
    } else {
      under("backward/attention", "backward_atomic", step.attention_ns);
    }
    device.synchronize();
    under("backward/all_reduce", "ncclDevKernel_AllReduce", step.exposed_ns, 20);
    device.synchronize(20);
    device.pass(step.host_ns);
    clock_ns = device.now_ns();
    collector.end_step();
  }
  collector.stop();
  Trace trace = trace_of_capture(collector.take(), "fake");
  trace.rank = 0;
  return trace;
}

double delta_ns(const Attribution& attribution, Mechanism mechanism) {
  for (const MechanismRow& row : attribution.mechanisms) {
    if (row.mechanism == mechanism) return 1e9 * row.time.delta_seconds;
  }
  return 0;
}

TEST(CuptiAttribution, FindsEachDifferenceToTheNanosecond) {
  const Trace fast = steps_of({});
  const Trace det =
      steps_of({.attention_ns = 33'000, .exposed_ns = 9100, .host_ns = 3777, .two_kernels = true});
  const Attribution found = attribute({fast}, {det});
  EXPECT_EQ(found.fast.steps, 4) << "the last one has no end";
  constexpr double kPart = 1e-3;  // of a nanosecond: times are doubles of seconds
  EXPECT_NEAR(delta_ns(found, Mechanism::compute), 13'000, kPart);
  EXPECT_NEAR(delta_ns(found, Mechanism::communication_unsplit) +
                  delta_ns(found, Mechanism::communication_transfer),
              4100, kPart);
  EXPECT_NEAR(delta_ns(found, Mechanism::idle_host), 777, kPart);
  EXPECT_NEAR(1e9 * found.step.delta_seconds, 13'000 + 4100 + 777, kPart);
  for (const AttributionRow& row : found.rows) {
    if (row.mechanism != Mechanism::compute || row.path != "backward/attention") continue;
    EXPECT_NEAR(1e9 * row.time.delta_seconds, 13'000, kPart);
    EXPECT_EQ(row.deterministic_count, 2);
    EXPECT_EQ(row.match, KeyMatch::both);
  }
}

TEST(CuptiAttribution, FindsNothingBetweenEqualWindows) {
  const Attribution found = attribute({steps_of({})}, {steps_of({})});
  EXPECT_EQ(found.step.delta_seconds, 0);
}

}  // namespace
}  // namespace dettax
