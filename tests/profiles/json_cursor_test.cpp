#include "profiles/import/json_cursor.h"

#include <string>

#include <gtest/gtest.h>

#include "profiles/import/decimal.h"

namespace dettax {
namespace {

JsonCursor::Fault read(const std::string& text, JsonToken& token) {
  // As a Window keeps it: zero bytes behind the text.
  static std::string held;
  held = text + std::string(64, '\0');
  JsonCursor cursor(held.data(), held.data() + text.size());
  return cursor.value(token) ? JsonCursor::Fault::none : cursor.fault();
}

JsonCursor::Fault fault_of(const std::string& text) {
  JsonToken token;
  return read(text, token);
}

std::string string_of(const std::string& text) {
  JsonToken token;
  EXPECT_EQ(read(text, token), JsonCursor::Fault::none) << text;
  return unescaped(token);
}

TEST(JsonCursor, ReadsStringsOfEveryLength) {
  for (size_t length = 0; length < 40; ++length) {
    const std::string plain(length, 'x');
    EXPECT_EQ(string_of("\"" + plain + "\""), plain);
    EXPECT_EQ(string_of("\"" + plain + "\\n\""), plain + "\n");
    EXPECT_EQ(fault_of("\"" + plain + "\x01\""), JsonCursor::Fault::bad);
    EXPECT_EQ(fault_of("\"" + plain + "\\c\""), JsonCursor::Fault::bad);
  }
}

TEST(JsonCursor, ResolvesEscapes) {
  EXPECT_EQ(string_of(R"("a\"b\\c\/d\b\f\n\r\t")"), "a\"b\\c/d\b\f\n\r\t");
  EXPECT_EQ(string_of(R"("\u0041\u00e9\u20ac\ud83d\ude00")"), "A\u00e9\u20ac\U0001F600");
  EXPECT_EQ(string_of(R"("\ud83d!")"), "\uFFFD!");
  EXPECT_EQ(string_of("\"\xff\x80 kept\""), "\xff\x80 kept");
}

TEST(JsonCursor, TellsTextThatRanOutFromTextThatIsWrong) {
  const std::string whole =
      R"({"a": [1, -2.5e3, {"b": []}, {}], "c": "x\u0041\\", "d": true, "e": null, "f": NaN, "g": -Infinity})";
  EXPECT_EQ(fault_of(whole), JsonCursor::Fault::none);
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_EQ(fault_of(whole.substr(0, length)), JsonCursor::Fault::ran_out)
        << whole.substr(0, length);
  for (const char* bad : {"{1: 2}", "{\"a\" 1}", "[1 2]", "[1, ]", "{\"a\": }", "nul?", "[1}",
                          "{\"a\": 1]", "\"\\u12g4\"", "x", "-x"})
    EXPECT_EQ(fault_of(bad), JsonCursor::Fault::bad) << bad;
}

TEST(JsonCursor, TakesCompoundValuesWhole) {
  JsonToken token;
  EXPECT_EQ(read("  [[1, \"]\"], {\"a\": [{}]}]  , 5", token), JsonCursor::Fault::none);
  EXPECT_EQ(token.kind, JsonToken::Kind::compound);
  EXPECT_EQ(token.text, "[[1, \"]\"], {\"a\": [{}]}]");
}

TEST(Decimal, KeepsEveryNanosecondOfAStampSinceTheEpoch) {
  EXPECT_EQ(nanoseconds_of("1786000000000000.100"), 1786000000000000100);
  EXPECT_EQ(nanoseconds_of("1786000000000000.350"), 1786000000000000350);
  EXPECT_EQ(nanoseconds_of("0.050"), 50);
  EXPECT_EQ(nanoseconds_of("0.0505"), 51);  // halves away from zero
  EXPECT_EQ(nanoseconds_of("-3.25"), -3250);
  EXPECT_EQ(nanoseconds_of("1.786e+15"), 1786000000000000000);
  EXPECT_EQ(nanoseconds_of("17"), 17000);
  EXPECT_EQ(nanoseconds_of("0.000000000000000000001"), 0);
  EXPECT_EQ(nanoseconds_of("123456789012.3456789012345678901234567890"), 123456789012346);
  for (const char* bad : {"", "-", ".", "x", "1x", "1e", "1e999", "99999999999999999999999999"})
    EXPECT_FALSE(nanoseconds_of(bad)) << bad;
}

}  // namespace
}  // namespace dettax
