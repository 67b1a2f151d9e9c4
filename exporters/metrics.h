#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "results/record.h"

namespace dettax {

// Results as gauges, for whatever carries them: a text file, a page that is scraped, a push.
//
// A *config* is a case and one of its judged arms: "<case>/<arm>". It has a constant number of series, whatever the steps, ranks,
// ops and runs behind it: every label but those of dettax_run_info is from a closed list, or belongs to the config.

using Labels = std::vector<std::pair<std::string, std::string>>;

struct MetricFamily {
  std::string_view name;
  std::string_view unit;  // empty: none
  std::string_view help;  // stable: a scraper that meets two of them refuses both
};
const std::vector<MetricFamily>& metric_families();

struct Sample {
  Labels labels;
  double value = 0;
};
struct Metrics {
  std::vector<std::vector<Sample>> samples;  // in the order of metric_families()
  std::vector<std::string> warnings;         // what was merged or left out
};

// config_id -> end of its last complete run, of samples in the text of an earlier file.
std::map<std::string, double> last_successes(const std::string& text);

// Of several records of one config the latest counts; a success that was once is not forgotten.
Metrics metrics_of(const std::vector<Record>& records,
                   const std::map<std::string, double>& last_successes);

}  // namespace dettax
