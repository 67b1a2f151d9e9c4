#include <charconv>

#include <fmt/format.h>

#include "harness/base/text.h"
#include "harness/plan/catalog.h"
#include "harness/plan/loaders.h"
#include "harness/plan/yaml_reader.h"

namespace dettax {
namespace {

constexpr IntegerRange kAxis{1, 1'000'000};
constexpr IntegerRange kBatch{1, 1'000'000'000};
constexpr int64_t kMostThreads = 1024;  // of one rank: more than any machine has cores
constexpr size_t kMostCases = 10'000;

void read_batch(MapReader& reader, Case& planned) {
  const Yaml& node = reader.require("batch");
  MapReader keys(node, reader.path("batch"));
  Batch& batch = planned.batch;
  batch = {0, 0, 0};
  keys.integer("micro", batch.micro, kBatch);
  keys.integer("global", batch.global, kBatch);
  keys.integer("sequence_length", batch.sequence_length, {2, 100'000'000});
  keys.finish();
  if (batch.global == 0) throw keys.fault("global", "is missing");
  if (batch.sequence_length == 0) throw keys.fault("sequence_length", "is missing");
  const int64_t dp = planned.layout.dp;
  if (batch.micro == 0 && batch.global % dp == 0) batch.micro = batch.global / dp;
  const int64_t at_once = std::max<int64_t>(batch.micro, 1) * dp;
  if (batch.global % at_once != 0) {
    throw keys.fault(
        "global",
        fmt::format("{} is not divisible by micro * dp = {} * {}; {} would be", batch.global,
                    std::max<int64_t>(batch.micro, 1), dp, (batch.global / at_once + 1) * at_once));
  }
}

constexpr double kSlowestLink = 1000;  // bytes per second

// Bounds that keep a step from lasting for ever by a slip of the pen.
void read_link(MapReader& links, const std::string& key, Link& link) {
  const Yaml* node = links.find(key);
  if (node == nullptr) return;
  MapReader keys(*node, links.path(key));
  keys.number("bytes_per_second", link.bytes_per_second, {0, 1e15});
  keys.number("latency_seconds", link.latency_seconds, {0, 10});
  keys.finish();
  if (link.bytes_per_second > 0 && link.bytes_per_second < kSlowestLink)
    throw keys.fault(
        "bytes_per_second",
        fmt::format("must be at least {:g}, or 0 for a link as the machine has it", kSlowestLink));
}

void read_links(MapReader& reader, Topology& topology) {
  const Yaml* node = reader.find("links");
  if (node == nullptr) return;
  MapReader links(*node, reader.path("links"));
  read_link(links, "intra_node", topology.intra_node);
  read_link(links, "inter_node", topology.inter_node);
  links.finish();
  if (topology.inter_node.limited() && topology.nodes == 1)
    throw links.fault("inter_node", "is of a case with one node; topology.nodes says how many");
}

void read_topology(MapReader& reader, Case& planned) {
  Topology& topology = planned.topology;
  const int ranks = planned.layout.ranks();
  reader.integer("threads", topology.threads_per_rank, {1, kMostThreads});
  topology.ranks_per_node = 0;
  const std::string key = reader.path("topology");
  const Yaml* node = reader.find("topology");
  if (node != nullptr && node->kind == Yaml::Kind::map) {
    MapReader keys(*node, key);
    read_nodes(keys, topology);
    read_links(keys, topology);
    keys.finish();
  } else if (node != nullptr) {
    const int threads = topology.threads_per_rank;
    topology = load_cluster(resolve(FileKind::cluster, *node, key)).topology;
    topology.threads_per_rank = threads;
  }
  if (topology.ranks_per_node == 0) topology.ranks_per_node = std::max(1, ranks / topology.nodes);
  if (int64_t{topology.nodes} * topology.ranks_per_node != ranks) {
    throw reader.fault(
        "topology",
        fmt::format("{} nodes x {} ranks are not the {} ranks of layout {}", topology.nodes,
                    topology.ranks_per_node, ranks, to_string(planned.layout)));
  }
}

void read_optimizer(MapReader& reader, Optimizer& optimizer) {
  const Yaml* node = reader.find("optimizer");
  if (node == nullptr) return;
  MapReader keys(*node, reader.path("optimizer"));
  keys.number("learning_rate", optimizer.learning_rate, {0, 100});
  keys.number("beta1", optimizer.beta1, {0, 0.999999});
  keys.number("beta2", optimizer.beta2, {0, 0.999999});
  keys.number("epsilon", optimizer.epsilon, {0, 1, true});
  keys.number("weight_decay", optimizer.weight_decay, {0, 100});
  keys.number("clip_norm", optimizer.clip_norm, {.low = 0});
  keys.finish();
}

Injection read_injection(const Yaml& node, const std::string& key, int ranks) {
  MapReader reader(node, key);
  Injection injection;
  const std::vector<std::string> kinds = {"slow",
                                          "delay",
                                          "crash",
                                          "hang",
                                          "nan",
                                          "nan_once",
                                          "reorder",
                                          "reorder_collectives",
                                          "reorder_elsewhere",
                                          "no_deterministic_version"};
  injection.kind = kinds[read_word(reader.require("kind"), reader.path("kind"), kinds)];
  reader.text("arm", injection.arm);
  reader.integer("rank", injection.rank, {0, ranks - 1});
  reader.integer("step", injection.step, {0, 1'000'000'000});
  reader.text("op", injection.op);
  reader.text("tensor", injection.tensor);
  reader.number("ratio", injection.ratio, {0, 1000});
  reader.number("seconds", injection.seconds, {0, 1000});
  reader.finish();
  if (injection.kind == "slow" && injection.ratio == 0) {
    throw reader.fault("ratio", "is missing; 0.03 makes each step 3 % longer");
  }
  if (injection.kind == "delay" && injection.seconds == 0) {
    throw reader.fault("seconds", "is missing; 0.001 makes each such op a millisecond longer");
  }
  if ((injection.kind == "reorder" || injection.kind == "delay") && injection.op.empty()) {
    throw reader.fault("op", "is missing; backward/layer1/attention is one");
  }
  return injection;
}

void read_injections(MapReader& reader, Case& planned) {
  const Yaml* node = reader.find("injections");
  if (node == nullptr) return;
  const std::string key = reader.path("injections");
  if (node->kind != Yaml::Kind::list) throw config_error(*node, key, "must be a list");
  for (size_t i = 0; i < node->items.size(); ++i) {
    planned.injections.push_back(
        read_injection(node->items[i], fmt::format("{}.{}", key, i), planned.layout.ranks()));
  }
}

Case read_case(const Yaml& node, const std::string& key, KnownTexts& texts) {
  MapReader reader(node, key);
  Case planned;
  planned.model = read_model(reader.require("model"), reader.path("model"));
  if (const Yaml* layout = reader.find("layout")) {
    planned.layout = read_layout(*layout, reader.path("layout"));
  }
  reader.word("precision", planned.precision, precision_words());
  reader.word("backend", planned.backend, backend_words());
  read_topology(reader, planned);
  read_batch(reader, planned);
  read_data(reader, planned, texts);
  read_optimizer(reader, planned.optimizer);
  if (const Yaml* seed = reader.find("seed")) {
    planned.seed = static_cast<uint64_t>(read_integer(*seed, reader.path("seed"), {.low = 0}));
  }
  read_injections(reader, planned);
  const Yaml* label = reader.find("label");
  reader.text("label", planned.label);
  reader.finish();
  if (!planned.label.empty()) check_name(*label, reader.path("label"), planned.label);
  return planned;
}

// The entry with `axis` replaced by each of its values in turn.
std::vector<Yaml> expand(const std::vector<Yaml>& entries, const std::string& axis,
                         const std::string& key) {
  std::vector<Yaml> result;
  for (const Yaml& entry : entries) {
    const Yaml* values = entry.find(axis);
    if (values == nullptr || values->kind != Yaml::Kind::list) {
      result.push_back(entry);
      continue;
    }
    if (values->items.empty()) throw config_error(*values, key + "." + axis, "is an empty list");
    for (const Yaml& value : values->items) {
      result.push_back(entry);
      for (auto& [name, target] : result.back().entries) {
        if (name == axis) target = value;
      }
      if (result.size() > kMostCases) {
        throw config_error(entry, key, fmt::format("expands to more than {} cases", kMostCases));
      }
    }
  }
  return result;
}

}  // namespace

const std::vector<std::string>& precision_words() {
  static const std::vector<std::string> words = {"fp32",   "tf32",   "bf16",   "fp16",
                                                 "fp8_cs", "fp8_ds", "fp8_mx", "nvfp4"};
  return words;
}
const std::vector<std::string>& backend_words() {
  static const std::vector<std::string> words = {"cpu", "cuda"};
  return words;
}

std::vector<Case> read_cases(const Yaml& entry, const std::string& key, KnownTexts& texts) {
  std::vector<Yaml> entries = {entry};
  for (const char* axis : {"model", "layout", "precision", "threads", "batch"}) {
    entries = expand(entries, axis, key);
  }
  std::vector<Case> cases;
  cases.reserve(entries.size());
  for (const Yaml& single : entries) cases.push_back(read_case(single, key, texts));
  return cases;
}

}  // namespace dettax
