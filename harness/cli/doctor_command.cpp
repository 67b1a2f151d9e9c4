#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "harness/base/error.h"
#include "harness/base/format.h"
#include "harness/cli/command.h"
#include "harness/cli/run_path.h"
#include "harness/comm/mpi_session.h"
#include "harness/device/cpu/gemm.h"
#include "harness/device/cuda_presence.h"
#include "harness/launch/launch_command.h"
#include "harness/launch/machine.h"
#include "harness/launch/memory.h"
#include "harness/launch/rank_pool.h"
#include "harness/plan/suite.h"
#include "results/environment.h"

namespace dettax {
namespace {

// broken: dettax cannot measure without it; missing: a part that is optional.
enum class Health { fine, missing, broken };

struct Finding {
  std::string subject;
  Health health = Health::fine;
  std::string words;
};

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

Finding check_build(const Environment& environment) {
  const bool optimised = environment.build_type != "Debug";
  return {"build", Health::fine,
          fmt::format("dettax {} ({}), {}, {}{}", environment.tool_version, environment.git_commit,
                      environment.compiler, environment.build_type,
                      optimised ? "" : ": a debug build, whose times mean nothing")};
}

Finding check_cpu(const Environment& environment) {
  return {
      "cpu", Health::fine,
      fmt::format("{}, {} cores, {} of them for this process; vector instructions {}",
                  environment.cpu_model, environment.cores, available_cores(), gemm_target_name())};
}

Finding check_memory(const Environment& environment) {
  return {
      "memory", Health::fine,
      fmt::format("{}, {} available", format_bytes(static_cast<double>(environment.memory_bytes)),
                  format_bytes(static_cast<double>(available_memory_bytes())))};
}

Finding check_huge_pages() {
  const std::string setting = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  if (setting.empty()) {
    return {"huge pages", Health::missing,
            "the kernel has no transparent huge pages; large buffers cost more TLB misses"};
  }
  return {"huge pages", Health::fine, "transparent huge pages: " + setting};
}

Finding check_pressure() {
  const std::string line = first_line("/proc/pressure/cpu");
  if (line.empty()) {
    return {
        "pressure", Health::missing,
        "the kernel does not tell CPU pressure (PSI); blocks are guarded by load and steal alone"};
  }
  return {"pressure", Health::fine, "CPU pressure (PSI): " + line};
}

Finding check_frequency() {
  const std::string governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  if (governor.empty()) {
    return {"frequency", Health::missing,
            "no scaling driver is visible (as in virtual machines); the clock in records is the "
            "nominal one"};
  }
  const bool steady = governor == "performance";
  return {"frequency", Health::fine,
          fmt::format("governor {}{}", governor,
                      steady ? "" : "; \"performance\" gives steadier step times")};
}

Finding check_home() {
  try {
    const std::string home = find_home();
    const auto suites = list_suites();
    for (const std::string& name : suites) load_suite(name);
    return {"files", Health::fine,
            fmt::format("{} with {} models, {} modes, {} suites", home, list_models().size(),
                        list_modes().size(), suites.size())};
  } catch (const Error& error) {
    return {"files", Health::broken, error.what()};
  }
}

Finding check_output() {
  std::filesystem::path existing = std::filesystem::absolute(default_runs_folder());
  while (!std::filesystem::exists(existing)) existing = existing.parent_path();
  if (::access(existing.c_str(), W_OK) != 0) {
    return {"results", Health::missing,
            fmt::format("{} is not writable here; run with --output-dir",
                        default_runs_folder().string())};
  }
  return {"results", Health::fine, fmt::format("runs go to {}", default_runs_folder().string())};
}

// What can start ranks as processes.
Finding check_launchers() {
  const auto variable = process_variables();
  std::string words = why_no_mpi();
  if (!words.empty()) return {"launchers", Health::missing, "threads alone: " + words};
  const bool mpirun = !find_on_path("mpirun", variable).empty();
  const bool srun = !find_on_path("srun", variable).empty();
  words = fmt::format("threads{}{}; {}", mpirun ? ", mpirun" : "", srun ? ", srun" : "",
                      find_machine().description);
  return {"launchers", mpirun || srun ? Health::fine : Health::missing,
          words + (mpirun ? "" : "; openmpi-bin has mpirun")};
}

// The arithmetic that everything else stands on.
Finding check_arithmetic() {
  const float a = 0.1F;
  const volatile float product = a * a;
  const float fused = std::fma(a, a, -product);
  volatile float x = a;
  const float separate = x * x - product;
  if (separate == 0.0F && fused != 0.0F) {
    return {"arithmetic", Health::fine, "multiply and add are fused only where it is written"};
  }
  return {"arithmetic", Health::broken,
          "the compiler fused a multiply and an add by itself; build with -ffp-contract=off"};
}

Finding check_cuda() {
  const CudaPresence cuda = find_cuda();
  if (cuda.missing.empty()) return {"cuda", Health::fine, cuda.found};
  return {"cuda", Health::missing,
          fmt::format("{}{}{}; cases with backend cuda are refused", cuda.found,
                      cuda.found.empty() ? "" : "; ", cuda.missing)};
}

std::vector<Finding> examine() {
  const Environment environment = collect_environment(gemm_target_name());
  return {check_build(environment),
          check_cpu(environment),
          check_memory(environment),
          check_huge_pages(),
          check_pressure(),
          check_frequency(),
          check_home(),
          check_output(),
          check_arithmetic(),
          check_cuda(),
          check_launchers()};
}

class DoctorCommand : public Command {
 public:
  const char* name() const override { return "doctor"; }
  const char* what() const override { return "says what this build and machine can do"; }
  void declare(Options&) override {}
  ExitCode run(const Streams& streams) override {
    ExitCode code = ExitCode::pass;
    for (const Finding& finding : examine()) {
      static constexpr std::array kWords = {"ok", "-", "BROKEN"};
      streams.out << fmt::format("{:<7} {:<11} {}\n", kWords[static_cast<size_t>(finding.health)],
                                 finding.subject, finding.words);
      if (finding.health == Health::broken) code = ExitCode::infrastructure;
    }
    return code;
  }
};

}  // namespace

std::unique_ptr<Command> make_doctor_command() { return std::make_unique<DoctorCommand>(); }

}  // namespace dettax
