// The only file that sees yaml-cpp.
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/plan/yaml.h"

namespace dettax {
namespace {

constexpr size_t kLargestFileBytes = 1U << 20U;
constexpr int kDeepestNesting = 32;
constexpr int kMostNodes = 100'000;  // aliases can make a small file explode

[[noreturn]] void fail(const std::string& where, const std::string& what) {
  throw Error(ErrorKind::config, where + ": " + what);
}

// Without line breaks or control characters.
std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(),
      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }, ' ');
  return text;
}

// The parser's messages in words that say what would be right.
std::string in_our_words(const std::string& message) {
  namespace parser = YAML::ErrorMsg;
  static const std::vector<std::pair<std::string, const char*>> words = {
      {parser::END_OF_SEQ_FLOW, "a list that begins with [ is not closed with ]"},
      {parser::END_OF_MAP_FLOW, "a mapping that begins with { is not closed with }"},
      {parser::FLOW_END, "a ] or } closes nothing"},
      {parser::END_OF_SEQ, "the indentation fits no line before; entries of a list begin alike"},
      {parser::END_OF_MAP, "the indentation fits no line before; keys of a mapping begin alike"},
      {parser::TAB_IN_INDENTATION, "a tab in the indentation; use spaces"},
      {parser::MAP_VALUE,
       "a colon where none may stand; indent with spaces, and quote a text that holds one"},
      {parser::MAP_KEY, "a key where none may stand; indent with spaces as the lines before"},
      {parser::BLOCK_ENTRY,
       "an entry of a list where none may stand; indent with spaces as the lines before"},
      {parser::UNKNOWN_TOKEN, "a character that begins no value; quote the text"},
      {parser::UNKNOWN_ANCHOR, "an alias without its anchor; quote a text that begins with *"},
      {parser::ALIAS_NOT_FOUND, "a lone *; quote the text"},
      {parser::ANCHOR_NOT_FOUND, "a lone &; quote the text"},
      {parser::EOF_IN_SCALAR, "a quoted text is not closed"},
      {parser::DOC_IN_SCALAR, "a line of --- or ... inside a quoted text"},
      {parser::INVALID_ESCAPE, "no such escape; write \\\\ for a backslash, or 'single quotes'"},
      {parser::INVALID_UNICODE, "no such character; write it as it is"},
      {parser::INVALID_HEX, "an escape without its hexadecimal digits"},
      {parser::BAD_FILE, "it is nested too deep"},
  };
  for (const auto& [theirs, ours] : words) {
    if (message.starts_with(theirs)) return ours;
  }
  return "quote texts with special characters, and indent with spaces";
}

// Whether the quoted text that begins here also ends; yaml-cpp takes the end of the file for its end.
bool quote_ends(const std::string& text, size_t begin) {
  const char quote = text[begin];
  for (size_t at = begin + 1; at < text.size(); ++at) {
    if (quote == '"' && text[at] == '\\') {
      ++at;
    } else if (text[at] == quote) {
      if (quote == '"' || at + 1 == text.size() || text[at + 1] != quote) return true;
      ++at;  // '' inside single quotes
    }
  }
  return false;
}

class Converter {
 public:
  Converter(std::string name, const std::string& text) : name_(std::move(name)), text_(text) {}

  Yaml convert(const YAML::Node& node, int depth) {
    Yaml result;
    result.origin = fmt::format("{}:{}", name_, node.Mark().line + 1);
    if (depth > kDeepestNesting) {
      fail(result.origin, fmt::format("nested deeper than {} levels", kDeepestNesting));
    }
    if (++nodes_ > kMostNodes) fail(result.origin, fmt::format("more than {} values", kMostNodes));
    switch (node.Type()) {
      case YAML::NodeType::Scalar:
        read_scalar(node, result);
        break;
      case YAML::NodeType::Sequence:
        result.kind = Yaml::Kind::list;
        for (const YAML::Node& item : node) result.items.push_back(convert(item, depth + 1));
        break;
      case YAML::NodeType::Map:
        read_map(node, depth, result);
        break;
      default:
        break;
    }
    return result;
  }

 private:
  void require_end_of_quote(const YAML::Node& node, const std::string& where) const {
    const auto begin = static_cast<size_t>(node.Mark().pos);
    if (begin >= text_.size() || (text_[begin] != '"' && text_[begin] != '\'')) return;
    if (!quote_ends(text_, begin))
      fail(where, fmt::format("a text that begins with {} is not closed with it", text_[begin]));
  }

  void read_scalar(const YAML::Node& node, Yaml& result) const {
    result.kind = Yaml::Kind::scalar;
    result.text = node.Scalar();
    result.quoted = node.Tag() == "!";
    if (result.quoted) require_end_of_quote(node, result.origin);
    if (result.text.find('\0') != std::string::npos)
      fail(result.origin, "a value holds a zero byte");
  }

  // yaml-cpp keeps both entries of a duplicate key, and finds the first.
  void read_map(const YAML::Node& node, int depth, Yaml& result) {
    result.kind = Yaml::Kind::map;
    for (const auto& entry : node) {
      const std::string where = fmt::format("{}:{}", name_, entry.first.Mark().line + 1);
      if (!entry.first.IsScalar()) fail(where, "a key must be a word");
      if (entry.first.Tag() == "!") require_end_of_quote(entry.first, where);
      const std::string& key = entry.first.Scalar();
      if (const Yaml* before = result.find(key)) {
        fail(where, fmt::format("{}: given twice; first at {}", one_line(key), before->origin));
      }
      Yaml value = convert(entry.second, depth + 1);
      value.origin = where;
      result.entries.emplace_back(key, std::move(value));
    }
  }

  std::string name_;
  const std::string& text_;
  int nodes_ = 0;
};

// `lined`: whether a line number says something about the text.
Yaml parse(const std::string& text, const std::string& name, bool lined) {
  if (const auto bad = first_bad_utf8(text)) {
    const auto line =
        1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(*bad), '\n');
    fail(lined ? fmt::format("{}:{}", name, line) : name,
         fmt::format("byte 0x{:02x} is no UTF-8", static_cast<uint8_t>(text[*bad])));
  }
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    if (documents.empty() || (documents.size() == 1 && documents.front().IsNull())) {
      fail(name, "is empty");
    }
    if (documents.size() > 1) {
      fail(name, fmt::format("holds {} YAML documents; it must hold one", documents.size()));
    }
    return Converter(name, text).convert(documents.front(), 0);
  } catch (const YAML::Exception& error) {
    const bool at_line = lined && !error.mark.is_null();
    fail(at_line ? fmt::format("{}:{}", name, error.mark.line + 1) : name,
         "is not valid YAML: " + in_our_words(error.msg));
  }
}

void forget_origins(Yaml& node) {
  node.origin.clear();
  for (Yaml& item : node.items) forget_origins(item);
  for (auto& entry : node.entries) forget_origins(entry.value);
}

}  // namespace

Yaml parse_yaml(const std::string& text, const std::string& name) {
  return parse(text, name, true);
}

Yaml parse_yaml_value(const std::string& text, const std::string& name) {
  Yaml value = parse(text, name, false);
  forget_origins(value);
  return value;
}

Yaml read_yaml(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    fail(path, "is a folder; it must be a YAML file");
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored))
    fail(path, "is a pipe or a device; it must be a YAML file");
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(path, "cannot be read: " + std::generic_category().message(errno));
  std::string text(kLargestFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kLargestFileBytes) fail(path, "is larger than 1 MiB; is it a configuration?");
  if (text.find('\0') != std::string::npos) fail(path, "is not a text file: it holds a zero byte");
  return parse_yaml(text, path);
}

}  // namespace dettax
