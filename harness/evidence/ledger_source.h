#pragma once

#include <filesystem>
#include <iosfwd>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harness/evidence/ledger.h"
#include "results/record.h"

namespace dettax {

// A ledger that is looked at step by step, wherever it lies; only the step asked for is in memory.
class LedgerSource {
 public:
  virtual ~LedgerSource() = default;
  virtual const LedgerHead& head() const = 0;
  virtual size_t ranks() const = 0;
  virtual bool torn() const = 0;
  virtual const LedgerNames& names() const = 0;
  virtual const std::vector<int64_t>& steps() const = 0;  // of any rank, ascending
  virtual int64_t entries() const = 0;                    // of all ranks and steps
  // What the rank has of the step; nothing if it has none.
  virtual void load(size_t rank, int64_t step, LedgerColumns& into) = 0;
};

// Opening reads headers, names and no block. Error{config} for what is no ledger or was damaged, here
// and in load(), with the byte.
std::unique_ptr<LedgerSource> open_ledger(const std::filesystem::path& path);
// The stream must outlive it and be able to seek.
std::unique_ptr<LedgerSource> open_ledger(std::istream& in, const std::string& name);
// The ledger must outlive it.
std::unique_ptr<LedgerSource> view_ledger(const Ledger& ledger);

LedgerComparison compare_ledgers(LedgerSource& a, LedgerSource& b,
                                 const CompareOptions& options = {});

// Whether the ranks of one run hold equal bits where a reduction made them equal: its results, loss, gradient norm and state.
RankAgreement ranks_agreement(LedgerSource& ledger);

}  // namespace dettax
