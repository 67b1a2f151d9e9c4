#include "harness/evidence/ledger_file.h"

#include <algorithm>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/evidence/ledger_source.h"
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
  return read_ledger(in, "a.ledger");
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

TEST(LedgerFile, TwoWritingsHaveTheSameBytes) {
  EXPECT_EQ(written(sample_ledger()), written(sample_ledger()));
  EXPECT_NE(written(sample_ledger(2)), written(sample_ledger()));
}

// At every length: what is whole in it is there, and it says that it was cut off.
TEST(LedgerFile, ATornTailLosesNoStepBeforeIt) {
  const Ledger whole = sample_ledger();
  const std::string text = written(whole);
  size_t most = 0;
  for (size_t length = 0; length < text.size(); ++length) {
    const std::string complained = complaint(text.substr(0, length));
    if (!complained.empty()) {
      EXPECT_THAT(complained, HasSubstr("cut off before any step")) << length;
      EXPECT_EQ(most, 0U) << length;
      continue;
    }
    const Ledger torn = read(text.substr(0, length));
    EXPECT_TRUE(torn.torn) << length;
    ASSERT_EQ(torn.ranks.size(), whole.ranks.size());
    size_t entries = 0;
    for (size_t rank = 0; rank < whole.ranks.size(); ++rank) {
      entries += torn.ranks[rank].size();
      EXPECT_TRUE(
          std::equal(torn.ranks[rank].begin(), torn.ranks[rank].end(), whole.ranks[rank].begin()));
    }
    EXPECT_GE(entries, most) << length;
    most = entries;
  }
  EXPECT_EQ(most, whole.ranks[0].size() + whole.ranks[1].size());
}

TEST(LedgerFile, ATornLedgerIsNeverEqual) {
  const std::string text = written(sample_ledger());
  const LedgerComparison endless =
      compare_ledgers(sample_ledger(), read(text.substr(0, text.size() - 40)));
  EXPECT_FALSE(endless.equal);
  EXPECT_EQ(endless.differing, 0);
  EXPECT_THAT(endless.description, HasSubstr("the second ledger was cut off behind step 2"));
  const LedgerComparison shorter =
      compare_ledgers(sample_ledger(), read(text.substr(0, text.size() - 41)));
  EXPECT_THAT(shorter.description, HasSubstr("step 2, rank 1"));
  EXPECT_GT(shorter.differing, 0);
}

TEST(LedgerFile, ZerosThatADiskLeftAreATornTail) {
  const std::string text = written(sample_ledger());
  const Ledger read_back = read(text.substr(0, text.size() - 40) + std::string(100, '\0'));
  EXPECT_TRUE(read_back.torn);
  EXPECT_EQ(read_back.ranks, sample_ledger().ranks);
}

// Whatever bit is flipped in the middle of a file: it is refused with the byte, or seen as torn.
TEST(LedgerFile, DamageIsRefusedWithItsPlace) {
  const std::string text = written(sample_ledger());
  int refused = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = static_cast<char>(static_cast<unsigned char>(changed[i]) ^ 4U);
    const std::string complained = complaint(changed);
    ASSERT_THAT(complained, ::testing::StartsWith("a.ledger: byte ")) << i;
    ++refused;
  }
  EXPECT_EQ(refused, static_cast<int>(text.size()));
  EXPECT_THAT(complaint(text + "x"), HasSubstr("there is more behind its end"));
  EXPECT_THAT(complaint("{\"ledger_version\":1}\n"), HasSubstr("lines of JSON"));
  EXPECT_THAT(complaint(std::string(100, 'x')), HasSubstr("is no record of a ledger"));
}

// Ranks end their steps in any order; the file is the same.
TEST(LedgerWriter, FilesDoNotDependOnWhichRankIsFirst) {
  const Ledger ledger = sample_ledger();
  const auto source = view_ledger(ledger);
  const auto in_order = [&](std::vector<size_t> ranks) {
    std::ostringstream out;
    LedgerWriter writer(out, ledger, 2);
    LedgerColumns columns;
    for (const size_t rank : ranks) {
      for (const int64_t step : source->steps()) {
        source->load(rank, step, columns);
        writer.append(rank, step, source->names(), columns);
      }
    }
    writer.finish();
    return out.str();
  };
  EXPECT_EQ(in_order({0, 1}), in_order({1, 0}));
  EXPECT_EQ(in_order({0, 1}), written(ledger));
}

TEST(LedgerFile, TakesHardlyMoreThanItsFingerprints) {
  const Ledger ledger = sample_ledger(1000);
  size_t entries = 0;
  for (const auto& rank : ledger.ranks) entries += rank.size();
  EXPECT_LT(static_cast<double>(written(ledger).size()), 28.0 * static_cast<double>(entries));
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
