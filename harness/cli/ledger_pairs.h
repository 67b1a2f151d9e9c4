#pragma once

#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "harness/cli/export_options.h"
#include "harness/evidence/ledger_diff.h"
#include "results/record.h"

namespace dettax {

// Whether the A and B of that command are ledger files; else they are runs. Error{usage} where one is the one and one the other, and for
// files where an arm or a case is `chosen`.
bool are_ledger_files(const std::string& command, const std::string& a, const std::string& b,
                      bool chosen);
// The folder that is the run of that ledger file by its place in it; empty: none.
std::filesystem::path run_around(const std::filesystem::path& ledger);
// That one where it says how it is repeated; else empty.
std::filesystem::path run_of_ledger(const std::filesystem::path& ledger);

// What is read where A and B are ledger files, or runs: these and what the runs they are of keep. No result may take its place
// (require_other_files).
std::vector<NamedFile> files_read(const std::string& a, const std::string& b, bool files);
// A folder that takes new ledgers must be none of those, nor lie in one.
void require_other_folder(const std::string& flag, const std::string& folder,
                          const std::vector<NamedFile>& inputs);

// One ledger that both of two runs have.
struct LedgerPair {
  std::string place;  // in the runs' folders ledgers, `<case>/<arm>.<run>.ledger`
  std::filesystem::path a, b;
};
struct LedgerPairs {
  std::vector<LedgerPair> pairs;     // by place
  std::vector<std::string> missing;  // "<place> is missing in <run>"
};
// Those of this case and arm; empty: of any. Weakened runs are to differ and are left out. Error{config}
// for a run without ledgers.
LedgerPairs pair_ledgers(const std::filesystem::path& run_a, const std::filesystem::path& run_b,
                         const std::string& case_id, const std::string& arm);

// A run that was stopped may have no record of a case that has ledgers.
std::vector<Record> records_of_both(const std::filesystem::path& a, const std::filesystem::path& b);

// Whether that ledger's mode promises its bits, by the records or the two ledgers. Where none tells, `err` is told and it counts as
// promised.
bool is_promised(const std::string& place, const std::vector<Record>& records,
                 const LedgerDiff& diff, std::ostream& err);

}  // namespace dettax
