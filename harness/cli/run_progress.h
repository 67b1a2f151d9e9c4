#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <ostream>
#include <string>

#include "harness/launch/run_case.h"

namespace dettax {

// Shows how far a run is: a bar that is redrawn on a terminal, a line for each new thing elsewhere.
class RunProgress {
 public:
  struct Settings {
    bool terminal = false;
    int width = 100;
    bool quiet = false;
  };
  RunProgress(std::ostream& err, const Settings& settings) : err_(err), settings_(settings) {}
  ~RunProgress() { clear(); }
  RunProgress(const RunProgress&) = delete;

  void show(size_t done, size_t total, const CaseProgress& progress);
  void finished(size_t done, size_t total, const Record& record);
  void clear();  // takes the bar away, so that other text can be written

 private:
  std::ostream& err_;
  Settings settings_;
  // Of the whole run, from how long the part took that is done; none before a part worth judging by is.
  std::optional<double> seconds_left(double fraction);

  bool drawn_ = false;
  std::string last_words_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::optional<double> first_fraction_;  // where a resumed run began
};

}  // namespace dettax
