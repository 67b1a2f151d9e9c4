// Run by mpirun with any number of ranks: every test is done by all ranks at once. What MPI ranks get
// is compared with what as many thread ranks of one process get.
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/comm/communicator.h"
#include "harness/comm/link_emulation.h"
#include "harness/comm/mpi_session.h"
#include "tests/comm/exact_sums.h"

namespace dettax {
namespace {

using testing_support::integers;
using testing_support::kAll;
using testing_support::kOrders;
using testing_support::sum_at;
using testing_support::value_at;

// The session of this process; tests cannot be given it.
MpiSession*& session() {
  static MpiSession* one = nullptr;
  return one;
}

CollectiveSettings settings_of(Algorithm algorithm) {
  std::vector<int> nodes;  // of two ranks each
  for (int r = 0; r < session()->size(); ++r) nodes.push_back(r / 2);
  return {algorithm, nodes, {}, {}};
}
std::unique_ptr<Communicator> group(Algorithm algorithm) {
  return session()->communicator(false, settings_of(algorithm));
}

int64_t wrong_sums(Communicator& communicator, int64_t count, Order order) {
  const int n = communicator.size();
  const int rank = communicator.rank();
  int64_t wrong = 0;
  std::vector<float> values = integers(rank, count);
  communicator.all_reduce(values.data(), count, order);
  for (int64_t i = 0; i < count; ++i) wrong += values[static_cast<size_t>(i)] != sum_at(n, i);
  std::vector<float> in(static_cast<size_t>(count * n));
  std::vector<float> out(static_cast<size_t>(count), -1.0F);
  for (int64_t i = 0; i < count * n; ++i) in[static_cast<size_t>(i)] = value_at(rank, i);
  communicator.reduce_scatter(in.data(), out.data(), count, order);
  for (int64_t i = 0; i < count; ++i)
    wrong += out[static_cast<size_t>(i)] != sum_at(n, rank * count + i);
  return wrong;
}

TEST(Mpi, SumsExactlyWhateverTheAlgorithmAndCount) {
  for (const Algorithm algorithm : kAll) {
    const auto communicator = group(algorithm);
    for (const Order order : kOrders) {
      for (const int64_t count : {0, 1, 17, 1009, 150'001})
        EXPECT_EQ(wrong_sums(*communicator, count, order), 0)
            << algorithm_name(algorithm) << " " << count;
    }
  }
}

TEST(Mpi, GathersAndExchangesEveryPartInItsPlace) {
  for (const Algorithm algorithm : kAll) {
    const auto communicator = group(algorithm);
    const int n = communicator->size();
    const int rank = communicator->rank();
    int64_t wrong = 0;
    for (const int64_t bytes : {0, 1, 4099, 300'007}) {
      const auto part = static_cast<size_t>(bytes);
      std::vector<char> in(part, static_cast<char>('a' + rank));
      std::vector<char> out(part * static_cast<size_t>(n), '-');
      communicator->all_gather(in.data(), out.data(), bytes);
      for (size_t i = 0; i < out.size(); ++i)
        wrong += out[i] != static_cast<char>('a' + static_cast<int>(i / part));
      std::vector<char> back(out.size());
      communicator->all_to_all(out.data(), back.data(),
                               bytes);  // part p of rank p's copy is 'a' + r
      for (const char c : back) wrong += c != static_cast<char>('a' + rank);
      communicator->broadcast(in.data(), bytes, n - 1);
      for (const char c : in) wrong += c != static_cast<char>('a' + n - 1);
    }
    EXPECT_EQ(wrong, 0) << algorithm_name(algorithm);
  }
}

TEST(Mpi, AllToAllTakesPartsOfAnySize) {
  const auto communicator = group(Algorithm::direct);
  const int rank = communicator->rank();
  std::vector<int64_t> sizes;
  std::vector<char> in;
  for (int p = 0; p < communicator->size(); ++p) {
    sizes.push_back(1000 * rank * p);
    in.insert(in.end(), static_cast<size_t>(sizes.back()), static_cast<char>(16 * rank + p));
  }
  std::vector<char> out(in.size());
  communicator->all_to_all_v(in.data(), sizes, out.data(), sizes);
  size_t at = 0;
  int64_t wrong = 0;
  for (int p = 0; p < communicator->size(); ++p) {
    for (int64_t i = 0; i < sizes[static_cast<size_t>(p)]; ++i)
      wrong += out[at++] != static_cast<char>(16 * p + rank);
  }
  EXPECT_EQ(wrong, 0);
}

constexpr int64_t kCount = 150'001;  // more than one piece for up to eight ranks

std::vector<float> shares(int rank) {
  std::vector<float> values(static_cast<size_t>(kCount));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = std::sin(static_cast<float>(i % 1000 + 1) + static_cast<float>(rank)) *
                std::exp2(static_cast<float>((static_cast<int>(i) + 3 * rank) % 5));
  return values;
}

std::vector<float> results(Communicator& communicator, Order order) {
  std::vector<float> values = shares(communicator.rank());
  communicator.all_reduce(values.data(), kCount, order);
  const int64_t part = kCount / communicator.size();
  std::vector<float> out(static_cast<size_t>(part));
  communicator.reduce_scatter(shares(communicator.rank()).data(), out.data(), part, order);
  values.insert(values.end(), out.begin(), out.end());
  return values;
}

std::vector<float> results_of_thread(int rank, const CollectiveSettings& settings, Order order) {
  std::vector<float> mine;
  run_ranks(session()->size(), false, settings, [&](Communicator& communicator) {
    const auto values = results(communicator, order);
    if (communicator.rank() == rank) mine = values;
  });
  return mine;
}

int64_t differing_bits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return -1;
  int64_t count = 0;
  for (size_t i = 0; i < a.size(); ++i)
    count += std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i]);
  return count;
}

TEST(Mpi, GivesTheBitsThatThreadsGive) {
  for (const Algorithm algorithm : kAll) {
    const auto communicator = group(algorithm);
    for (const Order order : {Order::ordered, Order::invariant}) {
      const auto threads = results_of_thread(session()->rank(), settings_of(algorithm), order);
      EXPECT_EQ(differing_bits(results(*communicator, order), threads), 0)
          << algorithm_name(algorithm);
    }
  }
}

// The twin: what another order gives is seen.
TEST(Mpi, AnotherOrderOfThreadsIsToldFromIt) {
  if (session()->size() < 4) GTEST_SKIP() << "ring and direct differ from three ranks on";
  const auto communicator = group(Algorithm::direct);
  const auto ring =
      results_of_thread(session()->rank(), settings_of(Algorithm::ring), Order::ordered);
  EXPECT_GT(differing_bits(results(*communicator, Order::ordered), ring), 0);
}

TEST(Mpi, StartedOperationsGoOnBehindTheCaller) {
  const auto communicator = group(Algorithm::ring);
  const int n = communicator->size();
  std::vector<float> values(50'000, static_cast<float>(communicator->rank() + 1));
  std::vector<float> more = values;
  Request first = communicator->start_all_reduce(values.data(), 50'000, Order::ordered);
  Request second = communicator->start_all_reduce(more.data(), 50'000, Order::arrival);
  while (!second.done()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(first.done());
  first.wait();
  second.wait();
  EXPECT_EQ(values.front(), static_cast<float>(n * (n + 1) / 2));
  EXPECT_EQ(more.back(), static_cast<float>(n * (n + 1) / 2));
  EXPECT_EQ(communicator->stats().of(OperationKind::all_reduce).calls, 2);
}

TEST(Mpi, NeighboursThatAllSendFirstDoNotWaitForEachOther) {
  const auto communicator = group(Algorithm::direct);
  const int n = communicator->size();
  const int rank = communicator->rank();
  const int next = (rank + 1) % n;
  const int previous = (rank + n - 1) % n;
  constexpr int kMessages = 5;
  std::vector<std::vector<int>> out;
  std::vector<std::vector<int>> in(kMessages, std::vector<int>(50'000));
  std::vector<Request> requests;
  for (int i = 0; i < kMessages; ++i) {
    out.emplace_back(50'000, 1000 * rank + i);
    requests.push_back(communicator->start_send(out.back().data(), 200'000, next));
  }
  for (auto& message : in)
    requests.push_back(communicator->start_receive(message.data(), 200'000, previous));
  for (Request& request : requests) request.wait();
  for (int i = 0; i < kMessages; ++i)
    EXPECT_EQ(in[static_cast<size_t>(i)], std::vector<int>(50'000, 1000 * previous + i));
  // A blocking send is taken though nobody receives yet, whatever its size.
  communicator->send(out[0].data(), 200'000, next);
  communicator->receive(in[0].data(), 200'000, previous);
  EXPECT_EQ(in[0].front(), 1000 * previous);
}

TEST(Mpi, SplitMakesGroupsByColourInOrderOfTheKey) {
  const auto whole = group(Algorithm::hierarchical);
  const int rank = whole->rank();
  const auto half = whole->split(rank % 2, -rank);
  const int members = (whole->size() + 1 - rank % 2) / 2;
  EXPECT_EQ(half->size(), members);
  EXPECT_EQ(half->rank(), members - 1 - rank / 2);
  EXPECT_EQ(half->settings().node_of_rank.front(), (rank % 2 + 2 * (members - 1)) / 2);
  float sum = static_cast<float>(rank);
  half->all_reduce(&sum, 1, Order::ordered);
  float expected = 0;
  for (int r = rank % 2; r < whole->size(); r += 2) expected += static_cast<float>(r);
  EXPECT_EQ(sum, expected);
}

TEST(Mpi, EmulatedLinksTakeAtLeastTheirTime) {
  if (session()->size() < 4) GTEST_SKIP() << "needs two nodes of two ranks";
  CollectiveSettings settings = settings_of(Algorithm::direct);
  settings.inter_node = {0.004, 10e6};
  for (const Algorithm algorithm : kAll) {
    settings.algorithm = algorithm;
    const auto communicator = session()->communicator(false, settings);
    std::vector<float> values(10'000, 1.0F);
    communicator->barrier();
    const int64_t start = steady_now_ns();
    communicator->all_reduce(values.data(), 10'000, Order::ordered);
    EXPECT_GE(steady_now_ns() - start, 6'000'000) << algorithm_name(algorithm);
    EXPECT_EQ(values.back(), static_cast<float>(session()->size()));
    EXPECT_TRUE(communicator->stats().links_emulated);
  }
}

TEST(ManyRanks, OnFewCoresStayCorrect) {
  for (const Algorithm algorithm : kAll) {
    const auto communicator = group(algorithm);
    for (const Order order : kOrders)
      EXPECT_EQ(wrong_sums(*communicator, 20'011, order), 0) << algorithm_name(algorithm);
  }
}

// Rank 1 fails while the others are, or come to be, in an operation.
int abort_in(std::string_view how) {
  MpiSession mpi;
  const auto communicator = mpi.communicator(false);
  const auto other = communicator->split(mpi.rank() == 1 ? 1 : 0, 0);
  std::vector<float> values(500'000, 1.0F);
  try {
    communicator->all_reduce(values.data(), 500'000, Order::ordered);
    if (mpi.rank() == 1) {
      Request request;
      if (how == "started")
        request = communicator->start_all_reduce(values.data(), 500'000, Order::ordered);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      throw Error(ErrorKind::numeric, "loss is NaN");
    }
    if (how == "blocking") communicator->all_reduce(values.data(), 500'000, Order::arrival);
    if (how == "started")
      communicator->start_all_reduce(values.data(), 500'000, Order::ordered).wait();
    if (how == "message") communicator->start_receive(values.data(), 400'000, 1).wait();
    for (int i = 0; how == "elsewhere" && i < 1'000'000; ++i)
      other->all_reduce(values.data(), 1000, Order::ordered);
    communicator->barrier();
    std::printf("rank %d heard nothing\n", mpi.rank());
  } catch (const Error& error) {
    if (mpi.rank() == 1) communicator->abort(std::string("rank 1: ") + error.what());
    std::printf("rank %d heard: %s\n", mpi.rank(), error.what());
    std::fflush(stdout);
  }
  return 0;
}

// Rank 0 alone reports what goes well; every rank says what fails.
int run(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc == 3 && std::string_view(argv[1]) == "--abort") return abort_in(argv[2]);
  MpiSession mpi;
  session() = &mpi;
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (mpi.rank() != 0) delete listeners.Release(listeners.default_result_printer());
  const int failed = RUN_ALL_TESTS();
  if (failed != 0 && mpi.rank() != 0) std::printf("rank %d failed\n", mpi.rank());
  float failures = static_cast<float>(failed);
  mpi.communicator(false)->all_reduce(&failures, 1, Order::ordered);
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace dettax

int main(int argc, char** argv) { return dettax::run(argc, argv); }
