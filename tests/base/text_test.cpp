#include "harness/base/text.h"

#include <clocale>
#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "harness/base/format.h"

namespace dettax {
namespace {

const std::vector<std::string> kWords = {"budget_seconds", "block_seconds", "rounds_min",
                                         "rounds_max"};

TEST(Text, FindsTheNearestWord) {
  EXPECT_EQ(nearest("budget_secs", kWords), "budget_seconds");
  EXPECT_EQ(nearest("ruonds_min", kWords), "rounds_min");
  EXPECT_EQ(nearest("ROUNDS_MAX", kWords), "rounds_max");
  EXPECT_EQ(nearest("colour", kWords), std::nullopt);
  EXPECT_EQ(nearest("", kWords), std::nullopt);
  EXPECT_EQ(nearest(std::string(100000, 'x'), kWords), std::nullopt);
}

TEST(Text, SuggestsOrLists) {
  EXPECT_EQ(did_you_mean("rounds_mni", kWords), "; did you mean \"rounds_min\"?");
  EXPECT_EQ(did_you_mean("zzz", std::vector<std::string>{"a", "b"}), "; known: a, b");
  EXPECT_EQ(did_you_mean("zzz", std::vector<std::string>{}), "");
}

TEST(Text, SplitsAndJoins) {
  EXPECT_EQ(split("a.b..c", '.'), (std::vector<std::string>{"a", "b", "", "c"}));
  EXPECT_EQ(split("", '.'), (std::vector<std::string>{""}));
  EXPECT_EQ(join(split("a.b..c", '.'), "."), "a.b..c");
  EXPECT_EQ(trim("  a b\n"), "a b");
  EXPECT_EQ(trim(" \t"), "");
}

TEST(Text, HashDependsOnEveryByte) {
  EXPECT_EQ(hash_text("dettax").size(), 16U);
  EXPECT_EQ(hash_text("dettax"), hash_text("dettax"));
  EXPECT_NE(hash_text("dettax"), hash_text("dettaX"));
  EXPECT_NE(hash_text("ab"), hash_text("ba"));
  EXPECT_NE(hash_text(""), hash_text(std::string(1, '\0')));
}

TEST(Format, NumbersReadBackExactly) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 10000; ++i) {
    const double value =
        std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 400) - 200);
    EXPECT_EQ(std::stod(format_number(value)), value);
  }
  EXPECT_EQ(format_number(0.1), "0.1");
  EXPECT_EQ(format_number(1e-8), "1e-08");
  EXPECT_EQ(format_number(-0.0), "-0");
  EXPECT_EQ(format_number(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(format_number(-std::numeric_limits<double>::quiet_NaN()), "nan");
}

TEST(Format, SecondsForPeople) {
  EXPECT_EQ(format_seconds(0), "0 s");
  EXPECT_EQ(format_seconds(4.12e-7), "412 ns");
  EXPECT_EQ(format_seconds(1.5e-6), "1.50 us");
  EXPECT_EQ(format_seconds(0.0321), "32.1 ms");
  EXPECT_EQ(format_seconds(0.99996), "1.00 s");
  EXPECT_EQ(format_seconds(12.34), "12.3 s");
  EXPECT_EQ(format_seconds(245), "4 min 05 s");
  EXPECT_EQ(format_seconds(3599.7), "1 h 00 min");
  EXPECT_EQ(format_seconds(7620), "2 h 07 min");
  EXPECT_EQ(format_seconds(-0.5), "-500 ms");
}

TEST(Format, BytesAndCountsForPeople) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_bytes(1023.9 * 1024), "1.00 MiB");
  EXPECT_EQ(format_bytes(498e6), "475 MiB");
  EXPECT_EQ(format_count(950), "950");
  EXPECT_EQ(format_count(999.7), "1.00 k");
  EXPECT_EQ(format_count(124439808), "124 M");
  EXPECT_EQ(format_count(405853388800), "406 G");
}

TEST(Format, PercentWithSign) {
  EXPECT_EQ(format_percent(0.0312), "3.1 %");
  EXPECT_EQ(format_signed_percent(0.0312), "+3.1 %");
  EXPECT_EQ(format_signed_percent(-0.0004, 2), "-0.04 %");
  EXPECT_EQ(format_signed_percent(std::nan("")), "nan");
}

TEST(Text, FindsTheFirstByteThatIsNoUtf8) {
  for (const char* good : {"", "plain", "caf\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80",
                           "\xEF\xBF\xBD", "\xF4\x8F\xBF\xBF"})
    EXPECT_EQ(first_bad_utf8(good), std::nullopt) << good;
  EXPECT_EQ(first_bad_utf8("caf\xE9"), 3U);
  EXPECT_EQ(first_bad_utf8("ab\xC3"), 2U);            // cut off
  EXPECT_EQ(first_bad_utf8("\xC0\xAF"), 0U);          // overlong
  EXPECT_EQ(first_bad_utf8("a\xE0\x80\x80"), 1U);     // overlong
  EXPECT_EQ(first_bad_utf8("\xED\xA0\x80"), 0U);      // surrogate
  EXPECT_EQ(first_bad_utf8("\xF4\x90\x80\x80"), 0U);  // beyond Unicode
  EXPECT_EQ(first_bad_utf8("\xC3\xA9\x80"), 2U);      // continues nothing
}

TEST(Format, ProgressFillsItsWidth) {
  EXPECT_EQ(progress_bar({"case 1/3", 0.5, 75.0}, 40), "case 1/3 [#####.....]  50 %, 75.0 s left");
  for (const double fraction : {-1.0, 0.0, 0.333, 0.999, 1.0, 2.0, std::nan("")}) {
    for (const int width : {0, 1, 10, 30, 80, 200}) {
      EXPECT_EQ(progress_bar({"a label", fraction, std::nullopt}, width).size(),
                static_cast<size_t>(width));
    }
  }
  EXPECT_EQ(progress_bar({"[1/3] a-long-name-of-a-case.dp2: measuring", 0.5, 75.0}, 40),
            "[1/3] a-l.. measuring  50 %, 75.0 s left");
  EXPECT_NE(progress_bar({"x", 0.9999, std::nullopt}, 60).find(" 99 %"), std::string::npos);
  EXPECT_NE(progress_bar({"x", 1.0, std::nullopt}, 60).find("100 %"), std::string::npos);
}

}  // namespace
}  // namespace dettax
