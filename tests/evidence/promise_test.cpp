#include "harness/evidence/promise.h"

#include <gtest/gtest.h>

#include "harness/plan/suite.h"

namespace dettax {
namespace {

Record record_of(const std::string& case_id, const std::string& arm, bool claims) {
  Record record;
  record.case_id = case_id;
  record.arms.emplace_back();
  record.arms[0].arm = arm;
  record.arms[0].claims_reproducible = claims;
  return record;
}

TEST(LedgerPlace, AnArmsNameMayHaveDots) {
  const LedgerPlace place =
      ledger_place("tiny.fp32.dp2/deterministic+embedding.atomic.run_1.ledger");
  EXPECT_EQ(place.case_id, "tiny.fp32.dp2");
  EXPECT_EQ(place.arm, "deterministic+embedding.atomic");
  EXPECT_EQ(place.run, "run_1");
}

TEST(PromiseOf, IsThatOfEitherRunsRecordElseOfTheLedgers) {
  const LedgerPlace place = ledger_place("case/arm.x.run_1.ledger");
  LedgerHead head;
  EXPECT_EQ(promise_of(place, {}, {&head, 1}), std::nullopt);
  head.claims_reproducible = true;
  EXPECT_EQ(promise_of(place, {}, {&head, 1}), true);
  const std::vector<Record> none = {record_of("case", "arm", true),
                                    record_of("other", "arm.x", false)};
  EXPECT_EQ(promise_of(place, none, {}), std::nullopt);
  const std::vector<Record> no = {record_of("case", "arm.x", false)};
  EXPECT_EQ(promise_of(place, no, {&head, 1}), false);
  const std::vector<Record> both = {record_of("case", "arm.x", false),
                                    record_of("case", "arm.x", true)};
  EXPECT_EQ(promise_of(place, both, {}), true);
}

TEST(LedgerHead, TellsWhatElseOfTheCaseDecidesBits) {
  Case planned = load_suite("golden").cases.front();
  const Mode mode = load_mode("deterministic");
  const auto head = [&] { return make_ledger_head(planned, mode, LedgerDepth::op); };
  const LedgerHead base = head();
  EXPECT_EQ(base.claims_reproducible, true);
  for (const char* key : {"optimizer.learning_rate", "model.dropout", "model.norm",
                          "model.activation", "data.zipf_exponent", "batch.global"})
    EXPECT_TRUE(base.setup.contains(key)) << key;
  planned.optimizer.learning_rate *= 2;
  EXPECT_NE(head().setup, base.setup);
  planned.optimizer.learning_rate /= 2;
  planned.topology.threads_per_rank = 7;
  planned.batch.micro = 1;
  EXPECT_EQ(head().setup, base.setup);
}

}  // namespace
}  // namespace dettax
