// The fingerprint of harness/base/fingerprint.h, the same number as on a CPU: sums of integers have no order, so that atomics are right
// in every mode. A thread has four neighbours at a time: 16 bytes of f32.

#include "harness/base/fingerprint.h"
#include "harness/device/checks.h"
#include "harness/device/cuda/launch.cuh"

namespace dettax {
namespace {

constexpr int kPositions = 4;  // of a thread
static_assert(kThreads * kPositions == static_cast<int>(kFingerprintBlock));

struct RowsToMix {
  int64_t rows, columns;
  uint64_t first_index, stride;
};

__device__ int64_t turns_of_row(int64_t columns) {
  constexpr auto kBlock = static_cast<int64_t>(kFingerprintBlock);
  return (columns + kBlock - 1) / kBlock;
}

__device__ void mix(uint32_t bits, uint64_t key, uint64_t* lanes) {
  const uint32_t a = static_cast<uint32_t>(key);
  const uint32_t b = static_cast<uint32_t>(key >> 32U);
  const uint64_t h = uint64_t{bits ^ a} * b;
  const uint64_t g = uint64_t{bits + a} * (bits ^ b);
  lanes[0] += h ^ (h >> 32U);
  lanes[1] += g ^ (h >> 32U);
}

__device__ unsigned long long warp_total(unsigned long long value) {
  for (int apart = 1; apart < 32; apart *= 2) value += __shfl_xor_sync(kWholeWarp, value, apart);
  return value;
}

// T: an unsigned integer as wide as an element. kWhole: rows lie on 16 bytes.
template <class T, bool kWhole>
__global__ void mix_rows(unsigned long long* to, const T* data, RowsToMix a) {
  uint64_t sums[2] = {0, 0};
  const int64_t turns = turns_of_row(a.columns);
  for (int64_t turn = block_index(); turn < a.rows * turns; turn += grid_blocks()) {
    const int64_t row = turn / turns;
    const int64_t begin = turn % turns * static_cast<int64_t>(kFingerprintBlock) +
                          int64_t{thread_index()} * kPositions;
    const int64_t count = a.columns - begin < kPositions ? a.columns - begin : kPositions;
    if (count <= 0) continue;
    const T* from = data + row * a.columns + begin;
    const uint64_t index =
        a.first_index + static_cast<uint64_t>(row) * a.stride + static_cast<uint64_t>(begin);
    Pack<T, kPositions> pack;
    if (kWhole && count == kPositions) {
      pack = load_pack<kPositions>(from);
    } else {
      for (int k = 0; k < kPositions; ++k) pack.at[k] = k < count ? from[k] : T{0};
    }
    const uint64_t block = index / kFingerprintBlock;
    uint64_t of_block = fingerprint_block_key(block);
    for (int k = 0; k < kPositions; ++k) {
      if (k >= count) break;
      const uint64_t at = index + static_cast<uint64_t>(k);
      if (k > 0 && at % kFingerprintBlock == 0) of_block = fingerprint_block_key(block + 1);
      mix(pack.at[k], fingerprint_position_key(at % kFingerprintBlock) ^ of_block, sums);
    }
  }
  for (int lane = 0; lane < 2; ++lane) {
    const unsigned long long total = warp_total(sums[lane]);
    if (lane_index() == 0) atomicAdd(to + lane, total);
  }
}

template <class T>
__global__ void look_for_not_finite(uint32_t* found, const T* data, int64_t count, T exponent) {
  bool bad = false;
  for (int64_t i = grid_thread(); i < count; i += grid_threads()) {
    bad = bad || (data[i] & exponent) == exponent;
  }
  if (bad) atomicOr(found, 1U);
}

}  // namespace

void CudaKernels::add_fingerprint(uint64_t* lanes, const Tensor& tensor, uint64_t first_index,
                                  uint64_t stride) {
  const RowsToMix rows{tensor.rows(), tensor.columns(), first_index, stride};
  if (tensor.count() == 0) return;
  auto* to = reinterpret_cast<unsigned long long*>(lanes);
  const int64_t blocks = std::min<int64_t>(
      rows.rows * blocks_for(rows.columns, static_cast<int64_t>(kFingerprintBlock)),
      int64_t{8} * place_.multiprocessors);
  const auto run = [&](auto element) {
    using T = decltype(element);
    const bool whole = aligned({tensor.data}) && rows.columns % kPositions == 0;
    launch(place_.stream, {blocks}, whole ? mix_rows<T, true> : mix_rows<T, false>, to,
           static_cast<const T*>(tensor.data), rows);
  };
  if (size_of(tensor.type) == 4) {
    run(uint32_t{});
  } else {
    run(uint16_t{});
  }
}

void CudaKernels::find_not_finite(uint32_t* found, const Tensor& tensor) {
  require(tensor.type != DType::i32, "find_not_finite");
  set_bytes(place_.stream, found, 0, sizeof(uint32_t));
  const LaunchShape shape{grid_for(tensor.count(), kThreads, place_.multiprocessors)};
  if (tensor.type == DType::f32) {
    launch(place_.stream, shape, look_for_not_finite<uint32_t>, found,
           static_cast<const uint32_t*>(tensor.data), tensor.count(), 0x7F800000U);
  } else {
    launch(place_.stream, shape, look_for_not_finite<uint16_t>, found,
           static_cast<const uint16_t*>(tensor.data), tensor.count(), uint16_t{0x7F80});
  }
}

}  // namespace dettax
