#include "results/analysis/projection/projected_step.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/base/error.h"
#include "results/run_folder.h"

namespace dettax {
namespace {

using Json = nlohmann::json;

ProjectedStep read_case(const Json& root, const Json& entry) {
  ProjectedStep step;
  step.cluster = root.at("cluster").get<std::string>();
  step.device = root.at("device").get<std::string>();
  step.device_memory_bytes = root.at("device_memory_bytes").get<double>();
  step.model = entry.at("model").get<std::string>();
  step.precision = entry.at("precision").get<std::string>();
  step.layout = entry.at("layout").get<std::string>();
  step.mode = entry.at("mode").get<std::string>();
  step.gpus = entry.at("ranks").get<int64_t>();
  const Json& fast = entry.at("fast");
  step.fast_seconds = fast.at("step_time_seconds").get<double>();
  step.tokens_per_second = fast.at("tokens_per_second").get<double>();
  step.mfu_ratio = fast.at("mfu_ratio").get<double>();
  step.memory_bytes = fast.at("memory_bytes").at("total").get<double>();
  step.deterministic_seconds = entry.at("deterministic").at("step_time_seconds").get<double>();
  const Json& tax = entry.at("tax");
  step.tax = tax.at("typical_ratio").get<double>();
  step.p10 = tax.at("p10_ratio").get<double>();
  step.p50 = tax.at("p50_ratio").get<double>();
  step.p90 = tax.at("p90_ratio").get<double>();
  step.interaction = tax.at("interaction_ratio").get<double>();
  for (const Json& part : tax.at("parts"))
    step.causes.push_back({part.at("cause").get<std::string>(), part.at("part").get<std::string>(),
                           part.at("ratio").get<double>()});
  return step;
}

}  // namespace

std::string ProjectedStep::name() const {
  return fmt::format("{}.{}.{}/{} on {}", model, precision, layout, mode, cluster);
}

ProjectedStep projected_step(const Hardware& machine, const ProjectedCase& projected) {
  const ProjectedTax& tax = projected.tax;
  ProjectedStep step;
  step.model = projected.plan.model.name;
  step.precision = to_string(projected.plan.precision);
  step.layout = plan_layout_text(projected.plan);
  step.cluster = machine.name;
  step.device = machine.device;
  step.mode = projected.mode;
  step.gpus = projected.plan.ranks();
  step.fast_seconds = tax.fast.step_seconds;
  step.deterministic_seconds = tax.deterministic.step_seconds;
  step.tokens_per_second = tax.fast.tokens_per_second;
  step.mfu_ratio = tax.fast.mfu_ratio;
  step.memory_bytes = tax.fast.memory.total();
  step.device_memory_bytes = machine.memory_bytes;
  step.tax = tax.typical;
  step.p10 = tax.p10;
  step.p50 = tax.p50;
  step.p90 = tax.p90;
  for (const CausePart& part : tax.parts)
    step.causes.push_back({part.cause.name, std::string(part_word(part.cause.part)), part.ratio});
  step.interaction = tax.interaction;
  return step;
}

std::vector<ProjectedStep> read_projections(const std::string& path) {
  const std::string text = read_file(path);
  std::vector<ProjectedStep> steps;
  try {
    const Json root = Json::parse(text);
    if (root.value("kind", "") != "projection" || root.value("schema_version", 0) != 1)
      throw Error(ErrorKind::config,
                  path + ": is no projection; dettax project MODEL --json FILE writes one");
    for (const Json& entry : root.at("cases")) steps.push_back(read_case(root, entry));
  } catch (const Json::exception& error) {
    throw Error(
        ErrorKind::config,
        fmt::format("{}: is no whole projection of dettax project --json: {}", path, error.what()));
  }
  if (steps.empty()) throw Error(ErrorKind::config, path + ": holds no case");
  return steps;
}

}  // namespace dettax
