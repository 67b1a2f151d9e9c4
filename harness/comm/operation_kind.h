#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace dettax {

enum class OperationKind {
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  broadcast,
  send,
  receive,
  barrier
};
inline constexpr int kOperationKinds = 8;

constexpr std::string_view operation_name(OperationKind kind) {
  constexpr std::array<std::string_view, kOperationKinds> kNames{
      "all_reduce", "reduce_scatter", "all_gather", "all_to_all",
      "broadcast",  "send",           "receive",    "barrier"};
  return kNames[static_cast<size_t>(kind)];
}
// Goes from one rank to another, rather than over a whole group.
constexpr bool is_message(OperationKind kind) {
  return kind == OperationKind::send || kind == OperationKind::receive;
}

}  // namespace dettax
