#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/cli/command.h"
#include "harness/cli/export_options.h"
#include "harness/cli/interrupt.h"
#include "harness/cli/run_options.h"
#include "harness/cli/scratch_folder.h"
#include "harness/launch/memory.h"
#include "harness/launch/restart_run.h"

namespace dettax {
namespace {

namespace fs = std::filesystem;

// Where runs leave their files: in a folder that was asked for, else in one that goes with this.
class RestartFolder {
 public:
  explicit RestartFolder(const std::string& asked) : path_(asked) {
    if (!asked.empty()) {
      require_folder("--output-dir", asked);
    } else {
      path_ = scratch_.emplace("restart").path();
    }
  }

  // One for a case, without what an earlier check left in it.
  fs::path begin(const std::string& name) const {
    const fs::path path = path_ / name;
    fs::create_directories(path);
    for (const char* left : {"straight.ledger", "saved.ledger", "resumed.ledger", "checkpoints"})
      fs::remove_all(path / left);
    return path;
  }
  void end(const fs::path& path) const {
    if (scratch_) fs::remove_all(path);
  }
  const fs::path& path() const { return path_; }

 private:
  std::optional<ScratchFolder> scratch_;
  fs::path path_;
};

class RestartCheckCommand : public Command {
 public:
  const char* name() const override { return "restart-check"; }
  const char* what() const override {
    return "shows that a run that was saved and restarted keeps its bits, item by item";
  }
  void declare(Options& options) override;
  ExitCode run(const Streams& streams) override;

 private:
  RestartSettings settings() const;
  void require_known_items(const RestartVerdict& verdict) const;
  RestartVerdict check(const ArmSpec& spec, Launcher& launcher, RestartSettings settings,
                       const RestartFolder& folder) const;
  RestartVerdict checked(const ArmSpec& spec, Launcher& launcher, const RestartSettings& settings,
                         const RestartFolder& folder, const InterruptWatch& interrupts) const;
  std::vector<Mode> promising_modes(const Suite& suite) const;

  RunOptions suite_;
  std::optional<double> steps_, save_at_;
  std::vector<std::string> leave_out_;
  std::string folder_, json_;
};

void RestartCheckCommand::declare(Options& options) {
  options.positional("SUITE", suite_.suite, "name or file of a suite", true);
  options.text("--case", "GLOB", suite_.case_pattern, "only cases whose id matches");
  options.texts("--mode", "NAME", suite_.modes, "modes instead of the suite's; may be repeated");
  options.texts("-C", "KEY=VALUE", suite_.overrides,
                "lays a value over the suite; may be repeated");
  options.number("--steps", steps_, "steps of the straight run (4)", "4");
  options.number("--save-at", save_at_, "steps done when the other is saved (half of them)", "2");
  options.texts(
      "--leave-out", "ITEM", leave_out_,
      "an item of the state that is not loaded, to see the check fail and name it; may be "
      "repeated");
  options.text("--output-dir", "DIR", folder_,
               "keeps ledgers and checkpoints there; on several hosts one that all of them reach");
  options.text("--json", "FILE", json_,
               "the verdicts as JSON; - for standard output instead of text");
  declare_launch_options(options, suite_.launch);
}

RestartSettings RestartCheckCommand::settings() const {
  const double steps = steps_.value_or(4);
  const double save_at = save_at_.value_or(std::floor(steps / 2));
  constexpr double kMost = 999'999;
  const auto whole = [](double value, double least, double most) {
    return value == std::floor(value) && value >= least && value <= most;
  };
  if (!whole(steps, 2, kMost))
    throw Error(
        ErrorKind::usage,
        fmt::format("--steps {}: a whole number from 2 to {} would be right", steps, kMost));
  if (!whole(save_at, 1, steps - 1))
    throw Error(ErrorKind::usage,
                fmt::format("--save-at {}: a whole number from 1 to {} would be right, one less "
                            "than --steps at most",
                            save_at, steps - 1));
  RestartSettings settings;
  settings.steps = static_cast<int>(steps);
  settings.save_at = static_cast<int>(save_at);
  settings.leave_out = leave_out_;
  return settings;
}

// A mode that promises nothing has nothing to keep through a restart.
std::vector<Mode> RestartCheckCommand::promising_modes(const Suite& suite) const {
  std::vector<Mode> modes = suite.modes;
  if (suite_.modes.empty())
    std::erase_if(modes, [](const Mode& mode) { return !mode.claims_reproducible; });
  if (modes.empty())
    throw Error(
        ErrorKind::config,
        fmt::format("{}: none of its modes promises its bits (claims_reproducible: true); name "
                    "one with --mode",
                    suite_.suite));
  return modes;
}

void RestartCheckCommand::require_known_items(const RestartVerdict& verdict) const {
  std::vector<std::string> known;
  for (const RestartItem& item : verdict.items) known.push_back(item.item);
  for (const std::string& asked : leave_out_) {
    if (verdict.skipped.empty() && std::ranges::find(known, asked) == known.end())
      throw Error(ErrorKind::usage,
                  fmt::format("--leave-out {}: case {} has no such item; it has {}", asked,
                              verdict.case_id, join(known, ", ")));
  }
}

RestartVerdict RestartCheckCommand::check(const ArmSpec& spec, Launcher& launcher,
                                          RestartSettings settings,
                                          const RestartFolder& folder) const {
  if (const auto reason = arm_refusal(spec.planned, spec.mode, available_memory_bytes())) {
    RestartVerdict skipped;
    skipped.case_id = spec.planned.id();
    skipped.mode = spec.mode.name;
    skipped.skipped = *reason;
    return skipped;
  }
  settings.folder = folder.begin(spec.planned.id() + "." + spec.mode.name);
  RestartVerdict verdict = run_restart_check(spec, launcher, settings);
  require_known_items(verdict);
  folder.end(settings.folder);
  return verdict;
}

// A case that could not be checked does not end the check of others.
RestartVerdict RestartCheckCommand::checked(const ArmSpec& spec, Launcher& launcher,
                                            const RestartSettings& settings,
                                            const RestartFolder& folder,
                                            const InterruptWatch& interrupts) const {
  RestartVerdict failed;
  failed.case_id = spec.planned.id();
  failed.mode = spec.mode.name;
  try {
    return check(spec, launcher, settings, folder);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::usage || error.kind() == ErrorKind::internal ||
        interrupts.pending())
      throw;
    failed.error = error.what();
  } catch (const fs::filesystem_error& error) {
    failed.error =
        fmt::format("{}: cannot be used: {}", error.path1().string(), error.code().message());
  }
  return failed;
}

ExitCode RestartCheckCommand::run(const Streams& streams) {
  require_single_start();
  RestartSettings settings = this->settings();
  if (!json_.empty()) require_writable("--json", json_);
  require_other_files({{"--json", json_}}, files_read(suite_));
  const Suite suite = load_run_suite(suite_);
  const std::vector<Mode> modes = promising_modes(suite);
  const InterruptWatch interrupts;
  const RestartFolder folder(folder_);
  LaunchSettings launch;
  launch.log_folder = folder.path();
  launch.step_timeout_seconds = suite.measure.step_timeout_seconds;
  launch.interrupt = interrupts.descriptor();
  const auto launcher = make_launcher(suite.launch, launch);
  settings.depth = suite.evidence.depth;

  std::vector<RestartVerdict> verdicts;
  std::vector<ExitCode> codes;
  for (const Case& planned : suite.cases) {
    for (const Mode& mode : modes) {
      verdicts.push_back(
          checked({mode.name, planned, mode}, *launcher, settings, folder, interrupts));
      codes.push_back(verdicts.back().code());
      if (json_ != "-") write_restart(streams.out, verdicts.back());
    }
  }
  const ExitCode code = combine(codes);
  if (!json_.empty()) write_text(json_, restart_json(verdicts, code), streams);
  return code;
}

}  // namespace

std::unique_ptr<Command> make_restart_check_command() {
  return std::make_unique<RestartCheckCommand>();
}

}  // namespace dettax
