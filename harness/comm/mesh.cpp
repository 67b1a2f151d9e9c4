#include "harness/comm/mesh.h"

#include <string>

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
  const MeshPosition& p = position_;
  const int key = samples_first ? p.cp * layout.dp + p.dp : p.dp * layout.cp + p.cp;
  // Ranks of one group agree on everything but the group's own axis: its colour is their position with that axis at 0. Ranks keep
  // their order in the world, which is the order of the axis.
  const auto add = [&](std::unique_ptr<Communicator>& group, const char* name,
                       const MeshPosition& colour, int order) {
    const int number = rank_of(layout_, colour);
    group = world_.split(number, order);
    names_.emplace_back(group.get(), std::string(name) + "." + std::to_string(number));
  };
  names_.emplace_back(&world_, "world");
  const int rank = world_.rank();
  const MeshPosition stages{p.dp, p.tp, 0, p.cp};
  add(tensor_, "tensor", {p.dp, 0, p.pp, p.cp}, rank);
  add(context_, "context", {p.dp, p.tp, p.pp, 0}, rank);
  add(pipeline_, "pipeline", stages, rank);
  add(pipeline_backward_, "pipeline_backward", stages, rank);
  add(ends_, "ends", first_stage() || last_stage() ? stages : p, rank);
  add(data_, "data", {0, p.tp, p.pp, p.cp}, rank);
  add(replicas_, "replicas", {0, p.tp, p.pp, 0}, key);
  add(expert_, "expert", {p.dp - p.dp % layout_.ep, p.tp, p.pp, p.cp}, rank);
  add(expert_replicas_, "expert_replicas", {p.dp % layout_.ep, p.tp, p.pp, 0}, key);
  add(model_, "model", {p.dp - p.dp % layout_.ep, 0, 0, p.cp}, rank);
}

void Mesh::listen(CommunicationListener* listener) const {
  for (const auto& [group, name] : names_) group->listen(listener, name);
}

}  // namespace dettax
