#include <algorithm>
#include <array>
#include <vector>

#include "harness/comm/mpi/mpi_transport.h"
#include "harness/comm/reduce.h"

namespace dettax {
namespace {

constexpr int64_t kSmall = 16 * 1024;  // bytes to one rank that cost less than one more way

// Requests that outlive one use; what a thrown error leaves is cancelled while the others still answer.
class Borrowed {
 public:
  explicit Borrowed(Requests& requests) : requests_(requests) {}
  ~Borrowed() { requests_.let_go(); }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;

 private:
  Requests& requests_;
};

}  // namespace

// One reduction. All pieces of the others' parts are sent at once; those of this rank's part are added
// as they come, some on their way meanwhile. Where all want the whole, each sum is handed out at once.
class MpiTransport::Summation {
 public:
  Summation(MpiTransport& transport, const Reduction& reduction)
      : t_(transport),
        r_(reduction),
        own_(r_.parts[static_cast<size_t>(t_.rank_)]),
        pieces_(pieces_of(own_)),
        room_(std::min(kPiece, own_.size())),
        own_out_(r_.out + (r_.to_all ? own_.begin : 0)),
        sends_(static_cast<size_t>(most_pieces(reduction))) {
    t_.make_room(kDepth * t_.size() * room_);
  }

  void run() {
    for (int64_t k = 0; k < kDepth; ++k) ask_for(k);
    for_others([this](int other, const Range& part) { send_part(other, part); });
    t_.wait_for_links_to_all(
        [this](int r) { return r_.parts[static_cast<size_t>(r)].size() * kFloat; });
    for (size_t k = 0; k < sends_.size(); ++k) {
      const auto piece = static_cast<int64_t>(k);
      if (piece < pieces_) {
        add(piece);
        ask_for(piece + kDepth);
      }
      if (r_.to_all) hand_out(piece);
    }
    for (Requests& sends : sends_) t_.wait(sends);
    if (!r_.to_all) return;
    t_.wait_for_links_to_all([this](int) { return own_.size() * kFloat; });
    t_.wait(sums_);
  }

 private:
  // What comes of one piece of this rank's part.
  struct Coming {
    Requests requests;
    std::vector<int> senders;
  };
  static int64_t pieces_of(const Range& part) { return (part.size() + kPiece - 1) / kPiece; }
  static int64_t most_pieces(const Reduction& reduction) {
    int64_t most = 0;
    for (const Range& part : reduction.parts) most = std::max(most, pieces_of(part));
    return most;
  }
  Coming& coming(int64_t k) { return coming_[static_cast<size_t>(k % kDepth)]; }
  float* room(int from, int64_t k) const {
    return t_.scratch_.data() + (k % kDepth * t_.size() + from) * room_;
  }
  static int64_t size_of(const Range& part, int64_t k) {
    return std::min(kPiece, part.size() - k * kPiece);
  }

  template <typename Do>
  void for_others(const Do& act) const {
    for (int i = 1; i < t_.size(); ++i) {
      const int other = (t_.rank_ + i) % t_.size();
      act(other, r_.parts[static_cast<size_t>(other)]);
    }
  }

  void ask_for(int64_t k) {
    if (k >= pieces_) return;
    coming(k).senders.clear();
    for_others([&](int other, const Range&) {
      coming(k).requests.receive(room(other, k), size_of(own_, k) * kFloat, other, kPart, t_.comm_);
      coming(k).senders.push_back(other);
    });
  }

  void add(int64_t k) {
    if (r_.order == Order::arrival) {
      add_as_they_arrive(k);
      return;
    }
    t_.wait(coming(k).requests);
    std::vector<const float*> inputs;
    for (int r = 0; r < t_.size(); ++r) inputs.push_back(r == t_.rank_ ? own_in(k) : room(r, k));
    t_.sum(inputs, own_out_ + k * kPiece, size_of(own_, k), r_.order);
  }

  void add_as_they_arrive(int64_t k) {
    float* out = own_out_ + k * kPiece;
    const float* sum = own_in(k);
    for (int left = t_.size() - 1; left > 0; --left) {
      const auto index = static_cast<size_t>(t_.wait_for_any(coming(k).requests));
      const std::array inputs{sum, static_cast<const float*>(room(coming(k).senders[index], k))};
      t_.sum(inputs, out, size_of(own_, k), r_.order);
      sum = out;
    }
    coming(k).requests.clear();
  }
  const float* own_in(int64_t k) const { return r_.in + own_.begin + k * kPiece; }

  void send_part(int other, const Range& part) {
    for (int64_t k = 0; k < pieces_of(part); ++k)
      sends_[static_cast<size_t>(k)].send(r_.in + part.begin + k * kPiece,
                                          size_of(part, k) * kFloat, other, kPart, t_.comm_);
  }

  // The others' sums may come to where parts were sent from: not before those have gone.
  void hand_out(int64_t k) {
    for_others([&](int other, const Range&) {
      if (k < pieces_)
        sums_.send(own_out_ + k * kPiece, size_of(own_, k) * kFloat, other, kSum, t_.comm_);
    });
    t_.wait(sends_[static_cast<size_t>(k)]);
    for_others([&](int other, const Range& part) {
      if (k < pieces_of(part))
        sums_.receive(r_.out + part.begin + k * kPiece, size_of(part, k) * kFloat, other, kSum,
                      t_.comm_);
    });
  }

  MpiTransport& t_;
  const Reduction& r_;
  const Range own_;
  const int64_t pieces_, room_;
  float* const own_out_;
  std::array<Coming, kDepth> coming_;
  std::vector<Requests> sends_;  // of piece k of all parts
  Requests sums_;                // handed out, and those that come
};

void MpiTransport::make_room(int64_t floats) {
  scratch_.resize(std::max(scratch_.size(), static_cast<size_t>(floats)));
}

void MpiTransport::sum(std::span<const float* const> inputs, float* out, int64_t count,
                       Order order) {
  const std::array outputs{out};
  if (order == Order::invariant) {
    sum_as_tree(inputs, outputs, count);
  } else {
    sum_in_sequence(inputs, outputs, count);
  }
}

// One way instead of there and back: every rank gets all and adds all, in the one order that is
// fixed.
void MpiTransport::reduce_at_each(const Reduction& reduction) {
  const int64_t count = reduction.parts.back().end;
  make_room(count * size());
  const Borrowed borrowed(small_);
  small_inputs_.clear();
  for (int r = 0; r < size(); ++r) {
    float* room = scratch_.data() + r * count;
    small_inputs_.push_back(r == rank_ ? reduction.in : room);
    if (r != rank_) small_.receive(room, count * kFloat, r, kPart, comm_);
  }
  for (int i = 1; i < size(); ++i)
    small_.send(reduction.in, count * kFloat, (rank_ + i) % size(), kPart, comm_);
  wait_for_links_to_all([&](int) { return count * kFloat; });
  wait(small_);
  sum(small_inputs_, reduction.out, count, reduction.order);
}

void MpiTransport::reduce(const Reduction& reduction) {
  const int64_t bytes = reduction.parts.back().end * kFloat * (size() - 1);
  const bool fixed = reduction.order != Order::arrival || size() == 2;
  if (reduction.to_all && fixed && bytes <= kSmall) {
    reduce_at_each(reduction);
  } else {
    Summation(*this, reduction).run();
  }
}

void MpiTransport::receive_and_add(const Exchange& exchange) {
  std::array<Requests, kDepth> coming;
  const int64_t count = exchange.receive_count;
  const int64_t pieces = std::max(int64_t{1}, (count + kPiece - 1) / kPiece);
  make_room(kDepth * std::min(kPiece, count));
  const auto room = [&](int64_t k) { return scratch_.data() + k % kDepth * kPiece; };
  const auto size_of = [&](int64_t k) { return std::min(kPiece, count - k * kPiece); };
  const auto ask_for = [&](int64_t k) {
    if (k < pieces)
      coming[static_cast<size_t>(k % kDepth)].receive(room(k), size_of(k) * kFloat, exchange.from,
                                                      kPart, comm_);
  };
  for (int64_t k = 0; k < kDepth; ++k) ask_for(k);
  for (int64_t k = 0; k < pieces; ++k) {
    wait(coming[static_cast<size_t>(k % kDepth)]);
    const std::array inputs{exchange.addend + k * kPiece, static_cast<const float*>(room(k))};
    sum(inputs, static_cast<float*>(exchange.receive) + k * kPiece, size_of(k), Order::ordered);
    ask_for(k + kDepth);
  }
}

}  // namespace dettax
