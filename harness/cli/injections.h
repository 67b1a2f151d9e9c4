#pragma once

#include "harness/plan/suite.h"

namespace dettax {

// Throws Error{config} if a case injects a fault into an op that an arm it strikes does not issue: such a
// fault would be found to strike nothing only when the arm has been started.
void check_injections(const Suite& suite);

}  // namespace dettax
