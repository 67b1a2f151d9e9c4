#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/comm/communicator.h"
#include "tests/comm/exact_sums.h"

namespace dettax {
namespace {

using testing_support::integers;
using testing_support::kOrders;
using testing_support::sum_at;

class EveryGroup : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, EveryGroup, testing::Values(1, 2, 3, 4, 5, 8));

TEST_P(EveryGroup, AllReduceGivesTheExactSumOnEveryRank) {
  const int ranks = GetParam();
  std::atomic<int64_t> wrong{0};
  run_ranks(ranks, false, [&](Communicator& communicator) {
    for (const Order order : kOrders) {
      for (const int64_t count : {0, 1, 15, 17, 1000, 50001}) {
        std::vector<float> values = integers(communicator.rank(), count);
        communicator.all_reduce(values.data(), count, order);
        for (int64_t i = 0; i < count; ++i)
          wrong += values[static_cast<size_t>(i)] != sum_at(ranks, i);
      }
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST_P(EveryGroup, ReduceScatterGivesEachRankItsPart) {
  const int ranks = GetParam();
  std::atomic<int64_t> wrong{0};
  run_ranks(ranks, false, [&](Communicator& communicator) {
    for (const Order order : kOrders) {
      const int64_t count = 1237;
      const std::vector<float> in = integers(communicator.rank(), count * ranks);
      std::vector<float> out(static_cast<size_t>(count), -1.0F);
      communicator.reduce_scatter(in.data(), out.data(), count, order);
      for (int64_t i = 0; i < count; ++i) {
        wrong += out[static_cast<size_t>(i)] != sum_at(ranks, communicator.rank() * count + i);
      }
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST_P(EveryGroup, GatherBroadcastAndAllToAllPutEveryPartInItsPlace) {
  const int ranks = GetParam();
  std::atomic<int> wrong{0};
  run_ranks(ranks, false, [&](Communicator& communicator) {
    const int rank = communicator.rank();
    std::vector<int> gathered(static_cast<size_t>(ranks));
    communicator.all_gather(&rank, gathered.data(), sizeof(int));
    std::vector<int> in(static_cast<size_t>(ranks));
    std::vector<int> out(static_cast<size_t>(ranks));
    for (int p = 0; p < ranks; ++p) in[static_cast<size_t>(p)] = 100 * rank + p;
    communicator.all_to_all(in.data(), out.data(), sizeof(int));
    for (int p = 0; p < ranks; ++p) {
      wrong += gathered[static_cast<size_t>(p)] != p;
      wrong += out[static_cast<size_t>(p)] != 100 * p + rank;
    }
    for (int root = 0; root < ranks; ++root) {
      int value = 10 + rank;
      communicator.broadcast(&value, sizeof(value), root);
      wrong += value != 10 + root;
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST_P(EveryGroup, MessagesArriveInTheOrderInWhichTheyWereSent) {
  const int ranks = GetParam();
  std::atomic<int> wrong{0};
  run_ranks(ranks, false, [&](Communicator& communicator) {
    const int next = (communicator.rank() + 1) % ranks;
    const int previous = (communicator.rank() + ranks - 1) % ranks;
    for (int i = 0; i < 50; ++i) {
      const int sent = 1000 * communicator.rank() + i;
      communicator.send(&sent, sizeof(sent), next);
      int received = -1;
      communicator.receive(&received, sizeof(received), previous);
      wrong += received != 1000 * previous + i;
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST_P(EveryGroup, SplitMakesGroupsByColourInOrderOfTheKey) {
  const int ranks = GetParam();
  std::atomic<int> wrong{0};
  run_ranks(ranks, false, [&](Communicator& communicator) {
    const int rank = communicator.rank();
    const auto group = communicator.split(rank % 2, -rank);
    const int members = (ranks + 1 - rank % 2) / 2;
    wrong += group->size() != members;
    wrong += group->rank() != members - 1 - rank / 2;  // the key turns the order round
    float sum = static_cast<float>(rank);
    group->all_reduce(&sum, 1, Order::ordered);
    float expected = 0;
    for (int r = rank % 2; r < ranks; r += 2) expected += static_cast<float>(r);
    wrong += sum != expected;
  });
  EXPECT_EQ(wrong, 0);
}

// {1e8, 1, -1e8, 1} sums to 0, 1 or 2 in fp32, by the order. Every element has the four values on
// other ranks.
std::multiset<float> sums_of_cancelling_values(Order order) {
  constexpr std::array<float, 4> kValues{1e8F, 1.0F, -1e8F, 1.0F};
  std::multiset<float> sums;
  run_ranks(4, false, [&](Communicator& communicator) {
    std::vector<float> values(4096, kValues[static_cast<size_t>(communicator.rank())]);
    communicator.all_reduce(values.data(), 4096, order);
    if (communicator.rank() == 0) sums.insert(values.begin(), values.end());
  });
  return sums;
}

TEST(ReductionOrder, OrderedAlwaysAddsInRankOrder) {
  for (int i = 0; i < 50; ++i)
    EXPECT_EQ(sums_of_cancelling_values(Order::ordered).count(1.0F), 4096U);
}

TEST(ReductionOrder, InvariantAlwaysAddsAsATree) {
  for (int i = 0; i < 50; ++i)
    EXPECT_EQ(sums_of_cancelling_values(Order::invariant).count(0.0F), 4096U);
}

TEST(ReductionOrder, ArrivalGivesSeveralSums) {
  std::set<float> seen;
  for (int i = 0; i < 2000 && seen.size() < 2; ++i) {
    for (const float sum : sums_of_cancelling_values(Order::arrival)) seen.insert(sum);
  }
  EXPECT_GE(seen.size(), 2U);
  for (const float sum : seen) EXPECT_TRUE(sum == 0 || sum == 1 || sum == 2) << sum;
}

// The rank that comes last is added last, whichever it is.
TEST(ReductionOrder, ArrivalFollowsTheClock) {
  constexpr std::array<float, 3> kValues{1e8F, -1e8F, 1.0F};
  for (int late = 0; late < 3; ++late) {
    run_ranks(3, false, [&](Communicator& communicator) {
      if (communicator.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(100));
      float sum = kValues[static_cast<size_t>(communicator.rank())];
      communicator.all_reduce(&sum, 1, Order::arrival);
      EXPECT_EQ(sum, late == 2 ? 1.0F : 0.0F);
    });
  }
}

TEST(ReductionOrder, TheTreeOfTwoHalvesIsTheTreeOfAll) {
  std::array<float, 2> whole{};
  const auto value = [](int index) { return 1.0F / static_cast<float>(3 + index * index); };
  run_ranks(8, false, [&](Communicator& communicator) {
    float sum = value(communicator.rank());
    communicator.all_reduce(&sum, 1, Order::invariant);
    if (communicator.rank() == 0) whole[0] = sum;
  });
  run_ranks(4, false, [&](Communicator& communicator) {
    float sum = value(2 * communicator.rank()) + value(2 * communicator.rank() + 1);
    communicator.all_reduce(&sum, 1, Order::invariant);
    if (communicator.rank() == 0) whole[1] = sum;
  });
  EXPECT_EQ(whole[0], whole[1]);
}

std::string failure_of(int ranks, const std::function<void(Communicator&)>& body) {
  try {
    run_ranks(ranks, false, body);
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(Abort, ARankThatFailsEndsTheOthersWhereverTheyWait) {
  for (int kind = 0; kind < 6; ++kind) {
    std::atomic<int> ended{0};
    const std::string failure = failure_of(4, [&](Communicator& communicator) {
      if (communicator.rank() == 2) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        throw Error(ErrorKind::numeric, "loss is NaN");
      }
      try {
        std::vector<float> values(100000, 1.0F);
        if (kind < 3)
          communicator.all_reduce(values.data(), 100000, kOrders[static_cast<size_t>(kind)]);
        if (kind == 3) communicator.receive(values.data(), 4, 2);
        if (kind == 4) communicator.barrier();
        if (kind == 5) {
          for (;;) communicator.send(values.data(), 4, 2);
        }
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::infrastructure);
        EXPECT_EQ(std::string(error.what()), "rank 2: loss is NaN");
        ++ended;
        throw;
      }
    });
    EXPECT_EQ(failure, "rank 2: loss is NaN");
    EXPECT_EQ(ended, 3);
  }
}

TEST(Abort, ReachesRanksThatWaitInAGroupMadeBySplit) {
  EXPECT_EQ(failure_of(4,
                       [](Communicator& communicator) {
                         const auto group = communicator.split(0, communicator.rank());
                         if (communicator.rank() == 3) throw std::runtime_error("disk full");
                         group->barrier();
                       }),
            "rank 3: disk full");
}

TEST(Abort, EndsTheNextCallToo) {
  const auto communicators = make_thread_communicators(2, false);
  communicators[0]->abort("rank 0 is gone");
  float value = 0;
  EXPECT_THROW(communicators[1]->all_reduce(&value, 1, Order::ordered), Error);
  EXPECT_THROW(communicators[1]->all_reduce(&value, 1, Order::arrival), Error);
  EXPECT_THROW(communicators[1]->send(&value, 4, 0), Error);
  EXPECT_THROW(communicators[1]->split(0, 0), Error);
}

TEST(Abort, DifferentSizesOfOneCollectiveAreAnError) {
  EXPECT_NE(failure_of(2,
                       [](Communicator& communicator) {
                         std::vector<float> values(10);
                         communicator.all_reduce(values.data(), 5 + communicator.rank(),
                                                 Order::ordered);
                       })
                .find("different sizes"),
            std::string::npos);
}

TEST(Stats, CountCallsAndPayload) {
  run_ranks(2, true, [](Communicator& communicator) {
    std::vector<float> values(10);
    communicator.all_reduce(values.data(), 10, Order::ordered);
    communicator.all_reduce(values.data(), 10, Order::arrival);
    EXPECT_EQ(communicator.stats().calls, 2);
    EXPECT_EQ(communicator.stats().bytes, 80);
    EXPECT_GT(communicator.stats().time_ns, 0);
  });
}

}  // namespace
}  // namespace dettax
