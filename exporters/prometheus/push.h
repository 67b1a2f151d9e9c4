#pragma once

#include <string>
#include <vector>

#include "results/record.h"

namespace dettax {

// Pushes the metrics of records to a Pushgateway at "host:port", a group a config: all metrics of a config replace those it had, so that
// none of an older run stays; the end of the last success has a group of its own, which only another success replaces.
// Error{infrastructure} if the gateway did not take all of it; what it took before stays.
void push_metrics(const std::vector<Record>& records, const std::string& gateway);

}  // namespace dettax
