#include "harness/device/cuda/runtime/check.h"

#include <string>

#include "harness/base/error.h"

namespace dettax {
namespace {

[[noreturn]] void fail(const char* call, const std::string& reason) {
  throw Error(ErrorKind::infrastructure, std::string("CUDA: ") + call + ": " + reason);
}

constexpr const char* kOutOfMemory =
    "the device is out of memory, which all arms of a case share; fewer modes, a smaller "
    "micro-batch or a model of fewer layers "
    "would fit";

}  // namespace

void require_success(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  // What can be forgotten is, so that no later launch is blamed for it.
  static_cast<void>(cudaGetLastError());
  if (status == cudaErrorMemoryAllocation) fail(call, kOutOfMemory);
  fail(call, cudaGetErrorString(status));
}

void require_success(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  if (status == CUBLAS_STATUS_ALLOC_FAILED) fail(call, kOutOfMemory);
  fail(call, cublasLtGetStatusString(status));
}

}  // namespace dettax
