// Where ranks sit, and what that does to sums.
#include "harness/launch/rank_placement.h"

#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/comm/communicator.h"
#include "harness/launch/protocol.h"

namespace dettax {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr RankPlacement kPlanned = RankPlacement::planned;
constexpr RankPlacement kSwapped = RankPlacement::swapped;

Topology nodes_of(int nodes, int ranks_per_node) {
  Topology topology;
  topology.nodes = nodes;
  topology.ranks_per_node = ranks_per_node;
  return topology;
}

TEST(RankPlacement, DealsRanksOverTheNodesFromTheLast) {
  EXPECT_THAT(emulated_nodes(nodes_of(2, 2), kPlanned), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(emulated_nodes(nodes_of(2, 2), kSwapped), ElementsAre(1, 0, 1, 0));
  EXPECT_THAT(emulated_nodes(nodes_of(3, 2), kSwapped), ElementsAre(2, 1, 0, 2, 1, 0));
  EXPECT_THAT(emulated_nodes(nodes_of(1, 4), kSwapped), IsEmpty());
}

TEST(RankPlacement, BindsEveryThreadToAnotherCore) {
  const std::vector<int> cores = {0, 1, 2, 8};
  EXPECT_THAT(placed_cores(kPlanned, Binding::core, cores, 1, 2, 2), ElementsAre(2, 8));
  EXPECT_THAT(placed_cores(kPlanned, Binding::none, cores, 1, 2, 2), IsEmpty());
  EXPECT_THAT(placed_cores(kSwapped, Binding::core, cores, 0, 2, 2), ElementsAre(8, 2));
  EXPECT_THAT(placed_cores(kSwapped, Binding::none, cores, 1, 2, 2), ElementsAre(1, 0));
  // Several to one where they are few.
  EXPECT_THAT(placed_cores(kSwapped, Binding::none, {0, 1}, 1, 2, 3), ElementsAre(0, 1, 0));
}

TEST(RankPlacement, SaysWhereEveryThreadIs) {
  EXPECT_EQ(seat_words({}, {0, 1}, 2), "any of 0-1");
  EXPECT_EQ(seat_words({1, 0}, {0, 1}, 2), "1 0");
  EXPECT_EQ(seat_words({}, {5}, 2), seat_words({5, 5}, {5}, 2));
}

TEST(RankPlacement, ArrivesInTheProcesses) {
  ArmSpec spec;
  spec.planned.model.name = "small";
  spec.placement = kSwapped;
  const WorkerRequest received = decode_request(encode(WorkerRequest{request::Prepare{spec}}));
  EXPECT_EQ(std::get<request::Prepare>(received).spec.placement, kSwapped);
}

float sum_of_four(RankPlacement placement, Algorithm algorithm) {
  CollectiveSettings settings;
  settings.algorithm = algorithm;
  settings.node_of_rank = emulated_nodes(nodes_of(2, 2), placement);
  constexpr std::array kValues{1e8F, 1.0F, -1e8F, 1.0F};
  float sum = 0;
  run_ranks(4, false, settings, [&](Communicator& communicator) {
    float value = kValues.at(static_cast<size_t>(communicator.rank()));
    communicator.all_reduce(&value, 1, Order::ordered);
    if (communicator.rank() == 0) sum = value;
  });
  return sum;
}

TEST(RankPlacement, ChangesSumsThatFollowTheNodes) {
  EXPECT_EQ(sum_of_four(kPlanned, Algorithm::hierarchical), 0.0F);
  EXPECT_EQ(sum_of_four(kSwapped, Algorithm::hierarchical), 2.0F);
}

TEST(RankPlacement, KeepsSumsThatFollowTheRanks) {
  EXPECT_EQ(sum_of_four(kPlanned, Algorithm::direct), sum_of_four(kSwapped, Algorithm::direct));
}

}  // namespace
}  // namespace dettax
