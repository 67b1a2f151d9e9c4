#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/comm/communicator.h"
#include "harness/plan/layout.h"

namespace dettax {

// Where a rank stands on each axis of a layout.
struct MeshPosition {
  int dp = 0, tp = 0, pp = 0, cp = 0;
  friend bool operator==(const MeshPosition&, const MeshPosition&) = default;
};
// tp runs fastest, then cp, dp, pp. The inverse of each other.
MeshPosition position_of(const Layout& layout, int rank);
int rank_of(const Layout& layout, const MeshPosition& position);

// The groups of ranks that one rank belongs to. Made by all ranks of the world at once; the world must outlive it.
// Every group exists, with one rank where its axis has size 1.
class Mesh {
 public:
  // `samples_first`: a sum over replicas adds samples before pieces of them, so that an invariant one does not depend on dp.
  Mesh(const Layout& layout, Communicator& world, bool samples_first = false);

  const Layout& layout() const { return layout_; }
  const MeshPosition& position() const { return position_; }

  Communicator& world() const { return world_; }
  Communicator& tensor() const { return *tensor_; }    // ranks that share each layer, ordered by tp
  Communicator& context() const { return *context_; }  // that share each sequence
  Communicator& pipeline() const { return *pipeline_; }  // that hold one layer after the other
  // The same ranks, for what goes from the last layer to the first: its messages do not queue behind those of the other direction.
  Communicator& pipeline_backward() const { return *pipeline_backward_; }
  // First and last stage of a pipeline, which share a tied table; a stage between them is alone.
  Communicator& ends() const { return *ends_; }
  Communicator& data() const { return *data_; }  // same weights, other samples
  // Same weights of a dense layer: data x context. Their gradients are added. In order of dp, then cp; with samples_first of cp, then dp.
  Communicator& replicas() const { return *replicas_; }
  // Ranks that share the experts of a layer: neighbours on dp.
  Communicator& expert() const { return *expert_; }
  // Same weights of an expert: every ep-th rank of data, times context.
  Communicator& expert_replicas() const { return *expert_replicas_; }
  Communicator& replicas(bool of_experts) const {
    return of_experts ? *expert_replicas_ : *replicas_;
  }
  // All ranks that hold parts of one copy of the model: tensor x pipeline, times those that share experts.
  Communicator& model() const { return *model_; }

  // Tells `listener` what goes over every group, by names such as "tensor.3": the axis, and which of its groups. Null: nobody.
  void listen(CommunicationListener* listener) const;

  int expert_index() const { return position_.dp % layout_.ep; }
  bool first_stage() const { return position_.pp == 0; }
  bool last_stage() const { return position_.pp == layout_.pp - 1; }

 private:
  const Layout layout_;
  const MeshPosition position_;
  Communicator& world_;
  std::unique_ptr<Communicator> tensor_, context_, pipeline_, pipeline_backward_, ends_, data_,
      replicas_, expert_, expert_replicas_, model_;
  std::vector<std::pair<Communicator*, std::string>> names_;
};

}  // namespace dettax
