#include "harness/evidence/rank_agreement.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "harness/base/text.h"
#include "harness/evidence/ledger_marks.h"
#include "harness/evidence/ledger_source.h"

namespace dettax {
namespace {

// Sums over replicas are everybody's only where every rank has all of them.
bool is_copied(const LedgerName& name, bool copies) {
  return is_of_whole_model(name.path) ||
         (copies && name.path.starts_with("reduce/") && !is_input(name.tensor));
}

// Ranks that share sequences have the same weights as those that share none. Sharding of the optimizer and experts give each rank
// something else of the same name.
bool ranks_are_copies(const LedgerHead& head, size_t ranks) {
  int64_t copies = head.data_parallel;
  for (const std::string& part : split(head.case_id, '.')) {
    if (part.starts_with("zero") || part.starts_with("ep")) return false;
    int64_t context = 1;
    const char* end = part.data() + part.size();
    if (part.starts_with("cp") && std::from_chars(part.data() + 2, end, context).ptr == end)
      copies *= context;
  }
  return static_cast<int64_t>(ranks) == copies;
}

// Every name by its own number; those that are no copies on all ranks are left out.
std::vector<uint32_t> copied_names(const LedgerNames& names, bool copies) {
  std::vector<uint32_t> numbers;
  for (uint32_t n = 0; n < names.size(); ++n)
    numbers.push_back(is_copied(names.at(n), copies) ? n : LedgerColumns::kLeftOut);
  return numbers;
}

}  // namespace

RankAgreement ranks_agreement(LedgerSource& ledger) {
  RankAgreement agreement;
  if (ledger.ranks() < 2) return agreement;
  agreement.tested = true;
  const std::vector<uint32_t> copied =
      copied_names(ledger.names(), ranks_are_copies(ledger.head(), ledger.ranks()));
  LedgerColumns first, other;
  for (const int64_t step : ledger.steps()) {
    ledger.load(0, step, first);
    first.renumber(copied);
    // A block that is not there says nothing of its bits: its rank was stopped.
    const bool missing = first.size() == 0;
    for (size_t rank = 1; rank < ledger.ranks(); ++rank) {
      ledger.load(rank, step, other);
      other.renumber(copied);
      if (missing || other.size() == 0) continue;
      for (size_t i = 0; i < std::max(first.size(), other.size()); ++i) {
        ++agreement.compared;
        if (i < first.size() && i < other.size() && first.names[i] == other.names[i] &&
            first.values[i] == other.values[i])
          continue;
        const LedgerName& at =
            ledger.names().at(i < first.size() ? first.names[i] : other.names[i]);
        agreement.first_difference = fmt::format("step {}, {}: {} of rank {} is not that of rank 0",
                                                 step, at.path, at.tensor, rank);
        return agreement;
      }
    }
  }
  agreement.equal = agreement.tested = agreement.compared > 0;
  return agreement;
}

RankAgreement ranks_agreement(const Ledger& ledger) {
  return ranks_agreement(*view_ledger(ledger));
}

}  // namespace dettax
