// Dropout. Element e of the global batch takes word e % 4 of Philox 4x32-10 at counter (step, e /
// 4): the words of random_words(), computed here on vectors because a call for every four elements
// would cost more than all the rest. An element is kept if its word is at least p * 2^32.

#include <algorithm>
#include <cmath>

#include "harness/base/random.h"
#include "harness/device/checks.h"
#include "harness/device/cpu/cpu_ops.h"
#include "harness/device/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "harness/device/cpu/dropout.cpp"
#include "hwy/foreach_target.h"
//
#include "harness/device/cpu/lanes-inl.h"

#ifndef DETTAX_CPU_DROPOUT_TYPES
#define DETTAX_CPU_DROPOUT_TYPES
namespace dettax {
namespace {
struct DropoutRule {
  uint32_t key[2];
  uint64_t step;
  uint32_t threshold;
  float factor;  // of kept elements
};
}  // namespace
}  // namespace dettax
#endif

HWY_BEFORE_NAMESPACE();
namespace dettax {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET != HWY_SCALAR

using WideTag = hn::CappedTag<uint64_t, 8>;
using WideVector = hn::Vec<WideTag>;

// One Philox multiplication: both halves of factor * word, the word in the lower half of each lane.
// The upper halves of lanes are never read, so they may hold anything.
struct Product {
  WideVector low, high;
};
HWY_INLINE Product multiply(uint32_t factor, WideVector word) {
  const WideTag d;
  const hn::Repartition<uint32_t, WideTag> narrow;
  const auto product =
      hn::MulEven(hn::BitCast(narrow, word), hn::BitCast(narrow, hn::Set(d, uint64_t{factor})));
  return {product, hn::ShiftRight<32>(product)};
}

// The words of one counter a lane: four vectors.
struct Words {
  WideVector word[4];
};
HWY_INLINE Words philox_lanes(WideVector block, const DropoutRule& rule) {
  const WideTag d;
  const uint64_t low_half = 0xFFFFFFFFU;
  Words c{{block, hn::ShiftRight<32>(block), hn::Set(d, rule.step & low_half),
           hn::Set(d, rule.step >> 32U)}};
  uint32_t key0 = rule.key[0];
  uint32_t key1 = rule.key[1];
  for (int round = 0; round < 10; ++round) {
    const Product a = multiply(0xD2511F53U, c.word[0]);
    const Product b = multiply(0xCD9E8D57U, c.word[2]);
    c = {{hn::Xor(hn::Xor(b.high, c.word[1]), hn::Set(d, uint64_t{key0})), b.low,
          hn::Xor(hn::Xor(a.high, c.word[3]), hn::Set(d, uint64_t{key1})), a.low}};
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return c;
}

// Two words side by side in each lane: elements 4 c + 0, 4 c + 1 or 4 c + 2, 4 c + 3.
HWY_INLINE WideVector side_by_side(WideVector even, WideVector odd) {
  return hn::Or(hn::And(even, hn::Set(WideTag(), uint64_t{0xFFFFFFFFU})), hn::ShiftLeft<32>(odd));
}

HWY_INLINE void drop_vector(float* y, const float* x, WideVector words, const DropoutRule& rule) {
  const hn::Repartition<uint32_t, WideTag> du;
  const hn::Repartition<float, WideTag> df;
  const auto dropped = hn::Lt(hn::BitCast(du, words), hn::Set(du, rule.threshold));
  const auto scaled = hn::Mul(hn::LoadU(df, x), hn::Set(df, rule.factor));
  hn::StoreU(hn::IfThenZeroElse(hn::RebindMask(df, dropped), scaled), df, y);
}

// As many whole groups as fit `blocks` counters from `block` on; returns how many it did. Lanes 2 i
// and 2 i + 1 hold counters i and i + n/2 of a group of n, so that interleaving 128-bit blocks of
// the two halves of the words gives elements in order.
size_t drop_blocks(float* y, const float* x, uint64_t block, size_t blocks,
                   const DropoutRule& rule) {
  const WideTag d;
  constexpr size_t kCounters = hn::MaxLanes(WideTag());
  uint64_t offsets[kCounters];
  for (size_t i = 0; i < kCounters; ++i) offsets[i] = i / 2 + (i % 2) * (kCounters / 2);
  const auto offset = hn::LoadU(d, offsets);
  size_t done = 0;
  for (; done + kCounters <= blocks; done += kCounters) {
    const Words w = philox_lanes(hn::Add(hn::Set(d, block + done), offset), rule);
    const auto first = side_by_side(w.word[0], w.word[1]);
    const auto second = side_by_side(w.word[2], w.word[3]);
    const size_t at = 4 * done;
    drop_vector(y + at, x + at, hn::InterleaveLower(d, first, second), rule);
    drop_vector(y + at + 2 * kCounters, x + at + 2 * kCounters,
                hn::InterleaveUpper(d, first, second), rule);
  }
  return done;
}

#else

size_t drop_blocks(float*, const float*, uint64_t, size_t, const DropoutRule&) { return 0; }

#endif

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace dettax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dettax {
namespace {

HWY_EXPORT(drop_blocks);

// The same one element at a time: for the ends of a range that are no whole groups.
void drop_elements(float* y, const float* x, uint64_t element, int64_t count,
                   const DropoutRule& rule) {
  for (int64_t i = 0; i < count; ++i, ++element) {
    const uint64_t block = element / 4;
    const auto words =
        philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32U),
                static_cast<uint32_t>(rule.step), static_cast<uint32_t>(rule.step >> 32U)},
               {rule.key[0], rule.key[1]});
    y[i] = words[element % 4] >= rule.threshold ? x[i] * rule.factor : 0.0f;
  }
}

void drop_range(float* y, const float* x, uint64_t element, int64_t count,
                const DropoutRule& rule) {
  const int64_t head = std::min(count, static_cast<int64_t>((4 - element % 4) % 4));
  drop_elements(y, x, element, head, rule);
  const auto blocks = static_cast<size_t>((count - head) / 4);
  const auto kernel = HWY_DYNAMIC_DISPATCH(drop_blocks);
  const size_t done =
      kernel(y + head, x + head, (element + static_cast<uint64_t>(head)) / 4, blocks, rule);
  const int64_t at = head + static_cast<int64_t>(4 * done);
  drop_elements(y + at, x + at, element + static_cast<uint64_t>(at), count - at, rule);
}

}  // namespace

void CpuOps::dropout(const Dropout& call) {
  require(call.x.count() == call.y.count() && call.probability >= 0 && call.probability < 1,
          "dropout");
  if (call.probability == 0) {
    if (call.x.data != call.y.data) copy(call.y, call.x);
    return;
  }
  const auto key = philox_key(call.key);
  const DropoutRule rule{{key[0], key[1]},
                         call.step,
                         static_cast<uint32_t>(std::min(call.probability * 0x1p32, 0x1p32 - 1)),
                         static_cast<float>(1 / (1 - call.probability))};
  float* y = call.y.f32();
  const float* x = call.x.f32();
  team_.parallel_for(call.x.count(), 4096, false, [&](int64_t begin, int64_t end, int) {
    drop_range(y + begin, x + begin, call.first_element + static_cast<uint64_t>(begin), end - begin,
               rule);
  });
}

}  // namespace dettax
#endif
