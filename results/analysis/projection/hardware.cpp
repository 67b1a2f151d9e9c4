#include "results/analysis/projection/hardware.h"

#include <filesystem>

#include <fmt/format.h>

#include "harness/plan/catalog.h"
#include "harness/plan/suite.h"
#include "harness/plan/yaml_reader.h"

namespace dettax {
namespace {

struct EfficiencyKey {
  const char* name;
  double Efficiency::* value;
};
constexpr EfficiencyKey kEfficiencyKeys[] = {
    {"gemm_ratio", &Efficiency::gemm_ratio},
    {"gemm_half_seconds", &Efficiency::gemm_half_seconds},
    {"fp8_gemm_ratio", &Efficiency::fp8_gemm_ratio},
    {"expert_ratio", &Efficiency::expert_ratio},
    {"all_to_all_ratio", &Efficiency::all_to_all_ratio},
    {"attention_forward_ratio", &Efficiency::attention_forward_ratio},
    {"attention_backward_ratio", &Efficiency::attention_backward_ratio},
    {"fp4_gemm_ratio", &Efficiency::fp4_gemm_ratio},
    {"launch_seconds", &Efficiency::launch_seconds},
    {"rank_cv", &Efficiency::rank_cv},
    {"memory_ratio", &Efficiency::memory_ratio},
    {"memory_passes_ratio", &Efficiency::memory_passes_ratio},
    {"link_ratio", &Efficiency::link_ratio},
    {"network_ratio", &Efficiency::network_ratio},
    {"kernel_seconds", &Efficiency::kernel_seconds},
    {"tensor_overlap_ratio", &Efficiency::tensor_overlap_ratio},
    {"interference_ratio", &Efficiency::interference_ratio},
    {"collective_seconds", &Efficiency::collective_seconds},
    {"step_seconds", &Efficiency::step_seconds}};

constexpr NumberRange kPositive{.low = 0, .low_open = true};

void read_efficiency(MapReader& reader, Efficiency& efficiency) {
  const Yaml* node = reader.find("efficiency");
  if (node == nullptr) return;
  MapReader keys(*node, reader.path("efficiency"));
  for (const EfficiencyKey& key : kEfficiencyKeys)
    keys.number(key.name, efficiency.*key.value, {.low = 0});
  keys.finish();
}

void read_peaks(MapReader& reader, Hardware& machine) {
  MapReader keys(reader.require("peak_flops"), reader.path("peak_flops"));
  keys.number("bf16", machine.bf16_flops, kPositive);
  keys.number("fp8", machine.fp8_flops, kPositive);
  keys.number("fp4", machine.fp4_flops, kPositive);
  keys.number("tf32", machine.tf32_flops, kPositive);
  keys.number("fp32", machine.fp32_flops, kPositive);
  keys.finish();
}

Hardware read_hardware(const Yaml& node, const std::string& name) {
  Hardware machine;
  machine.name = name;
  MapReader reader(node, "hardware");
  machine.device = read_text(reader.require("device"), reader.path("device"));
  reader.require("generation");
  reader.word("generation", machine.generation, generation_words());
  apply_calibration(load_calibration(), machine);
  read_peaks(reader, machine);
  reader.number("gemm_reached_ratio", machine.gemm_reached_ratio, {0, 1, true});
  for (const char* key : {"memory_bytes", "memory_bytes_per_second"}) reader.require(key);
  reader.number("memory_bytes", machine.memory_bytes, kPositive);
  reader.number("memory_bytes_per_second", machine.memory_bytes_per_second, kPositive);
  reader.number("link_bytes_per_second", machine.link_bytes_per_second, kPositive);
  reader.integer("link_domain", machine.link_domain, {1, 1'000'000});
  reader.flag("multicast", machine.multicast);
  reader.number("network_bytes_per_second", machine.network_bytes_per_second, kPositive);
  reader.flag("network_adds", machine.network_adds);
  read_efficiency(reader, machine.efficiency);
  if (const Yaml* sources = reader.find("sources"); sources != nullptr) {
    for (const Yaml& source : sources->items)
      machine.sources.push_back(read_text(source, reader.path("sources")));
  }
  reader.finish();
  return machine;
}

}  // namespace

const std::vector<std::string>& generation_words() {
  static const std::vector<std::string> words = {"ampere", "hopper", "blackwell", "cpu"};
  return words;
}
const char* to_string(Generation generation) {
  return generation_words()[static_cast<size_t>(generation)].c_str();
}

double Hardware::peak_flops(Precision precision) const {
  switch (precision) {
    case Precision::fp32:
      return fp32_flops;
    case Precision::tf32:
      return tf32_flops;
    case Precision::bf16:
    case Precision::fp16:
      return bf16_flops;
    case Precision::fp8_cs:
    case Precision::fp8_ds:
    case Precision::fp8_mx:
      return fp8_flops;
    case Precision::nvfp4:
      return fp4_flops;
  }
  return 0;
}

Hardware load_hardware(const std::string& cluster_name_or_path) {
  const std::string path = resolve(FileKind::cluster, cluster_name_or_path);
  const Yaml node = read_yaml(path);
  const Yaml* hardware = node.kind == Yaml::Kind::map ? node.find("hardware") : nullptr;
  if (hardware == nullptr) {
    throw Error(
        ErrorKind::config,
        fmt::format("{}: hardware: is missing; configs/clusters/h100.yaml shows its keys", path));
  }
  return read_hardware(*hardware, stem(path));
}

std::vector<std::string> list_hardware() {
  std::vector<std::string> names;
  for (const std::string& name : list_clusters()) {
    const Yaml node = read_yaml(resolve(FileKind::cluster, name));
    if (node.find("hardware") != nullptr) names.push_back(name);
  }
  return names;
}

Calibration load_calibration() {
  const std::string path =
      (std::filesystem::path(find_home()) / "configs/published/calibration.yaml").string();
  const Yaml node = read_yaml(path);
  Calibration calibration;
  MapReader reader(node, "");
  for (const std::string& generation : generation_words()) {
    const Yaml* part = reader.find(generation);
    if (part == nullptr) continue;
    MapReader keys(*part, generation);
    for (const EfficiencyKey& key : kEfficiencyKeys) {
      if (keys.find(key.name) == nullptr) continue;
      keys.number(key.name, calibration[generation][key.name], {.low = 0});
    }
    keys.finish();
  }
  reader.finish();
  return calibration;
}

void apply_calibration(const Calibration& calibration, Hardware& machine) {
  const auto part = calibration.find(to_string(machine.generation));
  if (part == calibration.end()) return;
  for (const EfficiencyKey& key : kEfficiencyKeys) {
    if (const auto value = part->second.find(key.name); value != part->second.end())
      machine.efficiency.*key.value = value->second;
  }
}

}  // namespace dettax
