#include <filesystem>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "harness/base/error.h"
#include "harness/cli/command.h"
#include "harness/cli/export_options.h"
#include "harness/cli/ledger_pairs.h"
#include "harness/cli/run_path.h"
#include "harness/evidence/ledger_diff.h"

namespace dettax {
namespace {

namespace fs = std::filesystem;

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
  const LedgerPairs found = pair_ledgers(run_a, run_b, case_, arm_);
  const std::vector<Record> records = records_of_both(run_a, run_b);
  for (const std::string& what : found.missing) streams.err << "dettax: " << what << '\n';
  if (!found.missing.empty()) missing = ExitCode::infrastructure;
  std::vector<LedgerDiff> out;
  for (const LedgerPair& pair : found.pairs) {
    LedgerDiff one = diff(pair.a, pair.b);
    one.promised = !arm_.empty() || is_promised(pair.place, records, one, streams.err);
    out.push_back(std::move(one));
  }
  if (out.empty() && missing == ExitCode::pass)
    throw Error(ErrorKind::config, "diff: the runs have no ledger of that arm and case");
  return out;
}

ExitCode DiffCommand::run(const Streams& streams) {
  const bool files = are_ledger_files(name(), a_, b_, !(arm_.empty() && case_.empty()));
  if (!json_.empty()) require_writable("--json", json_);
  require_other_files({{"--json", json_}}, files_read(a_, b_, files));
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
  if (json_ != "-") {
    for (const LedgerDiff& one : diffs) write_diff(streams.out, one, diffs.size() > 1);
  }
  if (!json_.empty()) write_text(json_, diff_json(diffs, code), streams);
  return code;
}

}  // namespace

std::unique_ptr<Command> make_diff_command() { return std::make_unique<DiffCommand>(); }

}  // namespace dettax
