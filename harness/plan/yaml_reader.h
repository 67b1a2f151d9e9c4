#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/error.h"
#include "harness/plan/yaml.h"

namespace dettax {

// A fault in a configuration: `file:line: key: what`.
Error config_error(const Yaml& node, const std::string& key, const std::string& what);

struct IntegerRange {
  int64_t low = std::numeric_limits<int64_t>::min();
  int64_t high = std::numeric_limits<int64_t>::max();
};
struct NumberRange {
  double low = -std::numeric_limits<double>::max();
  double high = std::numeric_limits<double>::max();
  bool low_open = false;  // low itself is not allowed
};

// One value, or config_error naming what it must be.
std::string read_text(const Yaml& node, const std::string& key);
int64_t read_integer(const Yaml& node, const std::string& key, IntegerRange range);
double read_number(const Yaml& node, const std::string& key, NumberRange range);
bool read_switch(const Yaml& node, const std::string& key);
// The index of the text among `words`.
size_t read_word(const Yaml& node, const std::string& key, const std::vector<std::string>& words);

// Reads a map key by key. A key that is absent leaves the target as it is. Every key asked for is
// one the map may have; finish() throws on any other, naming the nearest of them.
class MapReader {
 public:
  // `path` is the map's own key path, empty at the root. Throws if `node` is no map.
  MapReader(const Yaml& node, std::string path);

  const Yaml* find(const std::string& key);     // nothing if absent
  const Yaml& require(const std::string& key);  // throws if absent
  void text(const std::string& key, std::string& value);
  void integer(const std::string& key, int64_t& value, IntegerRange range);
  void integer(const std::string& key, int& value, IntegerRange range);
  void number(const std::string& key, double& value, NumberRange range = {});
  void flag(const std::string& key, bool& value);
  template <typename Enum>
  void word(const std::string& key, Enum& value, const std::vector<std::string>& words) {
    if (const Yaml* node = find(key)) value = static_cast<Enum>(read_word(*node, path(key), words));
  }
  void finish() const;

  std::string path(const std::string& key) const;
  const Yaml& node() const { return node_; }
  // A fault of this map's entry `key`, or of the map itself if it has none.
  Error fault(const std::string& key, const std::string& what) const;

 private:
  const Yaml& node_;
  std::string path_;
  std::vector<std::string> known_;
};

}  // namespace dettax
