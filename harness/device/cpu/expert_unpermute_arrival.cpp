// The fast twin of unpermute_in_order: rows are read as the experts left them, each added to its token
// under a lock, in order of arrival. The first to come begins with the residual.

#include <cstdint>
#include <cstring>
#include <mutex>
#include <vector>

#include "harness/device/cpu/expert_rows.h"
#include "harness/device/cpu/spin_lock.h"

namespace dettax {
namespace {

constexpr int64_t kChunkRows = 16;
constexpr size_t kLocks = 256;

class ArrivalSums {
 public:
  explicit ArrivalSums(const Unpermutation& u)
      : u_(u), locks_(kLocks), started_(static_cast<size_t>(u.tokens)) {}

  void add(int64_t row) {
    const int64_t token = u_.sources[row] / u_.choices;
    const auto width = static_cast<size_t>(u_.width);
    const float weight = u_.weight(u_.sources[row]);
    const float* from = u_.rows + row * u_.width;
    float* to = u_.y + token * u_.width;
    const std::lock_guard guard(locks_[static_cast<size_t>(token) % kLocks]);
    const float* base = to;
    if (!started_[static_cast<size_t>(token)]) {
      started_[static_cast<size_t>(token)] = 1;
      base = u_.residual == nullptr ? nullptr : u_.residual + token * u_.width;
    }
    if (base == nullptr) return kernels_.scaled(to, from, weight, width);
    kernels_.add_weighted(to, base, from, weight, width);
  }

  // A token all of whose choices were dropped.
  void finish(int64_t token) {
    if (started_[static_cast<size_t>(token)] || u_.residual == u_.y) return;
    const auto bytes = static_cast<size_t>(u_.width) * sizeof(float);
    float* to = u_.y + token * u_.width;
    if (u_.residual == nullptr) {
      std::memset(to, 0, bytes);
    } else {
      std::memcpy(to, u_.residual + token * u_.width, bytes);
    }
  }

 private:
  const Unpermutation& u_;
  const RowKernels kernels_ = row_kernels();
  std::vector<SpinLock> locks_;
  std::vector<uint8_t> started_;  // by token, under its lock
};

}  // namespace

void unpermute_on_arrival(Team& team, const Unpermutation& u, bool dynamic) {
  ArrivalSums sums(u);
  const int64_t most = u.tokens * u.choices;
  team.parallel_for(most, kChunkRows, dynamic, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end && u.sources[r] >= 0; ++r) sums.add(r);
  });
  const bool dropped = most > 0 && u.sources[most - 1] < 0;
  for (int64_t t = 0; dropped && t < u.tokens; ++t) sums.finish(t);
}

}  // namespace dettax
