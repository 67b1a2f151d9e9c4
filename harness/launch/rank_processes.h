#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/launch/launcher.h"
#include "harness/launch/link_watch.h"
#include "harness/launch/process.h"
#include "harness/launch/process_launcher.h"
#include "harness/launch/rank_links.h"

namespace dettax {

// The ranks of one group as processes, on this host and others, and the watchdog over them: every
// request has a deadline, and a rank, host or network that dies or stands still becomes an Error that
// names it. Between requests all of them sleep in a read of their connection.
class RankProcesses {
 public:
  RankProcesses(const ArmSpec& spec, const LaunchSettings& settings,
                const ProcessSettings& process_settings, const std::string& name);
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  // Every rank's reply, good or bad, index = rank. `limit_seconds` bounds the whole request; with
  // `watch_steps` the ranks must also get on within every step_timeout_seconds.
  std::vector<Reply> request(const WorkerRequest& what, double limit_seconds, bool watch_steps);

  const std::vector<RankLink>& links() const { return links_; }
  const std::vector<Welcome>& welcomes() const { return welcomes_; }

 private:
  void watch_links();
  void welcome_all(const ArmSpec& spec);
  void send_all(const std::string& line);
  bool all_replied() const;
  void throw_if_one_failed();
  [[noreturn]] void throw_died();
  [[noreturn]] void throw_delayed(double no_progress_seconds);
  void end();

  LaunchSettings settings_;
  std::filesystem::path log_;
  ControlServer server_;
  Process process_;  // mpirun or srun
  std::vector<RankLink> links_;
  std::unique_ptr<LinkWatch> watch_;  // of the links
  std::vector<Welcome> welcomes_;
};

// What each rank is told to use: cores by binding, and whether there is one for every thread of the
// ranks on its machine. Error{config} where there are too few to bind to.
std::vector<Welcome> plan_welcomes(const std::vector<Hello>& hellos, RankPlacement placement,
                                   Binding binding, int threads, double step_timeout_seconds);

}  // namespace dettax
