#pragma once

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/launch/memory.h"
#include "harness/plan/suite.h"

namespace dettax {

// Error{unsupported} for a case that this build and machine cannot run under that mode.
inline void require_possible(const Case& planned, const Mode& mode) {
  if (const auto reason = arm_refusal(planned, mode, available_memory_bytes()))
    throw Error(ErrorKind::unsupported, fmt::format("{} {}: {}", planned.id(), mode.name, *reason));
}

}  // namespace dettax
