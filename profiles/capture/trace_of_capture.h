#pragma once

#include <string>

#include "profiles/capture/capture.h"
#include "profiles/import/import_options.h"
#include "profiles/trace.h"

namespace dettax {

// The capture as a Trace that attribution reads. `source` is what messages call it.
// Paths come from the external ids of our own trainer, else from ranges; what communicates is told by NCCL's own ranges, else by the
// names of kernels. A call of the driver within one of the runtime is that one call. Ranges of libraries count as operations, those of
// no domain as annotations. What the capture lost is in Trace::losses, so that it is refused.
// Throws Error{usage} where steps of one name are asked for and no range has it.
Trace trace_of_capture(const Capture& capture, const std::string& source,
                       const ImportOptions& options = {});

}  // namespace dettax
