#include "profiles/import/json_cursor.h"

#include <algorithm>
#include <array>
#include <bit>

namespace dettax {
namespace {

constexpr uint64_t repeat(uint8_t byte) { return 0x0101010101010101ULL * byte; }

// Marks (in their top bits) the bytes of a word that end plain text inside a string: a quote, a backslash, a control character.
// The lowest mark is exact; marks above it may be false.
uint64_t marks(uint64_t word) {
  const auto zero_bytes = [](uint64_t x) { return (x - repeat(1)) & ~x; };
  const uint64_t control = (word - repeat(0x20)) & ~word;
  return (zero_bytes(word ^ repeat('"')) | zero_bytes(word ^ repeat('\\')) | control) &
         repeat(0x80);
}

// The first byte at or behind `at` that ends plain text.
const char* end_of_plain(const char* at) {
  static_assert(std::endian::native == std::endian::little);
  for (;;) {
    uint64_t word;
    std::memcpy(&word, at, sizeof word);
    if (const uint64_t found = marks(word); found != 0) return at + std::countr_zero(found) / 8;
    at += sizeof word;
  }
}

bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }

uint32_t hex_value(std::string_view digits) {
  uint32_t value = 0;
  for (const char c : digits)
    value = value * 16 + static_cast<uint32_t>(is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
  return value;
}

void append_utf8(std::string& text, uint32_t code) {
  const auto byte = [&](uint32_t value) { text += static_cast<char>(value); };
  if (code < 0x80) {
    byte(code);
  } else if (code < 0x800) {
    byte(0xC0 | code >> 6);
    byte(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    byte(0xE0 | code >> 12);
    byte(0x80 | (code >> 6 & 0x3F));
    byte(0x80 | (code & 0x3F));
  } else {
    byte(0xF0 | code >> 18);
    byte(0x80 | (code >> 12 & 0x3F));
    byte(0x80 | (code >> 6 & 0x3F));
    byte(0x80 | (code & 0x3F));
  }
}

// The code point of the \u at `at`, which moves behind it (and behind the second half of a pair).
uint32_t code_point(std::string_view text, size_t& at) {
  constexpr uint32_t kReplacement = 0xFFFD;
  const uint32_t first = hex_value(text.substr(at + 2, 4));
  at += 6;
  if (first < 0xD800 || first > 0xDFFF) return first;
  if (first > 0xDBFF || text.substr(at, 2) != "\\u") return kReplacement;
  const uint32_t second = hex_value(text.substr(at + 2, 4));
  if (second < 0xDC00 || second > 0xDFFF) return kReplacement;
  at += 6;
  return 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
}

char simple_escape(char letter) {
  switch (letter) {
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    default:
      return letter;
  }
}

}  // namespace

std::string unescaped(const JsonToken& token) {
  if (!token.escaped) return std::string(token.text);
  std::string text;
  for (size_t at = 0; at < token.text.size();) {
    if (token.text[at] != '\\') {
      text += token.text[at++];
    } else if (token.text[at + 1] == 'u') {
      append_utf8(text, code_point(token.text, at));
    } else {
      text += simple_escape(token.text[at + 1]);
      at += 2;
    }
  }
  return text;
}

bool JsonCursor::string(JsonToken& token) {
  if (!expect('"')) return false;
  const char* const begin = at_;
  bool escaped = false;
  for (;;) {
    at_ = end_of_plain(at_);
    if (*at_ == '"') break;
    if (*at_ != '\\') return fail();  // a control character; the zero behind the text is one
    escaped = true;
    const char letter = at_[1];
    if (letter == 'u') {
      for (int i = 2; i < 6; ++i) {
        if (!is_hex(at_[i])) {
          at_ += at_ + i >= end_ ? i : 0;
          return fail();
        }
      }
      at_ += 6;
    } else if (letter != 0 && std::strchr("\"\\/bfnrt", letter) != nullptr) {
      at_ += 2;
    } else {
      at_ += at_ + 1 >= end_ ? 1 : 0;
      return fail();
    }
  }
  token = {JsonToken::Kind::string, {begin, static_cast<size_t>(at_ - begin)}, escaped};
  ++at_;
  return true;
}

bool JsonCursor::number(JsonToken& token) {
  const char* const begin = at_;
  if (*at_ == '-') ++at_;
  if (!is_digit(*at_)) return *at_ == 'I' && begin != at_ ? word(token) : fail();
  while (is_digit(*at_) || *at_ == '.' || (*at_ | 0x20) == 'e' || *at_ == '+' || *at_ == '-') ++at_;
  if (at_ >= end_) return fail();  // it may go on
  token = {JsonToken::Kind::number, {begin, static_cast<size_t>(at_ - begin)}, false};
  return true;
}

// true, false, null, and what Python writes beside them: NaN, Infinity.
bool JsonCursor::word(JsonToken& token) {
  static constexpr std::array<std::string_view, 5> kWords{"true", "false", "null", "NaN",
                                                          "Infinity"};
  const auto left = static_cast<size_t>(end_ - at_);
  for (const std::string_view word : kWords) {
    if (std::memcmp(at_, word.data(), std::min(left, word.size())) != 0) continue;
    if (left <= word.size()) {
      at_ = end_;
      return fail();
    }
    token = {JsonToken::Kind::word, {at_, word.size()}, false};
    at_ += word.size();
    return true;
  }
  return fail();
}

bool JsonCursor::compound(JsonToken& token) {
  const char* const begin = at_;
  std::string open;  // the brackets that are still to be closed
  JsonToken part;
  bool more = true;
  const auto push = [&](char bracket) {
    open += bracket;
    ++at_;
    more = peek() != bracket + 2;  // in ASCII a closing bracket stands two behind the opening one
    if (!more) ++at_;
  };
  push(*at_);
  for (;;) {
    while (!more) {
      open.pop_back();
      if (open.empty()) {
        token = {JsonToken::Kind::compound, {begin, static_cast<size_t>(at_ - begin)}, false};
        return true;
      }
      if (!next(static_cast<char>(open.back() + 2), more)) return false;
    }
    if (open.back() == '{' && !key(part)) return false;
    const char c = peek();
    if (c == '{' || c == '[') {
      push(c);
      continue;
    }
    if (!value(part) || !next(static_cast<char>(open.back() + 2), more)) return false;
  }
}

bool JsonCursor::value(JsonToken& token) {
  switch (peek()) {
    case '"':
      return string(token);
    case '{':
    case '[':
      return compound(token);
    case '-':
    case '0':
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
    case '6':
    case '7':
    case '8':
    case '9':
      return number(token);
    default:
      return word(token);
  }
}

}  // namespace dettax
