#include "harness/plan/override.h"

#include <span>
#include <utility>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/parse_number.h"
#include "harness/base/text.h"

namespace dettax {
namespace {

Yaml parse_value(const std::string& text, const std::string& source) {
  const std::string_view word = trim(text);
  if (word == "null" || word == "~") return {};
  if (word.empty()) return yaml_scalar("", true);
  return parse_yaml_value(text, source);
}

class Layer {
 public:
  explicit Layer(const Override& setting) : setting_(setting) {}

  void lay(Yaml& node, std::span<const std::string> rest, const std::string& key) const {
    if (rest.empty()) {
      node = setting_.value;
      set_origin(node, setting_.source, key);
      return;
    }
    const std::string& part = rest.front();
    if (part.empty()) fail("an empty part in the path; it must be like measure.budget_seconds");
    const auto below = [&](const std::string& name) {
      return key.empty() ? name : key + "." + name;
    };
    if (node.kind == Yaml::Kind::list && part == "*") {
      for (size_t i = 0; i < node.items.size(); ++i)
        lay(node.items[i], rest.subspan(1), below(std::to_string(i)));
    } else {
      lay(child(node, part), rest.subspan(1), below(part));
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::config, setting_.source + ": " + what);
  }

  Yaml& child(Yaml& node, const std::string& part) const {
    if (node.kind == Yaml::Kind::list) return item(node, part);
    if (node.kind != Yaml::Kind::map) {
      Yaml map = yaml_map({});
      if (node.kind == Yaml::Kind::scalar) map.entries.emplace_back("base", std::move(node));
      map.origin = setting_.source;
      node = std::move(map);
    }
    for (auto& [name, value] : node.entries) {
      if (name == part) return value;
    }
    Yaml fresh;
    fresh.origin = setting_.source;
    return node.entries.emplace_back(part, std::move(fresh)).value;
  }

  Yaml& item(Yaml& list, const std::string& part) const {
    size_t index = 0;
    if (!parse_number(part, index) || index >= list.items.size()) {
      fail(fmt::format("\"{}\" is no entry of a list of {}; entries count from 0, * is every one",
                       part, list.items.size()));
    }
    return list.items[index];
  }

  const Override& setting_;
};

}  // namespace

Override::Override(std::string path, const std::string& text)
    : key(std::move(path)), source("-C " + key), written(source + "=" + text) {
  value = parse_value(text, source);
}

Override::Override(std::string path, Yaml node, const std::string& flag, const std::string& text)
    : key(std::move(path)), value(std::move(node)), source(flag), written(flag + " " + text) {}

void lay_over(Yaml& root, const Override& setting) {
  Layer(setting).lay(root, split(setting.key, '.'), "");
}

}  // namespace dettax
