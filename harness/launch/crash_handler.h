#pragma once

#include "harness/launch/status_page.h"

namespace dettax {

// From now on a fatal signal of this process leaves the number of the rank it struck in `page`,
// then ends the process as it would have. The page must outlive the process' work.
void note_crashes_in(StatusPage& page);

}  // namespace dettax
