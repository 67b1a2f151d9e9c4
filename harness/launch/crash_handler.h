#pragma once

#include "harness/launch/status_page.h"

namespace dettax {

class RankPool;

// From now on a fatal signal of this process leaves the number of the rank it struck in `page`,
// then ends the process as it would have. The page must outlive the process' work.
void note_crashes_in(StatusPage& page);

// A fatal signal also writes LastWords of the page's first rank to this socket; -1 ends it.
void tell_crashes_to(int socket);

// The pool whose ranks' positions a crash leaves in the page as well; null takes it away.
void note_crash_positions(const RankPool* pool);

}  // namespace dettax
