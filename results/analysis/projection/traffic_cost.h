#pragma once

#include "results/analysis/projection/op_cost.h"

namespace dettax {

// Time of one collective in this situation: by the table's measured curves where it has the collective for groups that lie alike (all in
// one fast-link domain, or as many members in each), else by NCCL's cost model. From a curve of other ranks than the group's, the model says
// how much the time changes.
double traffic_seconds(const Situation& situation, CollectiveKind collective, double bytes,
                       const GroupShape& group);

}  // namespace dettax
