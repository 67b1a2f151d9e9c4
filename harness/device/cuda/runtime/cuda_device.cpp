#include "harness/device/cuda/runtime/cuda_device.h"

#include <optional>
#include <string>
#include <vector>

#include "harness/device/cpu/jitter.h"
#include "harness/device/cuda/runtime/check.h"
#include "harness/device/cuda/runtime/cuda_ops.h"
#include "harness/device/cuda/runtime/handles.h"

namespace dettax {
namespace {

constexpr size_t kStagingBytes = size_t{4} << 20;

int attribute(cudaDeviceAttr which, int ordinal) {
  int value = 0;
  require_success(cudaDeviceGetAttribute(&value, which, ordinal), "cudaDeviceGetAttribute");
  return value;
}

// Returns the number, so that members that follow find their device chosen.
int chosen(int ordinal) {
  require_success(cudaSetDevice(ordinal), "cudaSetDevice");
  return ordinal;
}

std::string version_words(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string describe(int ordinal, int multiprocessors) {
  cudaDeviceProp properties{};
  require_success(cudaGetDeviceProperties(&properties, ordinal), "cudaGetDeviceProperties");
  int driver = 0;
  int runtime = 0;
  require_success(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  require_success(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  return std::string("cuda, ") + properties.name + ", compute capability " +
         std::to_string(properties.major) + "." + std::to_string(properties.minor) + ", " +
         std::to_string(multiprocessors) + " multiprocessors, driver for CUDA " +
         version_words(driver) + ", runtime " + version_words(runtime);
}

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int ordinal)
      : ordinal_(chosen(ordinal)),
        multiprocessors_(attribute(cudaDevAttrMultiProcessorCount, ordinal)),
        description_(describe(ordinal, multiprocessors_)),
        staging_(stream_, kStagingBytes),
        fault_word_(sizeof(uint32_t)),
        ops_({stream_.get(), multiprocessors_}, side_stream_.get(),
             [this](size_t bytes) { return allocate(bytes); }) {}

  Buffer allocate(size_t bytes) override {
    void* data = nullptr;
    const cudaError_t status = cudaMalloc(&data, bytes == 0 ? 1 : bytes);
    if (status != cudaSuccess) {
      const std::string call =
          "cudaMalloc of " + std::to_string((bytes + 1048575) / 1048576) + " MiB";
      require_success(status, call.c_str());
    }
    return {data, bytes, [this](void* memory, size_t) { release(memory); }};
  }

  Ops& ops() override { return ops_; }
  void copy_to_host(void* to, const void* from, size_t bytes) override {
    staging_.to_host(to, from, bytes);
  }
  void copy_from_host(void* to, const void* from, size_t bytes) override {
    staging_.to_device(to, from, bytes);
  }

  Fingerprint fingerprint(const Tensor& tensor, uint64_t first_index) override {
    const FingerprintPart part{tensor, first_index};
    return fingerprints({&part, 1}).front();
  }
  Fingerprint fingerprint_rows(const Tensor& tensor, uint64_t first_index,
                               uint64_t stride) override {
    const FingerprintPart part{tensor, first_index, stride};
    return fingerprints({&part, 1}).front();
  }
  std::vector<Fingerprint> fingerprints(std::span<const FingerprintPart> parts) override;
  bool all_finite(const Tensor& tensor) override;
  void synchronize() override;
  void set_jitter(uint64_t seed) override;
  std::string description() const override { return description_; }
  bool rounds_operands(NumberFormat format) const override { return format == NumberFormat::tf32; }

 private:
  void release(void* memory) {
    const cudaError_t status = cudaFree(memory);
    if (failed_release_ == cudaSuccess) failed_release_ = status;
  }
  // Device memory for results that the host reads at once; filled with zeros.
  void* results(size_t bytes);

  const int ordinal_;
  const int multiprocessors_;
  const std::string description_;
  cudaError_t failed_release_ = cudaSuccess;  // who frees cannot throw: the next wait does
  StreamHandle stream_, side_stream_;
  Staging staging_;
  PinnedMemory fault_word_;
  CudaOps ops_;
  Buffer results_;
  Jitter jitter_;
  uint64_t synchronized_ = 0;  // delays drawn
};

void* CudaDevice::results(size_t bytes) {
  if (results_.bytes() < bytes) {
    results_ = Buffer();
    results_ = allocate(bytes);
  }
  ops_.kernels().fill_bytes(
      make_tensor(results_.data(), DType::i32, {static_cast<int64_t>(bytes / sizeof(int32_t))}), 0);
  return results_.data();
}

std::vector<Fingerprint> CudaDevice::fingerprints(std::span<const FingerprintPart> parts) {
  std::vector<Fingerprint> found(parts.size());
  if (parts.empty()) return found;
  constexpr size_t kLanes = 2;
  const size_t bytes = found.size() * kLanes * sizeof(uint64_t);
  auto* lanes = static_cast<uint64_t*>(results(bytes));
  for (size_t i = 0; i < parts.size(); ++i) {
    FingerprintPart part = parts[i];
    // In one piece there is but one row.
    if (part.row_stride == 0)
      part.tensor = make_tensor(part.tensor.data, part.tensor.type, {part.tensor.count()});
    ops_.kernels().add_fingerprint(lanes + kLanes * i, part.tensor, part.first_index,
                                   part.row_stride);
  }
  std::vector<uint64_t> values(found.size() * kLanes);
  copy_to_host(values.data(), lanes, bytes);
  for (size_t i = 0; i < found.size(); ++i) found[i] = {values[kLanes * i], values[kLanes * i + 1]};
  return found;
}

bool CudaDevice::all_finite(const Tensor& tensor) {
  if (tensor.count() == 0) return true;
  auto* found = static_cast<uint32_t*>(results(sizeof(uint32_t)));
  ops_.kernels().find_not_finite(found, tensor);
  uint32_t value = 0;
  copy_to_host(&value, found, sizeof value);
  return value == 0;
}

void CudaDevice::synchronize() {
  require_success(cudaMemcpyAsync(fault_word_.data(), ops_.kernels().faults(), sizeof(uint32_t),
                                  cudaMemcpyDeviceToHost, stream_.get()),
                  "cudaMemcpyAsync to the host");
  stream_.synchronize();
  if (jitter_.on()) {
    side_stream_.synchronize();
    jitter_.long_delay(synchronized_++);
  }
  require_success(failed_release_, "cudaFree");
  uint32_t word = 0;
  std::memcpy(&word, fault_word_.data(), sizeof word);
  CudaKernels::check_faults(word);
}

void CudaDevice::set_jitter(uint64_t seed) {
  jitter_ = Jitter(seed);
  ops_.set_jitter(jitter_);
}

}  // namespace

std::unique_ptr<Device> make_cuda_device(int ordinal) {
  return std::make_unique<CudaDevice>(ordinal);
}

}  // namespace dettax
