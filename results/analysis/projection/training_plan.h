#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "harness/plan/case.h"
#include "results/analysis/projection/schedule.h"

namespace dettax {

// flash: one kernel, its matrix never in memory. materialised: scores, softmax and dropout as kernels of their own, as before 2022.
enum class AttentionKind { flash, materialised };

// How a framework's step is put together, as far as it decides what is hidden behind what.
struct Software {
  AttentionKind attention = AttentionKind::flash;
  bool tensor_overlap = true;  // all tensor-parallel traffic beside matrix products
  bool bulk_overlap = true;  // at least that of the backward pass whose products do not wait for it
  bool context_overlap = true;
  bool data_overlap = true;
  bool send_overlap = true;
  bool fused_loss = true;
  // Of a layer's products, what the backward pass computes again, and with it every pass that is not a product; 0: nothing beside what the
  // layout says.
  double recomputed_products_ratio = 0;
  double gradient_bytes = 4;   // of an element as it is reduced
  double parameter_bytes = 2;  // as it is gathered
  double bucket_bytes = 160e6;
  int64_t shard_ranks =
      0;  // zero3: ranks that share one copy of the weights; 0: all data-parallel ones
};

// One training step to be projected.
struct TrainingPlan {
  Model model;
  Layout layout;  // its schedule is not looked at: `schedule` has more of them
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  Precision precision = Precision::bf16;
  Batch batch;
  Software software;

  int64_t ranks() const { return layout.ranks(); }
  int64_t micro_batches() const { return batch.global / (batch.micro * layout.dp); }
  // Of a micro-batch on a context-parallel rank.
  double tokens() const {
    return static_cast<double>(batch.micro * batch.sequence_length) / layout.cp;
  }
  int64_t tokens_per_step() const { return batch.global * batch.sequence_length; }
  bool data_sharded() const { return layout.zero_stage > 0; }
};

// Of an activation, and of a weight as products take it.
double element_bytes(Precision precision);

// Why no step can be laid out like this, in one sentence that says what would do; nothing if it can.
std::optional<std::string> plan_refusal(const TrainingPlan& plan);
// Layers of each chunk, chunk c of stage s at place c * pp + s of the model; the ends, which also hold the token tables, get fewer.
std::vector<int64_t> layers_of_chunks(const TrainingPlan& plan);
// Chunks of layers that one copy of the model is cut into.
int64_t model_chunks(const TrainingPlan& plan);
ScheduleRequest schedule_request(const TrainingPlan& plan);

// Parameters of one layer, without experts; of the experts of one layer; of one token table.
double dense_layer_parameters(const Model& model, bool moe_layer);
double expert_layer_parameters(const Model& model);
double token_table_parameters(const Model& model);
bool is_moe_layer(const Model& model, int64_t layer);

}  // namespace dettax
