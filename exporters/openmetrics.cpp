#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <ostream>
#include <set>

#include <fmt/format.h>

#include "exporters/escape.h"
#include "exporters/exporter.h"
#include "exporters/metrics.h"
#include "exporters/outlook.h"
#include "harness/base/format.h"

namespace dettax {
namespace {

std::string sample_value(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return format_number(value);
}

std::string label_text(const Labels& labels) {
  std::string text;
  for (const auto& [name, value] : labels)
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, metric_label(value));
  return text;
}

void write_families(std::ostream& out, const std::vector<MetricFamily>& families,
                    const std::vector<std::vector<Sample>>& samples) {
  for (size_t i = 0; i < families.size(); ++i) {
    const MetricFamily& family = families[i];
    if (samples[i].empty()) continue;
    out << "# HELP " << family.name << ' ' << family.help << "\n# TYPE " << family.name
        << " gauge\n";
    if (!family.unit.empty()) out << "# UNIT " << family.name << ' ' << family.unit << '\n';
    for (const Sample& sample : samples[i])
      out << family.name << '{' << label_text(sample.labels) << "} " << sample_value(sample.value)
          << '\n';
  }
}

}  // namespace

// One text that is valid OpenMetrics and valid for node_exporter's textfile collector too: gauges only, a unit only where the name ends
// in it, no blank line, no time stamps, # EOF at the end.
void write_openmetrics(std::ostream& out, const std::vector<Record>& records,
                       const ExportSettings& settings) {
  const Metrics metrics = metrics_of(records, last_successes(settings.previous));
  if (settings.warn) {
    for (const std::string& warning : metrics.warnings) settings.warn(warning);
  }
  write_families(out, metric_families(), metrics.samples);
  if (settings.outlook != nullptr)
    write_families(out, outlook_metric_families(), outlook_samples(*settings.outlook));
  out << "# EOF\n";
}

}  // namespace dettax
