#include <filesystem>
#include <fstream>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/cli/command.h"
#include "harness/cli/export_options.h"
#include "harness/cli/interrupt.h"
#include "harness/cli/launch_options.h"
#include "harness/cli/possible.h"
#include "harness/cli/scratch_folder.h"
#include "harness/evidence/golden.h"
#include "harness/evidence/ledger_file.h"
#include "harness/launch/launcher.h"
#include "harness/plan/loaders.h"
#include "harness/plan/suite.h"
#include "results/run_folder.h"

namespace dettax {
namespace {

namespace fs = std::filesystem;

// Nothing but a ledger is replaced by one.
void require_replaceable(const std::string& name) {
  require_writable("--golden", name);
  std::ifstream in(name, std::ios::binary);
  char tag[kLedgerMark.size()] = {};
  if (!in || !in.read(tag, sizeof tag)) return;  // there is none, or hardly any of it
  if (std::string_view(tag, sizeof tag) != kLedgerMark)
    throw Error(ErrorKind::usage, "--golden " + name +
                                      ": is no ledger and is not replaced by one; another name is "
                                      "needed, or the file removed");
  std::string suite;
  try {
    suite = open_ledger(fs::path(name))->head().suite;
  } catch (const Error&) {  // a damaged one is what is recorded anew
    return;
  }
  if (suite.empty())
    throw Error(ErrorKind::usage, "--golden " + name +
                                      ": is a run's ledger, which is not replaced; another name is "
                                      "needed, or the file removed");
}

Ledger read_whole(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return read_ledger(in, path.string());
}

// The suite's first case under its first mode, once.
void run_control(const Suite& suite, const fs::path& folder, const fs::path& ledger,
                 const InterruptWatch& interrupts) {
  LaunchSettings settings;
  settings.log_folder = folder;
  settings.step_timeout_seconds = suite.measure.step_timeout_seconds;
  settings.interrupt = interrupts.descriptor();
  const Case& planned = suite.cases.front();
  const Mode& mode = suite.modes.front();
  require_possible(planned, mode);
  const auto group = make_thread_launcher(settings)->start({mode.name, planned, mode}, "verify");
  group->write_ledger(planned.seed, suite.evidence.steps, ledger, 0, suite.evidence.depth);
}

// The part of a suite that a control run needs.
Suite control_suite(const std::string& name) {
  Suite suite = load_suite(name);
  suite.cases.resize(1);
  if (suite.modes.empty() || !suite.modes.front().claims_reproducible)
    throw Error(ErrorKind::config,
                fmt::format("{}: its first mode does not promise its bits; a golden run needs one "
                            "with claims_reproducible: true",
                            name));
  suite.modes.resize(1);
  return suite;
}

// The suite as a file in that folder says it: a text is found again where both were moved together.
Suite beside(const fs::path& folder, Suite suite) {
  std::string& path = suite.cases.front().data.path;
  if (!path.empty()) path = fs::relative(path, folder).string();
  return suite;
}

class VerifyCommand : public Command {
 public:
  const char* name() const override { return "verify"; }
  const char* what() const override {
    return "repeats a short control run and holds its bits against a golden file";
  }
  void declare(Options& options) override {
    options.text("--golden", "FILE", golden_, "golden file: a ledger of a control run");
    options.flag(
        "--record", record_,
        "records the file instead, after two runs that agree; says first what it replaces");
    options.text("--suite", "NAME", suite_,
                 "with --record: whose first case and mode are run (golden)");
    options.text("--json", "FILE", json_,
                 "the comparison as JSON; - for standard output instead of text");
  }
  ExitCode run(const Streams& streams) override {
    if (golden_.empty())
      throw Error(ErrorKind::usage, "verify: --golden FILE is missing: the file to verify against");
    if (!suite_.empty() && !record_)
      throw Error(ErrorKind::usage,
                  "verify: --suite goes with --record; a golden file says itself what to run");
    if (record_ && !json_.empty())
      throw Error(ErrorKind::usage,
                  "verify: --json is the comparison with a golden file; --record makes none");
    if (!json_.empty()) {
      require_writable("--json", json_);
      require_other_files({{"--json", json_}}, {{"--golden", golden_}});
    }
    if (record_) require_replaceable(golden_);
    require_single_start();
    return record_ ? record(streams) : verify(streams);
  }

 private:
  ExitCode verify(const Streams& streams) const;
  ExitCode record(const Streams& streams) const;
  void tell_what_is_replaced(const Streams& streams, const ScratchFolder& scratch,
                             const InterruptWatch& interrupts) const;
  GoldenVerdict against_golden(const ScratchFolder& scratch,
                               const InterruptWatch& interrupts) const;

  std::string golden_, suite_, json_;
  bool record_ = false;
};

GoldenVerdict VerifyCommand::against_golden(const ScratchFolder& scratch,
                                            const InterruptWatch& interrupts) const {
  const auto golden = open_ledger(fs::path(golden_));
  const fs::path fresh = scratch.path() / "fresh.ledger";
  if (golden->torn() || golden->head().suite.empty()) judge_golden(*golden, golden_, *golden);
  run_control(parse_suite(golden->head().suite, golden_), scratch.path(), fresh, interrupts);
  return judge_golden(*golden, golden_, *open_ledger(fresh));
}

ExitCode VerifyCommand::verify(const Streams& streams) const {
  const InterruptWatch interrupts;
  const ScratchFolder scratch("verify");
  const GoldenVerdict verdict = against_golden(scratch, interrupts);
  if (json_ != "-") {
    streams.out << golden_ << ": ";
    write_golden_verdict(streams.out, verdict);
  }
  if (!json_.empty()) write_text(json_, diff_json({&verdict.diff, 1}, verdict.code), streams);
  return verdict.code;
}

// A file that cannot be repeated any more is what is recorded anew most.
void VerifyCommand::tell_what_is_replaced(const Streams& streams, const ScratchFolder& scratch,
                                          const InterruptWatch& interrupts) const {
  if (!fs::exists(golden_)) return;
  streams.out << "what is replaced: ";
  try {
    write_golden_verdict(streams.out, against_golden(scratch, interrupts));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::unsupported) {
      streams.out << error.what() << '\n';
      return;
    }
    if (error.kind() != ErrorKind::config) throw;
    streams.out << fmt::format("damaged or outdated ({})\n", error.what());
  }
}

// A file whose run does not repeat itself would fail at random ever after.
ExitCode VerifyCommand::record(const Streams& streams) const {
  const InterruptWatch interrupts;
  const ScratchFolder scratch("verify");
  tell_what_is_replaced(streams, scratch, interrupts);
  const Suite suite = control_suite(suite_.empty() ? "golden" : suite_);
  const fs::path first = scratch.path() / "first.ledger", again = scratch.path() / "again.ledger";
  run_control(suite, scratch.path(), first, interrupts);
  run_control(suite, scratch.path(), again, interrupts);
  Ledger ledger = read_whole(first);
  const LedgerComparison same = compare_ledgers(ledger, read_whole(again));
  if (!same.equal) {
    streams.out << "not recorded: two runs differ: " << same.description << '\n';
    return ExitCode::not_bit_exact;
  }
  ledger.suite = dump_suite(beside(fs::absolute(golden_).parent_path(), suite));
  write_file_atomically(golden_, [&](std::ostream& out) { write_ledger(out, ledger); });
  streams.out << fmt::format("{}: recorded {} fingerprints of {} steps on {} ranks, {} bytes\n",
                             golden_, same.compared, ledger.steps, ledger.ranks.size(),
                             fs::file_size(golden_));
  return ExitCode::pass;
}

}  // namespace

std::unique_ptr<Command> make_verify_command() { return std::make_unique<VerifyCommand>(); }

}  // namespace dettax
