#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/cli/command.h"
#include "harness/cli/export_options.h"
#include "harness/cli/interrupt.h"
#include "harness/cli/launch_options.h"
#include "harness/cli/ledger_pairs.h"
#include "harness/cli/possible.h"
#include "harness/cli/run_path.h"
#include "harness/cli/scratch_folder.h"
#include "harness/launch/replay.h"
#include "harness/plan/loaders.h"

namespace dettax {
namespace {

namespace fs = std::filesystem;

// What a ledger's file belongs to, and what repeats it.
struct Origin {
  Suite suite;
  LedgerPlace place;
  fs::path run_folder;  // empty: of a golden file
};

// The run that a ledger's file lies in; empty: in none.
fs::path run_around(const fs::path& ledger) {
  const fs::path ledgers = fs::absolute(ledger).lexically_normal().parent_path().parent_path();
  const fs::path run = ledgers.parent_path();
  return ledgers.filename() == "ledgers" && fs::exists(run / "suite.yaml") ? run : fs::path();
}

Origin origin_of(const fs::path& ledger, const LedgerHead& head) {
  if (const fs::path run = run_around(ledger); !run.empty())
    return {load_suite((run / "suite.yaml").string()),
            ledger_place(fs::relative(fs::absolute(ledger), run / "ledgers").string()), run};
  if (!head.suite.empty()) {
    Suite suite = parse_suite(head.suite, ledger.string());
    const LedgerPlace place{suite.cases.at(0).id(), suite.modes.at(0).name, "relaunch"};
    return {std::move(suite), place, {}};
  }
  throw Error(ErrorKind::config,
              fmt::format("{}: lies in no run folder (RUN/ledgers/CASE/ARM.RUN.ledger), so that "
                          "nothing says how to repeat it",
                          ledger.string()));
}

class BisectCommand : public Command {
 public:
  const char* name() const override { return "bisect"; }
  const char* what() const override {
    return "repeats two runs that differ op by op, to the op where it began";
  }
  void declare(Options& options) override {
    options.positional("A", a_, "run folder, or a ledger file in one", true);
    options.positional("B", b_, "likewise", true);
    options.text("--arm", "NAME", arm_, "only this arm of two runs, whatever its mode promises");
    options.text("--case", "ID", case_, "only this case of two runs");
    options.number("--tries", tries_, "runs of B that may be made until one differs (5)", "5");
    options.flag("--force", force_, "compares bits although case, mode or environment differ");
    options.text("--output-dir", "DIR", output_dir_, "keeps the new ledgers there");
    options.text("--json", "FILE", json_,
                 "the result as JSON; - for standard output instead of text");
  }
  ExitCode run(const Streams& streams) override;

 private:
  LedgerDiff recorded(const fs::path& a, const fs::path& b) const;
  void choose_pair(BisectReport& report, const Streams& streams) const;
  void check() const;
  int tries() const;
  void fill(BisectReport& report, const Streams& streams) const;
  void replay_in(const fs::path& folder, int64_t step, BisectReport& report, const Streams& streams,
                 const InterruptWatch& interrupts) const;

  std::string a_, b_, arm_, case_, json_, output_dir_;
  std::optional<double> tries_;
  bool force_ = false;
};

LedgerDiff BisectCommand::recorded(const fs::path& a, const fs::path& b) const {
  CompareOptions options;
  options.force = force_;
  return diff_ledgers(*open_ledger(a), a.string(), *open_ledger(b), b.string(), options);
}

// Of two runs the first ledgers that differ and were promised not to, else the first that cannot be compared, or,
// where all agree, the first; and what the others come to. What only one of the runs has cannot be equal.
void BisectCommand::choose_pair(BisectReport& report, const Streams& streams) const {
  const fs::path run_a = find_run(a_), run_b = find_run(b_);
  const LedgerPairs found = pair_ledgers(run_a, run_b, case_, arm_);
  for (const std::string& what : found.missing) streams.err << "dettax: " << what << '\n';
  if (found.pairs.empty())
    throw Error(found.missing.empty() ? ErrorKind::config : ErrorKind::infrastructure,
                "bisect: the runs have no ledger of that arm and case in common");
  std::vector<ExitCode> codes;
  if (!found.missing.empty()) codes.push_back(ExitCode::infrastructure);
  const std::vector<Record> records = records_of_both(run_a, run_b);
  const LedgerPair* chosen = nullptr;
  LedgerDiff kept;  // of the chosen one; until there is one, of the first
  std::vector<std::string> others;
  for (const LedgerPair& pair : found.pairs) {
    LedgerDiff diff = recorded(pair.a, pair.b);
    const bool counts = !arm_.empty() || is_promised(pair.place, records, diff, streams.err);
    const ExitCode code = diff.exit_code();
    if (!counts || code == ExitCode::pass) {
      if (&pair == &found.pairs.front()) kept = std::move(diff);
      continue;
    }
    codes.push_back(code);
    const bool worse = chosen == nullptr || severity(code) < severity(kept.exit_code());
    const LedgerPair* other = worse ? chosen : &pair;
    if (other != nullptr) others.push_back(other->place);
    if (!worse) continue;
    chosen = &pair;
    kept = std::move(diff);
  }
  if (!others.empty())
    streams.err << fmt::format("dettax: {} more ledgers differ: {}; --case and --arm choose\n",
                               others.size(), join(others, ", "));
  // Without a promise a difference is none.
  kept.promised = chosen != nullptr;
  report.recorded = std::move(kept);
  report.others = combine(codes);
}

int BisectCommand::tries() const {
  constexpr double kMost = 1000;
  const double given = tries_.value_or(5);
  if (given >= 1 && given <= kMost && std::floor(given) == given) return static_cast<int>(given);
  throw Error(ErrorKind::usage,
              fmt::format("--tries {}: a whole number from 1 to {}", given, kMost));
}

void BisectCommand::check() const {
  tries();
  if (!json_.empty()) require_writable("--json", json_);
  if (!output_dir_.empty()) require_folder("--output-dir", output_dir_);
  require_single_start();
}

// Why running the steps again would not come nearer to the origin.
std::string why_no_replay(const LedgerDiff& recorded) {
  const LedgerComparison& found = recorded.comparison;
  if (!found.first || found.structural)
    return "one of the two lacks entries, which is no matter of bits";
  if (found.first->step < 0) return "they differ before the first step, where no op has run yet";
  if (found.depth == LedgerDepth::op) return "they were recorded op by op";
  return "";
}

void BisectCommand::fill(BisectReport& report, const Streams& streams) const {
  if (!report.recorded.comparison.comparable || report.recorded.comparison.equal) return;
  report.why_not_replayed = report.recorded.promised
                                ? why_no_replay(report.recorded)
                                : "its mode does not promise its bits; --arm NAME looks all "
                                  "the same";
  const std::optional<LedgerEntry>& first = report.recorded.comparison.first;
  if (!report.why_not_replayed.empty() || !first) return;
  const int64_t step = first->step;
  const InterruptWatch interrupts;
  if (!output_dir_.empty()) return replay_in(output_dir_, step, report, streams, interrupts);
  const ScratchFolder scratch("bisect");
  replay_in(scratch.path(), step, report, streams, interrupts);
}

void BisectCommand::replay_in(const fs::path& folder, int64_t step, BisectReport& report,
                              const Streams& streams, const InterruptWatch& interrupts) const {
  const LedgerDiff& recorded = report.recorded;
  const Origin of_a = origin_of(recorded.a.name, recorded.a.head);
  const Origin of_b = origin_of(recorded.b.name, recorded.b.head);
  ReplaySettings settings;
  settings.start = nearest_start(of_a.run_folder, of_a.place, step);
  settings.steps = step + 1 - settings.start.step;
  settings.tries = tries();
  settings.force = force_;
  settings.folder = folder;
  settings.on_run = [&](const std::string& what) { streams.err << "dettax: " << what << '\n'; };
  report.first_step = settings.start.step;
  report.steps = settings.steps;
  report.checkpoint = settings.start.checkpoint.string();
  const ArmSpec spec_a = replay_spec(of_a.suite, of_a.place);
  const ArmSpec spec_b = replay_spec(of_b.suite, of_b.place);
  require_possible(spec_a.planned, spec_a.mode);
  require_possible(spec_b.planned, spec_b.mode);
  const auto launcher_of = [&](const Suite& suite) {
    LaunchSettings launch;
    launch.log_folder = folder;
    launch.step_timeout_seconds = suite.measure.step_timeout_seconds;
    launch.interrupt = interrupts.descriptor();
    return make_launcher(suite.launch, launch);
  };
  const auto launcher_a = launcher_of(of_a.suite), launcher_b = launcher_of(of_b.suite);
  replay({spec_a, of_a.place, launcher_a.get()}, {spec_b, of_b.place, launcher_b.get()}, settings,
         report);
}

ExitCode BisectCommand::run(const Streams& streams) {
  check();
  const bool files = are_ledger_files(name(), a_, b_, !(arm_.empty() && case_.empty()));
  require_other_json(json_, a_, b_, files);
  BisectReport report;
  if (files) {
    report.recorded = recorded(a_, b_);
  } else {
    choose_pair(report, streams);
  }
  fill(report, streams);
  if (json_ != "-") write_bisect(streams.out, report);
  if (!json_.empty()) write_text(json_, bisect_json(report), streams);
  return report.exit_code();
}

}  // namespace

std::unique_ptr<Command> make_bisect_command() { return std::make_unique<BisectCommand>(); }

}  // namespace dettax
