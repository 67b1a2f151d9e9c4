// The calls of the CUDA runtime that harness/device/cuda/runtime makes, against the real headers: a changed signature does not compile.

#include "tests/cuda/standins/cudart.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include <sys/mman.h>

#include "harness/device/cuda/runtime/check.h"

namespace dettax::test {
namespace {

constexpr size_t kPage = 4096;
constexpr unsigned char kUnset = 0xFF, kBehind = 0xA5;
constexpr size_t kMostUnset = size_t{1}
                              << 20;  // pages beyond are zero, and cost nothing until they are used

size_t whole_pages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

struct State {
  std::recursive_mutex mutex;
  StreamOrder order = StreamOrder::eager;
  uint64_t seed = 0;
  size_t capacity = 0, used = 0, most = 0;
  std::map<std::byte*, size_t> device, pinned;
  std::set<cudaStream_t> streams;
  int open = 0;  // work that runs now, over all threads
  int overruns = 0;
  int64_t calls = 0, failing = 0;
  cudaError_t failure = cudaSuccess;
  std::string failed;
};

State& state() {
  static State the_state;
  return the_state;
}

void protect(int protection) {
  for (const auto& [memory, bytes] : state().device)
    ::mprotect(memory, whole_pages(bytes), protection);
}

void access(bool begins) {
  const std::lock_guard lock(state().mutex);
  if (begins && state().open++ == 0) protect(PROT_READ | PROT_WRITE);
  if (!begins && --state().open == 0) protect(PROT_NONE);
}

cudaError_t counted(const char* name) {
  const std::lock_guard lock(state().mutex);
  if (++state().calls != state().failing) return cudaSuccess;
  state().failed = name;
  return state().failure;
}

void gate() { require_success(counted("kernel launch"), "kernel launch"); }

bool within(const std::map<std::byte*, size_t>& allocations, const void* data, size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(data);
  const auto behind = std::find_if(allocations.begin(), allocations.end(), [&](const auto& each) {
    return begin >= each.first && begin + bytes <= each.first + each.second;
  });
  return behind != allocations.end();
}

// Null where there is no room. Behind the memory lies a page that nobody may touch.
std::byte* map_pages(size_t bytes) {
  void* memory =
      ::mmap(nullptr, whole_pages(bytes) + kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  ::mprotect(memory, whole_pages(bytes), PROT_READ | PROT_WRITE);
  auto* data = static_cast<std::byte*>(memory);
  std::memset(data, kUnset, std::min(bytes, kMostUnset));
  std::memset(data + bytes, kBehind, whole_pages(bytes) - bytes);
  return data;
}

void unmap(std::byte* data, size_t bytes) {
  ::mprotect(data, whole_pages(bytes), PROT_READ);
  const bool intact = std::all_of(data + bytes, data + whole_pages(bytes),
                                  [](std::byte each) { return each == std::byte{kBehind}; });
  state().overruns += intact ? 0 : 1;
  ::munmap(data, whole_pages(bytes) + kPage);
}

}  // namespace

FakeCuda::FakeCuda(StreamOrder order, uint64_t seed, size_t capacity_bytes) {
  const std::lock_guard lock(state().mutex);
  state().order = order;
  state().seed = seed;
  state().capacity = capacity_bytes;
  state().most = state().used;
  state().overruns = 0;
  fail_call(0);
}

FakeCuda::~FakeCuda() {
  state().capacity = 0;
  EmulatedStreams::of_this_thread().set_order(StreamOrder::eager);
  EmulatedStreams::of_this_thread().set_access(nullptr);
  EmulatedStreams::of_this_thread().set_gate(nullptr);
}

void FakeCuda::fail_call(int64_t n, cudaError_t status) {
  const std::lock_guard lock(state().mutex);
  state().calls = 0;
  state().failing = n;
  state().failure = status;
  state().failed.clear();
}
int64_t FakeCuda::calls() const { return state().calls; }
std::string FakeCuda::failed_call() const { return state().failed; }
size_t FakeCuda::live_allocations() const {
  return state().device.size() + state().pinned.size() + state().streams.size();
}
size_t FakeCuda::most_bytes() const { return state().most; }
int FakeCuda::overruns() const { return state().overruns; }

// NOLINTBEGIN(readability-identifier-naming): the names are NVIDIA's
extern "C" {

cudaError_t cudaSetDevice(int device) {
  if (const cudaError_t fault = counted("cudaSetDevice"); fault != cudaSuccess) return fault;
  return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaGetLastError() { return cudaSuccess; }

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int) {
  if (const cudaError_t fault = counted("cudaDeviceGetAttribute"); fault != cudaSuccess) {
    return fault;
  }
  if (which != cudaDevAttrMultiProcessorCount) return cudaErrorInvalidValue;
  *value = 3;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  if (const cudaError_t fault = counted("cudaGetDeviceProperties"); fault != cudaSuccess) {
    return fault;
  }
  *properties = {};
  std::strncpy(properties->name, "emulated device", sizeof properties->name - 1);
  properties->major = 9;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return counted("cudaDriverGetVersion");
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return counted("cudaRuntimeGetVersion");
}

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  const std::lock_guard lock(state().mutex);
  *memory = nullptr;
  if (const cudaError_t fault = counted("cudaMalloc"); fault != cudaSuccess) return fault;
  if (state().used + bytes > state().capacity) return cudaErrorMemoryAllocation;
  std::byte* data = map_pages(bytes);
  if (data == nullptr) return cudaErrorMemoryAllocation;
  if (state().open == 0) ::mprotect(data, whole_pages(bytes), PROT_NONE);
  state().device[data] = bytes;
  state().used += bytes;
  state().most = std::max(state().most, state().used);
  *memory = data;
  return cudaSuccess;
}

// Waits for all that was enqueued, as the real one does.
cudaError_t cudaFree(void* memory) {
  const cudaError_t fault = counted("cudaFree");
  if (memory == nullptr) return fault;
  EmulatedStreams::of_this_thread().drain();
  const std::lock_guard lock(state().mutex);
  const auto found = state().device.find(static_cast<std::byte*>(memory));
  if (found == state().device.end()) return cudaErrorInvalidValue;
  unmap(found->first, found->second);
  state().used -= found->second;
  state().device.erase(found);
  return fault;
}

cudaError_t cudaMallocHost(void** memory, size_t bytes) {
  const std::lock_guard lock(state().mutex);
  *memory = nullptr;
  if (const cudaError_t fault = counted("cudaMallocHost"); fault != cudaSuccess) return fault;
  std::byte* data = map_pages(bytes);
  if (data == nullptr) return cudaErrorMemoryAllocation;
  state().pinned[data] = bytes;
  *memory = data;
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* memory) {
  const cudaError_t fault = counted("cudaFreeHost");
  if (memory == nullptr) return fault;
  EmulatedStreams::of_this_thread().drain();
  const std::lock_guard lock(state().mutex);
  const auto found = state().pinned.find(static_cast<std::byte*>(memory));
  if (found == state().pinned.end()) return cudaErrorInvalidValue;
  unmap(found->first, found->second);
  state().pinned.erase(found);
  return fault;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (const cudaError_t fault = counted("cudaMemcpyAsync"); fault != cudaSuccess) return fault;
  {
    const std::lock_guard lock(state().mutex);
    const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (!within(to_device ? state().device : state().pinned, to, bytes) ||
        !within(from_device ? state().device : state().pinned, from, bytes)) {
      return cudaErrorInvalidValue;
    }
  }
  enqueue_on(stream, [=] { std::memcpy(to, from, bytes); });
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = nullptr;
  if (const cudaError_t fault = counted("cudaStreamCreateWithFlags"); fault != cudaSuccess) {
    return fault;
  }
  const std::lock_guard lock(state().mutex);
  EmulatedStreams& streams = EmulatedStreams::of_this_thread();
  if (streams.streams() == 0) streams.set_order(state().order, state().seed);
  streams.set_access(access);
  streams.set_gate(gate);
  *stream = streams.create();
  state().streams.insert(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const cudaError_t fault = counted("cudaStreamDestroy");
  {
    const std::lock_guard lock(state().mutex);
    if (state().streams.erase(stream) == 0) return cudaErrorInvalidResourceHandle;
  }
  streams_of(stream).destroy(stream);
  return fault;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (const cudaError_t fault = counted("cudaStreamSynchronize"); fault != cudaSuccess) {
    return fault;
  }
  streams_of(stream).wait_for(stream);
  return cudaSuccess;
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    default:
      return "an error that the stand-in has no words for";
  }
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)

}  // namespace dettax::test
