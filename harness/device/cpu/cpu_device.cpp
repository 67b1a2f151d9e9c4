#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "harness/base/error.h"
#include "harness/device/cpu/cpu_ops.h"
#include "harness/device/cpu/fingerprint_parts.h"
#include "harness/device/cpu/gemm.h"
#include "harness/device/cpu/jitter.h"
#include "harness/device/cpu/memory.h"
#include "harness/device/cpu/team.h"
#include "harness/device/device.h"

namespace dettax {
namespace {

// Bytes of one portion of work: large enough to hide the start of the team, small enough to spread.
constexpr int64_t kPortionBytes = int64_t{256} << 10;

// A value on a cache line of its own, one for each thread.
template <class T>
struct alignas(64) Lane {
  T value{};
};

// Whether all values are finite, by their exponents: a vectorised pass over integers that no
// floating-point flag can disturb.
bool finite_values(const float* values, int64_t count) {
  constexpr uint32_t kExponent = 0x7F800000U;
  uint32_t bad = 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<uint32_t>(values[i]);
    bad |= static_cast<uint32_t>((bits & kExponent) == kExponent);
  }
  return bad == 0;
}

// No delays while this lives: where no order can show they would only take time.
class Calm {
 public:
  Calm(Team& team, uint64_t seed) : team_(team), seed_(seed) {
    if (seed_ != 0) team_.set_jitter(0);
  }
  ~Calm() {
    if (seed_ != 0) team_.set_jitter(seed_);
  }
  Calm(const Calm&) = delete;
  Calm& operator=(const Calm&) = delete;

 private:
  Team& team_;
  uint64_t seed_;
};

class CpuDevice final : public Device {
 public:
  CpuDevice(int threads, bool spin, const std::vector<int>& cores)
      : team_(threads, spin, cores), ops_(team_) {}

  Buffer allocate(size_t bytes) override { return allocate_pages(bytes); }
  Ops& ops() override { return ops_; }
  void copy_to_host(void* to, const void* from, size_t bytes) override { copy(to, from, bytes); }
  void copy_from_host(void* to, const void* from, size_t bytes) override { copy(to, from, bytes); }

  Fingerprint fingerprint(const Tensor& tensor, uint64_t first_index) override {
    const Calm calm(team_, jitter_seed_);
    const size_t width = size_of(tensor.type);
    const auto* data = static_cast<const std::byte*>(tensor.data);
    std::vector<Lane<Fingerprint>> parts(static_cast<size_t>(team_.size()));
    team_.parallel_for(tensor.count(), kPortionBytes / static_cast<int64_t>(width), false,
                       [&](int64_t begin, int64_t end, int thread) {
                         parts[static_cast<size_t>(thread)].value +=
                             dettax::fingerprint(data + static_cast<size_t>(begin) * width,
                                                 static_cast<size_t>(end - begin), width,
                                                 first_index + static_cast<uint64_t>(begin));
                       });
    return sum(parts);
  }

  Fingerprint fingerprint_rows(const Tensor& tensor, uint64_t first_index,
                               uint64_t stride) override {
    const size_t row_bytes = static_cast<size_t>(tensor.columns()) * size_of(tensor.type);
    const auto* data = static_cast<const std::byte*>(tensor.data);
    std::vector<Lane<Fingerprint>> parts(static_cast<size_t>(team_.size()));
    const int64_t grain = 1 + kPortionBytes / static_cast<int64_t>(row_bytes);
    team_.parallel_for(tensor.rows(), grain, false, [&](int64_t begin, int64_t end, int thread) {
      for (auto row = static_cast<size_t>(begin); row < static_cast<size_t>(end); ++row) {
        parts[static_cast<size_t>(thread)].value +=
            dettax::fingerprint(data + row * row_bytes, static_cast<size_t>(tensor.columns()),
                                size_of(tensor.type), first_index + row * stride);
      }
    });
    return sum(parts);
  }

  std::vector<Fingerprint> fingerprints(std::span<const FingerprintPart> parts) override {
    const Calm calm(team_, jitter_seed_);
    return fingerprint_parts(team_, parts);
  }

  bool all_finite(const Tensor& tensor) override {
    const float* values = tensor.f32();
    std::atomic<bool> finite{true};
    team_.parallel_for(tensor.count(), kPortionBytes / 4, false,
                       [&](int64_t begin, int64_t end, int) {
                         if (!finite_values(values + begin, end - begin)) {
                           finite.store(false, std::memory_order_relaxed);
                         }
                       });
    return finite.load(std::memory_order_relaxed);
  }

  // Every call is complete when it returns. Who synchronizes is about to meet other ranks.
  void synchronize() override {
    if (jitter_seed_ != 0) Jitter(jitter_seed_).long_delay(synchronized_++);
  }

  void set_jitter(uint64_t seed) override {
    jitter_seed_ = seed;
    team_.set_jitter(seed);
  }

  std::string description() const override {
    return "cpu, " + std::to_string(team_.size()) +
           (team_.size() == 1 ? " thread, " : " threads, ") + gemm_target_name();
  }

 private:
  static Fingerprint sum(const std::vector<Lane<Fingerprint>>& parts) {
    Fingerprint whole;
    for (const auto& part : parts) whole += part.value;
    return whole;
  }

  void copy(void* to, const void* from, size_t bytes) {
    auto* destination = static_cast<std::byte*>(to);
    const auto* source = static_cast<const std::byte*>(from);
    team_.parallel_for(
        static_cast<int64_t>(bytes), kPortionBytes, false, [&](int64_t begin, int64_t end, int) {
          std::memcpy(destination + begin, source + begin, static_cast<size_t>(end - begin));
        });
  }

  Team team_;
  CpuOps ops_;
  uint64_t jitter_seed_ = 0;
  uint64_t synchronized_ = 0;  // delays drawn
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(int threads, bool spin, const std::vector<int>& cores) {
  return std::make_unique<CpuDevice>(threads, spin, cores);
}

}  // namespace dettax
