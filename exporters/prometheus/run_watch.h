#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "exporters/metrics.h"
#include "results/record.h"

namespace dettax {

// What is known of the newest run of a suite.
struct SuiteState {
  std::string suite;
  bool up = false;         // a process runs it now
  double age_seconds = 0;  // since its journal last grew
  int64_t planned = 0, done = 0;
  int64_t finished_total =
      0;  // cases seen to finish since this watch began, over all runs of the suite
};

// Follows the run folders under one folder: those that lie there, new ones, and one that is being run.
class RunWatch {
 public:
  // Runs whose journal has not grown for `keep_seconds` are no longer told of.
  RunWatch(std::filesystem::path runs_folder, double keep_seconds)
      : folder_(std::move(runs_folder)), keep_seconds_(keep_seconds) {}

  // Reads what has changed. True if metrics() is another than before.
  bool look();

  const Metrics& metrics() const { return metrics_; }
  std::vector<SuiteState> suites() const;
  int64_t unreadable_runs() const { return unreadable_; }

 private:
  struct Run {
    uintmax_t journal_bytes = 0;
    std::filesystem::file_time_type journal_time;
    bool up = false, readable = true;
    std::string suite;
    int64_t planned = 0, done = 0, finished_events = 0;
    std::vector<Record> records;
  };
  bool look_at(const std::filesystem::path& path);
  void read(const std::filesystem::path& path, Run& run);
  double age_seconds(const Run& run) const;

  std::filesystem::path folder_;
  double keep_seconds_;
  bool first_look_ = true;
  std::map<std::string, Run> runs_;  // by name, which begins with the time
  std::map<std::string, int64_t> finished_total_;
  int64_t unreadable_ = 0;
  Metrics metrics_;
};

}  // namespace dettax
