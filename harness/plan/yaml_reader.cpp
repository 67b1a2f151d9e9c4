#include "harness/plan/yaml_reader.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "harness/base/format.h"
#include "harness/base/parse_number.h"
#include "harness/base/text.h"

namespace dettax {
namespace {

// What was found instead, for "must be ..., not ...".
std::string found(const Yaml& node) {
  switch (node.kind) {
    case Yaml::Kind::null:
      return "nothing";
    case Yaml::Kind::list:
      return "a list";
    case Yaml::Kind::map:
      return "a mapping";
    case Yaml::Kind::scalar:
      break;
  }
  constexpr size_t kShown = 60;
  std::string text = node.text.substr(0, kShown);
  std::replace_if(
      text.begin(), text.end(),
      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }, '?');
  return "\"" + text + (node.text.size() > kShown ? "..." : "") + "\"";
}

Error must_be(const Yaml& node, const std::string& key, const std::string& what) {
  return config_error(node, key, fmt::format("must be {}, not {}", what, found(node)));
}

// An upper end that no int64_t exceeds is said only where `overflowed`.
std::string describe(IntegerRange range, bool overflowed) {
  const bool above = range.high == std::numeric_limits<int64_t>::max() && !overflowed;
  if (above) return fmt::format("a whole number of at least {}", range.low);
  return fmt::format("a whole number from {} to {}", range.low, range.high);
}

std::string describe(NumberRange range) {
  constexpr double kMost = std::numeric_limits<double>::max();
  const std::string low = format_number(range.low);
  if (range.low == -kMost && range.high == kMost) return "a finite number";
  if (range.high == kMost)
    return (range.low_open ? "a number above " : "a number of at least ") + low;
  return fmt::format("a number {} {} and at most {}", range.low_open ? "above" : "of at least", low,
                     format_number(range.high));
}

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// 010 is eight to some readers and ten to others.
bool has_leading_zero(std::string_view text) {
  if (!text.empty() && text[0] == '-') text.remove_prefix(1);
  return text.size() > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9';
}

// What of the key the node's origin does not say already.
std::string untold(const Yaml& node, const std::string& key) {
  const std::string& told = node.origin_key;
  if (told.empty() || !key.starts_with(told)) return key;
  if (key.size() == told.size()) return "";
  return key[told.size()] == '.' ? key.substr(told.size() + 1) : key;
}

}  // namespace

Error config_error(const Yaml& node, const std::string& key, const std::string& what) {
  const auto part = [](const std::string& text) { return text.empty() ? text : text + ": "; };
  std::string line = part(node.origin) + part(untold(node, key)) + what;
  // A key may hold line breaks; a message is one line.
  std::replace_if(
      line.begin(), line.end(),
      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }, '?');
  return {ErrorKind::config, line};
}

std::string read_text(const Yaml& node, const std::string& key) {
  if (node.kind != Yaml::Kind::scalar) throw must_be(node, key, "a text");
  return node.text;
}

int64_t read_integer(const Yaml& node, const std::string& key, IntegerRange range) {
  int64_t value = 0;
  const bool plain =
      node.kind == Yaml::Kind::scalar && !node.quoted && !has_leading_zero(node.text);
  const bool whole = plain && parse_number(node.text, value);
  if (whole && value >= range.low && value <= range.high) return value;
  const bool overflowed = plain && !whole && is_digits(node.text);
  throw must_be(node, key, describe(range, overflowed));
}

double read_number(const Yaml& node, const std::string& key, NumberRange range) {
  double value = 0;
  const bool valid = node.kind == Yaml::Kind::scalar && !node.quoted &&
                     !has_leading_zero(node.text) && parse_number(node.text, value) &&
                     std::isfinite(value) && value <= range.high &&
                     (range.low_open ? value > range.low : value >= range.low);
  if (!valid) throw must_be(node, key, describe(range));
  return value;
}

bool read_switch(const Yaml& node, const std::string& key) {
  const bool plain = node.kind == Yaml::Kind::scalar && !node.quoted;
  if (plain && node.text == "true") return true;
  if (plain && node.text == "false") return false;
  throw must_be(node, key, "true or false");
}

size_t read_word(const Yaml& node, const std::string& key, const std::vector<std::string>& words) {
  if (node.kind == Yaml::Kind::scalar) {
    const auto at = std::find(words.begin(), words.end(), node.text);
    if (at != words.end()) return static_cast<size_t>(at - words.begin());
  }
  std::string hint;
  if (node.kind == Yaml::Kind::scalar) {
    if (const auto best = nearest(node.text, words)) {
      hint = fmt::format("; did you mean \"{}\"?", *best);
    }
  }
  throw config_error(
      node, key, fmt::format("must be one of {}, not {}{}", join(words, ", "), found(node), hint));
}

MapReader::MapReader(const Yaml& node, std::string path) : node_(node), path_(std::move(path)) {
  if (node.kind != Yaml::Kind::map) throw must_be(node, path_, "a mapping of keys to values");
}

const Yaml* MapReader::find(const std::string& key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.push_back(key);
  return node_.find(key);
}

const Yaml& MapReader::require(const std::string& key) {
  if (const Yaml* value = find(key)) return *value;
  throw config_error(node_, path(key), "is missing");
}

void MapReader::text(const std::string& key, std::string& value) {
  if (const Yaml* node = find(key)) value = read_text(*node, path(key));
}
void MapReader::integer(const std::string& key, int64_t& value, IntegerRange range) {
  if (const Yaml* node = find(key)) value = read_integer(*node, path(key), range);
}
void MapReader::integer(const std::string& key, int& value, IntegerRange range) {
  range.high = std::min<int64_t>(range.high, std::numeric_limits<int>::max());
  if (const Yaml* node = find(key)) value = static_cast<int>(read_integer(*node, path(key), range));
}
void MapReader::number(const std::string& key, double& value, NumberRange range) {
  if (const Yaml* node = find(key)) value = read_number(*node, path(key), range);
}
void MapReader::flag(const std::string& key, bool& value) {
  if (const Yaml* node = find(key)) value = read_switch(*node, path(key));
}

void MapReader::finish() const {
  for (const auto& [key, value] : node_.entries) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    throw config_error(value, path(key), "is no known key" + did_you_mean(key, known_));
  }
}

std::string MapReader::path(const std::string& key) const {
  return path_.empty() || key.empty() ? path_ + key : path_ + "." + key;
}

Error MapReader::fault(const std::string& key, const std::string& what) const {
  const Yaml* value = node_.find(key);
  return config_error(value != nullptr ? *value : node_, path(key), what);
}

}  // namespace dettax
