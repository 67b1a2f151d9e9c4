#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "harness/plan/case.h"

namespace dettax {

// Where training sequences come from. Sample i of step s depends on (seed, s, i) alone, so that it is the same on every layout.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  // tokens.size() = sequence length + 1: inputs are all but the last, targets all but the first.
  virtual void sample(uint64_t seed, int64_t step, int64_t index,
                      std::span<int32_t> tokens) const = 0;
};

// zipf: ids drawn independently, id i with probability ~ 1 / (i + 1 + 2.7)^exponent; ids are ranks, as they nearly are in a BPE
// vocabulary, whose frequent entries come first. text: windows of a file's bytes at drawn positions.
// Throws Error{config} that says which file is unreadable or too short, or what kind of data is unknown.
std::unique_ptr<TokenSource> make_token_source(const Case& planned);

}  // namespace dettax
