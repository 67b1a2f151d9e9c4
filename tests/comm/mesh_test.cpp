#include "harness/comm/mesh.h"

#include <vector>

#include <gtest/gtest.h>

#include "harness/base/error.h"

namespace dettax {
namespace {

// The world ranks of a group, in its order.
std::vector<int> members(Communicator& group, int world_rank) {
  std::vector<int> ranks(static_cast<size_t>(group.size()));
  group.all_gather(&world_rank, ranks.data(), sizeof(int));
  return ranks;
}

TEST(Mesh, PositionAndRankAreInverse) {
  const Layout layout{.dp = 2, .tp = 2, .pp = 3, .cp = 2};
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    EXPECT_EQ(rank_of(layout, position_of(layout, rank)), rank);
  }
  EXPECT_EQ(position_of(layout, 1), (MeshPosition{.tp = 1}));
  EXPECT_EQ(position_of(layout, 2), (MeshPosition{.cp = 1}));
  EXPECT_EQ(position_of(layout, 4), (MeshPosition{.dp = 1}));
  EXPECT_EQ(position_of(layout, 8), (MeshPosition{.pp = 1}));
}

TEST(Mesh, GroupsHoldTheRanksOfTheirAxesInOrder) {
  const Layout layout{.dp = 2, .tp = 2, .pp = 2};
  run_ranks(8, false, [&](Communicator& world) {
    const Mesh mesh(layout, world);
    if (world.rank() != 5) {
      for (Communicator* group : {&mesh.tensor(), &mesh.context(), &mesh.pipeline(), &mesh.data(),
                                  &mesh.replicas(), &mesh.expert(), &mesh.model()}) {
        members(*group, world.rank());
      }
      return;
    }
    EXPECT_EQ(members(mesh.tensor(), 5), (std::vector<int>{4, 5}));
    EXPECT_EQ(members(mesh.context(), 5), (std::vector<int>{5}));
    EXPECT_EQ(members(mesh.pipeline(), 5), (std::vector<int>{1, 5}));
    EXPECT_EQ(members(mesh.data(), 5), (std::vector<int>{5, 7}));
    EXPECT_EQ(members(mesh.replicas(), 5), (std::vector<int>{5, 7}));
    EXPECT_EQ(members(mesh.expert(), 5), (std::vector<int>{5}));
    EXPECT_EQ(members(mesh.model(), 5), (std::vector<int>{0, 1, 4, 5}));
    EXPECT_TRUE(mesh.last_stage());
    EXPECT_FALSE(mesh.first_stage());
  });
}

TEST(Mesh, ReplicasSpanDataAndContext) {
  const Layout layout{.dp = 2, .cp = 2};
  run_ranks(4, false, [&](Communicator& world) {
    const Mesh mesh(layout, world);
    EXPECT_EQ(members(mesh.replicas(), world.rank()), (std::vector<int>{0, 1, 2, 3}));
    const Mesh samples_first(layout, world, true);
    EXPECT_EQ(members(samples_first.replicas(), world.rank()), (std::vector<int>{0, 2, 1, 3}));
  });
}

TEST(Mesh, ExpertGroupsAreNeighboursOnTheDataAxis) {
  const Layout layout{.dp = 4, .ep = 2};
  run_ranks(4, false, [&](Communicator& world) {
    const Mesh mesh(layout, world);
    const int pair = world.rank() / 2 * 2;
    EXPECT_EQ(members(mesh.expert(), world.rank()), (std::vector<int>{pair, pair + 1}));
    const int index = world.rank() % 2;
    EXPECT_EQ(members(mesh.expert_replicas(), world.rank()), (std::vector<int>{index, index + 2}));
  });
}

TEST(Mesh, AWorldOfAnotherSizeIsRefused) {
  run_ranks(2, false, [](Communicator& world) { EXPECT_THROW(Mesh({.dp = 4}, world), Error); });
}

}  // namespace
}  // namespace dettax
