#pragma once

#include "harness/device/ops.h"

namespace dettax {

// Which shapes fit together in a call, for every backend; what a backend alone asks (types, limits) is its own. Each throws
// Error{internal} that names the operation. Operations with a condition or two check them where they are.
void require_shapes(const AddBiasResidual& call);
void require_shapes(const EmbeddingForward& call);
void require_shapes(const EmbeddingBackward& call);
void require_shapes(const NormForward& call);
void require_shapes(const NormBackward& call);
void require_shapes(const SwigluBackward& call);
void require_shapes(const CopyColumns& call);
void require_shapes(const CrossEntropy& call);
void require_shapes(const CrossEntropySums& call);
void require_shapes(const CrossEntropyFromSums& call);
void require_shapes(const AdamW& call);
void require_shapes(const RouteTokens& call);
void require_shapes(const BalanceLoss& call);
void require_shapes(const RouteTokensBackward& call);
void require_shapes(const PlanExperts& call);
void require_shapes(const UnpermuteRows& call);
void require_shapes(const UnpermuteRowsBackward& call);

}  // namespace dettax
