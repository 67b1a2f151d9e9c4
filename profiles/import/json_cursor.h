#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace dettax {

// A value of JSON as it stands in the text.
struct JsonToken {
  enum class Kind {
    string,
    number,
    word,
    compound
  };  // word: true, false, null; compound: an object or array
  Kind kind = Kind::word;
  std::string_view text;  // a string without its quotes and with its escapes still in
  bool escaped = false;
};

// Text of a string token with its escapes resolved; lone surrogates become U+FFFD.
std::string unescaped(const JsonToken& token);

// Steps over JSON text in memory, value by value, without building anything. The text must be followed by at least 8 readable bytes,
// the first of them zero. Every function that can fail says so by false; `fault` then tells whether the text ran out, and at() where.
class JsonCursor {
 public:
  enum class Fault { none, ran_out, bad };

  JsonCursor(const char* begin, const char* end) : at_(begin), end_(end) {}

  const char* at() const { return at_; }
  Fault fault() const { return fault_; }

  void skip_space() {
    while (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r') ++at_;
  }
  // The next byte that is no space; 0 at the end.
  char peek() {
    skip_space();
    return *at_;
  }
  // Steps over this byte.
  bool expect(char wanted) {
    if (peek() != wanted) return fail();
    ++at_;
    return true;
  }
  // A key and the colon behind it.
  bool key(JsonToken& token) { return string(token) && expect(':'); }
  // Behind a member: true at a comma (stepped over) or at `close` (stepped over, `more` false).
  bool next(char close, bool& more) {
    const char c = peek();
    more = c == ',';
    if (!more && c != close) return fail();
    ++at_;
    return true;
  }

  bool string(JsonToken& token);
  bool value(JsonToken& token);
  bool skip_value() {
    JsonToken ignored;
    return value(ignored);
  }

 private:
  bool fail() {
    fault_ = at_ >= end_ ? Fault::ran_out : Fault::bad;
    return false;
  }
  bool number(JsonToken& token);
  bool word(JsonToken& token);
  bool compound(JsonToken& token);

  const char* at_;
  const char* end_;
  Fault fault_ = Fault::none;
};

}  // namespace dettax
