#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "harness/comm/request.h"
#include "harness/train/stage_activations.h"
#include "harness/train/step_context.h"

namespace dettax {

// What neighbouring stages send each other: the residual stream, with load-balance losses behind it, to the next one, its gradient to
// the one before; with several chunks a
// stage the last stage and the first are neighbours too. Each direction has a communicator of its own, in which messages come in the
// order in which they are needed, since all stages pass the same sequence of micro-batches and chunks. Nobody waits for a message to
// be taken before its memory is needed again, so that no circle of waiting can form. With one stage nothing here does anything.
class PipelineExchange {
 public:
  PipelineExchange(const Mesh& mesh, const Stage& stage, const StageActivations& activations);

  // Before action number `action`: its input has come, and what it is going to write is free. With `overlap` the next message may arrive
  // while this pass is computed.
  void begin(StepContext& c, size_t action);
  // After it: its result is on its way.
  void end(StepContext& c, size_t action);
  // Everything sent in this step has been taken.
  void finish();

  // Backward passes of the step before this action.
  int64_t gradients_before(size_t action) const { return gradients_before_[action]; }

 private:
  struct Direction {
    Communicator* group = nullptr;
    int from = 0, to = 0;
    std::vector<size_t> receiving;  // actions that begin with a message, in order
    size_t next = 0;                // the first of them that was not asked for yet
    bool asked = false;             // whether `arriving` is the message of the one before it
    Request arriving;
    std::vector<Request> sent;  // by the memory they are sent from
  };

  Direction& direction_of(size_t action) {
    return directions_[stage_.actions[action].backward ? 1 : 0];
  }
  bool receives(const PipelineAction& action) const;
  bool sends(const PipelineAction& action) const;
  // Where the result of an action lies, as an index into `sent`.
  size_t place_of(size_t action) const;
  Tensor input_of(size_t action) const;
  Tensor result_of(size_t action) const;
  // With what goes with it.
  int64_t message_bytes(size_t action, const Tensor& message) const;
  void ask(Direction& direction);
  bool may_ask_ahead(const Direction& direction, size_t action);

  const Stage& stage_;
  const StageActivations& activations_;
  std::vector<int64_t> gradients_before_;  // of each action
  std::vector<size_t> first_place_;        // of each chunk, forward
  std::array<Direction, 2> directions_;    // forward, backward
};

}  // namespace dettax
