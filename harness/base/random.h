#pragma once

#include <array>
#include <cstdint>

namespace dettax {

// Counter-based random numbers (Philox 4x32-10, from Random123): a value depends on the key and the
// counter alone, never on which thread or rank asks, or on how many were drawn before. Every use
// has a purpose of its own, so that streams never overlap.
enum class RandomPurpose : uint32_t {
  init = 1,
  data = 2,
  dropout = 3,
  schedule = 4,
  test = 5,
  analysis = 6
};

struct RandomKey {
  uint64_t seed = 0;
  RandomPurpose purpose = RandomPurpose::test;
  uint32_t stream = 0;  // e.g. a parameter or a layer
};

// Four independent 32-bit words for counter (high, low): philox({low, high}, philox_key(key)), each
// 64-bit half with its lower word first.
std::array<uint32_t, 4> random_words(const RandomKey& key, uint64_t high, uint64_t low);

// The two parts of random_words, for kernels that compute Philox themselves and must give the same
// words. philox_key: words 0 and 1 of philox({purpose, stream, 0, 0}, {lower, upper half of seed}).
std::array<uint32_t, 2> philox_key(const RandomKey& key);
std::array<uint32_t, 4> philox(const std::array<uint32_t, 4>& counter,
                               const std::array<uint32_t, 2>& key);

// Uniform in (0, 1): never 0, never 1.
double uniform(uint32_t word);
// Standard normal from two words (Box-Muller). Uses no function of libm but sqrt, so that the bits
// are the same with every C library and on every machine.
double normal(uint32_t word0, uint32_t word1);

}  // namespace dettax
