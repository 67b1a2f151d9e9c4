#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/cli/command.h"
#include "harness/cli/export_options.h"
#include "harness/cli/run_path.h"
#include "harness/evidence/ledger_diff.h"
#include "harness/evidence/promise.h"
#include "results/run_folder.h"

namespace dettax {
namespace {

namespace fs = std::filesystem;

// Ledgers of a run by their path in it, `<case>/<arm>.<run>.ledger`. Weakened runs are to differ.
std::map<std::string, fs::path> ledgers_in(const fs::path& run) {
  const fs::path folder = run / "ledgers";
  if (!fs::is_directory(folder))
    throw Error(ErrorKind::config, fmt::format("{}: has no folder ledgers; a run folder with "
                                               "evidence, or a ledger file, is expected",
                                               run.string()));
  std::map<std::string, fs::path> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_regular_file() || !name.ends_with(".ledger")) continue;
    if (name.find(".weak_") != name.npos) continue;
    found[fs::relative(entry.path(), folder).string()] = entry.path();
  }
  return found;
}

// A run that was stopped may have no record of a case that has ledgers.
std::vector<Record> records_of_both(const fs::path& a, const fs::path& b) {
  std::vector<Record> records = RunFolder::open(a).records();
  for (Record& record : RunFolder::open(b).records()) records.push_back(std::move(record));
  return records;
}

class DiffCommand : public Command {
 public:
  const char* name() const override { return "diff"; }
  const char* what() const override {
    return "says where the bits of two runs first differ, and why";
  }
  void declare(Options& options) override {
    options.positional("A", a_, "run folder, or a ledger file in one", true);
    options.positional("B", b_, "likewise", true);
    options.text("--arm", "NAME", arm_, "only this arm of two runs, whatever its mode promises");
    options.text("--case", "ID", case_, "only this case of two runs");
    options.flag(
        "--other-layout", other_layout_,
        "threads, micro-batches and data-parallel ranks may differ: compares what does not "
        "depend on them");
    options.flag("--force", force_, "compares bits although case, mode or environment differ");
    options.text("--json", "FILE", json_,
                 "the result as JSON; - for standard output instead of text");
  }
  ExitCode run(const Streams& streams) override;

 private:
  LedgerDiff diff(const fs::path& a, const fs::path& b) const;
  std::vector<LedgerDiff> diffs_of_runs(const Streams& streams, ExitCode& missing) const;

  std::string a_, b_, arm_, case_, json_;
  bool other_layout_ = false, force_ = false;
};

LedgerDiff DiffCommand::diff(const fs::path& a, const fs::path& b) const {
  CompareOptions options;
  options.allow_other_layout = other_layout_;
  options.force = force_;
  const auto first = open_ledger(a), second = open_ledger(b);
  return diff_ledgers(*first, a.string(), *second, b.string(), options,
                      other_layout_ ? "other_ranks" : "");
}

// What only one of the runs has cannot be equal.
std::vector<LedgerDiff> DiffCommand::diffs_of_runs(const Streams& streams,
                                                   ExitCode& missing) const {
  const fs::path run_a = find_run(a_), run_b = find_run(b_);
  const auto in_a = ledgers_in(run_a), in_b = ledgers_in(run_b);
  const std::vector<Record> records = records_of_both(run_a, run_b);
  std::vector<LedgerDiff> out;
  const auto wanted = [&](const std::string& place) {
    const LedgerPlace at = ledger_place(place);
    return (arm_.empty() || at.arm == arm_) && (case_.empty() || at.case_id == case_);
  };
  const auto miss = [&](const std::string& place, const fs::path& run) {
    streams.err << fmt::format("dettax: {} is missing in {}\n", place, run.string());
    missing = ExitCode::infrastructure;
  };
  for (const auto& [place, path] : in_a) {
    if (!wanted(place)) continue;
    const auto other = in_b.find(place);
    if (other == in_b.end()) {
      miss(place, run_b);
      continue;
    }
    out.push_back(diff(path, other->second));
    const std::array heads{out.back().a.head, out.back().b.head};
    const std::optional<bool> promise = promise_of(ledger_place(place), records, heads);
    if (!promise)
      streams.err << fmt::format(
          "dettax: {}: neither record nor ledger says whether its mode promises its bits; judged "
          "as if it did\n",
          place);
    out.back().promised = !arm_.empty() || promise.value_or(true);
  }
  for (const auto& [place, path] : in_b) {
    if (wanted(place) && !in_a.contains(place)) miss(place, run_a);
  }
  if (out.empty() && missing == ExitCode::pass)
    throw Error(ErrorKind::config, "diff: the runs have no ledger of that arm and case");
  return out;
}

ExitCode DiffCommand::run(const Streams& streams) {
  const bool files = fs::is_regular_file(a_) || fs::is_regular_file(b_);
  if (files && !(fs::is_regular_file(a_) && fs::is_regular_file(b_)))
    throw Error(ErrorKind::usage,
                fmt::format("diff: {} and {}: two ledger files or two runs are expected", a_, b_));
  if (files && !(arm_.empty() && case_.empty()))
    throw Error(ErrorKind::usage, "diff: --arm and --case choose among the ledgers of two runs");
  if (!json_.empty()) require_writable("--json", json_);
  const auto read_from = [&](const std::string& name) {
    return files ? name : (find_run(name) / "ledgers").string();
  };
  require_other_files({{"--json", json_}}, {{"A", read_from(a_)}, {"B", read_from(b_)}});
  ExitCode missing = ExitCode::pass;
  std::vector<LedgerDiff> diffs;
  if (files) {
    diffs.push_back(diff(a_, b_));
  } else {
    diffs = diffs_of_runs(streams, missing);
  }
  std::vector<ExitCode> codes{missing};
  for (const LedgerDiff& one : diffs) codes.push_back(one.exit_code());
  const ExitCode code = combine(codes);
  if (json_ == "-") {
    streams.out << diff_json(diffs, code);
    return code;
  }
  for (const LedgerDiff& one : diffs) write_diff(streams.out, one, diffs.size() > 1);
  if (!json_.empty()) write_file_atomically(json_, diff_json(diffs, code));
  return code;
}

}  // namespace

std::unique_ptr<Command> make_diff_command() { return std::make_unique<DiffCommand>(); }

}  // namespace dettax
