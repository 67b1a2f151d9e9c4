#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/cli/command.h"
#include "harness/cli/export_options.h"
#include "harness/cli/run_path.h"
#include "harness/evidence/ledger_diff.h"
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

std::string arm_of(const std::string& place) {
  const std::string name = fs::path(place).filename().string();
  return name.substr(0, name.find('.'));
}

// "<case>/<arm>" of arms whose mode promises its bits.
std::set<std::string> promising_arms(const fs::path& run) {
  std::set<std::string> arms;
  for (const Record& record : RunFolder::open(run).records()) {
    for (const ArmResult& arm : record.arms) {
      if (arm.claims_reproducible) arms.insert(record.case_id + "/" + arm.arm);
    }
  }
  return arms;
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
  const std::set<std::string> promising = promising_arms(run_a);
  std::vector<LedgerDiff> out;
  const auto wanted = [&](const std::string& place) {
    return (arm_.empty() || arm_of(place) == arm_) &&
           (case_.empty() || fs::path(place).parent_path() == case_);
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
    const std::string arm = (fs::path(place).parent_path() / arm_of(place)).string();
    out.back().promised = !arm_.empty() || promising.contains(arm);
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
  require_other_files({{"--json", json_}}, {{"A", a_}, {"B", b_}});
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
