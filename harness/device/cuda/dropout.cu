// Dropout: element e of the global batch takes word e % 4 of Philox 4x32-10 (Salmon et al., SC 2011) at counter (step, e / 4), as
// random_words() does, so that the mask is the CPU's. A thread makes the four words of a counter and drops those of its elements that
// are here.

#include <algorithm>

#include "harness/base/random.h"
#include "harness/device/checks.h"
#include "harness/device/cuda/launch.cuh"

namespace dettax {
namespace {

struct Words {
  uint32_t at[4];
};

struct DropoutMask {
  uint32_t key[2];
  uint64_t step;
  uint32_t threshold;
  float factor;  // of kept elements

  __device__ Words words(uint64_t block) const {
    Words c{{static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32U),
             static_cast<uint32_t>(step), static_cast<uint32_t>(step >> 32U)}};
    uint32_t key0 = key[0];
    uint32_t key1 = key[1];
#pragma unroll
    for (int round = 0; round < 10; ++round) {
      constexpr uint32_t kFirst = 0xD2511F53U;
      constexpr uint32_t kSecond = 0xCD9E8D57U;
      c = {{__umulhi(kSecond, c.at[2]) ^ c.at[1] ^ key0, kSecond * c.at[2],
            __umulhi(kFirst, c.at[0]) ^ c.at[3] ^ key1, kFirst * c.at[0]}};
      key0 += 0x9E3779B9U;
      key1 += 0xBB67AE85U;
    }
    return c;
  }
};

// Counters [first / 4, ...]: `first` is the index of element 0 in the global batch. kWhole: it is a multiple of four.
template <class T, bool kWhole>
__global__ void drop(T* y, const T* x, int64_t count, uint64_t first, DropoutMask mask) {
  const auto lead = static_cast<int64_t>(first % 4);
  const int64_t counters = (count + lead + 3) / 4;
  for (int64_t i = grid_thread(); i < counters; i += grid_threads()) {
    const Words words = mask.words(first / 4 + static_cast<uint64_t>(i));
    const int64_t at = 4 * i - lead;
    if (kWhole && at + 4 <= count) {
      auto values = load<4>(x + at);
      for (int k = 0; k < 4; ++k) {
        values.at[k] = words.at[k] >= mask.threshold ? values.at[k] * mask.factor : 0.0f;
      }
      store(y + at, values);
      continue;
    }
    for (int k = 0; k < 4; ++k) {
      if (at + k < 0 || at + k >= count) continue;
      const float value = to_float(x[at + k]);
      y[at + k] = stored<T>(words.at[k] >= mask.threshold ? value * mask.factor : 0.0f);
    }
  }
}

}  // namespace

void CudaKernels::dropout(const Dropout& call) {
  require(call.x.count() == call.y.count() && call.x.type == call.y.type && call.probability >= 0 &&
              call.probability < 1,
          "dropout");
  if (call.probability == 0) {
    if (call.x.data != call.y.data) copy(call.y, call.x);
    return;
  }
  const auto key = philox_key(call.key);
  const DropoutMask mask{{key[0], key[1]},
                         call.step,
                         static_cast<uint32_t>(std::min(call.probability * 0x1p32, 0x1p32 - 1)),
                         static_cast<float>(1 / (1 - call.probability))};
  const int64_t count = call.x.count();
  const bool whole = call.first_element % 4 == 0 && aligned({call.x.data, call.y.data});
  by_type(call.x.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch(place_.stream, {grid_for(count, int64_t{4} * kThreads, place_.multiprocessors)},
           whole ? drop<T, true> : drop<T, false>, data_of<T>(call.y), data_of<T>(call.x), count,
           call.first_element, mask);
  });
}

}  // namespace dettax
