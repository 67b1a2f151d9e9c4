#include "results/analysis/projection/projection_json.h"

#include <nlohmann/json.hpp>

namespace dettax {
namespace {

using Json = nlohmann::ordered_json;

Json step_json(const Projection& p) {
  return {{"step_time_seconds", p.step_seconds},
          {"step_time_deviation_seconds", p.step_deviation},
          {"tokens_per_second", p.tokens_per_second},
          {"mfu_ratio", p.mfu_ratio},
          {"parts_seconds",
           {{"gather_wait", p.gather_wait},
            {"passes", p.compute},
            {"bubble", p.bubble},
            {"reduce_tail", p.reduce_tail},
            {"optimizer", p.optimizer},
            {"host", p.host},
            {"slowest_rank", p.slowest_rank},
            {"noise", p.jitter}}},
          {"memory_bytes",
           {{"weights", p.memory.weights},
            {"gradients", p.memory.gradients},
            {"optimizer", p.memory.optimizer},
            {"activations", p.memory.activations},
            {"workspace", p.memory.workspace},
            {"total", p.memory.total()}}}};
}

Json plan_json(const TrainingPlan& plan) {
  return {{"model", plan.model.name},
          {"layout", plan_layout_text(plan)},
          {"schedule", to_string(plan.schedule)},
          {"precision", to_string(plan.precision)},
          {"ranks", plan.ranks()},
          {"micro_batch", plan.batch.micro},
          {"global_batch", plan.batch.global},
          {"sequence_length", plan.batch.sequence_length}};
}

Json document(const char* kind) {
  return {{"schema_version", 1}, {"kind", kind}, {"tool_version", DETTAX_VERSION}};
}

Json row_json(const Judged& judged) {
  return {{"table", judged.row.table},
          {"row", judged.row.row},
          {"label", judged.row.label},
          {"published_seconds", judged.row.step_seconds},
          {"projected_seconds", judged.projected_seconds},
          {"error_ratio", judged.error_ratio()}};
}

Json group_json(const GroupError& group) {
  return {{"group", group.group},
          {"rows", group.rows},
          {"mean_absolute_error_ratio", group.errors.mean_absolute},
          {"median_absolute_error_ratio", group.errors.median_absolute},
          {"bias_ratio", group.errors.bias},
          {"system_took_part_in_fit", group.system_fitted},
          {"limit_ratio", group.limit()},
          {"within_limit", group.within_limit()},
          {"worst", row_json(group.worst)}};
}

}  // namespace

std::string plan_layout_text(const TrainingPlan& plan) {
  Layout layout = plan.layout;
  const bool interleaved = plan.schedule == ScheduleKind::interleaved;
  layout.schedule = interleaved ? PipelineSchedule::interleaved : PipelineSchedule::one_f_one_b;
  if (plan.schedule == ScheduleKind::gpipe) layout.schedule = PipelineSchedule::gpipe;
  std::string text = to_string(layout);
  const bool usual = interleaved || plan.schedule == ScheduleKind::one_f_one_b ||
                     plan.schedule == ScheduleKind::gpipe;
  return usual ? text : text + "." + to_string(plan.schedule);
}

std::string projections_json(const Hardware& machine, const std::vector<ProjectedCase>& cases) {
  Json root = document("projection");
  root["cluster"] = machine.name;
  root["device"] = machine.device;
  root["device_memory_bytes"] = machine.memory_bytes;
  root["cases"] = Json::array();
  for (const ProjectedCase& one : cases) {
    Json entry = plan_json(one.plan);
    entry["mode"] = one.mode;
    entry["fast"] = step_json(one.tax.fast);
    entry["deterministic"] = step_json(one.tax.deterministic);
    Json tax = {{"typical_ratio", one.tax.typical}, {"p10_ratio", one.tax.p10},
                {"p50_ratio", one.tax.p50},         {"p90_ratio", one.tax.p90},
                {"draws", one.tax.draws},           {"interaction_ratio", one.tax.interaction}};
    tax["parts"] = Json::array();
    for (const CausePart& part : one.tax.parts)
      tax["parts"].push_back({{"cause", part.cause.name},
                              {"part", part_word(part.cause.part)},
                              {"ratio", part.ratio}});
    entry["tax"] = tax;
    root["cases"].push_back(entry);
  }
  return root.dump(2) + "\n";
}

std::string sweep_json(const Hardware& machine, const Sweep& sweep) {
  Json root = document("sweep");
  root["cluster"] = machine.name;
  root["tried"] = sweep.tried;
  root["impossible"] = sweep.impossible;
  root["noise"] = "left out";
  root["rows"] = Json::array();
  for (const SweepRow& row : sweep.rows) {
    Json entry = plan_json(row.plan);
    entry["fits"] = row.fits;
    entry["fast"] = step_json(row.projection);
    root["rows"].push_back(entry);
  }
  return root.dump(2) + "\n";
}

std::string validation_json(const Validation& v) {
  Json root = document("validation");
  for (const char* key : {"groups", "calibration", "left_out"}) root[key] = Json::array();
  for (const GroupError& group : v.groups) root["groups"].push_back(group_json(group));
  root["fitted"] = group_json(v.fitted);
  root["foreign"] = group_json(v.foreign);
  for (const Judged& judged : v.calibration) root["calibration"].push_back(row_json(judged));
  for (const PublishedRow& row : v.left_out)
    root["left_out"].push_back({{"table", row.table}, {"row", row.row}, {"reason", row.left_out}});
  return root.dump(2) + "\n";
}

}  // namespace dettax
