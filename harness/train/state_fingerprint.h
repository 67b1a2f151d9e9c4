#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "harness/base/fingerprint.h"
#include "harness/device/device.h"
#include "harness/train/model_layout.h"

namespace dettax {

// Of what a rank holds of a parameter, the elements [first, first + tensor.count()).
struct HeldPart {
  Tensor tensor;
  int64_t first = 0;
};

// Part of the whole parameter's fingerprint: parts of all ranks that hold distinct elements add up to it.
Fingerprint fingerprint_part(Device& device, const ParameterSpec& spec, const HeldPart& part);

// How a kind of state (weights, a moment) is held.
struct StateShards {
  const ModelLayout& layout;              // what the rank holds
  const std::vector<std::string>& names;  // of the whole model
  const Mesh& mesh;
  bool over_replicas;  // each holds some elements only
};
struct StateKind {
  StateShards shards;
  std::function<HeldPart(int parameter)> part_of;
};
// Each kind of the whole model on every rank, by parameter in the order of `names`, all in one pass; all ranks of a replica call it at
// once, and all replicas where they share it. A parameter that every tensor rank has whole is the caller's own, so that copies that
// have come to differ show.
std::vector<std::vector<Fingerprint>> fingerprint_state(std::span<const StateKind> kinds,
                                                        Device& device);

}  // namespace dettax
