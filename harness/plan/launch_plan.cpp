#include "harness/plan/launch_plan.h"

#include "harness/plan/yaml_reader.h"

namespace dettax {
namespace {

void read_one_of(MapReader& reader, const std::string& key, const std::vector<std::string>& words,
                 std::string& value) {
  if (const Yaml* node = reader.find(key)) value = words[read_word(*node, reader.path(key), words)];
}

}  // namespace

const std::vector<std::string>& launcher_words() {
  static const std::vector<std::string> words = {"threads", "mpirun", "srun"};
  return words;
}

const std::vector<std::string>& binding_words() {
  static const std::vector<std::string> words = {"none", "core"};
  return words;
}

LaunchPlan read_launch(const Yaml& node, const std::string& key) {
  MapReader reader(node, key);
  LaunchPlan launch;
  read_one_of(reader, "launcher", launcher_words(), launch.launcher);
  reader.text("hostfile", launch.hostfile);
  reader.text("nodelist", launch.nodelist);
  reader.text("exclude", launch.exclude);
  if (const Yaml* list = reader.find("arguments")) {
    if (list->kind != Yaml::Kind::list) {
      throw config_error(*list, reader.path("arguments"), "must be a list, an argument an item");
    }
    for (const Yaml& item : list->items) {
      launch.arguments.push_back(read_text(item, reader.path("arguments")));
    }
  }
  read_one_of(reader, "binding", binding_words(), launch.binding);
  reader.text("control_address", launch.control_address);
  reader.finish();
  return launch;
}

Yaml launch_yaml(const LaunchPlan& launch) {
  std::vector<Yaml> arguments;
  for (const std::string& argument : launch.arguments) {
    arguments.push_back(yaml_scalar(argument, true));
  }
  return yaml_map({{"launcher", yaml_scalar(launch.launcher)},
                   {"hostfile", yaml_scalar(launch.hostfile, true)},
                   {"nodelist", yaml_scalar(launch.nodelist, true)},
                   {"exclude", yaml_scalar(launch.exclude, true)},
                   {"arguments", yaml_list(std::move(arguments))},
                   {"binding", yaml_scalar(launch.binding)},
                   {"control_address", yaml_scalar(launch.control_address, true)}});
}

}  // namespace dettax
