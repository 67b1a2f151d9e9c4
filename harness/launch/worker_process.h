#pragma once

#include <string>

#include "harness/launch/channel.h"
#include "harness/launch/launcher.h"
#include "harness/launch/process.h"
#include "harness/launch/status_page.h"

namespace dettax {

// One worker process and the watchdog over it: every request has a deadline, and a worker that dies
// or stands still becomes an Error that says where its ranks were.
class WorkerProcess {
 public:
  WorkerProcess(const ArmSpec& spec, const LaunchSettings& settings, const std::string& name);
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  // The reply, good or bad. `limit_seconds` bounds the whole request; with `watch_steps` the worker
  // must also begin a new step at least every step_timeout_seconds.
  Reply request(const WorkerRequest& what, double limit_seconds, bool watch_steps);
  pid_t pid() const { return process_.pid(); }

 private:
  [[noreturn]] void throw_died();
  [[noreturn]] void throw_hung(double seconds);
  int64_t steps_begun() const;

  LaunchSettings settings_;
  std::filesystem::path log_;
  int ranks_ = 1;
  StatusPage page_;
  Channel channel_;
  Process process_;
};

}  // namespace dettax
