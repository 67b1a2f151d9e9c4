#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <latch>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/comm/communicator.h"

namespace dettax {
namespace {

void sleep_ms(int time) { std::this_thread::sleep_for(std::chrono::milliseconds(time)); }

std::string failure_of(int ranks, const std::function<void(Communicator&)>& body) {
  try {
    run_ranks(ranks, false, body);
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

class StartedOperations : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, StartedOperations, testing::Values(1, 2, 3, 8));

TEST_P(StartedOperations, GiveWhatTheBlockingOnesGive) {
  const int ranks = GetParam();
  std::atomic<int> wrong{0};
  run_ranks(ranks, false, [&](Communicator& communicator) {
    const int rank = communicator.rank();
    const auto n = static_cast<size_t>(ranks);
    std::vector<float> sum(1000, static_cast<float>(rank + 1));
    const std::vector<float> in(n * 10, static_cast<float>(rank));
    std::vector<float> part(10);
    std::vector<int> gathered(n);
    std::vector<int> outgoing(n);
    std::vector<int> incoming(n);
    std::iota(outgoing.begin(), outgoing.end(), 100 * rank);
    std::vector<Request> requests;
    requests.push_back(communicator.start_all_reduce(sum.data(), 1000, Order::ordered));
    requests.push_back(
        communicator.start_reduce_scatter(in.data(), part.data(), 10, Order::arrival));
    requests.push_back(communicator.start_all_gather(&rank, gathered.data(), sizeof(int)));
    requests.push_back(
        communicator.start_all_to_all(outgoing.data(), incoming.data(), sizeof(int)));
    for (Request& request : requests) request.wait();
    for (const float value : sum) wrong += value != static_cast<float>(ranks * (ranks + 1) / 2);
    for (const float value : part) wrong += value != static_cast<float>(ranks * (ranks - 1) / 2);
    for (int p = 0; p < ranks; ++p) {
      wrong += gathered[static_cast<size_t>(p)] != p;
      wrong += incoming[static_cast<size_t>(p)] != 100 * p + rank;
    }
    EXPECT_EQ(communicator.stats().of(OperationKind::all_reduce).calls, 1);
    EXPECT_EQ(communicator.stats().calls, 4);
  });
  EXPECT_EQ(wrong, 0);
}

TEST_P(StartedOperations, AllToAllTakesPartsOfAnySize) {
  const int ranks = GetParam();
  std::atomic<int> wrong{0};
  run_ranks(ranks, false, [&](Communicator& communicator) {
    const int rank = communicator.rank();
    // Rank r sends r * p bytes of value 16 * r + p to rank p, so rank 0 takes part with nothing.
    std::vector<int64_t> to(static_cast<size_t>(ranks));
    std::vector<int64_t> from(static_cast<size_t>(ranks));
    std::vector<char> in;
    for (int p = 0; p < ranks; ++p) {
      to[static_cast<size_t>(p)] = from[static_cast<size_t>(p)] = rank * p;
      in.insert(in.end(), static_cast<size_t>(rank * p), static_cast<char>(16 * rank + p));
    }
    std::vector<char> out(in.size());
    std::vector<char> again(in.size());
    Request request = communicator.start_all_to_all_v(in.data(), to, again.data(), from);
    communicator.all_to_all_v(in.data(), to, out.data(), from);
    request.wait();
    size_t at = 0;
    for (int p = 0; p < ranks; ++p) {
      for (int i = 0; i < rank * p; ++i) wrong += out[at++] != static_cast<char>(16 * p + rank);
    }
    wrong += out != again;
  });
  EXPECT_EQ(wrong, 0);
}

// As stages of a pipeline or a ring of key-value blocks do it.
TEST_P(StartedOperations, NeighboursThatAllSendFirstDoNotWaitForEachOther) {
  const int ranks = GetParam();
  std::atomic<int> wrong{0};
  run_ranks(ranks, false, [&](Communicator& communicator) {
    const int next = (communicator.rank() + 1) % ranks;
    const int previous = (communicator.rank() + ranks - 1) % ranks;
    constexpr int kMessages = 5;
    std::vector<std::vector<int>> out(kMessages);
    std::vector<std::vector<int>> in(kMessages, std::vector<int>(50000));
    std::vector<Request> requests;
    for (int i = 0; i < kMessages; ++i) {
      auto& message = out[static_cast<size_t>(i)];
      message.assign(50000, 1000 * communicator.rank() + i);
      requests.push_back(communicator.start_send(message.data(), 200000, next));
    }
    for (auto& message : in)
      requests.push_back(communicator.start_receive(message.data(), 200000, previous));
    for (Request& request : requests) request.wait();
    for (int i = 0; i < kMessages; ++i)
      wrong += in[static_cast<size_t>(i)] != std::vector<int>(50000, 1000 * previous + i);
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Overlap, AnOperationGoesOnWhileItsCallerComputes) {
  std::atomic<bool> reduced{false};
  run_ranks(2, false, [&](Communicator& communicator) {
    float value = 1.0F;
    Request request = communicator.start_all_reduce(&value, 1, Order::ordered);
    // Rank 0 does nothing but look; it never calls wait() before the sum is there.
    while (!request.done()) sleep_ms(1);
    request.wait();
    if (value == 2.0F) reduced = true;
  });
  EXPECT_TRUE(reduced);
}

TEST(Overlap, IsSeenAsTimeThatIsNotExposed) {
  run_ranks(2, false, [](Communicator& communicator) {
    if (communicator.rank() == 1) sleep_ms(40);
    float value = 1.0F;
    Request request = communicator.start_all_reduce(&value, 1, Order::ordered);
    if (communicator.rank() == 0) sleep_ms(80);
    request.wait();
    if (communicator.rank() == 1) return;
    const OperationStats stats = communicator.stats().of(OperationKind::all_reduce);
    EXPECT_GE(stats.time_ns, 20'000'000);  // of the 40 ms that the other came late
    EXPECT_LT(stats.exposed_ns, stats.time_ns);
  });
}

TEST(Overlap, GroupsOfASplitDoNotWaitForEachOther) {
  run_ranks(2, false, [](Communicator& communicator) {
    const auto first = communicator.split(0, communicator.rank());
    const auto second = communicator.split(0, communicator.rank());
    // Started crosswise: done one after the other these would wait for ever.
    float a = 1.0F;
    float b = 10.0F;
    const bool swapped = communicator.rank() == 1;
    Request x = (swapped ? second : first)->start_all_reduce(swapped ? &b : &a, 1, Order::ordered);
    sleep_ms(5);
    Request y = (swapped ? first : second)->start_all_reduce(swapped ? &a : &b, 1, Order::ordered);
    y.wait();
    x.wait();
    EXPECT_EQ(a, 2.0F);
    EXPECT_EQ(b, 20.0F);
  });
}

TEST(Overlap, WhatIsCalledComesAfterWhatWasStarted) {
  run_ranks(3, false, [](Communicator& communicator) {
    std::vector<float> large(200000, 1.0F);
    float small = 1.0F;
    Request request = communicator.start_all_reduce(large.data(), 200000, Order::ordered);
    communicator.all_reduce(&small, 1, Order::ordered);
    EXPECT_TRUE(request.done());
    request.wait();
    EXPECT_EQ(small, 3.0F);
    EXPECT_EQ(large.back(), 3.0F);
  });
}

TEST(Overlap, AReceiveThatWasStartedDoesNotHoldUpACollective) {
  run_ranks(2, false, [](Communicator& communicator) {
    float sum = 1.0F;
    if (communicator.rank() == 0) {
      int value = 0;
      Request message = communicator.start_receive(&value, sizeof(value), 1);
      communicator.all_reduce(&sum, 1, Order::ordered);
      message.wait();
      EXPECT_EQ(value, 7);
    } else {
      communicator.all_reduce(&sum, 1, Order::ordered);
      const int value = 7;
      communicator.send(&value, sizeof(value), 0);
    }
    EXPECT_EQ(sum, 2.0F);
  });
}

TEST(StartedAbort, EndsEveryWait) {
  for (int kind = 0; kind < 3; ++kind) {
    std::atomic<int> ended{0};
    const std::string failure = failure_of(3, [&](Communicator& communicator) {
      if (communicator.rank() == 2) {
        sleep_ms(10);
        throw Error(ErrorKind::numeric, "loss is NaN");
      }
      std::vector<float> values(1000, 1.0F);
      std::vector<Request> requests;
      if (kind == 0) {
        for (int i = 0; i < 3; ++i)
          requests.push_back(
              communicator.start_all_reduce(values.data() + 100 * i, 100, Order::arrival));
      }
      if (kind == 1) requests.push_back(communicator.start_receive(values.data(), 4, 2));
      if (kind == 2) requests.push_back(communicator.start_send(values.data(), 4, 2));
      for (Request& request : requests) {
        try {
          request.wait();
        } catch (const Error& error) {
          EXPECT_EQ(std::string(error.what()), "rank 2: loss is NaN");
          ++ended;
        }
      }
    });
    EXPECT_EQ(failure, "rank 2: loss is NaN");
    EXPECT_EQ(ended, kind == 0 ? 6 : 2);
  }
}

// The buffers go away with the stack of the rank that throws, while others are still to come.
TEST(StartedAbort, ARankThatThrowsPastARequestTellsItsOwnReason) {
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(failure_of(3,
                         [i](Communicator& communicator) {
                           std::vector<float> values(10000, 1.0F);
                           if (communicator.rank() == 1) sleep_ms(i % 3);
                           Request request = communicator.start_all_reduce(
                               values.data(), 10000, i % 2 == 0 ? Order::ordered : Order::arrival);
                           if (communicator.rank() == 0) throw std::runtime_error("disk full");
                           request.wait();
                           communicator.barrier();
                         }),
              "rank 0: disk full");
  }
}

TEST(StartedAbort, ARequestThatIsDroppedIsAnError) {
  const std::string failure = failure_of(2, [](Communicator& communicator) {
    float value = 1.0F;
    if (communicator.rank() == 0) communicator.start_all_reduce(&value, 1, Order::ordered);
    if (communicator.rank() == 1) {
      sleep_ms(20);
      communicator.all_reduce(&value, 1, Order::ordered);
    }
  });
  EXPECT_NE(failure.find("rank 0 let go of a collective before it had finished"), std::string::npos)
      << failure;
}

TEST(StartedMessages, OfAnotherSizeAreAnError) {
  const std::string failure = failure_of(2, [](Communicator& communicator) {
    std::array<char, 8> buffer{};
    if (communicator.rank() == 0) communicator.send(buffer.data(), 8, 1);
    if (communicator.rank() == 1) communicator.start_receive(buffer.data(), 4, 0).wait();
  });
  EXPECT_EQ(failure, "rank 1: rank 1 receives from rank 0: 4 bytes asked for, 8 sent");
}

}  // namespace
}  // namespace dettax
