// A trainer that knows nothing of dettax: ranges of NVTX, launches that the fake CUPTI records. It plays the driver where that would load
// the injection library. Usage: injected_program SCENARIO STEPS
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cupti/fake_device.h"

namespace {

using dettax::FakeDevice;

int64_t realtime() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void sleep_ms(int ms) { usleep(static_cast<useconds_t>(ms) * 1000); }

class Trainer {
 public:
  explicit Trainer(FakeCupti& cupti)
      : cupti_(cupti), device_(cupti, realtime(), static_cast<uint32_t>(gettid())) {}

  void step(int index) {
    nvtxRangePushA(("iteration " + std::to_string(index)).c_str());
    nvtxRangePushA("forward");
    kernel("gemm", 20'000, 7);
    nvtxRangePop();
    nvtxEventAttributes_t event{};
    event.version = NVTX_VERSION;
    event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    event.message.registered = all_reduce_;
    nvtxDomainRangePushEx(nccl_, &event);
    kernel("kernel_of_a_collective", 30'000, 20);
    nvtxDomainRangePop(nccl_);
    sleep_ms(2);
    nvtxRangePop();
  }
  // Launched now.
  void kernel(const char* name, int64_t length_ns, uint32_t stream) {
    device_.pass(std::max<int64_t>(0, realtime() - device_.now_ns()));
    device_.kernel(name, length_ns, stream);
    while (realtime() < device_.now_ns()) continue;  // the call takes its time
  }
  void call(CUpti_CallbackId id) {
    for (const auto site : {CUPTI_API_ENTER, CUPTI_API_EXIT})
      cupti_.call_back(CUPTI_CB_DOMAIN_DRIVER_API, id, site);
  }

 private:
  FakeCupti& cupti_;
  FakeDevice device_;
  nvtxDomainHandle_t nccl_ = nvtxDomainCreateA("NCCL");
  nvtxStringHandle_t all_reduce_ = nvtxDomainRegisterStringA(nccl_, "ncclAllReduce");
};

// As a worker that loads data: it ends on its own, and must neither hang nor write.
int fork_worker() {
  const pid_t child = fork();
  if (child == 0) {
    nvtxRangePushA("worker");
    nvtxRangePop();
    exit(0);  // NOLINT(concurrency-mt-unsafe): atexit is what is tested
  }
  int status = 1;
  waitpid(child, &status, 0);
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string scenario = argv[1];
  const int steps = std::stoi(argv[2]);
  FakeCupti& cupti = dettax::fake_cupti_of(getenv("FAKE_CUPTI"));  // NOLINT(concurrency-mt-unsafe)
  if (scenario == "conflict") {
    cupti.subscribe = CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    cupti.other_tool = "Nsight Systems";
  }
  void* library = dlopen(getenv("INJECTION"), RTLD_NOW);  // NOLINT(concurrency-mt-unsafe)
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 3;
  }
  if (scenario != "no_cuda") reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection"))();
  Trainer trainer(cupti);
  for (int i = 0; i < steps; ++i) {
    if (scenario == "profiler" && i == 2) trainer.call(CUPTI_DRIVER_TRACE_CBID_cuProfilerStart);
    if (scenario == "profiler" && i == steps - 2)
      trainer.call(CUPTI_DRIVER_TRACE_CBID_cuProfilerStop);
    trainer.step(i);
  }
  if (scenario == "fork" && fork_worker() != 0) return 4;
  if (scenario == "drop") cupti.dropped = 3;
  if (scenario == "wait") {
    sleep_ms(300);  // many periods
    std::puts("ready");
    std::fflush(stdout);
    for (;;) pause();
  }
  if (scenario == "settle") sleep_ms(200);
  return 0;
}
