#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "harness/plan/suite.h"

namespace dettax {

// Bytes that can be had here and now without swapping: what the kernel says is available, and no
// more than the control group allows.
int64_t available_memory_bytes();

// The case as one node of it is: with ranks as threads all of them are here, whatever nodes they
// stand for.
Case on_its_node(const Case& planned, const Suite& suite);

// All arms of a case are alive at once; bytes they need together on a node.
int64_t case_memory_bytes(const Case& planned, const Suite& suite);

// Why there is no backend for this case on this machine, or nothing.
std::optional<std::string> missing_backend(const Case& planned);

// Why one arm of this case cannot run here, or nothing.
std::optional<std::string> arm_refusal(const Case& planned, const Mode& mode,
                                       int64_t available_bytes);

// Why this case cannot run with this much memory, or nothing.
std::optional<std::string> case_refusal(const Case& planned, const Suite& suite,
                                        int64_t available_bytes);

}  // namespace dettax
