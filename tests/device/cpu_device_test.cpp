#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/device/cpu/memory.h"
#include "harness/device/device.h"

namespace dettax {
namespace {

TEST(CpuDevice, AllocatesAlignedMemoryOfEverySize) {
  const auto device = make_cpu_device(1, false);
  for (size_t bytes :
       {size_t{1}, size_t{4097}, (size_t{4} << 20) - 1, size_t{4} << 20, (size_t{9} << 20) + 5}) {
    const Buffer buffer = device->allocate(bytes);
    EXPECT_EQ(buffer.bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0U);
    std::memset(buffer.data(), 1, bytes);
  }
  EXPECT_EQ(device->allocate(0).bytes(), 0U);
}

TEST(CpuDevice, SaysHowMuchMemoryItCouldNotGet) {
  const auto device = make_cpu_device(1, false);
  for (size_t bytes : {size_t{1} << 60, SIZE_MAX}) {
    try {
      device->allocate(bytes);
      FAIL() << "allocated " << bytes << " bytes";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::infrastructure);
      EXPECT_NE(std::string(error.what()).find(std::to_string(bytes)), std::string::npos)
          << error.what();
    }
  }
}

TEST(CpuDevice, FingerprintIsThatOfTheBitsWhateverTheThreads) {
  std::vector<float> values(300'001);
  std::iota(values.begin(), values.end(), -7.5f);
  const Tensor tensor =
      make_tensor(values.data(), DType::f32, {static_cast<int64_t>(values.size())});
  const Fingerprint right = fingerprint(values.data(), values.size(), 4, 123);
  for (int threads : {1, 2, 3})
    EXPECT_EQ(make_cpu_device(threads, false)->fingerprint(tensor, 123), right);
  std::swap(values[5], values[200'000]);
  EXPECT_FALSE(make_cpu_device(2, false)->fingerprint(tensor, 123) == right);
}

// Parts of many sizes, some of them rows of a wider tensor, one empty.
std::vector<FingerprintPart> many_parts(std::vector<float>& values) {
  std::vector<FingerprintPart> parts;
  int64_t at = 0;
  for (const int64_t count : {1, 70'000, 0, 63, 65, 100'000, 17}) {
    parts.push_back({make_tensor(values.data() + at, DType::f32, {count}), 5, 0});
    at += count;
  }
  parts.push_back({make_tensor(values.data() + at, DType::f32, {333, 300}), 7, 1000});
  return parts;
}

TEST(CpuDevice, FingerprintsOfManyPartsAreThoseOfEach) {
  std::vector<float> values(300'001);
  std::iota(values.begin(), values.end(), -7.5f);
  const auto parts = many_parts(values);
  for (int threads : {1, 2, 3, 7}) {
    const auto device = make_cpu_device(threads, false);
    const std::vector<Fingerprint> found = device->fingerprints(parts);
    ASSERT_EQ(found.size(), parts.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      const FingerprintPart& part = parts[i];
      EXPECT_EQ(found[i],
                part.row_stride == 0
                    ? device->fingerprint(part.tensor, part.first_index)
                    : device->fingerprint_rows(part.tensor, part.first_index, part.row_stride))
          << "part " << i << " on " << threads << " threads";
    }
    EXPECT_TRUE(device->fingerprints({}).empty());
  }
  const std::vector<Fingerprint> before = make_cpu_device(2, false)->fingerprints(parts);
  values[70'000] += 1;
  const std::vector<Fingerprint> after = make_cpu_device(2, false)->fingerprints(parts);
  for (size_t i = 0; i < parts.size(); ++i) EXPECT_EQ(before[i] == after[i], i != 1) << i;
}

TEST(CpuDevice, FingerprintsOfColumnsAddUpToThatOfTheMatrix) {
  constexpr int64_t kRows = 3000, kColumns = 100, kLeft = 37;
  std::vector<float> matrix(kRows * kColumns), left, right;
  std::iota(matrix.begin(), matrix.end(), 0.5f);
  for (int64_t r = 0; r < kRows; ++r) {
    const auto row = matrix.begin() + r * kColumns;
    left.insert(left.end(), row, row + kLeft);
    right.insert(right.end(), row + kLeft, row + kColumns);
  }
  const auto device = make_cpu_device(2, false);
  const auto of = [&](std::vector<float>& part, int64_t first) {
    const int64_t columns = static_cast<int64_t>(part.size()) / kRows;
    return device->fingerprint_rows(make_tensor(part.data(), DType::f32, {kRows, columns}),
                                    static_cast<uint64_t>(first), kColumns);
  };
  Fingerprint sum = of(left, 0);
  sum += of(right, kLeft);
  EXPECT_EQ(sum, fingerprint(matrix.data(), matrix.size(), 4, 0));
  std::swap(left[3], left[4]);
  Fingerprint other = of(left, 0);
  other += of(right, kLeft);
  EXPECT_FALSE(other == sum);
}

TEST(CpuDevice, FindsOneValueThatIsNotFiniteAnywhere) {
  const auto device = make_cpu_device(2, false);
  std::vector<float> values(200'003, std::numeric_limits<float>::max());
  const Tensor tensor =
      make_tensor(values.data(), DType::f32, {static_cast<int64_t>(values.size())});
  EXPECT_TRUE(device->all_finite(tensor));
  for (float bad : {NAN, INFINITY, -INFINITY}) {
    for (size_t at : {size_t{0}, size_t{70'000}, values.size() - 1}) {
      const float old = std::exchange(values[at], bad);
      EXPECT_FALSE(device->all_finite(tensor)) << bad << " at " << at;
      values[at] = old;
    }
  }
}

TEST(CpuDevice, CopiesBothWays) {
  const auto device = make_cpu_device(2, false);
  std::vector<unsigned char> host(700'001), back(host.size());
  for (size_t i = 0; i < host.size(); ++i) host[i] = static_cast<unsigned char>(i * 31);
  const Buffer buffer = device->allocate(host.size());
  device->copy_from_host(buffer.data(), host.data(), host.size());
  device->copy_to_host(back.data(), buffer.data(), host.size());
  EXPECT_EQ(host, back);
}

TEST(CpuDevice, NamesItsThreadsAndInstructionSet) {
  const std::string text = make_cpu_device(3, false)->description();
  EXPECT_NE(text.find("3 threads"), std::string::npos) << text;
  EXPECT_EQ(text.find("Unknown"), std::string::npos) << text;
}

TEST(Scratch, IsReusedAndGrows) {
  Scratch scratch;
  float* first = scratch.floats(1000);
  EXPECT_EQ(scratch.floats(10), first);
  EXPECT_EQ(scratch.bytes(), 4000U);
  scratch.floats(5'000'000)[4'999'999] = 1;
  EXPECT_EQ(scratch.bytes(), 20'000'000U);
}

}  // namespace
}  // namespace dettax
