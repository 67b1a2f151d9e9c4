#include "harness/base/fingerprint.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "harness/base/error.h"

namespace dettax {
namespace {

using Digest = std::function<Fingerprint(const void*, size_t, size_t, uint64_t)>;
using Words = std::vector<uint32_t>;

// What looks like a fingerprint and is none: it forgets where an element stood.
Fingerprint plain_sum(const void* data, size_t count, size_t element_bytes, uint64_t) {
  Fingerprint sum;
  for (size_t i = 0; i < count; ++i) {
    uint64_t word = 0;
    std::memcpy(&word, static_cast<const char*>(data) + i * element_bytes, element_bytes);
    sum += {word, word * word};
  }
  return sum;
}

// One that keys by position, but whose mix is linear: pairs of changes cancel.
Fingerprint linear_mix(const void* data, size_t count, size_t element_bytes, uint64_t first) {
  Fingerprint sum;
  for (size_t i = 0; i < count; ++i) {
    uint64_t word = 0;
    std::memcpy(&word, static_cast<const char*>(data) + i * element_bytes, element_bytes);
    const uint64_t key = (first + i) * 0x9E3779B97F4A7C15U;
    sum += {(word ^ (key & 0xFFFFFFFFU)) * 0x9E3779B1U, (word ^ (key >> 32U)) * 0x85EBCA77U};
  }
  return sum;
}

uint32_t bits(float value) {
  uint32_t word = 0;
  std::memcpy(&word, &value, sizeof word);
  return word;
}

// Tensors as training has them: weights, gradients of small range, small integers, constants, zeros.
std::vector<Words> tensors(std::mt19937& random) {
  constexpr size_t kCount = 64 * 48;
  std::normal_distribution<float> normal(0, 0.02F);
  std::vector<Words> result(5, Words(kCount));
  for (size_t i = 0; i < kCount; ++i) {
    result[0][i] = bits(normal(random));
    result[1][i] = bits(std::ldexp(normal(random), -20));
    result[2][i] = bits(static_cast<float>(random() % 4));
    result[3][i] = bits(1.0F);
    result[4][i] = 0;
  }
  return result;
}

struct Change {
  const char* name;
  std::function<void(Words&, std::mt19937&)> apply;
};

const size_t kRow = 48;

std::vector<Change> changes() {
  const auto at = [](Words& w, std::mt19937& r) -> uint32_t& { return w[r() % w.size()]; };
  return {
      {"one bit", [at](Words& w, std::mt19937& r) { at(w, r) ^= 1U << (r() % 32); }},
      {"last bits of two",
       [at](Words& w, std::mt19937& r) {
         at(w, r) ^= 1U;
         at(w, r) ^= 1U;
       }},
      {"same bit of two",
       [at](Words& w, std::mt19937& r) {
         const uint32_t mask = 1U << (r() % 32);
         at(w, r) ^= mask;
         at(w, r) ^= mask;
       }},
      {"signs of two",
       [at](Words& w, std::mt19937& r) {
         at(w, r) ^= 0x80000000U;
         at(w, r) ^= 0x80000000U;
       }},
      {"signs of four neighbours",
       [](Words& w, std::mt19937& r) {
         const size_t i = r() % (w.size() - 3);
         for (size_t k = 0; k < 4; ++k) w[i + k] ^= 0x80000000U;
       }},
      {"signs of a row",
       [](Words& w, std::mt19937& r) {
         const size_t i = r() % (w.size() / kRow) * kRow;
         for (size_t k = 0; k < kRow; ++k) w[i + k] ^= 0x80000000U;
       }},
      {"swap of two", [at](Words& w, std::mt19937& r) { std::swap(at(w, r), at(w, r)); }},
      {"swap of neighbours",
       [](Words& w, std::mt19937& r) {
         const size_t i = r() % (w.size() - 1);
         std::swap(w[i], w[i + 1]);
       }},
      {"swap of rows",
       [](Words& w, std::mt19937& r) {
         const size_t a = r() % (w.size() / kRow) * kRow, b = r() % (w.size() / kRow) * kRow;
         if (a != b) std::swap_ranges(&w[a], &w[a] + kRow, &w[b]);
       }},
      {"rotation by a row",
       [](Words& w, std::mt19937& r) {
         std::rotate(w.begin(), w.begin() + static_cast<long>(kRow * (1 + r() % 5)), w.end());
       }},
      {"one up, one down by an ulp",
       [at](Words& w, std::mt19937& r) {
         at(w, r) += 1;
         at(w, r) -= 1;
       }},
      {"same bit at the corners of a rectangle of blocks",
       [](Words& w, std::mt19937& r) {
         const size_t i = r() % kFingerprintBlock, j = r() % kFingerprintBlock;
         const uint32_t mask = 1U << (r() % 32);
         for (const size_t p : {i, j, i + kFingerprintBlock, j + kFingerprintBlock}) w[p] ^= mask;
       }},
      {"swap of columns in two blocks",
       [](Words& w, std::mt19937& r) {
         const size_t i = r() % kFingerprintBlock, j = r() % kFingerprintBlock;
         std::swap(w[i], w[j]);
         std::swap(w[i + kFingerprintBlock], w[j + kFingerprintBlock]);
       }},
      {"second difference",
       [](Words& w, std::mt19937& r) {
         const size_t d = 1 + r() % 64, i = r() % (w.size() - 2 * d);
         w[i] += 1;
         w[i + d] -= 2;
         w[i + 2 * d] += 1;
       }},
  };
}

// How often a digest missed that the tensor changed.
int misses(const Digest& digest, int repeats) {
  std::mt19937 random(7);
  int missed = 0;
  for (const Words& tensor : tensors(random)) {
    const Fingerprint before = digest(tensor.data(), tensor.size(), 4, 0);
    for (const Change& change : changes()) {
      for (int i = 0; i < repeats; ++i) {
        Words changed = tensor;
        change.apply(changed, random);
        if (changed == tensor) continue;
        if (digest(changed.data(), changed.size(), 4, 0) == before) ++missed;
      }
    }
  }
  return missed;
}

TEST(Fingerprint, SeesEveryChangeOfTheCampaign) { EXPECT_EQ(misses(fingerprint, 3000), 0); }

TEST(Fingerprint, EachLaneAloneSeesEveryChangeOfTheCampaign) {
  const auto lane0 = [](const void* d, size_t n, size_t b, uint64_t f) {
    return Fingerprint{fingerprint(d, n, b, f).lane0, 0};
  };
  const auto lane1 = [](const void* d, size_t n, size_t b, uint64_t f) {
    return Fingerprint{0, fingerprint(d, n, b, f).lane1};
  };
  EXPECT_EQ(misses(lane0, 3000), 0);
  EXPECT_EQ(misses(lane1, 3000), 0);
}

TEST(Fingerprint, TheCampaignCatchesWeakDigests) {
  EXPECT_GT(misses(plain_sum, 20), 0);
  EXPECT_GT(misses(linear_mix, 20), 0);
}

TEST(Fingerprint, VectorsGiveTheScalarDefinition) {
  std::mt19937 random(3);
  std::vector<unsigned char> data(8 * 2500 + 8);
  for (auto& byte : data) byte = static_cast<unsigned char>(random());
  for (const size_t element_bytes : {1U, 2U, 4U, 8U}) {
    for (const size_t count : {0U, 1U, 3U, 15U, 16U, 17U, 31U, 64U, 100U, 257U, 500U, 2500U}) {
      for (const uint64_t first :
           {uint64_t{0}, uint64_t{5}, uint64_t{1000}, uint64_t{0xFFFFFFFF}, uint64_t{1} << 40U}) {
        const unsigned char* start = data.data() + count % 5;  // no alignment is needed
        EXPECT_EQ(fingerprint(start, count, element_bytes, first),
                  fingerprint_scalar(start, count, element_bytes, first))
            << element_bytes << " bytes, " << count << " elements from " << first;
      }
    }
  }
}

TEST(Fingerprint, ShardsAddUpToTheWhole) {
  std::mt19937 random(4);
  std::vector<uint64_t> data(1000);
  for (auto& word : data) word = (uint64_t{random()} << 32U) | random();
  for (const size_t bytes : {1U, 2U, 4U, 8U}) {
    const auto* start = reinterpret_cast<const unsigned char*>(data.data());
    const size_t count = 1000;
    const Fingerprint whole = fingerprint(start, count, bytes);
    for (int repeat = 0; repeat < 50; ++repeat) {
      Fingerprint sum;
      for (size_t at = 0; at < count;) {
        const size_t length = std::min<size_t>(count - at, 1 + random() % 300);
        sum += fingerprint(start + at * bytes, length, bytes, at);
        at += length;
      }
      EXPECT_EQ(sum, whole);
    }
  }
}

TEST(Fingerprint, AShardWithTheWrongIndexDoesNotAddUp) {
  const Words data(64, bits(1.0F));
  Fingerprint sum = fingerprint(data.data(), 32, 4, 0);
  sum += fingerprint(data.data() + 32, 32, 4, 0);
  EXPECT_NE(sum, fingerprint(data.data(), 64, 4, 0));
}

TEST(Fingerprint, TellsZerosAndNansApart) {
  const auto of = [](uint32_t word) { return fingerprint(&word, 1, 4, 9); };
  EXPECT_NE(of(bits(0.0F)), of(bits(-0.0F)));
  EXPECT_NE(of(0x7FC00000U), of(0x7FC00001U));
  EXPECT_NE(of(0x7FC00000U), of(0xFFC00000U));
}

TEST(Fingerprint, ConstantsOfOtherLengthDiffer) {
  const std::vector<float> zeros(3000, 0.0F);
  std::vector<std::string> seen;
  for (size_t count = 0; count <= zeros.size(); ++count) {
    seen.push_back(to_string(fingerprint(zeros.data(), count, 4)));
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end());
}

TEST(Fingerprint, IsInjectiveInOneElement) {
  // 2^20 patterns at one index: no two alike in the first lane.
  std::vector<uint64_t> lanes;
  for (uint32_t word = 0; word < (1U << 20U); ++word) {
    lanes.push_back(fingerprint_element(word * 4099U, 12345).lane0);
  }
  std::sort(lanes.begin(), lanes.end());
  EXPECT_EQ(std::adjacent_find(lanes.begin(), lanes.end()), lanes.end());
}

TEST(Fingerprint, KeepsItsDefinition) {
  // Computed from the definition in the header by other means; recorded ledgers depend on it.
  const std::vector<float> data = {1.0F, -2.5F, 0.0F, 3.25e-7F};
  EXPECT_EQ(to_string(fingerprint(data.data(), 4, 4)), "57768152a837f79f6b76d9b4865bc76e");
  EXPECT_EQ(to_string(fingerprint(data.data(), 4, 4, uint64_t{1} << 33U)),
            "1d940b13ce3a0f0b3debcb8bd488610f");
}

TEST(Fingerprint, TextReadsBack) {
  const Fingerprint value{0x0123456789ABCDEFU, 0x00000000000000FFU};
  EXPECT_EQ(to_string(value), "0123456789abcdef00000000000000ff");
  EXPECT_EQ(parse_fingerprint(to_string(value)), value);
}

TEST(Fingerprint, RefusesTextThatIsNone) {
  for (const char* text :
       {"", "12", "0123456789abcdef00000000000000fg", "0123456789ABCDEF00000000000000ff",
        "0123456789abcdef00000000000000ff0", "-123456789abcdef00000000000000ff"}) {
    EXPECT_THROW(parse_fingerprint(text), Error) << text;
  }
  EXPECT_THROW(fingerprint("abc", 1, 3), Error);
}

}  // namespace
}  // namespace dettax
