#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dettax {

// A YAML document as plain data: what was written and where. Values stay text, so that `off` is the
// word off and 010 is not eight; what a text means is said where it is read (yaml_reader.h).
struct Yaml {
  enum class Kind { null, scalar, list, map };
  Kind kind = Kind::null;
  std::string text;                                   // scalar
  bool quoted = false;                                // scalar: a text, whatever it looks like
  std::vector<Yaml> items;                            // list
  std::vector<std::pair<std::string, Yaml>> entries;  // map, in the order of the file
  std::string origin;                                 // "file:line", or "-C key"

  const Yaml* find(std::string_view key) const;
};

Yaml yaml_scalar(std::string text, bool quoted = false);
Yaml yaml_list(std::vector<Yaml> items);
Yaml yaml_map(std::vector<std::pair<std::string, Yaml>> entries);

// Both throw Error{config}, one line, on anything but exactly one valid document without duplicate
// keys. `name` stands for the file in messages.
Yaml parse_yaml(const std::string& text, const std::string& name);
Yaml read_yaml(const std::string& path);

// Block style, quoting every text that some YAML reader would take for something else.
std::string emit_yaml(const Yaml& node);

// `over` on top of `base`: maps are merged key by key, anything else is replaced. Where base has a
// map and over a list, each map of the list is merged onto it.
Yaml merge_yaml(const Yaml& base, const Yaml& over);

// Sets the node at a path like measure.budget_seconds or cases.0.batch.global to `value`, read as
// YAML. Missing maps on the way are made (the reader then says whether the key exists); a name on
// the way
// (`model: gpt-tiny`) becomes {base: name}. Throws if the path leaves a list's range.
void set_yaml_path(Yaml& root, const std::string& path, const std::string& value);

}  // namespace dettax
