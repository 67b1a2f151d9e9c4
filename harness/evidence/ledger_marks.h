#pragma once

#include <string>
#include <string_view>

#include "harness/evidence/ledger_columns.h"

namespace dettax {

// What an entry of a ledger is, by its names.

inline bool is_reduction(std::string_view path) { return path.find("reduce/") != path.npos; }
// Of a collective: what a rank gave.
inline bool is_input(std::string_view tensor) { return tensor.ends_with("before"); }
inline bool is_reduced(std::string_view path, std::string_view tensor) {
  return is_reduction(path) && !is_input(tensor);
}
inline bool is_gradient(std::string_view tensor) { return tensor.ends_with(".grad"); }
// A gradient that has the sum over micro-batches so far.
inline bool is_sum_so_far(std::string_view path, std::string_view tensor) {
  return path.starts_with("micro") && !path.starts_with("micro0/") && is_gradient(tensor);
}
inline bool was_received(std::string_view path) { return path.ends_with("/pipeline_receive"); }
// Loss, norm and state are those of the whole model, whatever the layout.
inline bool is_of_whole_model(std::string_view path) { return path == "result" || path == "state"; }
// The parameter that an entry of the state belongs to.
inline std::string parameter_of(const std::string& tensor) {
  for (const std::string_view suffix : {".first_moment", ".second_moment"}) {
    if (tensor.ends_with(suffix)) return tensor.substr(0, tensor.size() - suffix.size());
  }
  return tensor;
}

}  // namespace dettax
