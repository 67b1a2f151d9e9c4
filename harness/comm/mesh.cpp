#include "harness/comm/mesh.h"

#include "harness/base/error.h"

namespace dettax {

MeshPosition position_of(const Layout& layout, int rank) {
  MeshPosition position;
  position.tp = rank % layout.tp;
  rank /= layout.tp;
  position.cp = rank % layout.cp;
  rank /= layout.cp;
  position.dp = rank % layout.dp;
  position.pp = rank / layout.dp;
  return position;
}

int rank_of(const Layout& layout, const MeshPosition& position) {
  return ((position.pp * layout.dp + position.dp) * layout.cp + position.cp) * layout.tp +
         position.tp;
}

Mesh::Mesh(const Layout& layout, Communicator& world, bool samples_first)
    : layout_(layout), position_(position_of(layout, world.rank())), world_(world) {
  if (world.size() != layout.ranks()) {
    throw Error(ErrorKind::internal, "layout " + to_string(layout) + " in a group of " +
                                         std::to_string(world.size()) + " ranks");
  }
  // Ranks of one group agree on everything but the group's own axis: its colour is their position with that axis at 0. Ranks keep
  // their order in the world, which is the order of the axis.
  const auto group = [&](MeshPosition colour) {
    return world_.split(rank_of(layout_, colour), world_.rank());
  };
  const MeshPosition& p = position_;
  tensor_ = group({p.dp, 0, p.pp, p.cp});
  context_ = group({p.dp, p.tp, p.pp, 0});
  pipeline_ = group({p.dp, p.tp, 0, p.cp});
  pipeline_backward_ = group({p.dp, p.tp, 0, p.cp});
  ends_ = group(first_stage() || last_stage() ? MeshPosition{p.dp, p.tp, 0, p.cp} : p);
  data_ = group({0, p.tp, p.pp, p.cp});
  const int key = samples_first ? p.cp * layout.dp + p.dp : p.dp * layout.cp + p.cp;
  replicas_ = world_.split(rank_of(layout_, {0, p.tp, p.pp, 0}), key);
  expert_ = group({p.dp - p.dp % layout_.ep, p.tp, p.pp, p.cp});
  expert_replicas_ = world_.split(rank_of(layout_, {p.dp % layout_.ep, p.tp, p.pp, 0}), key);
  model_ = group({p.dp - p.dp % layout_.ep, 0, 0, p.cp});
}

}  // namespace dettax
