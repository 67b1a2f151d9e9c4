#include <algorithm>
#include <array>
#include <string_view>

#include "harness/base/random.h"
#include "harness/train/parameters.h"

namespace dettax {
namespace {

// FNV-1a: the stream of a parameter's random numbers is its name's, so that adding a parameter leaves the others as they were.
uint32_t stream_of(std::string_view name) {
  uint32_t hash = 2166136261U;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash;
}

float* normal_values(const ParameterSpec& spec, uint64_t seed, int64_t begin, int64_t end,
                     float* out) {
  const auto key = philox_key({seed, RandomPurpose::init, stream_of(spec.name)});
  std::array<uint32_t, 4> words{};
  for (int64_t i = begin; i < end; ++i) {
    const auto block = static_cast<uint64_t>(i) / 2;  // each gives two values
    const bool even = i % 2 == 0;
    if (even || i == begin) {
      words = philox(
          {static_cast<uint32_t>(block & 0xFFFFFFFFU), static_cast<uint32_t>(block >> 32U), 0, 0},
          key);
    }
    *out++ = static_cast<float>(spec.deviation *
                                (even ? normal(words[0], words[1]) : normal(words[2], words[3])));
  }
  return out;
}

}  // namespace

void initial_values(const ParameterSpec& spec, uint64_t seed, int64_t begin, int64_t end,
                    float* values) {
  if (!spec.matrix) {
    std::fill(values, values + (end - begin), spec.constant);
    return;
  }
  const int64_t filled = std::clamp(spec.initialised_rows * spec.whole_columns, begin, end);
  float* rest = normal_values(spec, seed, begin, filled, values);
  std::fill(rest, values + (end - begin), 0.0F);
}

}  // namespace dettax
