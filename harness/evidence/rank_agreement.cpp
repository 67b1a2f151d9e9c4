#include "harness/evidence/rank_agreement.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "harness/base/text.h"

namespace dettax {
namespace {

// Results and state are those of the whole model on every layout; sums over replicas only where every rank has all of them.
bool is_copied(const LedgerEntry& entry, bool copies) {
  if (entry.path == "result" || entry.path == "state") return true;
  return copies && entry.path.starts_with("reduce/") && !entry.tensor.ends_with("before");
}

// Ranks that share sequences have the same weights as those that share none. Sharding of the optimizer and experts give each rank
// something else of the same name.
bool ranks_are_copies(const Ledger& ledger) {
  int64_t copies = ledger.data_parallel;
  for (const std::string& part : split(ledger.case_id, '.')) {
    if (part.starts_with("zero") || part.starts_with("ep")) return false;
    int64_t context = 1;
    const char* end = part.data() + part.size();
    if (part.starts_with("cp") && std::from_chars(part.data() + 2, end, context).ptr == end)
      copies *= context;
  }
  return std::ssize(ledger.ranks) == copies;
}

std::vector<const LedgerEntry*> copied(const std::vector<LedgerEntry>& rank, bool copies) {
  std::vector<const LedgerEntry*> entries;
  for (const LedgerEntry& entry : rank) {
    if (is_copied(entry, copies)) entries.push_back(&entry);
  }
  return entries;
}

}  // namespace

RankAgreement ranks_agreement(const Ledger& ledger) {
  RankAgreement agreement;
  if (ledger.ranks.size() < 2) return agreement;
  agreement.tested = true;
  const bool copies = ranks_are_copies(ledger);
  const auto first = copied(ledger.ranks.front(), copies);
  for (size_t rank = 1; rank < ledger.ranks.size(); ++rank) {
    const auto other = copied(ledger.ranks[rank], copies);
    for (size_t i = 0; i < std::max(first.size(), other.size()); ++i) {
      ++agreement.compared;
      if (i < first.size() && i < other.size() && *first[i] == *other[i]) continue;
      const LedgerEntry& at = i < first.size() ? *first[i] : *other[i];
      agreement.first_difference = fmt::format("step {}, {}: {} of rank {} is not that of rank 0",
                                               at.step, at.path, at.tensor, rank);
      return agreement;
    }
  }
  agreement.equal = agreement.compared > 0;
  return agreement;
}

}  // namespace dettax
