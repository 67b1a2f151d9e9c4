#include "harness/plan/yaml.h"

#include <algorithm>

#include <fmt/format.h>

namespace dettax {
namespace {

// Words that YAML 1.1 readers take for a boolean or for nothing.
bool is_reserved(std::string text) {
  static const std::vector<std::string> kWords = {"true", "false", "yes", "no",   "on",
                                                  "off",  "y",     "n",   "null", "~"};
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return std::find(kWords.begin(), kWords.end(), text) != kWords.end();
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

bool has_entries(const Yaml& n) { return n.kind == Yaml::Kind::map && !n.entries.empty(); }
bool has_items(const Yaml& n) { return n.kind == Yaml::Kind::list && !n.items.empty(); }

void emit(const Yaml& node, const std::string& indent, bool after_dash, std::string& out);

// What follows `key:` or `-`.
void emit_value(const Yaml& node, const std::string& indent, std::string& out) {
  if (has_entries(node) || has_items(node)) {
    out += "\n";
    emit(node, indent + "  ", false, out);
  } else {
    out += " ";
    emit(node, indent, false, out);
  }
}

void emit_map(const Yaml& node, const std::string& indent, bool after_dash, std::string& out) {
  bool first = after_dash;
  for (const auto& [key, value] : node.entries) {
    out += (first ? "" : indent) + (is_plain(key) ? key : quote(key)) + ":";
    emit_value(value, indent, out);
    first = false;
  }
}

void emit_list(const Yaml& node, const std::string& indent, std::string& out) {
  for (const Yaml& item : node.items) {
    out += indent + "-";
    if (!has_entries(item)) {
      emit_value(item, indent, out);
      continue;
    }
    out += " ";
    emit(item, indent + "  ", true, out);
  }
}

void emit(const Yaml& node, const std::string& indent, bool after_dash, std::string& out) {
  if (has_entries(node)) {
    emit_map(node, indent, after_dash, out);
  } else if (has_items(node)) {
    emit_list(node, indent, out);
  } else if (node.kind == Yaml::Kind::map) {
    out += "{}\n";
  } else if (node.kind == Yaml::Kind::list) {
    out += "[]\n";
  } else {
    out += scalar_text(node) + "\n";
  }
}

Yaml& entry_of(Yaml& map, const std::string& key) {
  for (auto& [name, value] : map.entries) {
    if (name == key) return value;
  }
  return map.entries.emplace_back(key, Yaml{}).value;
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

Yaml yaml_map(std::vector<YamlEntry> entries) {
  Yaml node;
  node.kind = Yaml::Kind::map;
  node.entries = std::move(entries);
  return node;
}

void set_origin(Yaml& node, const std::string& source, const std::string& key) {
  if (node.origin.empty()) {
    node.origin = source;
    node.origin_key = key;
  }
  for (Yaml& item : node.items) set_origin(item, source, key);
  for (auto& entry : node.entries) set_origin(entry.value, source, key);
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
  result.origin_key = over.origin_key;
  for (const auto& [key, value] : over.entries) {
    const bool known = base.find(key) != nullptr;
    Yaml& entry = entry_of(result, key);
    entry = known ? merge_yaml(entry, value) : value;
  }
  return result;
}

}  // namespace dettax
