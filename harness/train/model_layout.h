#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/comm/mesh.h"
#include "harness/plan/case.h"

namespace dettax {

// Rows [first, first + count) of a whole tensor.
struct RowBlock {
  int64_t first = 0, count = 0;
  friend auto operator<=>(const RowBlock&, const RowBlock&) = default;
};

// One trainable tensor, or the part of it that a rank holds: some blocks of its rows, and of each row columns from first_column on.
// A vector of n is n rows of one column.
struct ParameterSpec {
  std::string name;
  int64_t rows = 0, columns = 1;  // held here
  bool matrix = false;            // two-dimensional; weight decay is for these
  float constant = 0;             // vectors start at it
  double deviation = 0;           // matrices start normally distributed
  int64_t initialised_rows =
      0;  // of the whole matrix; the rest is padding of the vocabulary and stays zero

  int64_t whole_rows = 0, whole_columns = 1;
  std::vector<RowBlock> blocks;  // of the whole tensor, in the order in which they stand here
  int64_t first_column = 0;
  int64_t layer = -1;  // of the whole model; -1 for tables and the final norm
  // Of several stages or tensor ranks of a replica with the same elements one counts them in sums over ranks.
  bool repeated =
      false;  // an earlier stage of the pipeline has it too: the second use of a tied table
  bool primary = true;  // counted here
  bool of_norm =
      false;  // its gradient is a sum over the rows of the residual stream that a rank has
  bool of_experts =
      false;  // of those that a rank holds: its gradient is added over ranks that hold the same

  int64_t count() const { return rows * columns; }
  int64_t whole_count() const { return whole_rows * whole_columns; }
  bool sharded() const { return count() != whole_count(); }
};

// Elements held here that are neighbours in the whole tensor as well.
struct Run {
  int64_t whole_index = 0, count = 0;
};
// The longest run that begins with the element `index` of those held.
Run run_at(const ParameterSpec& spec, int64_t index);

// Which part of a model a rank holds. Experts and layers are counted in the whole model.
struct ModelPart {
  int tp = 1, tp_index = 0;
  int ep = 1, ep_index = 0;
  std::vector<int64_t> layers;  // ascending
  bool embedding = true;        // and the position table
  bool head = true;             // and the final norm
};
ModelPart whole_model(const Model& model);
// What the rank at this position of the mesh holds. With vp chunks a stage has every pp-th chunk.
ModelPart part_of(const Model& model, const Layout& layout, const MeshPosition& position);

// Indices into ModelLayout::parameters; absent is kNoParameter.
inline constexpr int kNoParameter = -1;
struct LinearParameters {
  int weight = kNoParameter, bias = kNoParameter;
};
struct NormParameters {
  int gamma = kNoParameter, beta = kNoParameter;
};
struct LayerParameters {
  NormParameters norm1, norm2;
  LinearParameters qkv, projection;
  LinearParameters up,
      down;  // gate and up in one for swiglu; of the shared expert, if any, in a layer with experts
  int router = kNoParameter, expert_up = kNoParameter, expert_down = kNoParameter;  // weights
};

// The trainable tensors a rank holds, in forward order, which is also their order in memory.
struct ModelLayout {
  std::vector<ParameterSpec> parameters;
  int embedding = kNoParameter;
  int position = kNoParameter;
  std::vector<LayerParameters> layers;  // of the whole model; those held elsewhere are absent
  NormParameters final_norm;
  int head = kNoParameter;  // the embedding if tied
};

ModelLayout make_model_layout(const Model& model, const ModelPart& part);

inline int64_t attention_width(const Model& model) { return model.heads * model.head_width; }

}  // namespace dettax
