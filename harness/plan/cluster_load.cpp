#include "harness/plan/catalog.h"
#include "harness/plan/loaders.h"
#include "harness/plan/suite.h"
#include "harness/plan/yaml_reader.h"

namespace dettax {

void read_nodes(MapReader& keys, Topology& topology) {
  constexpr IntegerRange kRange{1, 1'000'000};
  keys.integer("nodes", topology.nodes, kRange);
  const Yaml* ranks = keys.find("ranks_per_node");
  if (ranks != nullptr && ranks->kind != Yaml::Kind::null)
    keys.integer("ranks_per_node", topology.ranks_per_node, kRange);
}

Cluster load_cluster(const std::string& name_or_path) {
  const std::string path = resolve(FileKind::cluster, name_or_path);
  const Yaml node = read_yaml(path);
  MapReader reader(node, "");
  Cluster cluster;
  cluster.name = stem(path);
  reader.text("name", cluster.name);
  reader.text("description", cluster.description);
  cluster.topology.ranks_per_node = 0;
  read_nodes(reader, cluster.topology);
  reader.find("hardware");  // of results/analysis/projection/machine.h
  reader.finish();
  check_name(node, "name", cluster.name);
  return cluster;
}

}  // namespace dettax
