#pragma once

#include <chrono>
#include <filesystem>
#include <mutex>
#include <vector>

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include "exporters/prometheus/run_watch.h"

namespace dettax {

// The metrics of the runs under a folder, and how the newest run of each suite fares. For the sources of this folder.
class RunCollectable : public prometheus::Collectable {
 public:
  static constexpr std::chrono::milliseconds kBetweenLooks{500};

  // However often it is asked, it looks at the folder every `between_looks` at most.
  RunCollectable(const std::filesystem::path& folder, double keep_seconds,
                 std::chrono::milliseconds between_looks = kBetweenLooks);

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  void look() const;

  // Collecting is const to its caller, and looks for what is new.
  mutable std::mutex mutex_;
  mutable RunWatch watch_;
  mutable std::vector<prometheus::MetricFamily> families_;
  mutable std::chrono::steady_clock::time_point looked_;
  std::chrono::milliseconds between_looks_;
  double start_seconds_;
};

}  // namespace dettax
