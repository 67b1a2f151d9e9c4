#pragma once

#include <memory>
#include <optional>
#include <string>

#include "harness/cli/options.h"
#include "harness/launch/launcher.h"
#include "harness/plan/suite.h"

namespace dettax {

// How `dettax run` was asked to start the ranks; what was not given is as the suite says.
struct LaunchOptions {
  std::string launcher, hostfile, nodelist, exclude, arguments, binding, control_address;
  std::optional<double> nodes;
};
void declare_launch_options(Options& options, LaunchOptions& values);
bool any_given(const LaunchOptions& options);

// Lays the flags over the suite. Error{usage} for a flag that does not fit it.
void lay_over(Suite& suite, const LaunchOptions& options);

// The launcher that the suite asks for. Error in one line where it cannot work here.
std::unique_ptr<Launcher> make_launcher(const LaunchPlan& plan, LaunchSettings settings);

// Throws what make_launcher() would throw, before anything is made or started.
void check_launcher(const LaunchPlan& plan);

// One dettax starts all ranks itself; N of them, started by mpirun or srun, would each run the whole
// suite. Error{usage} with the rank and what to do instead.
void require_single_start();

}  // namespace dettax
