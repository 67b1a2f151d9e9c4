#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dettax {

struct YamlEntry;

// A YAML document as plain data: what was written and where. Values stay text, so that `off` is the
// word off and 010 is not eight; what a text means is said where it is read (yaml_reader.h).
struct Yaml {
  enum class Kind { null, scalar, list, map };
  Kind kind = Kind::null;
  std::string text;                // scalar
  bool quoted = false;             // scalar: a text, whatever it looks like
  std::vector<Yaml> items;         // list
  std::vector<YamlEntry> entries;  // map, in the order of the file
  std::string origin;              // "file:line", or what laid it over the file
  std::string origin_key;          // the key that `origin` names already

  const Yaml* find(std::string_view key) const;
};
struct YamlEntry {
  std::string key;
  Yaml value;
};

Yaml yaml_scalar(std::string text, bool quoted = false);
Yaml yaml_list(std::vector<Yaml> items);
Yaml yaml_map(std::vector<YamlEntry> entries);

// Says of every node without an origin that it came from `source`, which names `key`.
void set_origin(Yaml& node, const std::string& source, const std::string& key);

// All throw Error{config}, one line, on anything but exactly one valid document without duplicate
// keys. `name` stands for the file in messages.
Yaml parse_yaml(const std::string& text, const std::string& name);
// The same without origins: a value that came from the command line as `name`.
Yaml parse_yaml_value(const std::string& text, const std::string& name);
Yaml read_yaml(const std::string& path);

// Block style, quoting every text that some YAML reader would take for something else.
std::string emit_yaml(const Yaml& node);

// `over` on top of `base`: maps are merged key by key, anything else is replaced. Where base has a
// map and over a list, each map of the list is merged onto it.
Yaml merge_yaml(const Yaml& base, const Yaml& over);

}  // namespace dettax
