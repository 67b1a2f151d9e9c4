#include "harness/base/text.h"

#include <algorithm>

#include <fmt/format.h>
#include <fnmatch.h>

namespace dettax {
namespace {

// Optimal string alignment: insert, delete, replace, swap of neighbours.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

}  // namespace

std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates) {
  constexpr size_t kLongestWord = 200;  // longer ones are garbage, and the distance is quadratic
  if (word.size() > kLongestWord) return std::nullopt;
  std::optional<std::string> best;
  size_t best_distance = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(lower(word), lower(candidate));
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  if (const auto best = nearest(word, candidates))
    return fmt::format("; did you mean \"{}\"?", *best);
  if (candidates.empty()) return "";
  return "; known: " + join(candidates, ", ");
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += separator;
    text += parts[i];
  }
  return text;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (true) {
    const size_t end = text.find(separator, begin);
    parts.emplace_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

bool matches_glob(const std::string& pattern, const std::string& text) {
  return ::fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}

namespace {

// Length of the sequence that begins with this byte, and what its second byte may be: that is where overlong forms, surrogates and
// numbers beyond Unicode show.
struct Sequence {
  size_t length = 0;  // 0: no sequence begins so
  uint8_t second_low = 0x80, second_high = 0xBF;
};

Sequence sequence_of(uint8_t lead) {
  if (lead < 0x80) return {1};
  if (lead >= 0xC2 && lead <= 0xDF) return {2};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead >= 0xE1 && lead <= 0xEF) return {3};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead >= 0xF1 && lead <= 0xF3) return {4};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {};
}

}  // namespace

std::optional<size_t> first_bad_utf8(std::string_view text) {
  const auto byte = [&](size_t at) { return static_cast<uint8_t>(text[at]); };
  for (size_t at = 0; at < text.size();) {
    const Sequence sequence = sequence_of(byte(at));
    if (sequence.length == 0 || text.size() - at < sequence.length) return at;
    for (size_t i = 1; i < sequence.length; ++i) {
      const uint8_t low = i == 1 ? sequence.second_low : 0x80;
      const uint8_t high = i == 1 ? sequence.second_high : 0xBF;
      if (byte(at + i) < low || byte(at + i) > high) return at;
    }
    at += sequence.length;
  }
  return std::nullopt;
}

std::string valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t valid = first_bad_utf8(text).value_or(text.size());
    out += text.substr(0, valid);
    text.remove_prefix(valid);
    if (text.empty()) break;
    out += "\xEF\xBF\xBD";
    text.remove_prefix(1);
  }
  return out;
}

void append_json_string(std::string& out, std::string_view text) {
  const auto plain = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 && byte < 0x7F && c != '"' && c != '\\' && c != '<';
  };
  out += '"';
  const auto end = std::find_if_not(text.begin(), text.end(), plain);
  out.append(text.begin(), end);  // nearly always all of it
  text.remove_prefix(static_cast<size_t>(end - text.begin()));
  for (const char c : text.empty() ? std::string() : valid_utf8(text)) {
    const auto byte = static_cast<unsigned char>(c);
    if (plain(c) || byte >= 0x80) {
      out += c;
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", byte);
    }
  }
  out += '"';
}

// FNV-1a, then the finalizer of splitmix64 so that the last bytes reach every digit.
std::string hash_text(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325U;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001B3U;
  }
  hash ^= hash >> 30U;
  hash *= 0xBF58476D1CE4E5B9U;
  hash ^= hash >> 27U;
  hash *= 0x94D049BB133111EBU;
  hash ^= hash >> 31U;
  return fmt::format("{:016x}", hash);
}

}  // namespace dettax
