#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "harness/base/fingerprint.h"
#include "harness/comm/communication_listener.h"
#include "harness/device/tensor.h"

namespace dettax {

class Device;

// Sees a training step from inside, op by op, in program order. One observer per rank; null when steps are timed.
// A path reads phase/layer/op, e.g. "forward/layer3/attention", "backward/layer3/mlp_up", "optimizer/clip", with "micro0/" before it
// when a step has several micro-batches.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  // Before the op of this path is issued. `tensor_name` calls for it follow.
  virtual void on_op(std::string_view path) = 0;
  // After an op: one of its outputs, complete on the device. first_index is the index of its first element in the whole (unsharded)
  // tensor.
  virtual void on_tensor(std::string_view path, std::string_view tensor_name, const Tensor& tensor,
                         uint64_t first_index) = 0;
  // Whether it looks at every output; else those that take work to show may be left out.
  virtual bool sees_every_op() const { return true; }
  // Of an op's inputs what is no tensor: the bounds of a bucket, a place in a stream of random numbers.
  virtual void on_fact(std::string_view /*path*/, std::string_view /*name*/,
                       const Fingerprint& /*value*/) {}
};

// What an op does with its time: works on this rank's own data, waits for or moves data of other ranks, or writes a constant.
enum class OpKind { compute, communication, fill };

// Hears when each op of a step is issued and what the rank communicates meanwhile, and nothing else: the step does what it does when
// nobody listens. One listener per rank.
class OpListener : public CommunicationListener {
 public:
  // phase/layer/op, without the micro-batch. The text lives as long as the training step, and each place has one of its own.
  virtual void on_op(const char* path, OpKind kind) = 0;
  // The step's last op is done.
  virtual void on_idle() = 0;
};

// "micro3/forward/..." -> "forward/...".
inline std::string_view without_micro_batch(std::string_view path) {
  if (!path.starts_with("micro")) return path;
  const size_t slash = path.find('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

}  // namespace dettax
