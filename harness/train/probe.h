#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/device/tensor.h"
#include "harness/train/observer.h"

namespace dettax {

// recompute: what the backward pass computes again instead of having kept it.
enum class Phase { forward, recompute, backward, reduce, optimizer };
inline constexpr int kPhaseCount = 5;

// Ops of a step by their place in the model, as paths name them.
enum class Op {
  data,
  embedding,
  embedding_dropout,
  norm1,
  qkv,
  qkv_weight,
  rope,
  attention,
  projection,
  projection_weight,
  projection_bias,
  projection_dropout,
  projection_residual,
  norm2,
  mlp_up,
  mlp_up_weight,
  swiglu,
  gelu,
  mlp_down,
  mlp_down_weight,
  mlp_bias,
  mlp_dropout,
  mlp_residual,
  router,
  router_weight,
  router_agreement,
  expert_permute,
  expert_counts,
  expert_dispatch,
  expert_up,
  expert_up_weight,
  expert_swiglu,
  expert_down,
  expert_down_weight,
  expert_combine,
  expert_unpermute,
  balance_loss,
  final_norm,
  head,
  head_weight,
  cross_entropy,
  head_loss,
  loss_sum,
  tensor_all_reduce,
  sequence_all_gather,
  sequence_reduce_scatter,
  vocabulary_maxima,
  vocabulary_sums,
  sequence_gradients,
  context_exchange,
  weight_gather,
  memory_fill,
  gradient_tree,
  gradients,
  bucket,
  tied_head,
  tied_table,
  loss,
  gradient_norm,
  clip,
  adamw,
  pipeline_receive,
  pipeline_send,
};
inline constexpr int kOpCount = static_cast<int>(Op::pipeline_send) + 1;
// Of ops that also sum what they then exchange (loss, gradient norm), what most of them is.
OpKind kind_of(Op op);
inline constexpr int kNoLayer = -1;

// phase/layer/op, as observers see it but for the micro-batch.
std::string op_path(Phase phase, int64_t layer, Op op);

// Shows a step to whoever looks: the observer, if there is one, and a marker of the op in progress that a watchdog may read from
// another thread. All paths exist from the start, so that the marker costs one store an op.
class Probe {
 public:
  Probe(int64_t layers, int64_t micro_batches);

  void observe(StepObserver* observer) { observer_ = observer; }
  void inject(StepObserver* injector) { injector_ = injector; }
  void listen(OpListener* listener) { listener_ = listener; }
  bool injected() const { return injector_ != nullptr; }
  bool sees_every_op() const {
    return injected() || (observer_ != nullptr && observer_->sees_every_op());
  }
  bool observed() const { return observer_ != nullptr || injected(); }

  // Ops from here on belong to this micro-batch (its paths begin with "micro<i>/" if there are several), or to none.
  void enter_micro_batch(int64_t index);
  void leave_micro_batch() { prefix_.clear(); }

  void begin(Phase phase, int64_t layer, Op op);
  // An output of the op begun last.
  void output(std::string_view tensor_name, const Tensor& tensor, uint64_t first_index);
  // An input of it that is no tensor.
  template <class... Numbers>
  void fact(std::string_view name, Numbers... numbers) {
    if (observer_ == nullptr) return;
    const std::array words{static_cast<uint64_t>(numbers)...};
    observer_->on_fact(full_path_, name, fingerprint(words.data(), words.size(), sizeof(uint64_t)));
  }
  void idle();

  const char* current() const { return current_.load(std::memory_order_relaxed); }
  int64_t issued() const { return issued_.load(std::memory_order_relaxed); }

 private:
  static constexpr const char* kIdle = "idle";

  const int64_t layers_;
  const bool several_;
  std::vector<std::string> paths_;  // [phase][1 + layer][op]
  std::string prefix_, full_path_;
  StepObserver* observer_ = nullptr;
  StepObserver* injector_ = nullptr;
  OpListener* listener_ = nullptr;
  std::atomic<const char*> current_{kIdle};
  std::atomic<int64_t> issued_{0};
};

}  // namespace dettax
