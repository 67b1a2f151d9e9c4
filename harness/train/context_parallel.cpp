#include "harness/train/context_parallel.h"

#include <utility>

#include "harness/comm/request.h"
#include "harness/train/tensor_parallel.h"

namespace dettax {
namespace {

// A message to the rank behind and one from the rank in front.
class RingExchange {
 public:
  explicit RingExchange(StepContext& c) : c_(c) {}

  void start(const Tensor& send, const Tensor& receive) {
    Communicator& group = c_.mesh.context();
    const int ranks = group.size();
    c_.fresh(receive);
    c_.begin(Op::context_exchange);
    c_.device.synchronize();
    arriving_ =
        group.start_receive(receive.data, receive.bytes(), (group.rank() + ranks - 1) % ranks);
    leaving_ = group.start_send(send.data, send.bytes(), (group.rank() + 1) % ranks);
    if (!c_.knobs.overlap) wait();
  }
  void wait() {
    leaving_.wait();
    arriving_.wait();
  }

 private:
  StepContext& c_;
  Request arriving_, leaving_;
};

// Keys and values of all ranks, one after the other; those that come next are under way meanwhile where the overlap knob is on.
class KeyRing {
 public:
  KeyRing(StepContext& c, const Tensor& qkv)
      : c_(c), exchange_(c), ranks_(c.mesh.context().size()), rank_(c.mesh.context().rank()) {
    const Tensor own = c.fresh(keys_values());
    c.begin(Op::context_exchange);
    c.ops.copy_columns({own, qkv, 0, c.sizes.attention_width, own.columns(), false});
    c.show("keys_values", own);
    if (c.knobs.overlap) start();
  }

  // The next rank's, with the queries and keys among which none is masked: the first piece of an earlier rank stands before both of
  // this one, both of a later rank before the second of this one.
  AttentionBlock next() {
    if (!c_.knobs.overlap) start();
    c_.begin(Op::context_exchange);
    exchange_.wait();
    ++step_;
    c_.show("keys_values", keys_values());
    if (c_.knobs.overlap && step_ + 1 < ranks_) start();
    const int64_t piece = c_.tokens / 2;
    const int owner = (rank_ + ranks_ - step_) % ranks_;
    if (owner < rank_) return {keys_values(), 0, c_.tokens, 0, piece};
    return {keys_values(), piece, piece, 0, c_.tokens};
  }

 private:
  const Tensor& keys_values(int ahead = 0) const {
    return c_.buffers.keys_values[static_cast<size_t>(step_ + ahead) % 2];
  }
  void start() { exchange_.start(keys_values(), keys_values(1)); }

  StepContext& c_;
  RingExchange exchange_;
  const int ranks_, rank_;
  int step_ = 0;
};

// The sums of gradients of keys and values on their way around the ring, each a rank behind its keys: what arrives while a step is
// computed is what that step's part is added to.
class GradientRing {
 public:
  explicit GradientRing(StepContext& c) : c_(c), exchange_(c) {}

  // Where the part of this step has to be written. The first part begins a sum, and so is whole.
  Tensor part(const AttentionBlock& block) {
    const Tensor& to = c_.buffers.d_keys_values[begun_ ? 2 : 0];
    c_.fresh(to);
    if (!begun_ && block.keys < c_.tokens) c_.ops.fill_bytes(to, 0);
    return to;
  }
  void add(const AttentionBlock& block) {
    if (begun_) add_to(arrived(), block);
    begun_ = true;
    c_.show("dkeys_values", sum());
    const Tensor& sent = sum();
    in_ = 1 - in_;
    exchange_.start(sent, sum());
  }
  // Adds the sum over the other ranks to what this one has of its own keys.
  void come_home(const Tensor& dqkv) {
    const Tensor& home = arrived();
    c_.begin(Op::attention);
    c_.ops.copy_columns({dqkv, home, c_.sizes.attention_width, 0, home.columns(), true});
  }

 private:
  const Tensor& sum() const { return c_.buffers.d_keys_values[static_cast<size_t>(in_)]; }
  const Tensor& arrived() {
    c_.begin(Op::context_exchange);
    exchange_.wait();
    c_.show("dkeys_values", sum());
    return sum();
  }
  void add_to(const Tensor& sum, const AttentionBlock& block) {
    const Tensor& part = c_.buffers.d_keys_values[2];
    if (block.keys == c_.tokens) return c_.ops.add(sum, part);
    for (int64_t s = 0; s < c_.samples; ++s) {
      const int64_t first = s * c_.tokens + block.first_key;
      c_.ops.add(rows_of(sum, first, block.keys), rows_of(part, first, block.keys));
    }
  }

  StepContext& c_;
  RingExchange exchange_;
  int in_ = 0;  // which of the first two places has the sum
  bool begun_ = false;
};

}  // namespace

bool context_parallel(const StepContext& c) { return c.mesh.layout().cp > 1; }

TokenPlaces places_of(const Layout& layout, const MeshPosition& position, int64_t sequence_length) {
  if (layout.cp == 1) return {};
  const int64_t piece = sequence_length / (2 * layout.cp);
  return {position.cp * piece, (2 * layout.cp - 1 - position.cp) * piece};
}

TokenRun token_run(const StepContext& c, int64_t row) {
  const int64_t sample = c.first_sample + row / c.tokens;
  const int64_t token = row % c.tokens;
  const int64_t whole = sample * c.sequence_length + c.places.position(token, c.tokens);
  // Without pieces samples follow each other here as well.
  return {whole, context_parallel(c) ? c.places.run(token, c.tokens) : c.rows() - row};
}

void ring_attention_forward(StepContext& c, AttentionForward call) {
  KeyRing keys(c, call.qkv);
  c.begin(Op::attention);
  c.ops.attention_forward(call);
  for (int step = 1; step < c.mesh.context().size(); ++step) {
    call.block = keys.next();
    c.begin(Op::attention);
    c.ops.attention_forward(call);
  }
}

void ring_attention_backward(StepContext& c, AttentionBackward call) {
  KeyRing keys(c, call.qkv);
  c.begin(Op::attention);
  c.ops.attention_backward(call);
  GradientRing gradients(c);
  for (int step = 1; step < c.mesh.context().size(); ++step) {
    call.block = keys.next();
    call.dkeys_values = gradients.part(call.block);
    c.begin(Op::attention);
    c.ops.attention_backward(call);
    gradients.add(call.block);
  }
  gradients.come_home(call.dqkv);
}

}  // namespace dettax
