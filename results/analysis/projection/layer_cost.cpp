#include "results/analysis/projection/layer_cost.h"

#include <algorithm>

#include "results/analysis/projection/layer_traffic.h"

namespace dettax {
namespace {

// Sums of one layer's work on a rank. Products stand apart: traffic hides behind them.
struct Sums {
  double forward_products = 0, forward_other = 0;
  double input_products = 0, input_other = 0;
  double weight_products = 0, weight_other = 0;
  double attention_forward = 0, attention_backward = 0;
  // What the host launches; a kernel it cannot launch in time waits for it.
  double forward_kernels = 0, backward_kernels = 0;
};

double causal_half(const TrainingPlan& plan) {
  return static_cast<double>(plan.batch.sequence_length) / 2;
}

class LayerWork {
 public:
  LayerWork(const Situation& s, bool moe_layer)
      : s_(s),
        cost_(s),
        model_(s.plan.model),
        tp_(s.plan.layout.tp),
        tokens_(s.plan.tokens()),
        width_(static_cast<double>(model_.width)),
        row_cut_(s.plan.layout.sequence_parallel ? tp_ : 1) {
    attention();
    norms();
    if (moe_layer) {
      experts();
    } else {
      feed_forward(static_cast<double>(model_.ffn_width), tokens_, tp_);
    }
  }
  const Sums& sums() const { return sums_; }

 private:
  // A linear layer of `in` by `out`, the wide side already cut by tensor parallelism.
  void linear(double rows, double in, double out) {
    const double conversions = is_narrow(s_.plan.precision) ? 1 : 0;
    sums_.forward_kernels += 1 + conversions;
    sums_.backward_kernels += 2 + conversions;
    sums_.forward_products += cost_.product(rows, out, in);
    sums_.forward_other += cost_.conversion(rows * in) + cost_.fill(2 * rows * out);
    sums_.input_products += cost_.product(rows, in, out);
    sums_.input_other += cost_.conversion(rows * out) + cost_.fill(2 * rows * in);
    sums_.weight_products += cost_.weight_product(in, out, rows);
  }

  // An element-wise operation that moves so much forward and backward, each with one output.
  void pass(double forward_bytes, double backward_bytes, double output_bytes) {
    sums_.forward_kernels += 1;
    sums_.backward_kernels += 1;
    sums_.forward_other += cost_.pass(forward_bytes) + cost_.fill(output_bytes);
    sums_.input_other += cost_.pass(backward_bytes) + cost_.fill(output_bytes);
  }

  void latent_attention(const LatentAttention& a) {
    const double heads = static_cast<double>(model_.heads) / tp_;
    const auto rope = static_cast<double>(a.rope_head_width);
    const auto nope = static_cast<double>(a.nope_head_width);
    const auto value = static_cast<double>(a.value_head_width);
    const auto query_rank = static_cast<double>(a.query_rank);
    const auto kv_rank = static_cast<double>(a.key_value_rank);
    linear(tokens_, width_, query_rank + kv_rank + rope);
    linear(tokens_, query_rank, heads * (nope + rope));
    linear(tokens_, kv_rank, heads * (nope + value));
    linear(tokens_, heads * value, width_);
    pass(4 * tokens_ * (query_rank + kv_rank), 6 * tokens_ * (query_rank + kv_rank),
         2 * tokens_ * (query_rank + kv_rank));
    core(heads * (nope + rope + value) / 2);
    rotary(2 * heads * (nope + rope));
  }

  void attention() {
    if (model_.latent_attention) {
      latent_attention(*model_.latent_attention);
      return;
    }
    const auto head = static_cast<double>(model_.head_width);
    const double heads = static_cast<double>(model_.heads) / tp_ * head;
    const double key_value =
        std::max(1.0, static_cast<double>(model_.key_value_heads) / tp_) * head;
    linear(tokens_, width_, heads + 2 * key_value);
    linear(tokens_, heads, width_);
    core(heads);
    if (model_.position == Position::rope) rotary(heads + key_value);
  }

  void rotary(double columns) {
    pass(4 * tokens_ * columns, 4 * tokens_ * columns, 2 * tokens_ * columns);
  }

  void core(double columns) {
    const auto length = static_cast<double>(s_.plan.batch.sequence_length);
    const double output = 2 * tokens_ * columns;
    const bool one = s_.plan.software.attention == AttentionKind::flash;
    sums_.forward_kernels += one ? 1 : 4;
    sums_.backward_kernels += one ? 2 : 6;
    if (s_.plan.software.attention == AttentionKind::flash) {
      sums_.attention_forward = cost_.attention_forward(tokens_, length, columns);
      sums_.attention_backward = cost_.attention_backward(tokens_, length, columns);
    } else {
      materialised(length, columns);
    }
    sums_.forward_other += cost_.fill(output);
    sums_.input_other += cost_.fill(3 * output);
  }

  // Two products over all positions, and between them a fused softmax and dropout, whose matrix goes through memory.
  void materialised(double length, double columns) {
    const double heads = static_cast<double>(model_.heads) / tp_;
    const auto samples = static_cast<double>(s_.plan.batch.micro);
    const double head = columns / heads;
    const double matrix = samples * heads * length * length;
    const double products = 2 * cost_.batched_product(samples * heads, length, length, head);
    sums_.attention_forward = products + cost_.pass(4 * matrix) + cost_.pass(5 * matrix);
    sums_.attention_backward = (2 * products + cost_.pass(5 * matrix) + cost_.pass(6 * matrix)) *
                               s_.determinism.attention_backward_ratio;
  }

  // Two norms and two residual additions, with the gradients of the norms' weights.
  void norms() {
    const double elements = tokens_ * width_ / row_cut_;
    for (int k = 0; k < 2; ++k) {
      pass(4 * elements, 6 * elements * s_.determinism.norm_backward_ratio, 2 * elements);
      pass(6 * elements, 4 * elements, 2 * elements);
    }
  }

  void feed_forward(double ffn, double rows, double cut) {
    const bool gated = model_.activation == Activation::swiglu;
    const double inner = ffn / cut;
    linear(rows, width_, gated ? 2 * inner : inner);
    linear(rows, inner, width_);
    const double elements = rows * inner;
    pass((gated ? 6 : 4) * elements, (gated ? 10 : 6) * elements, 2 * elements);
  }

  // Routing, bringing tokens to their experts and back, and the experts' grouped products. Experts are not cut by tensor parallelism.
  void experts() {
    const Moe& moe = *model_.moe;
    const double rows = tokens_ / row_cut_;
    const auto copies = static_cast<double>(moe.top_k);
    const auto number = static_cast<double>(moe.experts);
    sums_.forward_products += cost_.product(rows, number, width_, false);
    sums_.input_products += cost_.product(rows, width_, number, false);
    sums_.weight_products += cost_.product(width_, number, rows, false);
    pass(8 * rows * number, 8 * rows * number, 4 * rows * number);
    const double moved = 4 * rows * copies * width_ * s_.determinism.permute_ratio;
    pass(moved, moved, 2 * rows * copies * width_);
    pass(moved, moved, 2 * rows * width_);
    if (moe.shared_experts > 0) {
      const auto shared = static_cast<double>(moe.shared_experts * moe.expert_width);
      feed_forward(shared, tokens_, tp_);
    }
    grouped(rows * copies, static_cast<double>(moe.expert_width));
  }

  // One product for each expert of the rank, in one launch; balanced routing.
  void grouped(double rows, double expert_width) {
    const double held = static_cast<double>(model_.moe->experts) / s_.plan.layout.ep;
    const double each = rows / held;
    const bool gated = model_.activation == Activation::swiglu;
    const double up = gated ? 2 * expert_width : expert_width;
    const auto all = [&](double m, double n, double k) {
      return cost_.grouped_product(held, m, n, k);
    };
    const double forward = all(each, up, width_) + all(each, width_, expert_width);
    sums_.forward_kernels += 4;
    sums_.backward_kernels += 6;
    sums_.forward_products += forward;
    sums_.input_products += all(each, width_, up) + all(each, expert_width, width_);
    sums_.weight_products += (all(width_, up, each) + all(expert_width, width_, each)) *
                             s_.determinism.expert_weight_product_ratio;
    pass((gated ? 6 : 4) * rows * expert_width, (gated ? 10 : 6) * rows * expert_width,
         2 * rows * expert_width);
    sums_.forward_other += cost_.conversion(rows * (width_ + expert_width));
    sums_.input_other += cost_.conversion(rows * (width_ + up));
  }

  const Situation& s_;
  OpCost cost_;
  const Model& model_;
  double tp_, tokens_, width_, row_cut_;
  Sums sums_;
};

LayerTimes with_traffic(const Situation& s, const Sums& w, bool moe_layer) {
  const Software& software = s.plan.software;
  const DeterminismCost& d = s.determinism;
  LayerTimes t;
  t.forward = w.forward_products + w.forward_other + w.attention_forward;
  t.backward_input = w.input_products + w.input_other + w.attention_backward;
  t.backward_weight = w.weight_products + w.weight_other;
  const double launch = s.machine.efficiency.launch_seconds;
  t.forward = std::max(t.forward, launch * w.forward_kernels);
  t.backward_input += std::max(0.0, launch * w.backward_kernels - t.backward());
  const TensorTraffic tensor = tensor_traffic(s);
  const double backward_products = w.input_products + w.weight_products;
  const bool all_hidden = software.tensor_overlap && d.tensor_overlap;
  const double forward_exposed =
      all_hidden ? exposed_traffic(s, tensor.forward, w.forward_products) : tensor.forward;
  t.forward += forward_exposed;
  const double bulk_exposed = software.bulk_overlap
                                  ? exposed_traffic(s, tensor.backward_bulk, backward_products)
                                  : tensor.backward_bulk;
  const double backward_exposed =
      all_hidden ? exposed_traffic(s, tensor.backward + tensor.backward_bulk, backward_products)
                 : tensor.backward + bulk_exposed;
  t.backward_input += backward_exposed;
  const double context = context_traffic(s);
  const bool context_hidden = software.context_overlap && d.context_overlap;
  t.forward += context_hidden ? std::max(0.0, context - w.attention_forward) : context;
  t.backward_input +=
      context_hidden ? std::max(0.0, 2 * context - w.attention_backward) : 2 * context;
  if (moe_layer) {
    const double experts = expert_traffic(s);
    t.forward += experts;
    t.backward_input += experts;
    t.pair_hides = 2 * experts;
  }
  // What is computed again.
  if (s.plan.layout.recompute == Recompute::full) t.backward_input += t.forward;
  if (software.recomputed_products_ratio > 0)
    t.backward_input += software.recomputed_products_ratio * w.forward_products + w.forward_other;
  const bool flash = software.attention == AttentionKind::flash;
  if (s.plan.layout.recompute == Recompute::selective && !flash)
    t.backward_input += w.attention_forward;
  return t;
}

}  // namespace

LayerTimes layer_times(const Situation& situation, bool moe_layer) {
  return with_traffic(situation, LayerWork(situation, moe_layer).sums(), moe_layer);
}

LayerTimes head_times(const Situation& s) {
  const OpCost cost(s);
  const double rows = s.plan.tokens();
  const auto width = static_cast<double>(s.plan.model.width);
  const double columns = static_cast<double>(s.plan.model.padded_vocabulary()) / s.plan.layout.tp;
  const double logits = rows * columns;
  const bool fused = s.plan.software.fused_loss && s.determinism.fused_loss;
  LayerTimes t;
  // Unfused: logits to 32 bits, maximum, exponential, sum, and the same way back, each a pass of its own.
  t.forward = cost.product(rows, columns, width, false) + cost.pass((fused ? 2 : 16) * logits) +
              cost.pass(4 * rows * width);
  t.backward_input = cost.product(rows, width, columns, false) +
                     cost.pass((fused ? 4 : 12) * logits) + cost.pass(6 * rows * width);
  t.backward_weight = cost.weight_product(width, columns, rows);
  t.forward += cost.fill((fused ? 2 : 6) * logits);
  t.backward_input += cost.fill((fused ? 2 : 4) * logits);
  return t;
}

LayerTimes embedding_times(const Situation& s) {
  const OpCost cost(s);
  const double elements = s.plan.tokens() * static_cast<double>(s.plan.model.width);
  LayerTimes t;
  t.forward = cost.pass(4 * elements) + cost.fill(2 * elements);
  t.backward_weight = cost.pass(10 * elements) * s.determinism.embedding_backward_ratio;
  return t;
}

namespace {

void add(PassTimes& sum, const LayerTimes& t, double times) {
  sum.forward += times * t.forward;
  sum.backward_input += times * t.backward_input;
  sum.backward_weight += times * t.backward_weight;
}

}  // namespace

std::vector<PassTimes> chunk_times(const Situation& s, const Schedule& schedule) {
  const Model& model = s.plan.model;
  const LayerTimes dense = layer_times(s, false);
  const LayerTimes moe = model.moe ? layer_times(s, true) : LayerTimes{};
  const std::vector<int64_t> layers = layers_of_chunks(s.plan);
  std::vector<PassTimes> chunks(layers.size());
  std::vector<double> hides(layers.size(), 0);
  int64_t layer = 0;
  for (size_t c = 0; c < layers.size(); ++c) {
    for (int64_t k = 0; k < layers[c]; ++k, ++layer) {
      const LayerTimes& t = is_moe_layer(model, layer) ? moe : dense;
      add(chunks[c], t, 1);
      hides[c] += t.pair_hides;
    }
  }
  add(chunks.front(), embedding_times(s), 1);
  add(chunks.back(), head_times(s), 1);
  for (size_t c = 0; c < chunks.size(); ++c)
    chunks[c].both = chunks[c].forward + chunks[c].backward() - hides[c];
  std::vector<PassTimes> placed(static_cast<size_t>(schedule.stages * schedule.chunks));
  const int stages = schedule.stages;
  for (int stage = 0; stage < stages; ++stage) {
    for (int c = 0; c < schedule.chunks; ++c) {
      const bool back = schedule.placement != ChunkPlacement::looped && c == 1;
      const int within = back ? stages - 1 - stage : stage;
      const int number =
          schedule.placement == ChunkPlacement::mirrored ? within : c * stages + within;
      placed[static_cast<size_t>(stage * schedule.chunks + c)] =
          chunks[static_cast<size_t>(number)];
    }
  }
  return placed;
}

double model_flops(const TrainingPlan& plan) {
  const Model& m = plan.model;
  const auto tokens = static_cast<double>(plan.tokens_per_step());
  double parameters = token_table_parameters(m);  // the head; a look-up multiplies nothing
  double width = static_cast<double>(m.heads * m.head_width);
  if (m.latent_attention) {
    const LatentAttention& a = *m.latent_attention;
    width = static_cast<double>(m.heads *
                                (a.nope_head_width + a.rope_head_width + a.value_head_width)) /
            2;
  }
  for (int64_t layer = 0; layer < m.layers; ++layer) {
    const bool moe = is_moe_layer(m, layer);
    parameters += dense_layer_parameters(m, moe);
    if (moe)
      parameters += expert_layer_parameters(m) * static_cast<double>(m.moe->top_k) /
                    static_cast<double>(m.moe->experts);
  }
  const double attention = 12 * static_cast<double>(m.layers) * width * causal_half(plan);
  return tokens * (6 * parameters + attention);
}

}  // namespace dettax
