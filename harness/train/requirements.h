#pragma once

#include "harness/plan/case.h"

namespace dettax {

// Throws Error{unsupported} or Error{config} with a sentence if this trainer cannot run the case on a group of `ranks`.
void require_trainable(const Case& planned, int ranks);

}  // namespace dettax
