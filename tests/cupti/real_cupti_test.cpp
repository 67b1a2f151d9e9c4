// The real CUPTI's own decoder on buffers made by hand: it needs no driver.
#include <cstring>
#include <filesystem>
#include <vector>

#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "profiles/cupti/cupti_collector.h"
#include "profiles/cupti/record_decoder.h"

namespace dettax {
namespace {

class RealCupti : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(REAL_CUPTI))
      GTEST_SKIP() << "the toolkit's libcupti is not here: " << REAL_CUPTI;
    cupti_ = load_cupti(REAL_CUPTI);
  }

  template <typename Record>
  void put(CUpti_ActivityKind kind, Record record) {
    record.kind = kind;
    const size_t at = bytes_.size();
    bytes_.resize(at + sizeof(record));
    std::memcpy(bytes_.data() + at, &record, sizeof(record));
  }

  Capture decoded(size_t valid) {
    std::vector<uint64_t> aligned(bytes_.size() / 8 + 64);
    std::memcpy(aligned.data(), bytes_.data(), bytes_.size());
    Capture capture;
    RecordDecoder(cupti_).decode(reinterpret_cast<uint8_t*>(aligned.data()), valid, capture);
    return capture;
  }

  CuptiTable cupti_;
  std::vector<uint8_t> bytes_;
};

TEST_F(RealCupti, WalksTheRecordsThatAreAskedFor) {
  CUpti_ActivityKernel10 kernel{};
  kernel.name = "gemm";
  kernel.start = 10;
  kernel.end = 20;
  kernel.correlationId = 3;
  kernel.streamId = 7;
  kernel.deviceId = 1;
  put(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, kernel);
  CUpti_ActivityMemcpy6 copy{};
  copy.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
  copy.bytes = 512;
  put(CUPTI_ACTIVITY_KIND_MEMCPY, copy);
  CUpti_ActivityMemcpyPtoP4 peer{};
  peer.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
  put(CUPTI_ACTIVITY_KIND_MEMCPY2, peer);
  CUpti_ActivityMemset4 memset{};
  memset.bytes = 77;
  put(CUPTI_ACTIVITY_KIND_MEMSET, memset);
  CUpti_ActivityAPI api{};
  api.cbid = CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000;
  api.correlationId = 3;
  api.threadId = 42;
  put(CUPTI_ACTIVITY_KIND_RUNTIME, api);
  api.cbid = CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx;
  put(CUPTI_ACTIVITY_KIND_DRIVER, api);
  CUpti_ActivityExternalCorrelation external{};
  external.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
  external.externalId = external_id(5, 9);
  put(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, external);
  CUpti_ActivitySynchronization2 wait{};
  wait.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE;
  put(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, wait);
  put(CUPTI_ACTIVITY_KIND_CUDA_EVENT, CUpti_ActivityCudaEvent2{});
  CUpti_ActivityOverhead3 overhead{};
  overhead.overheadKind = CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH;
  put(CUPTI_ACTIVITY_KIND_OVERHEAD, overhead);

  const Capture capture = decoded(bytes_.size());
  EXPECT_EQ(capture.losses, CaptureLosses{});
  ASSERT_EQ(capture.records.size(), 10U);
  const auto name = [&](size_t i) { return capture.names[capture.records[i].name]; };
  EXPECT_EQ(capture.records[0].kind, RecordKind::kernel);
  EXPECT_EQ(name(0), "gemm");
  EXPECT_EQ(capture.records[0].start_ns, 10);
  EXPECT_EQ(capture.records[0].end_ns, 20);
  EXPECT_EQ(capture.records[0].correlation, 3U);
  EXPECT_EQ(capture.records[0].stream, 7U);
  EXPECT_EQ(capture.records[0].device, 1U);
  EXPECT_EQ(name(1), "Memcpy HtoD");
  EXPECT_EQ(capture.records[1].bytes, 512U);
  EXPECT_EQ(name(2), "Memcpy PtoP");
  EXPECT_EQ(capture.records[3].bytes, 77U);
  EXPECT_EQ(name(4), "cudaLaunchKernel") << "CUPTI's own table of names";
  EXPECT_EQ(capture.records[4].thread, 42U);
  EXPECT_EQ(capture.records[5].kind, RecordKind::driver_call);
  EXPECT_EQ(name(5), "cuLaunchKernelEx");
  EXPECT_EQ(capture.records[6].id, external_id(5, 9));
  EXPECT_EQ(capture.records[7].detail, static_cast<uint8_t>(SyncKind::context));
  EXPECT_EQ(capture.records[8].kind, RecordKind::event);
  EXPECT_EQ(name(9), "buffer flush");
}

TEST_F(RealCupti, MakesNoRecordOfHalfOfOne) {
  for (int i = 0; i < 2; ++i) {
    CUpti_ActivityKernel10 kernel{};
    kernel.name = "gemm";
    put(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, kernel);
  }
  const Capture capture = decoded(bytes_.size() - 8);
  EXPECT_EQ(capture.records.size(), 1U);
  EXPECT_EQ(capture.losses.broken_buffers, 1);
}

TEST_F(RealCupti, SaysThatItCannotBeUsedWithoutADriver) {
  if (std::filesystem::exists("/dev/nvidiactl")) GTEST_SKIP() << "there is a driver here";
  CuptiCollector collector(cupti_, {});
  try {
    collector.attach();
    FAIL() << "CUPTI took a subscriber without a driver";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("cuptiSubscribe"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace dettax
