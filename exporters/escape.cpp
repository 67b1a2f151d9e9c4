#include "exporters/escape.h"

#include <fmt/format.h>

#include "harness/base/text.h"

namespace dettax {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// Hands valid stretches to `good` and every byte that is none to `bad`.
template <class Good, class Bad>
void walk_utf8(std::string_view text, Good good, Bad bad) {
  while (!text.empty()) {
    const size_t valid = first_bad_utf8(text).value_or(text.size());
    good(text.substr(0, valid));
    text.remove_prefix(valid);
    if (text.empty()) return;
    bad(static_cast<unsigned char>(text.front()));
    text.remove_prefix(1);
  }
}

// Largest number of bytes, at most `bytes`, after which no character is cut.
size_t whole_characters(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) return text.size();
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0U) == 0x80U) --bytes;
  return bytes;
}

}  // namespace

namespace {

const char* xml_entity(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':  // everywhere, so that no "]]>" can come about
      return "&gt;";
    case '"':
      return "&quot;";
    case '\n':
      return "&#10;";
    case '\t':
      return "&#9;";
    case '\r':
      return "&#13;";
    default:
      return nullptr;
  }
}

// Of a valid stretch. U+FFFE and U+FFFF are characters to UTF-8 but not to XML.
void append_xml(std::string& out, std::string_view text) {
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    const std::string_view three = text.substr(at, 3);
    if (const char* entity = xml_entity(c); entity != nullptr) {
      out += entity;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else if (three == "\xEF\xBF\xBE" || three == "\xEF\xBF\xBF") {
      out += three.back() == '\xBE' ? "\\ufffe" : "\\uffff";
      at += 2;
    } else {
      out += c;
    }
  }
}

}  // namespace

std::string xml_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  walk_utf8(
      text, [&](std::string_view good) { append_xml(out, good); },
      [&](unsigned char bad) { out += fmt::format("\\x{:02x}", bad); });
  return out;
}

std::string html_text(std::string_view text) { return xml_text(text); }

std::string markdown_text(std::string_view text) {
  constexpr std::string_view kMarks = "\\`*_[]#|~@$";
  std::string out;
  for (const char c : valid_utf8(text)) {
    if (const char* entity = xml_entity(c); entity != nullptr) {
      const bool blank = c == '\n' || c == '\r' || c == '\t';
      out += blank ? " " : entity;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      if (kMarks.find(c) != std::string_view::npos) out += '\\';
      out += c;
    }
  }
  return out;
}

std::string csv_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : valid_utf8(text)) {
    if (c == '\0') {
      out += kReplacement;  // readers take it for the end
      continue;
    }
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

std::string label_value(std::string_view text) {
  constexpr size_t kHash = 17;  // with the mark before it
  std::string value = valid_utf8(text);
  if (value.size() <= kLongestLabel) return value;
  return value.substr(0, whole_characters(value, kLongestLabel - kHash)) + "~" + hash_text(text);
}

std::string metric_label(std::string_view text) {
  std::string out = "\"";
  for (const char c : label_value(text)) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string_view first_line(std::string_view text, size_t bytes) {
  const std::string_view line = text.substr(0, text.find('\n'));
  return line.substr(0, whole_characters(line, bytes));
}

}  // namespace dettax
