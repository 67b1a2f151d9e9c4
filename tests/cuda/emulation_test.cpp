#include <numeric>

#include <gmock/gmock.h>

#include "harness/device/cuda/launch.cuh"
#include "tests/cuda/kernel_fixture.h"

namespace dettax::test {
namespace {

using testing::HasSubstr;

std::string message_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::internal);
    return error.what();
  }
  return "nothing was thrown";
}

void sum_of_block(int* to, int) {
  auto* shared = dynamic_shared<int>();
  shared[thread_index()] = thread_index();
  __syncthreads();
  int total = 0;
  for (int i = 0; i < block_threads(); ++i) total += shared[i];
  to[grid_thread()] = total;
}

TEST(Emulation, ThreadsMeetAtBarriersInEveryOrder) {
  for (const ScheduleSeed seed : {0U, 1U, 2U}) {
    const ScheduleOf schedule(seed);
    std::vector<int> sums(4 * 96);
    launch(nullptr, {4, 96, 96 * sizeof(int)}, sum_of_block, sums.data(), 0);
    for (const int sum : sums) ASSERT_EQ(sum, 95 * 96 / 2);
  }
}

void sum_without_barrier(int* to, int) {
  auto* shared = dynamic_shared<int>();
  shared[thread_index()] = thread_index();
  int total = 0;
  for (int i = 0; i < block_threads(); ++i) total += shared[i] < 0 ? 0 : shared[i];
  to[grid_thread()] = total;
}

TEST(Emulation, AMissingBarrierShowsInTheValues) {
  std::vector<int> sums(64);
  launch(nullptr, {1, 64, 64 * sizeof(int)}, sum_without_barrier, sums.data(), 0);
  EXPECT_NE(sums.front(), 63 * 64 / 2);
}

void exchange_in_warps(uint32_t* to, int) {
  uint32_t* at = to + 4 * grid_thread();
  at[0] = static_cast<uint32_t>(__shfl_xor_sync(kWholeWarp, lane_index(), 5));
  at[1] = static_cast<uint32_t>(__shfl_up_sync(kWholeWarp, lane_index(), 2));
  at[2] = static_cast<uint32_t>(__shfl_sync(kWholeWarp, 100 + lane_index(), 7));
  at[3] = __match_any_sync(kWholeWarp, lane_index() % 3);
}

TEST(Emulation, LanesOfAWarpExchangeValues) {
  std::vector<uint32_t> seen(4 * 64);
  launch(nullptr, {1, 64}, exchange_in_warps, seen.data(), 0);
  for (uint32_t thread = 0; thread < 64; ++thread) {
    const uint32_t lane = thread % 32;
    const uint32_t* at = seen.data() + size_t{4} * thread;
    EXPECT_EQ(at[0], lane ^ 5U);
    EXPECT_EQ(at[1], lane < 2 ? lane : lane - 2);
    EXPECT_EQ(at[2], 107U);
    for (uint32_t other = 0; other < 32; ++other) {
      EXPECT_EQ(at[3] >> other & 1U, static_cast<uint32_t>(other % 3 == lane % 3));
    }
  }
}

void half_waits(int, int) {
  if (thread_index() < 40) __syncthreads();
}
void two_barriers(int, int) {
  if (thread_index() < 32) {  // NOLINT(bugprone-branch-clone): two barriers are not one
    __syncthreads();
  } else {
    __syncthreads();
  }
}
void half_a_warp_exchanges(int, int) {
  if (lane_index() < 16) __shfl_xor_sync(kWholeWarp, 1, 1);
}

TEST(Emulation, WhatADeviceLeavesUndefinedIsAnErrorThatNamesThreadAndLine) {
  const auto run = [](void (*kernel)(int, int)) {
    return message_of([&] { launch(nullptr, {2, 64}, kernel, 0, 0); });
  };
  EXPECT_THAT(run(half_waits), HasSubstr("waits for threads that never come here"));
  EXPECT_THAT(run(half_waits), HasSubstr("emulation_test.cpp:"));
  EXPECT_THAT(run(two_barriers), HasSubstr("a barrier while others wait at another one"));
  EXPECT_THAT(run(half_a_warp_exchanges), HasSubstr("thread 0, "));
  EXPECT_THAT(message_of([] { launch(nullptr, {1, 48}, half_waits, 0, 0); }),
              HasSubstr("beyond a limit"));
  EXPECT_THAT(message_of([] { launch(nullptr, {1, 2048}, half_waits, 0, 0); }),
              HasSubstr("beyond a limit"));
  EXPECT_THAT(message_of([] { launch(nullptr, {1, 32, size_t{228} << 10}, half_waits, 0, 0); }),
              HasSubstr("beyond a limit"));
}

void write_order(std::vector<int64_t>* order, int) {
  if (thread_index() == 0) order->push_back(block_index());
}

TEST(Emulation, ASeedDrawsTheOrderOfBlocks) {
  const auto order = [](ScheduleSeed seed) {
    const ScheduleOf schedule(seed);
    std::vector<int64_t> blocks;
    launch(nullptr, {20, 32}, write_order, &blocks, 0);
    return blocks;
  };
  std::vector<int64_t> in_turn(20);
  std::iota(in_turn.begin(), in_turn.end(), 0);
  EXPECT_EQ(order(0), in_turn);
  EXPECT_NE(order(1), in_turn);
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
}

void tree_of_ones(const float* values, int count, float* to) {
  TreeSum sum;
  for (int i = 0; i < count; ++i) sum.add(values[i]);
  to[thread_index()] = sum.sum();
}

// A tree over eight is the sum of those over four and four; a chain is not.
TEST(TreeSum, OfAWholeIsThatOfItsHalves) {
  const Floats values = cancelling_floats(16, 4);
  Floats sums(32);
  const auto tree = [&](int first, int count) {
    launch(nullptr, {1, 32}, tree_of_ones, values.data() + first, count, sums.data());
    return sums[0];
  };
  EXPECT_EQ(tree(0, 16), tree(0, 8) + tree(8, 8));
  EXPECT_EQ(tree(0, 6), tree(0, 4) + (values[4] + values[5]));
  EXPECT_EQ(tree(0, 1), values[0]);
  // A chain is not: were the tree one, these would be equal as well.
  const auto chain = [&](int first, int count) {
    return std::accumulate(values.begin() + first, values.begin() + first + count, 0.0f);
  };
  EXPECT_NE(chain(0, 16), chain(0, 8) + chain(8, 8));
  EXPECT_NE(chain(0, 6), tree(0, 6));
}

TEST(Divider, IsExactUpToItsLimit) {
  for (const int64_t divisor : {1, 2, 3, 7, 641, 4096, 50257, 2147483647}) {
    const Divider by(divisor);
    for (const int64_t n : {int64_t{0}, divisor - 1, divisor, 2 * divisor - 1, int64_t{0x7FFFFFFF},
                            int64_t{0xFFFFFFFE}, int64_t{0xFFFFFFFF}}) {
      ASSERT_EQ(by.quotient(n), n / divisor) << n << " / " << divisor;
      ASSERT_EQ(by.rest(n), n % divisor);
    }
  }
}

void convert(const float* from, Bf16* to) { to[grid_thread()] = nearest_bf16(from[grid_thread()]); }

TEST(Bf16, IsRoundedAsTheFormatSays) {
  Floats values = random_floats(64, 1, 1e3);
  const Floats special = {0.0f,        -0.0f,      1e-40f,
                          3.4e38f,     -3.4e38f,   std::numeric_limits<float>::infinity(),
                          1.00390625f, 1.01171875f};
  std::copy(special.begin(), special.end(), values.begin());
  std::vector<Bf16> narrow(64);
  launch(nullptr, {1, 64}, convert, values.data(), narrow.data());
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(narrow[i].bits, encode(NumberFormat::bf16, values[i])) << values[i];
  }
}

}  // namespace
}  // namespace dettax::test
