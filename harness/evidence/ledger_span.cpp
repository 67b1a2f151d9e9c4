#include "harness/evidence/ledger_span.h"

#include <vector>

namespace dettax {
namespace {

class Span : public LedgerSource {
 public:
  Span(LedgerSource& ledger, int64_t from, int64_t end)
      : ledger_(ledger), head_(ledger.head()), from_(from), end_(end) {
    head_.steps = end - from;
    for (const int64_t step : ledger.steps()) {
      if (step >= from && step < end) steps_.push_back(step);
    }
  }
  const LedgerHead& head() const override { return head_; }
  size_t ranks() const override { return ledger_.ranks(); }
  bool torn() const override { return ledger_.torn(); }
  const LedgerNames& names() const override { return ledger_.names(); }
  const std::vector<int64_t>& steps() const override { return steps_; }
  int64_t entries() const override { return ledger_.entries(); }
  void load(size_t rank, int64_t step, LedgerColumns& into) override {
    into.clear();
    if (step >= from_ && step < end_) ledger_.load(rank, step, into);
  }

 private:
  LedgerSource& ledger_;
  LedgerHead head_;
  const int64_t from_, end_;
  std::vector<int64_t> steps_;
};

}  // namespace

std::unique_ptr<LedgerSource> span_of_ledger(LedgerSource& ledger, int64_t from, int64_t end) {
  return std::make_unique<Span>(ledger, from, end);
}

}  // namespace dettax
