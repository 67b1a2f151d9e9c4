#pragma once

#include <array>
#include <cstdint>

namespace dettax {

// Counter-based random numbers (Philox 4x32-10, from Random123): a value depends on the key and the counter alone, never on which
// thread or rank asks, or on how many were drawn before. Every use has a purpose of its own, so that streams never overlap.
enum class RandomPurpose : uint32_t { init = 1, data = 2, dropout = 3, schedule = 4, test = 5 };

struct RandomKey {
  uint64_t seed = 0;
  RandomPurpose purpose = RandomPurpose::test;
  uint32_t stream = 0;  // e.g. a parameter or a layer
};

// Four independent 32-bit words for counter (high, low).
std::array<uint32_t, 4> random_words(const RandomKey& key, uint64_t high, uint64_t low);

// Uniform in (0, 1): never 0, never 1.
double uniform(uint32_t word);
// Standard normal from two words (Box-Muller).
double normal(uint32_t word0, uint32_t word1);

}  // namespace dettax
