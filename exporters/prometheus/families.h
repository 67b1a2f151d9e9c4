#pragma once

#include <vector>

#include <prometheus/metric_family.h>

#include "exporters/metrics.h"

namespace dettax {

// For the sources of this folder, which alone know prometheus-cpp.
std::vector<prometheus::MetricFamily> families_of(const Metrics& metrics);

}  // namespace dettax
