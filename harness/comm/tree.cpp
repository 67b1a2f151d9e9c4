#include <algorithm>
#include <array>
#include <cstring>

#include "harness/comm/algorithms.h"

namespace dettax {
namespace {

// Large vectors climb in pieces, so that all levels are busy: 256 KiB, some tens of microseconds of
// adding, hide what an exchange costs.
constexpr int64_t kPieceBytes = 256 * 1024;

class Tree {
 public:
  explicit Tree(Transport& transport)
      : transport_(transport),
        parent_(transport.rank() == 0 ? -1 : (transport.rank() - 1) / 2),
        children_{child(1), child(2)} {}

  // sum = own + the sums of the children, of the whole tree at rank 0. A leaf has no use for `sum`.
  void climb(const float* own, float* sum, int64_t count, Order order) const;
  // data of rank 0 to all.
  void descend(char* data, int64_t bytes) const;

 private:
  int child(int which) const {
    const int rank = 2 * transport_.rank() + which;
    return rank < transport_.size() ? rank : -1;
  }
  bool leaf() const { return children_[0] < 0; }
  std::array<int, 2> order_of_children(Order order) const;

  Transport& transport_;
  const int parent_;
  const std::array<int, 2> children_;
};

Range piece(int64_t index, int64_t size, int64_t total) {
  return {std::min(total, index * size), std::min(total, (index + 1) * size)};
}

// In order of arrival the second child comes first where it is there and the first one is not.
std::array<int, 2> Tree::order_of_children(Order order) const {
  if (order != Order::arrival || children_[1] < 0) return children_;
  if (transport_.has_arrived(children_[0]) || !transport_.has_arrived(children_[1]))
    return children_;
  return {children_[1], children_[0]};
}

void Tree::climb(const float* own, float* sum, int64_t count, Order order) const {
  constexpr auto kPiece = kPieceBytes / static_cast<int64_t>(sizeof(float));
  const int64_t pieces = (count + kPiece - 1) / kPiece;
  const float* result = leaf() ? own : sum;
  for (int64_t i = 0; i <= pieces; ++i) {
    Exchange up;
    if (i > 0 && parent_ >= 0) {
      const Range sent = piece(i - 1, kPiece, count);
      up = {result + sent.begin, sent.size(), parent_};
    }
    const Range received = piece(i, kPiece, count);
    const float* addend = own + received.begin;
    const auto children = i < pieces ? order_of_children(order) : std::array<int, 2>{-1, -1};
    for (const int child : children) {
      if (child < 0) continue;
      float* target = sum + received.begin;
      transport_.exchange({up.send, up.send_count, up.to, target, received.size(), child, addend});
      addend = target;
      up = {};
    }
    if (up.to >= 0) transport_.exchange(up);
  }
}

void Tree::descend(char* data, int64_t bytes) const {
  const int64_t pieces = (bytes + kPieceBytes - 1) / kPieceBytes;
  for (int64_t i = 0; i <= pieces; ++i) {
    const Range received = piece(i, kPieceBytes, bytes);
    int from = i < pieces ? parent_ : -1;
    const Range sent = piece(i - 1, kPieceBytes, bytes);
    for (const int child : children_) {
      if (i == 0 || child < 0) continue;
      transport_.exchange(bytes_exchange(data + sent.begin, sent.size(), child,
                                         data + received.begin, received.size(), from));
      from = -1;
    }
    if (from >= 0) {
      transport_.exchange(
          bytes_exchange(nullptr, 0, -1, data + received.begin, received.size(), from));
    }
  }
}

}  // namespace

void tree_all_reduce(Transport& transport, float* data, int64_t count, Order order) {
  const Tree tree(transport);
  tree.climb(data, data, count, order);
  tree.descend(reinterpret_cast<char*>(data), count * static_cast<int64_t>(sizeof(float)));
}

void tree_reduce_scatter(Transport& transport, const float* in, float* out, int64_t count,
                         Order order, Scratch& scratch) {
  float* sum = at_least(scratch, count * transport.size());
  Tree(transport).climb(in, sum, count * transport.size(), order);
  if (transport.rank() != 0) {
    transport.exchange({nullptr, 0, -1, out, count, 0, nullptr});
    return;
  }
  for (int to = 1; to < transport.size(); ++to) transport.exchange({sum + to * count, count, to});
  std::copy_n(sum, count, out);
}

void tree_all_gather(Transport& transport, const void* in, void* out, int64_t bytes) {
  char* to = static_cast<char*>(out);
  if (transport.rank() != 0) {
    transport.exchange(bytes_exchange(in, bytes, 0, nullptr, 0, -1));
  } else {
    if (bytes > 0 && in != to) std::memcpy(to, in, static_cast<size_t>(bytes));
    for (int from = 1; from < transport.size(); ++from)
      transport.exchange(bytes_exchange(nullptr, 0, -1, to + from * bytes, bytes, from));
  }
  Tree(transport).descend(to, bytes * transport.size());
}

}  // namespace dettax
