#include "harness/comm/reduce.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "harness/base/error.h"

namespace dettax {
namespace {

constexpr int64_t kTile = 1024;  // floats; with an input's tile beside it well inside L1
constexpr size_t kTreeDepth = 16;

using Tile = std::array<float, kTile>;

void add_to(float* __restrict to, const float* __restrict from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] += from[i];
}

void add_two(float* __restrict to, const float* __restrict a, const float* __restrict b,
             int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = a[i] + b[i];
}

void write(std::span<float* const> outputs, const Tile& tile, int64_t begin, int64_t count) {
  for (float* output : outputs) {
    std::memcpy(output + begin, tile.data(), static_cast<size_t>(count) * sizeof(float));
  }
}

// The sum of a power of two of inputs, or of the rest behind the last such group, into
// tiles[level].
void tree_tile(std::span<const float* const> inputs, int64_t begin, int64_t count,
               std::span<Tile> tiles) {
  if (inputs.size() == 1) {
    std::memcpy(tiles[0].data(), inputs[0] + begin, static_cast<size_t>(count) * sizeof(float));
    return;
  }
  if (inputs.size() == 2) {
    add_two(tiles[0].data(), inputs[0] + begin, inputs[1] + begin, count);
    return;
  }
  size_t half = 1;
  while (half * 2 < inputs.size()) half *= 2;
  tree_tile(inputs.first(half), begin, count, tiles);
  tree_tile(inputs.subspan(half), begin, count, tiles.subspan(1));
  add_to(tiles[0].data(), tiles[1].data(), count);
}

}  // namespace

void sum_in_sequence(std::span<const float* const> inputs, std::span<float* const> outputs,
                     int64_t count) {
  Tile sum;
  for (int64_t at = 0; at < count; at += kTile) {
    const int64_t size = std::min(kTile, count - at);
    if (inputs.size() == 1) {
      std::memcpy(sum.data(), inputs[0] + at, static_cast<size_t>(size) * sizeof(float));
    } else {
      add_two(sum.data(), inputs[0] + at, inputs[1] + at, size);
    }
    for (size_t i = 2; i < inputs.size(); ++i) add_to(sum.data(), inputs[i] + at, size);
    write(outputs, sum, at, size);
  }
}

void sum_as_tree(std::span<const float* const> inputs, std::span<float* const> outputs,
                 int64_t count) {
  if (inputs.size() > size_t{1} << (kTreeDepth - 1))
    throw Error(ErrorKind::unsupported, "too many ranks for one reduction tree");
  std::array<Tile, kTreeDepth> tiles;
  for (int64_t at = 0; at < count; at += kTile) {
    const int64_t size = std::min(kTile, count - at);
    tree_tile(inputs, at, size, tiles);
    write(outputs, tiles[0], at, size);
  }
}

}  // namespace dettax
