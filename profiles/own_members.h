#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "profiles/trace.h"

namespace dettax {

// What Kineto's dialect has no place for. It stands in a top-level member of its own, in front of the events; other tools skip it.
inline constexpr std::string_view kOwnMember = "dettax";
// Stream 0 is not read by all tools; 7 is the first that CUDA gives out.
inline constexpr int64_t kFirstStream = 7;
// Name of the launches that stand in for those a trace of the host does not have.
inline constexpr std::string_view kHostLaunch = "dettaxHostOp";

struct OwnMembers {
  TraceKind kind = TraceKind::device;
  std::string host;
  std::vector<Stream> streams;  // of a trace of the host
  int64_t dropped = 0, untimed = 0;
  std::string told;
};

std::string write_own_members(const OwnMembers& members);
// Throws Error{config} that names the file and the key.
OwnMembers read_own_members(std::string_view json, const std::string& source);

struct DistributedInfo {
  std::optional<int> rank;
  int world_size = 0;
};
DistributedInfo read_distributed_info(std::string_view json, const std::string& source);

}  // namespace dettax
