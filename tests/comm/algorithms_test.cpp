#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/comm/communicator.h"
#include "tests/comm/exact_sums.h"

namespace dettax {
namespace {

using testing_support::integers;
using testing_support::kAll;
using testing_support::kOrders;
using testing_support::sum_at;
using testing_support::value_at;

// Nodes of two neighbours, of every other rank, and of different size.
std::vector<std::vector<int>> placements(int ranks) {
  std::vector<int> pairs;
  std::vector<int> alternating;
  std::vector<int> uneven;
  for (int r = 0; r < ranks; ++r) {
    pairs.push_back(r / 2);
    alternating.push_back(r % 2);
    uneven.push_back(r < 2 ? 0 : 7);
  }
  return {pairs, alternating, uneven};
}

std::vector<CollectiveSettings> settings_of(Algorithm algorithm, int ranks) {
  std::vector<CollectiveSettings> all;
  if (algorithm != Algorithm::hierarchical) {
    all.push_back({algorithm, {}, {}, {}});
  } else {
    for (auto& nodes : placements(ranks)) all.push_back({algorithm, std::move(nodes), {}, {}});
  }
  return all;
}

class EveryAlgorithm : public testing::TestWithParam<std::tuple<Algorithm, int>> {
 protected:
  static Algorithm algorithm() { return std::get<0>(GetParam()); }
  static int ranks() { return std::get<1>(GetParam()); }
  static void run(const std::function<void(Communicator&)>& body) {
    for (const auto& settings : settings_of(algorithm(), ranks()))
      run_ranks(ranks(), false, settings, body);
  }
};
std::string name_of(const testing::TestParamInfo<std::tuple<Algorithm, int>>& info) {
  return std::string(algorithm_name(std::get<0>(info.param))) +
         std::to_string(std::get<1>(info.param));
}
INSTANTIATE_TEST_SUITE_P(Ranks, EveryAlgorithm,
                         testing::Combine(testing::ValuesIn(kAll), testing::Range(1, 9)), name_of);

// Small integers, whose sum in floats is exact in any order.
TEST_P(EveryAlgorithm, SumsExactlyWhateverTheCount) {
  std::atomic<int64_t> wrong{0};
  run([&](Communicator& communicator) {
    const int n = communicator.size();
    const int rank = communicator.rank();
    for (const Order order : kOrders) {
      for (const int64_t count : {0, 1, 7, 16, 1009, 150'001}) {
        std::vector<float> values = integers(rank, count);
        communicator.all_reduce(values.data(), count, order);
        for (int64_t i = 0; i < count; ++i) wrong += values[static_cast<size_t>(i)] != sum_at(n, i);
      }
      for (const int64_t count : {0, 1, 1009, 30'011}) {
        const std::vector<float> in = integers(rank, count * n);
        std::vector<float> out(static_cast<size_t>(count), -1.0F);
        communicator.reduce_scatter(in.data(), out.data(), count, order);
        for (int64_t i = 0; i < count; ++i)
          wrong += out[static_cast<size_t>(i)] != sum_at(n, rank * count + i);
      }
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST_P(EveryAlgorithm, GathersEveryPartInItsPlace) {
  std::atomic<int64_t> wrong{0};
  run([&](Communicator& communicator) {
    const int n = communicator.size();
    const int rank = communicator.rank();
    for (const int64_t bytes : {0, 1, 3, 4099, 300'007}) {
      const auto part = static_cast<size_t>(bytes);
      const std::vector<char> in(part, static_cast<char>('a' + rank));
      std::vector<char> out(part * static_cast<size_t>(n), '-');
      communicator.all_gather(in.data(), out.data(), bytes);
      std::vector<char> in_place(out.size(), '-');
      std::copy(in.begin(), in.end(), in_place.begin() + rank * bytes);
      communicator.all_gather(in_place.data() + rank * bytes, in_place.data(), bytes);
      for (size_t i = 0; i < out.size(); ++i) {
        wrong += out[i] != static_cast<char>('a' + static_cast<int>(i / part));
        wrong += in_place[i] != out[i];
      }
    }
  });
  EXPECT_EQ(wrong, 0);
}

// What each algorithm says it adds in which order, as plain loops over one element's shares.
using Shares = std::vector<float>;

float in_rank_order(const Shares& shares) {
  float sum = shares[0];
  for (size_t r = 1; r < shares.size(); ++r) sum += shares[r];
  return sum;
}
float from_the_next_round(const Shares& shares, int part) {
  const auto n = shares.size();
  float sum = shares[(static_cast<size_t>(part) + 1) % n];
  for (size_t i = 2; i <= n; ++i) sum += shares[(static_cast<size_t>(part) + i) % n];
  return sum;
}
float up_the_tree(const Shares& shares, size_t rank = 0) {
  float sum = shares[rank];
  for (const size_t child : {2 * rank + 1, 2 * rank + 2}) {
    if (child < shares.size()) sum += up_the_tree(shares, child);
  }
  return sum;
}
float as_aligned_tree(const Shares& shares) {
  if (shares.size() == 1) return shares[0];
  const auto half = static_cast<std::ptrdiff_t>(std::bit_ceil(shares.size()) / 2);
  return as_aligned_tree(Shares(shares.begin(), shares.begin() + half)) +
         as_aligned_tree(Shares(shares.begin() + half, shares.end()));
}
float with_those_above_first(const Shares& shares) {
  Shares below(shares.begin(),
               shares.begin() + static_cast<std::ptrdiff_t>(std::bit_floor(shares.size())));
  for (size_t r = below.size(); r < shares.size(); ++r) below[r - below.size()] += shares[r];
  return as_aligned_tree(below);
}
float node_by_node(const Shares& shares, const std::vector<int>& nodes) {
  std::vector<int> order;
  std::map<int, Shares> of_node;
  for (size_t r = 0; r < shares.size(); ++r) {
    if (!of_node.contains(nodes[r])) order.push_back(nodes[r]);
    of_node[nodes[r]].push_back(shares[r]);
  }
  Shares sums;
  for (const int node : order) sums.push_back(in_rank_order(of_node[node]));
  return in_rank_order(sums);
}

constexpr int64_t kCount = 4096;

Shares shares_of(int ranks, int64_t index) {
  Shares shares;
  for (int r = 0; r < ranks; ++r)
    shares.push_back(std::sin(static_cast<float>(index * ranks + r + 1)) *
                     std::exp2(static_cast<float>((index + 3 * r) % 5)));
  return shares;
}

std::vector<float> all_reduced(int ranks, const CollectiveSettings& settings, Order order) {
  std::vector<float> sums;
  run_ranks(ranks, false, settings, [&](Communicator& communicator) {
    std::vector<float> values;
    for (int64_t i = 0; i < kCount; ++i)
      values.push_back(shares_of(ranks, i)[static_cast<size_t>(communicator.rank())]);
    communicator.all_reduce(values.data(), kCount, order);
    if (communicator.rank() == ranks - 1) sums = values;
  });
  return sums;
}

using Reference = std::function<float(const Shares&, int64_t index)>;
int64_t differing(const std::vector<float>& sums, int ranks, const Reference& reference) {
  int64_t count = 0;
  for (int64_t i = 0; i < kCount; ++i)
    count += std::bit_cast<uint32_t>(sums[static_cast<size_t>(i)]) !=
             std::bit_cast<uint32_t>(reference(shares_of(ranks, i), i));
  return count;
}

Reference reference_of(Algorithm algorithm, int ranks, const std::vector<int>& nodes) {
  switch (algorithm) {
    case Algorithm::direct:
      return [](const Shares& shares, int64_t) { return in_rank_order(shares); };
    case Algorithm::ring:
      return [ranks](const Shares& shares, int64_t i) {
        int part = 0;
        while ((kCount * (part + 1) / ranks + 15) / 16 * 16 <= i) ++part;
        return from_the_next_round(shares, part);
      };
    case Algorithm::tree:
      return [](const Shares& shares, int64_t) { return up_the_tree(shares); };
    case Algorithm::halving:
      return [](const Shares& shares, int64_t) { return with_those_above_first(shares); };
    case Algorithm::hierarchical:
      break;
  }
  return [nodes](const Shares& shares, int64_t) { return node_by_node(shares, nodes); };
}

TEST(OrderOfAnAlgorithm, IsWhatItSaysForEveryNumberOfRanks) {
  for (const Algorithm algorithm : kAll) {
    for (const int ranks : {2, 3, 4, 5, 6, 7, 8}) {
      for (const auto& settings : settings_of(algorithm, ranks)) {
        const auto sums = all_reduced(ranks, settings, Order::ordered);
        EXPECT_EQ(differing(sums, ranks, reference_of(algorithm, ranks, settings.node_of_rank)), 0)
            << algorithm_name(algorithm) << " of " << ranks;
      }
    }
  }
}

// The twin: the same comparison sees an order that is not the one asked for.
TEST(OrderOfAnAlgorithm, IsToldFromEveryOther) {
  const int ranks = 6;
  const std::vector<int> nodes = placements(ranks)[0];
  for (const Algorithm ran : kAll) {
    const auto sums = all_reduced(ranks, {ran, nodes, {}, {}}, Order::ordered);
    for (const Algorithm other : kAll) {
      if (other == ran) continue;
      EXPECT_GT(differing(sums, ranks, reference_of(other, ranks, nodes)), 0)
          << algorithm_name(ran) << " taken for " << algorithm_name(other);
    }
  }
}

TEST(OrderOfAnAlgorithm, IsTheAlignedTreeUnderEachWhereInvariant) {
  for (const Algorithm algorithm : kAll) {
    for (const int ranks : {2, 3, 4, 6, 7, 8}) {
      for (const auto& settings : settings_of(algorithm, ranks)) {
        const auto sums = all_reduced(ranks, settings, Order::invariant);
        EXPECT_EQ(differing(sums, ranks,
                            [](const Shares& shares, int64_t) { return as_aligned_tree(shares); }),
                  0)
            << algorithm_name(algorithm) << " of " << ranks;
      }
    }
  }
}

// {1e8, 1, -1e8, 1} sums to 0, 1 or 2 in fp32, by the order; which part of the vector it is decides
// in the ring.
TEST(OrderOfAnAlgorithm, DecidesWhatCancellingValuesSumTo) {
  constexpr std::array<float, 4> kValues{1e8F, 1.0F, -1e8F, 1.0F};
  const auto sums_of = [&](const CollectiveSettings& settings) {
    std::array<float, 64> sums{};
    run_ranks(4, false, settings, [&](Communicator& communicator) {
      std::array<float, 64> values{};
      values.fill(kValues[static_cast<size_t>(communicator.rank())]);
      communicator.all_reduce(values.data(), 64, Order::ordered);
      if (communicator.rank() == 0) sums = values;
    });
    return std::vector<float>{sums[0], sums[16], sums[32], sums[48]};
  };
  using Sums = std::vector<float>;
  EXPECT_EQ(sums_of({Algorithm::direct, {}, {}, {}}), (Sums{1, 1, 1, 1}));
  EXPECT_EQ(sums_of({Algorithm::ring, {}, {}, {}}), (Sums{0, 1, 0, 1}));
  EXPECT_EQ(sums_of({Algorithm::tree, {}, {}, {}}), (Sums{0, 0, 0, 0}));
  EXPECT_EQ(sums_of({Algorithm::halving, {}, {}, {}}), (Sums{0, 0, 0, 0}));
  EXPECT_EQ(sums_of({Algorithm::hierarchical, {0, 1, 0, 1}, {}, {}}), (Sums{2, 2, 2, 2}));
}

TEST(OrderOfAnAlgorithm, ArrivalVariesAcrossTheNodesOfAHierarchy) {
  constexpr std::array<float, 3> kValues{1e8F, -1e8F, 1.0F};
  std::set<float> seen;
  for (int i = 0; i < 2000 && seen.size() < 2; ++i) {
    run_ranks(6, false, {Algorithm::hierarchical, {0, 0, 1, 1, 2, 2}, {}, {}},
              [&](Communicator& communicator) {
                const int rank = communicator.rank();
                std::vector<float> values(
                    64, rank % 2 == 0 ? kValues[static_cast<size_t>(rank / 2)] : 0.0F);
                communicator.all_reduce(values.data(), 64, Order::arrival);
                if (rank == 0) seen.insert(values.begin(), values.end());
              });
  }
  EXPECT_EQ(seen, (std::set<float>{0, 1}));
}

TEST(ManyRanks, SixteenOnFewCoresStayCorrectUnderEachAlgorithm) {
  const int ranks = 16;
  std::vector<int> nodes(16);
  for (int r = 0; r < ranks; ++r) nodes[static_cast<size_t>(r)] = r / 4;
  for (const Algorithm algorithm : kAll) {
    std::atomic<int64_t> wrong{0};
    run_ranks(ranks, false, {algorithm, nodes, {}, {}}, [&](Communicator& communicator) {
      for (int round = 0; round < 5; ++round) {
        for (const Order order : kOrders) {
          std::vector<float> values(20'011);
          for (size_t i = 0; i < values.size(); ++i)
            values[i] = value_at(communicator.rank(), static_cast<int64_t>(i));
          Request request = communicator.start_all_reduce(values.data(), 20'011, order);
          request.wait();
          for (size_t i = 0; i < values.size(); ++i)
            wrong += values[i] != sum_at(ranks, static_cast<int64_t>(i));
        }
      }
    });
    EXPECT_EQ(wrong, 0) << algorithm_name(algorithm);
  }
}

TEST(AlgorithmAbort, EndsRanksWithinEachAlgorithm) {
  for (const Algorithm algorithm : kAll) {
    for (const bool started : {false, true}) {
      std::string failure = "none";
      try {
        run_ranks(4, false, {algorithm, {0, 0, 1, 1}, {}, {}}, [&](Communicator& communicator) {
          std::vector<float> values(200'000, 1.0F);
          communicator.all_reduce(values.data(), 200'000, Order::ordered);
          // One goes out in the middle of what the others have begun.
          Request request;
          if (started || communicator.rank() != 3)
            request = communicator.start_all_reduce(values.data(), 200'000, Order::ordered);
          if (communicator.rank() == 3) throw Error(ErrorKind::numeric, "loss is NaN");
          request.wait();
          communicator.barrier();
        });
      } catch (const Error& error) {
        failure = error.what();
      }
      EXPECT_EQ(failure, "rank 3: loss is NaN") << algorithm_name(algorithm);
    }
  }
}

TEST(Settings, ThatDoNotFitAreRefused) {
  EXPECT_THROW(make_thread_communicators(3, false, {Algorithm::ring, {0, 1}, {}, {}}), Error);
  EXPECT_THROW(make_thread_communicators(2, false, {Algorithm::ring, {0, -1}, {}, {}}), Error);
  EXPECT_THROW(make_thread_communicators(2, false, {Algorithm::ring, {}, {-1, 0}, {}}), Error);
  EXPECT_EQ(find_algorithm("halving"), Algorithm::halving);
  EXPECT_EQ(find_algorithm("nvls"), std::nullopt);
}

TEST(Settings, OfASplitNameTheNodesOfItsRanks) {
  run_ranks(4, false, {Algorithm::hierarchical, {5, 5, 8, 9}, {}, {}},
            [](Communicator& communicator) {
              const auto group = communicator.split(communicator.rank() % 2, communicator.rank());
              EXPECT_EQ(group->settings().node_of_rank, communicator.rank() % 2 == 0
                                                            ? (std::vector<int>{5, 8})
                                                            : (std::vector<int>{5, 9}));
            });
}

}  // namespace
}  // namespace dettax
