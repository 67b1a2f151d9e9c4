#include "harness/plan/yaml.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/text.h"

namespace dettax {
namespace {

// Words that YAML 1.1 readers take for a boolean or for nothing.
bool is_reserved(std::string text) {
  static const std::vector<std::string> words = {"true", "false", "yes", "no",   "on",
                                                 "off",  "y",     "n",   "null", "~"};
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return std::find(words.begin(), words.end(), text) != words.end();
}

bool is_plain(const std::string& text) {
  constexpr std::string_view kSafe =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-";
  if (text.empty() || text.find_first_not_of(kSafe) != std::string::npos) return false;
  const bool letter_first =
      (text[0] >= 'a' && text[0] <= 'z') || (text[0] >= 'A' && text[0] <= 'Z');
  return letter_first && !is_reserved(text);
}

std::string quote(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (c == '\n') {
      result += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      result += c;
    }
  }
  return result + "\"";
}

std::string scalar_text(const Yaml& node) {
  if (node.kind == Yaml::Kind::null) return "null";
  return node.quoted && !is_plain(node.text) ? quote(node.text) : node.text;
}

void emit(const Yaml& node, const std::string& indent, bool after_dash, std::string& out);

// What follows `key:` or `-`.
void emit_value(const Yaml& node, const std::string& indent, std::string& out) {
  if (node.kind == Yaml::Kind::map && !node.entries.empty()) {
    out += "\n";
    emit(node, indent + "  ", false, out);
  } else if (node.kind == Yaml::Kind::list && !node.items.empty()) {
    out += "\n";
    emit(node, indent + "  ", false, out);
  } else {
    out += " ";
    emit(node, indent, false, out);
  }
}

void emit(const Yaml& node, const std::string& indent, bool after_dash, std::string& out) {
  if (node.kind == Yaml::Kind::map && !node.entries.empty()) {
    bool first = after_dash;
    for (const auto& [key, value] : node.entries) {
      out += (first ? "" : indent) + (is_plain(key) ? key : quote(key)) + ":";
      emit_value(value, indent, out);
      first = false;
    }
  } else if (node.kind == Yaml::Kind::list && !node.items.empty()) {
    for (const Yaml& item : node.items) {
      out += indent + "-";
      if (item.kind == Yaml::Kind::map && !item.entries.empty()) {
        out += " ";
        emit(item, indent + "  ", true, out);
      } else {
        emit_value(item, indent, out);
      }
    }
  } else if (node.kind == Yaml::Kind::map) {
    out += "{}\n";
  } else if (node.kind == Yaml::Kind::list) {
    out += "[]\n";
  } else {
    out += scalar_text(node) + "\n";
  }
}

Yaml& entry_of(Yaml& map, const std::string& key, const std::string& origin) {
  for (auto& [name, value] : map.entries) {
    if (name == key) return value;
  }
  Yaml fresh;
  fresh.origin = origin;
  return map.entries.emplace_back(key, fresh).second;
}

Yaml& item_of(Yaml& list, const std::string& part, const std::string& origin) {
  size_t index = 0;
  const char* end = part.data() + part.size();
  const auto [stop, error] = std::from_chars(part.data(), end, index);
  if (error != std::errc() || stop != end || index >= list.items.size()) {
    throw Error(ErrorKind::config,
                fmt::format("{}: \"{}\" is no entry of a list of {}; entries count from 0", origin,
                            part, list.items.size()));
  }
  return list.items[index];
}

Yaml& child_of(Yaml& node, const std::string& part, const std::string& origin) {
  if (node.kind == Yaml::Kind::list) return item_of(node, part, origin);
  if (node.kind == Yaml::Kind::scalar) node = yaml_map({{"base", node}});
  node.kind = Yaml::Kind::map;
  node.origin = origin;
  return entry_of(node, part, origin);
}

void set_origin(Yaml& node, const std::string& origin) {
  node.origin = origin;
  for (Yaml& item : node.items) set_origin(item, origin);
  for (auto& entry : node.entries) set_origin(entry.second, origin);
}

}  // namespace

const Yaml* Yaml::find(std::string_view key) const {
  for (const auto& [name, value] : entries) {
    if (name == key) return &value;
  }
  return nullptr;
}

Yaml yaml_scalar(std::string text, bool quoted) {
  Yaml node;
  node.kind = Yaml::Kind::scalar;
  node.text = std::move(text);
  node.quoted = quoted;
  return node;
}

Yaml yaml_list(std::vector<Yaml> items) {
  Yaml node;
  node.kind = Yaml::Kind::list;
  node.items = std::move(items);
  return node;
}

Yaml yaml_map(std::vector<std::pair<std::string, Yaml>> entries) {
  Yaml node;
  node.kind = Yaml::Kind::map;
  node.entries = std::move(entries);
  return node;
}

std::string emit_yaml(const Yaml& node) {
  std::string out;
  emit(node, "", false, out);
  return out;
}

Yaml merge_yaml(const Yaml& base, const Yaml& over) {
  if (base.kind == Yaml::Kind::map && over.kind == Yaml::Kind::list) {
    Yaml result = over;
    for (Yaml& item : result.items) {
      if (item.kind == Yaml::Kind::map) item = merge_yaml(base, item);
    }
    return result;
  }
  if (base.kind != Yaml::Kind::map || over.kind != Yaml::Kind::map) return over;
  Yaml result = base;
  result.origin = over.origin;
  for (const auto& [key, value] : over.entries) {
    const bool known = base.find(key) != nullptr;
    Yaml& entry = entry_of(result, key, value.origin);
    entry = known ? merge_yaml(entry, value) : value;
  }
  return result;
}

void set_yaml_path(Yaml& root, const std::string& path, const std::string& value) {
  const std::string origin = "-C " + path;
  Yaml* node = &root;
  for (const std::string& part : split(path, '.')) {
    if (part.empty()) {
      throw Error(ErrorKind::config,
                  origin + ": an empty part in the path; it must be like measure.budget_seconds");
    }
    node = &child_of(*node, part, node == &root ? root.origin : origin);
  }
  const std::string_view word = trim(value);
  if (word == "null" || word == "~") {
    *node = Yaml{};
  } else {
    *node = word.empty() ? yaml_scalar("", true) : parse_yaml(value, origin);
  }
  set_origin(*node, origin);
}

}  // namespace dettax
