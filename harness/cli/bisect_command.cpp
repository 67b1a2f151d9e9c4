#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

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
#include "harness/launch/ledgers.h"
#include "harness/launch/replay.h"
#include "harness/plan/loaders.h"
#include "harness/train/checkpoint_names.h"
#include "results/journal.h"

namespace dettax {
namespace {

namespace fs = std::filesystem;

// What a ledger's file belongs to, and what repeats it.
struct Origin {
  Suite suite;
  LedgerPlace place;
  fs::path run_folder;  // empty: of a golden file
};

Origin origin_of(const fs::path& ledger, const LedgerHead& head) {
  if (const fs::path run = run_of_ledger(ledger); !run.empty())
    return {load_suite((run / "suite.yaml").string()),
            ledger_place(fs::relative(fs::absolute(ledger), run / "ledgers").string()), run};
  if (!head.suite.empty()) {
    Suite suite = parse_suite(head.suite, ledger.string());
    const LedgerPlace place{suite.cases.at(0).id(), suite.modes.at(0).name, "relaunch"};
    return {std::move(suite), place, {}};
  }
  if (const fs::path run = run_around(ledger); !run.empty())
    throw Error(ErrorKind::config, fmt::format("{}: is missing; it says how to repeat {}",
                                               (run / "suite.yaml").string(), ledger.string()));
  throw Error(ErrorKind::config,
              fmt::format("{}: lies in no run folder (RUN/ledgers/CASE/ARM.RUN.ledger), so that "
                          "nothing says how to repeat it",
                          ledger.string()));
}

// What one of the two was of, and what repeats it.
struct Repeatable {
  Origin origin;
  ArmSpec spec;
};

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
    options.flag(
        "--other-layout", other_layout_,
        "threads, micro-batches and data-parallel ranks may differ: compares what does not "
        "depend on them");
    options.flag("--force", force_, "compares bits although case, mode or environment differ");
    options.text("--output-dir", "DIR", output_dir_, "keeps the new ledgers there");
    options.text("--json", "FILE", json_,
                 "the result as JSON; - for standard output instead of text");
  }
  ExitCode run(const Streams& streams) override;

 private:
  CompareOptions options() const;
  const char* scope() const { return other_layout_ ? "other_ranks" : ""; }
  LedgerDiff recorded(const fs::path& a, const fs::path& b) const;
  void choose_pair(BisectReport& report, const Streams& streams) const;
  void check() const;
  void check_outputs(bool files) const;
  int tries() const;
  void fill(BisectReport& report, const Streams& streams) const;
  void replay_both(const Repeatable& a, const Repeatable& b, const ReplaySettings& settings,
                   const InterruptWatch& interrupts, BisectReport& report) const;

  std::string a_, b_, arm_, case_, json_, output_dir_;
  std::optional<double> tries_;
  bool force_ = false, other_layout_ = false;
};

CompareOptions BisectCommand::options() const {
  CompareOptions options;
  options.force = force_;
  options.allow_other_layout = other_layout_;
  return options;
}

LedgerDiff BisectCommand::recorded(const fs::path& a, const fs::path& b) const {
  return diff_ledgers(*open_ledger(a), a.string(), *open_ledger(b), b.string(), options(), scope());
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
  require_single_start();
}

// What is written takes the place of nothing that is read.
void BisectCommand::check_outputs(bool files) const {
  const std::vector<NamedFile> inputs = files_read(a_, b_, files);
  require_other_files({{"--json", json_}}, inputs);
  if (output_dir_.empty()) return;
  require_other_folder("--output-dir", output_dir_, inputs);
  for (int run = 1; run <= tries() + 1; ++run) {
    const std::string file = replay_file(output_dir_, run).string();
    require_other_files({{"--json", json_}, {"--output-dir", file}}, inputs);
  }
  require_folder("--output-dir", output_dir_);
}

// Why running the steps again would not come nearer to the origin.
std::string why_no_replay(const LedgerDiff& recorded) {
  const LedgerComparison& found = recorded.comparison;
  if (!found.first || found.structural)
    return "one of the two lacks entries, which is no matter of bits";
  if (found.first->step < 0) return "they differ before the first step, where no op has run yet";
  if (found.depth == LedgerDepth::op) return "they were recorded op by op";
  const LedgerHead& a = recorded.a.head;
  const LedgerHead& b = recorded.b.head;
  if (a.data_parallel != b.data_parallel || a.micro_batch != b.micro_batch)
    return "with other micro-batches or ranks the ops of one have no counterpart in the other";
  return "";
}

// Throws as origin_of(); where the run cannot be repeated, which is no fault of the question, `why` says so.
std::optional<Repeatable> repeatable(const LedgerDiff::Side& side, std::string& why) {
  Origin origin = origin_of(side.name, side.head);
  try {
    ArmSpec spec = replay_spec(origin.suite, origin.place);
    return Repeatable{std::move(origin), std::move(spec)};
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::config) throw;
    why = error.what();
    return std::nullopt;
  }
}

RecordedRun recorded_run(const Origin& origin, const std::string& name, LedgerSource& ledger) {
  if (origin.run_folder.empty()) return {name, &ledger, {}};
  return {
      name, &ledger,
      checkpoint_folder(ledger_folders(origin.run_folder, origin.place.case_id), origin.place.arm)};
}

// Why the run went on without checkpoints of that arm, as its journal has it.
std::vector<std::string> journaled_not_saved(const Origin& origin) {
  std::vector<std::string> found;
  if (!fs::exists(origin.run_folder / kJournalName)) return found;
  for (const JournalEntry& entry : read_journal(origin.run_folder)) {
    if (entry.event == kNotSavedEvent && entry.case_id == origin.place.case_id &&
        entry.detail.starts_with(origin.place.arm + ": "))
      found.push_back(entry.detail);
  }
  return found;
}

// Why an arm has no checkpoints up to that step though its suite asks for them.
void add_not_saved(const Repeatable& one, const fs::path& folder, int64_t step,
                   std::vector<std::string>& out) {
  const Origin& origin = one.origin;
  if (origin.run_folder.empty()) return;
  std::vector<std::string> reasons = journaled_not_saved(origin);
  const int every = origin.suite.evidence.checkpoint_every;
  std::error_code error;
  const bool none = named_checkpoints(folder, error).empty() && !error;
  if (reasons.empty() && none && every > 0 && step >= every && one.spec.mode.claims_reproducible)
    reasons.push_back(
        fmt::format("{}/{} has no checkpoints although the suite asks for one every {} steps ({})",
                    origin.place.case_id, origin.place.arm, every, folder.string()));
  for (std::string& why : reasons) {
    if (std::ranges::find(out, why) == out.end()) out.push_back(std::move(why));
  }
}

ReplayStart start_of(const Repeatable& a, const Repeatable& b, const LedgerDiff& recorded,
                     int64_t step) {
  const auto ledger_a = open_ledger(recorded.a.name), ledger_b = open_ledger(recorded.b.name);
  const std::array runs{recorded_run(a.origin, recorded.a.name, *ledger_a),
                        recorded_run(b.origin, recorded.b.name, *ledger_b)};
  ReplayStart start = nearest_start(runs, step);
  if (start.checkpoint.empty()) {
    add_not_saved(a, runs[0].checkpoints, step, start.passed_over);
    add_not_saved(b, runs[1].checkpoints, step, start.passed_over);
  }
  return start;
}

void BisectCommand::fill(BisectReport& report, const Streams& streams) const {
  if (!report.recorded.comparison.comparable || report.recorded.comparison.equal) return;
  report.why_not_replayed = report.recorded.promised
                                ? why_no_replay(report.recorded)
                                : "its mode does not promise its bits; --arm NAME looks all "
                                  "the same";
  const std::optional<LedgerEntry>& first = report.recorded.comparison.first;
  if (!report.why_not_replayed.empty() || !first) return;
  const auto a = repeatable(report.recorded.a, report.why_not_replayed);
  const auto b = repeatable(report.recorded.b, report.why_not_replayed);
  if (!a || !b) return;
  require_possible(a->spec.planned, a->spec.mode);
  require_possible(b->spec.planned, b->spec.mode);
  ReplaySettings settings;
  // Before signals are watched for: nobody asks for them meanwhile.
  settings.start = start_of(*a, *b, report.recorded, first->step);
  settings.steps = first->step + 1 - settings.start.step;
  settings.tries = tries();
  settings.compare = options();
  settings.scope = scope();
  settings.on_run = [&](const std::string& what) { streams.err << "dettax: " << what << '\n'; };
  const InterruptWatch interrupts;
  std::optional<ScratchFolder> scratch;
  settings.folder = output_dir_.empty() ? scratch.emplace("bisect").path() : fs::path(output_dir_);
  replay_both(*a, *b, settings, interrupts, report);
}

void BisectCommand::replay_both(const Repeatable& a, const Repeatable& b,
                                const ReplaySettings& settings, const InterruptWatch& interrupts,
                                BisectReport& report) const {
  report.first_step = settings.start.step;
  report.steps = settings.steps;
  report.checkpoint = settings.start.checkpoint.string();
  report.passed_over = settings.start.passed_over;
  const auto launcher_of = [&](const Suite& suite) {
    LaunchSettings launch;
    launch.log_folder = settings.folder;
    launch.step_timeout_seconds = suite.measure.step_timeout_seconds;
    launch.interrupt = interrupts.descriptor();
    return make_launcher(suite.launch, launch);
  };
  const auto launcher_a = launcher_of(a.origin.suite), launcher_b = launcher_of(b.origin.suite);
  replay({a.spec, a.origin.place, launcher_a.get()}, {b.spec, b.origin.place, launcher_b.get()},
         settings, report);
}

ExitCode BisectCommand::run(const Streams& streams) {
  check();
  const bool files = are_ledger_files(name(), a_, b_, !(arm_.empty() && case_.empty()));
  check_outputs(files);
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
