#include "exporters/prometheus/families.h"

#include "exporters/escape.h"

namespace dettax {

std::vector<prometheus::MetricFamily> families_of(const Metrics& metrics) {
  std::vector<prometheus::MetricFamily> families;
  for (size_t i = 0; i < metric_families().size(); ++i) {
    if (i >= metrics.samples.size() || metrics.samples[i].empty()) continue;
    prometheus::MetricFamily family;
    family.name = metric_families()[i].name;
    family.help = metric_families()[i].help;
    family.type = prometheus::MetricType::Gauge;
    for (const Sample& sample : metrics.samples[i]) {
      prometheus::ClientMetric metric;
      for (const auto& [name, value] : sample.labels)
        metric.label.push_back({name, label_value(value)});
      metric.gauge.value = sample.value;
      family.metric.push_back(std::move(metric));
    }
    families.push_back(std::move(family));
  }
  return families;
}

}  // namespace dettax
