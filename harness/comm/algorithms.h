#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "harness/comm/transport.h"

namespace dettax {

// The algorithms, written once over any transport; collective_settings.h says what each adds in
// which order. `scratch` is memory that a communicator keeps from call to call. All for two ranks
// or more.
using Scratch = std::vector<float>;
float* at_least(Scratch& scratch, int64_t count);

// `count` elements in one part a rank, cut at cache lines so that no two ranks write the same one.
std::vector<Range> cut(int64_t count, int parts);
std::vector<Range> equal_parts(int64_t size, int parts);

void ring_all_reduce(Transport& transport, float* data, int64_t count);
void ring_reduce_scatter(Transport& transport, const float* in, float* out, int64_t count,
                         Scratch& scratch);
void ring_all_gather(Transport& transport, const void* in, void* out, int64_t bytes);

void tree_all_reduce(Transport& transport, float* data, int64_t count, Order order);
void tree_reduce_scatter(Transport& transport, const float* in, float* out, int64_t count,
                         Order order, Scratch& scratch);
void tree_all_gather(Transport& transport, const void* in, void* out, int64_t bytes);

bool power_of_two(int n);
void halving_all_reduce(Transport& transport, float* data, int64_t count);
// Both for a power of two of ranks.
void halving_reduce_scatter(Transport& transport, const float* in, float* out, int64_t count,
                            Scratch& scratch);
void doubling_all_gather(Transport& transport, const void* in, void* out, int64_t bytes);

// Inside the node first, then across: the first ranks of each node, as many as the smallest node
// has, each do the part of their lane across the nodes.
class Hierarchy {
 public:
  explicit Hierarchy(Transport& whole);  // on all ranks at once

  static bool exists(const std::vector<int>& node_of_rank);  // more than one node, and larger ones
  bool even() const { return even_; }                        // all nodes are of the same size
  bool continues_tree() const { return continues_tree_; }    // adds as the invariant tree does

  void all_reduce(float* data, int64_t count, Order order);
  // Both on even nodes.
  void reduce_scatter(const float* in, float* out, int64_t count, Order order);
  void all_gather(const void* in, void* out, int64_t bytes);

  void abandon();
  void set_spin(bool spin);

 private:
  bool on_lane() const { return inside_->rank() < lanes_; }
  int64_t rank_at(int lane, int node) const {
    return members_[static_cast<size_t>(node)][static_cast<size_t>(lane)];
  }
  int node_index(int rank) const;

  const int size_;
  std::vector<std::vector<int>> members_;  // by node, in rank order; nodes by their first rank
  int lanes_ = 0;
  bool even_ = false;
  bool continues_tree_ = false;
  std::unique_ptr<Transport> inside_, across_;
  Scratch packed_, lane_;
};

}  // namespace dettax
