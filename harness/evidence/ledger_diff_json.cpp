#include <nlohmann/json.hpp>

#include "harness/evidence/bisect_report.h"
#include "harness/evidence/ledger_diff.h"

namespace dettax {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const LedgerDiff::Side& side) {
  Json ranks = nullptr;
  if (side.agreement.tested) {
    ranks = {{"equal", side.agreement.equal},
             {"compared", side.agreement.compared},
             {"first_difference", side.agreement.first_difference}};
  }
  return {{"path", side.name},
          {"case_id", side.head.case_id},
          {"mode", side.head.mode},
          {"mode_hash", side.head.mode_hash},
          {"seed", side.head.seed},
          {"steps", side.head.steps},
          {"depth", to_string(side.head.depth)},
          {"ranks", side.ranks},
          {"fingerprints", side.entries},
          {"torn", side.torn},
          {"environment", side.head.environment},
          {"rank_agreement", ranks}};
}

Json json_of(const LedgerDiff& diff) {
  const LedgerComparison& found = diff.comparison;
  Json first = nullptr;
  if (found.first) {
    first = {{"step", found.first->step},     {"rank", found.first_rank},
             {"ranks", found.first_ranks},    {"path", found.first->path},
             {"tensor", found.first->tensor}, {"description", found.description}};
  }
  return {{"a", json_of(diff.a)},
          {"b", json_of(diff.b)},
          {"environment_differences",
           {{"bits", diff.environment.bits}, {"told", diff.environment.told}}},
          {"promised", diff.promised},
          {"forced_past", diff.forced_past.empty() ? Json() : Json(diff.forced_past)},
          {"comparable", found.comparable},
          {"incomparable_reason", found.incomparable_reason},
          {"equal", found.equal},
          {"compared", found.compared},
          {"differing", found.differing},
          {"steps_differing", found.steps_differing},
          {"first_difference", first},
          {"cause", diff.cause.name},
          {"advice", diff.cause.advice}};
}

// Where the bits began to differ, if an op was found.
Json origin_of(const BisectReport& report) {
  const LedgerComparison& found = report.deepest().comparison;
  if (!found.first || found.depth != LedgerDepth::op) return nullptr;
  const auto micro_batch = micro_batch_of(found.first->path);
  return {{"step", found.first->step},
          {"rank", found.first_rank},
          {"ranks", found.first_ranks},
          {"micro_batch", micro_batch ? Json(*micro_batch) : Json()},
          {"op", found.first->path},
          {"tensor", found.first->tensor},
          {"cause", report.deepest().cause.name},
          {"advice", report.deepest().cause.advice}};
}

}  // namespace

std::string bisect_json(const BisectReport& report) {
  const auto text = [](const std::string& words) { return words.empty() ? Json() : Json(words); };
  return Json{{"schema_version", 1},
              {"exit_code", static_cast<int>(report.exit_code())},
              {"runs", report.runs},
              {"origin", origin_of(report)},
              {"replay",
               {{"first_step", report.first_step},
                {"steps", report.steps},
                {"checkpoint", text(report.checkpoint)},
                {"passed_over", report.passed_over},
                {"repeated", report.repeated},
                {"not_repeated", text(report.not_repeated)},
                {"not_moved", report.not_moved},
                {"differed", report.replayed.has_value()},
                {"not_tried_because", text(report.why_not_replayed)},
                {"other_build", text(report.other_build)}}},
              {"recorded", json_of(report.recorded)},
              {"replayed", report.replayed ? json_of(*report.replayed) : Json()}}
             .dump(2, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

std::string diff_json(std::span<const LedgerDiff> diffs, ExitCode exit_code) {
  Json list = Json::array();
  for (const LedgerDiff& diff : diffs) list.push_back(json_of(diff));
  return Json{{"schema_version", 1}, {"exit_code", static_cast<int>(exit_code)}, {"diffs", list}}
             .dump(2, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

}  // namespace dettax
