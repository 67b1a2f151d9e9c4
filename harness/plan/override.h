#pragma once

#include <string>
#include <vector>

#include "harness/plan/yaml.h"

namespace dettax {

// A value laid over a suite from outside its file, and what messages call it.
struct Override {
  // As `-C key=text` gives it; the text is read as YAML.
  Override(std::string path, const std::string& text);
  // As a flag gives it, which was written as `text`.
  Override(std::string path, Yaml node, const std::string& flag, const std::string& text);

  std::string key;  // a path like measure.budget_seconds or cases.0.batch.global; * is every entry
  Yaml value;
  std::string source;   // "-C measure.budget_seconds", "--dp"
  std::string written;  // "-C measure.budget_seconds=60", "--dp 3"
};

// Sets the node at the override's path. Missing maps on the way are made (the reader then says
// whether the key exists); a name on the way (`model: gpt-tiny`) becomes {base: name}. Throws if the
// path leaves a list's range.
void lay_over(Yaml& root, const Override& setting);

}  // namespace dettax
