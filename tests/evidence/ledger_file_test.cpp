#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "tests/evidence/ledgers.h"

namespace dettax {
namespace {

using testing::HasSubstr;

std::string written(const Ledger& ledger) {
  std::ostringstream out;
  write_ledger(out, ledger);
  return out.str();
}

Ledger read(const std::string& text) {
  std::istringstream in(text);
  return read_ledger(in, "a.ledger.jsonl");
}

std::string complaint(const std::string& text) {
  try {
    read(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::config);
    return error.what();
  }
  return "";
}

TEST(LedgerFile, WrittenAndReadIsTheSame) {
  EXPECT_EQ(read(written(sample_ledger())), sample_ledger());
}

TEST(LedgerFile, ATruncatedFileIsRefusedWithItsLine) {
  const std::string text = written(sample_ledger());
  EXPECT_THAT(complaint(""), HasSubstr("a.ledger.jsonl:1: the file ends here"));
  // At every length but the whole one.
  for (size_t length = 0; length < text.size(); length += 97)
    EXPECT_THAT(complaint(text.substr(0, length)), HasSubstr("cut off")) << length;
  EXPECT_THAT(complaint(text.substr(0, text.size() - 1)), HasSubstr("the line has no end"));
  const size_t third = text.find('\n', text.find('\n') + 1) + 1;
  EXPECT_THAT(complaint(text.substr(0, third)), HasSubstr("a.ledger.jsonl:3: the file ends here"));
}

TEST(LedgerFile, ADamagedLineIsRefusedWithItsNumber) {
  const std::string text = written(sample_ledger());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    return changed.replace(changed.find(from), from.size(), to);
  };
  EXPECT_THAT(complaint(with("{\"rank\":0,\"step\":-1", "{\"rank\":0,,\"step\":-1")),
              HasSubstr("a.ledger.jsonl:2: is no JSON"));
  EXPECT_THAT(complaint(with("\"tensor\"", "\"tenser\"")),
              HasSubstr("a.ledger.jsonl:2: is no entry"));
  EXPECT_THAT(complaint(with("\"value\":\"", "\"value\":\"x")), HasSubstr("a.ledger.jsonl:2: "));
  EXPECT_THAT(complaint(with("{\"rank\":1", "{\"rank\":0")), HasSubstr("belongs to rank 0, not 1"));
  EXPECT_THAT(complaint(with("\"ledger_version\":1", "\"ledger_version\":2")),
              HasSubstr("a.ledger.jsonl:1: ledger_version is 2"));
  EXPECT_THAT(complaint(text + "{}\n"), HasSubstr("there is more than the head line says"));
}

TEST(LedgerDigest, IsEqualForEqualLedgersAndOtherForAnyChange) {
  const std::string reference = digest(sample_ledger());
  EXPECT_EQ(digest(sample_ledger()), reference);
  Ledger value = sample_ledger(), order = sample_ledger(), step = sample_ledger(),
         shorter = sample_ledger();
  entry(value, 1, 2, "state", "weight").value = of(99);
  std::swap(order.ranks[0][2], order.ranks[0][3]);
  ++step.ranks[0].back().step;
  shorter.ranks[0].pop_back();
  for (const Ledger& other : {value, order, step, shorter}) EXPECT_NE(digest(other), reference);
}

TEST(LedgerDigest, IsOfTheEntriesAndNotOfTheHead) {
  Ledger other = sample_ledger();
  other.case_id = "tiny.fp32.dp2.t3.b8x64";
  other.threads_per_rank = 3;
  other.mode_hash = "0";
  EXPECT_EQ(digest(other), digest(sample_ledger()));
}

}  // namespace
}  // namespace dettax
