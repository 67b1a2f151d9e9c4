#pragma once

#include "profiles/inject/session.h"

namespace dettax {

// The process's session; null until begin_injection(), and if there was no memory for it.
InjectedSession* injected_session();

// Makes the session at the first call, and watches for the ends of the process. `driver`: CUDA is there.
void begin_injection(bool driver) noexcept;

}  // namespace dettax
