#pragma once

#include <string>
#include <vector>

namespace dettax {

// How much of a step a ledger holds; each depth holds what the one before it does.
//  step   tokens, what reductions take and give, loss, norm and clip factor, and the state after it
//  layer  what each layer hands on, forward and backward
//  op     every output of every op
enum class LedgerDepth { step, layer, op };
inline const std::vector<std::string>& ledger_depth_words() {
  static const std::vector<std::string> kWords{"step", "layer", "op"};
  return kWords;
}
inline const std::string& to_string(LedgerDepth depth) {
  return ledger_depth_words()[static_cast<size_t>(depth)];
}

}  // namespace dettax
