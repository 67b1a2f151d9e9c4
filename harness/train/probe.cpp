#include "harness/train/probe.h"

#include <array>

namespace dettax {
namespace {

constexpr std::array<std::string_view, kPhaseCount> kPhaseNames{"forward", "recompute", "backward",
                                                                "reduce", "optimizer"};

constexpr std::array<std::string_view, kOpCount> kOpNames{"data",
                                                          "embedding",
                                                          "embedding_dropout",
                                                          "norm1",
                                                          "qkv",
                                                          "qkv_weight",
                                                          "rope",
                                                          "attention",
                                                          "projection",
                                                          "projection_weight",
                                                          "projection_bias",
                                                          "projection_dropout",
                                                          "projection_residual",
                                                          "norm2",
                                                          "mlp_up",
                                                          "mlp_up_weight",
                                                          "swiglu",
                                                          "gelu",
                                                          "mlp_down",
                                                          "mlp_down_weight",
                                                          "mlp_bias",
                                                          "mlp_dropout",
                                                          "mlp_residual",
                                                          "router",
                                                          "router_weight",
                                                          "router_agreement",
                                                          "expert_permute",
                                                          "expert_counts",
                                                          "expert_dispatch",
                                                          "expert_up",
                                                          "expert_up_weight",
                                                          "expert_swiglu",
                                                          "expert_down",
                                                          "expert_down_weight",
                                                          "expert_combine",
                                                          "expert_unpermute",
                                                          "balance_loss",
                                                          "final_norm",
                                                          "head",
                                                          "head_weight",
                                                          "cross_entropy",
                                                          "head_loss",
                                                          "loss_sum",
                                                          "tensor_all_reduce",
                                                          "sequence_all_gather",
                                                          "sequence_reduce_scatter",
                                                          "vocabulary_maxima",
                                                          "vocabulary_sums",
                                                          "sequence_gradients",
                                                          "context_exchange",
                                                          "weight_gather",
                                                          "memory_fill",
                                                          "gradient_tree",
                                                          "gradients",
                                                          "bucket",
                                                          "tied_head",
                                                          "tied_table",
                                                          "loss",
                                                          "gradient_norm",
                                                          "clip",
                                                          "adamw",
                                                          "pipeline_receive",
                                                          "pipeline_send"};

}  // namespace

OpKind kind_of(Op op) {
  switch (op) {
    case Op::expert_counts:
    case Op::router_agreement:
    case Op::expert_dispatch:
    case Op::expert_combine:
    case Op::tensor_all_reduce:
    case Op::sequence_all_gather:
    case Op::sequence_reduce_scatter:
    case Op::vocabulary_maxima:
    case Op::vocabulary_sums:
    case Op::sequence_gradients:
    case Op::context_exchange:
    case Op::weight_gather:
    case Op::bucket:
    case Op::tied_table:
    case Op::pipeline_receive:
    case Op::pipeline_send:
      return OpKind::communication;
    case Op::memory_fill:
      return OpKind::fill;
    default:
      return OpKind::compute;
  }
}

std::string op_path(Phase phase, int64_t layer, Op op) {
  std::string path(kPhaseNames[static_cast<size_t>(phase)]);
  if (layer != kNoLayer) path += "/layer" + std::to_string(layer);
  return path.append("/").append(kOpNames[static_cast<size_t>(op)]);
}

Probe::Probe(int64_t layers, int64_t micro_batches) : layers_(layers), several_(micro_batches > 1) {
  for (int phase = 0; phase < kPhaseCount; ++phase) {
    for (int64_t layer = kNoLayer; layer < layers; ++layer) {
      for (int op = 0; op < kOpCount; ++op) {
        paths_.push_back(op_path(static_cast<Phase>(phase), layer, static_cast<Op>(op)));
      }
    }
  }
}

void Probe::enter_micro_batch(int64_t index) {
  prefix_.clear();
  if (several_ && observed()) prefix_ = "micro" + std::to_string(index) + "/";
}

void Probe::begin(Phase phase, int64_t layer, Op op) {
  const int64_t row = static_cast<int64_t>(phase) * (layers_ + 1) + layer + 1;
  const std::string& path = paths_[static_cast<size_t>(row * kOpCount + static_cast<int64_t>(op))];
  current_.store(path.c_str(), std::memory_order_relaxed);
  issued_.fetch_add(1, std::memory_order_relaxed);
  if (listener_ != nullptr) listener_->on_op(path.c_str(), kind_of(op));
  if (!observed()) return;
  full_path_ = prefix_ + path;
  if (observer_ != nullptr) observer_->on_op(full_path_);
  if (injector_ != nullptr) injector_->on_op(full_path_);
}

void Probe::idle() {
  current_.store(kIdle, std::memory_order_relaxed);
  if (listener_ != nullptr) listener_->on_idle();
}

void Probe::output(std::string_view tensor_name, const Tensor& tensor, uint64_t first_index) {
  if (injector_ != nullptr) injector_->on_tensor(full_path_, tensor_name, tensor, first_index);
  if (observer_ != nullptr) observer_->on_tensor(full_path_, tensor_name, tensor, first_index);
}

}  // namespace dettax
