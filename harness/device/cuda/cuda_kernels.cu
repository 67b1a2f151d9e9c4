#include <string>
#include <utility>

#include "harness/device/cuda/cuda_kernels.h"
#include "harness/device/cuda/launch.cuh"

namespace dettax {

CudaKernels::CudaKernels(const KernelPlace& place, std::function<Buffer(size_t)> allocate)
    : place_(place), allocate_(std::move(allocate)), faults_(allocate_(sizeof(uint32_t))) {
  set_bytes(place_.stream, faults_.data(), 0, sizeof(uint32_t));
}

std::byte* CudaKernels::workspace(size_t bytes) {
  if (workspace_.bytes() < bytes) {
    workspace_ = Buffer();
    workspace_ = allocate_(bytes + bytes / 4);
  }
  return static_cast<std::byte*>(workspace_.data());
}

float* CudaKernels::workspace_floats(int64_t count) {
  return reinterpret_cast<float*>(workspace(static_cast<size_t>(count) * sizeof(float)));
}

void CudaKernels::check_faults(uint32_t word) {
  if (word == 0) return;
  const auto has = [word](KernelFault fault) { return (word & static_cast<uint32_t>(fault)) != 0; };
  std::string what;
  if (has(KernelFault::token)) what += " a token beyond its table;";
  if (has(KernelFault::target)) what += " a target beyond the vocabulary;";
  if (has(KernelFault::expert)) what += " an expert that does not exist;";
  what.back() = '.';
  throw Error(ErrorKind::internal, "CUDA kernels were given" + what);
}

}  // namespace dettax
