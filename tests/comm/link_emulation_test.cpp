#include "harness/comm/link_emulation.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/comm/communicator.h"

namespace dettax {
namespace {

constexpr int64_t kMs = 1'000'000;

// Only least times are judged: what a busy machine adds is not ours.
int64_t time_of(const std::function<void()>& work) {
  const int64_t start = steady_now_ns();
  work();
  return steady_now_ns() - start;
}

CollectiveSettings two_nodes(Algorithm algorithm, double latency_seconds, double bytes_per_second) {
  return {algorithm, {0, 0, 1, 1}, {}, {latency_seconds, bytes_per_second}};
}

TEST(LinkEmulation, QueuesWhatOneNodeSendsOnOneLink) {
  LinkEmulation links(two_nodes(Algorithm::direct, 0.001, 1e6), 4);
  EXPECT_EQ(links.arrival_ns(0, 2, 1000, 100), 100 + kMs + kMs);
  EXPECT_EQ(links.arrival_ns(1, 3, 1000, 100), 100 + 2 * kMs + kMs);  // behind its neighbour
  EXPECT_EQ(links.arrival_ns(2, 0, 1000, 100), 100 + kMs + kMs);      // the other way is free
  EXPECT_EQ(links.arrival_ns(0, 1, 1000, 100), 100);                  // inside: as fast as it goes
  EXPECT_EQ(links.arrival_ns(0, 2, 1000, 50 * kMs), 52 * kMs);        // free again by then
}

TEST(LinkEmulation, GivesASenderWithALinkOfItsOwnItsShare) {
  LinkEmulation links(two_nodes(Algorithm::direct, 0, 1e6), 4, true);
  EXPECT_EQ(links.arrival_ns(0, 2, 1000, 0), 2 * kMs);
}

TEST(EmulatedLinks, TakeAtLeastLatencyAndBytesOverBandwidth) {
  for (const Algorithm algorithm : {Algorithm::direct, Algorithm::ring, Algorithm::tree,
                                    Algorithm::halving, Algorithm::hierarchical}) {
    for (const Order order : {Order::arrival, Order::ordered, Order::invariant}) {
      run_ranks(4, false, two_nodes(algorithm, 0.004, 10e6), [&](Communicator& communicator) {
        std::vector<float> values(10'000, 1.0F);
        // Half of the vector at least has to cross, either way.
        EXPECT_GE(time_of([&] { communicator.all_reduce(values.data(), 10'000, order); }), 6 * kMs)
            << algorithm_name(algorithm);
        EXPECT_EQ(values.front(), 4.0F);
        EXPECT_EQ(values.back(), 4.0F);
        EXPECT_TRUE(communicator.stats().links_emulated);
      });
    }
  }
}

TEST(EmulatedLinks, HoldUpMessagesBetweenNodesOnly) {
  run_ranks(4, false, two_nodes(Algorithm::direct, 0.02, 1e6), [](Communicator& communicator) {
    const int rank = communicator.rank();
    const int across = (rank + 2) % 4;
    std::vector<char> out(10'000, 'x');
    std::vector<char> in(10'000);
    Request sent = communicator.start_send(out.data(), 10'000, across);
    Request received = communicator.start_receive(in.data(), 10'000, across);
    EXPECT_GE(time_of([&] { received.wait(); }), 20 * kMs);  // latency 20 ms, transfer 10 ms
    sent.wait();
    EXPECT_EQ(in, out);
    EXPECT_GE(communicator.stats().of(OperationKind::receive).exposed_ns, 20 * kMs);
  });
}

TEST(EmulatedLinks, AreUsedWhileTheCallerComputes) {
  run_ranks(2, false, {Algorithm::direct, {0, 1}, {}, {0.03, 0}}, [](Communicator& communicator) {
    float value = 1.0F;
    communicator.barrier();
    Request request = communicator.start_all_reduce(&value, 1, Order::ordered);
    while (!request.done()) {
    }
    request.wait();
    const OperationStats stats = communicator.stats().of(OperationKind::all_reduce);
    EXPECT_EQ(value, 2.0F);
    EXPECT_GE(stats.time_ns, 60 * kMs);  // there and back
    EXPECT_LT(stats.exposed_ns, 30 * kMs);
  });
}

TEST(EmulatedLinks, DoNotHoldUpAnAbort) {
  std::string failure;
  const int64_t time = time_of([&] {
    try {
      run_ranks(2, false, {Algorithm::ring, {0, 1}, {}, {100.0, 0}},
                [](Communicator& communicator) {
                  float value = 1.0F;
                  Request request = communicator.start_all_reduce(&value, 1, Order::ordered);
                  if (communicator.rank() == 1) throw Error(ErrorKind::numeric, "loss is NaN");
                  request.wait();
                });
    } catch (const Error& error) {
      failure = error.what();
    }
  });
  EXPECT_EQ(failure, "rank 1: loss is NaN");
  EXPECT_LT(time, 50'000 * kMs);
}

}  // namespace
}  // namespace dettax
