#include <fmt/format.h>

#include "harness/base/format.h"
#include "harness/plan/loaders.h"
#include "harness/plan/suite.h"

namespace dettax {
namespace {

Yaml text(const std::string& value) { return yaml_scalar(value, true); }
Yaml word(const char* value) { return yaml_scalar(value); }
Yaml integer(int64_t value) { return yaml_scalar(fmt::format("{}", value)); }
Yaml number(double value) { return yaml_scalar(format_number(value)); }
Yaml flag(bool value) { return yaml_scalar(value ? "true" : "false"); }

Yaml moe_yaml(const Moe& moe) {
  return yaml_map({{"experts", integer(moe.experts)},
                   {"top_k", integer(moe.top_k)},
                   {"expert_width", integer(moe.expert_width)},
                   {"shared_experts", integer(moe.shared_experts)},
                   {"first_layer", integer(moe.first_layer)},
                   {"normalised", flag(moe.normalised)},
                   {"balance_weight", number(moe.balance_weight)},
                   {"capacity_factor", number(moe.capacity_factor)},
                   {"routing", text(to_string(moe.routing))}});
}

Yaml latent_yaml(const LatentAttention& latent) {
  return yaml_map({{"query_rank", integer(latent.query_rank)},
                   {"key_value_rank", integer(latent.key_value_rank)},
                   {"rope_head_width", integer(latent.rope_head_width)},
                   {"nope_head_width", integer(latent.nope_head_width)},
                   {"value_head_width", integer(latent.value_head_width)}});
}

Yaml layout_yaml(const Layout& layout) {
  return yaml_map({{"dp", integer(layout.dp)},
                   {"tp", integer(layout.tp)},
                   {"pp", integer(layout.pp)},
                   {"vp", integer(layout.vp)},
                   {"cp", integer(layout.cp)},
                   {"ep", integer(layout.ep)},
                   {"sequence_parallel", flag(layout.sequence_parallel)},
                   {"zero_stage", integer(layout.zero_stage)},
                   {"schedule", text(to_string(layout.schedule))},
                   {"recompute", text(to_string(layout.recompute))}});
}

Yaml optimizer_yaml(const Optimizer& optimizer) {
  return yaml_map({{"learning_rate", number(optimizer.learning_rate)},
                   {"beta1", number(optimizer.beta1)},
                   {"beta2", number(optimizer.beta2)},
                   {"epsilon", number(optimizer.epsilon)},
                   {"weight_decay", number(optimizer.weight_decay)},
                   {"clip_norm", number(optimizer.clip_norm)}});
}

Yaml injections_yaml(const std::vector<Injection>& injections) {
  std::vector<Yaml> items;
  for (const Injection& injection : injections) {
    items.push_back(yaml_map({{"kind", text(injection.kind)},
                              {"arm", text(injection.arm)},
                              {"rank", integer(injection.rank)},
                              {"step", integer(injection.step)},
                              {"op", text(injection.op)},
                              {"tensor", text(injection.tensor)},
                              {"ratio", number(injection.ratio)},
                              {"seconds", number(injection.seconds)}}));
  }
  return yaml_list(std::move(items));
}

Yaml measure_yaml(const MeasureSettings& measure) {
  return yaml_map({{"warmup_steps_min", integer(measure.warmup_steps_min)},
                   {"warmup_steps_max", integer(measure.warmup_steps_max)},
                   {"steps_per_block", integer(measure.steps_per_block)},
                   {"block_seconds", number(measure.block_seconds)},
                   {"rounds_min", integer(measure.rounds_min)},
                   {"rounds_max", integer(measure.rounds_max)},
                   {"budget_seconds", number(measure.budget_seconds)},
                   {"target_half_width", number(measure.target_half_width)},
                   {"confidence", number(measure.confidence)},
                   {"case_timeout_seconds", number(measure.case_timeout_seconds)},
                   {"step_timeout_seconds", number(measure.step_timeout_seconds)}});
}

Yaml evidence_yaml(const EvidenceSettings& evidence) {
  return yaml_map({{"steps", integer(evidence.steps)},
                   {"runs", integer(evidence.runs)},
                   {"depth", text(to_string(evidence.depth))},
                   {"relaunch", flag(evidence.relaunch)},
                   {"other_allocation", flag(evidence.other_allocation)},
                   {"other_threads", flag(evidence.other_threads)},
                   {"other_ranks", flag(evidence.other_ranks)},
                   {"controls", flag(evidence.controls)},
                   {"checkpoint_every", integer(evidence.checkpoint_every)}});
}

Yaml profile_yaml(const ProfileSettings& profile) {
  return yaml_map({{"arms", flag(profile.arms)},
                   {"ablate", flag(profile.ablate)},
                   {"budget_seconds", number(profile.budget_seconds)}});
}

}  // namespace

Yaml model_yaml(const Model& model) {
  return yaml_map({{"name", text(model.name)},
                   {"source", text(model.source)},
                   {"vocabulary", integer(model.vocabulary)},
                   {"vocabulary_multiple", integer(model.vocabulary_multiple)},
                   {"context", integer(model.context)},
                   {"layers", integer(model.layers)},
                   {"published_layers", integer(model.published_layers)},
                   {"width", integer(model.width)},
                   {"heads", integer(model.heads)},
                   {"key_value_heads", integer(model.key_value_heads)},
                   {"head_width", integer(model.head_width)},
                   {"ffn_width", integer(model.ffn_width)},
                   {"norm", word(to_string(model.norm))},
                   {"norm_epsilon", number(model.norm_epsilon)},
                   {"activation", word(to_string(model.activation))},
                   {"position", word(to_string(model.position))},
                   {"rope_theta", number(model.rope_theta)},
                   {"tied_head", flag(model.tied_head)},
                   {"bias", flag(model.bias)},
                   {"dropout", number(model.dropout)},
                   {"moe", model.moe ? moe_yaml(*model.moe) : Yaml{}},
                   {"latent_attention",
                    model.latent_attention ? latent_yaml(*model.latent_attention) : Yaml{}}});
}

Yaml mode_yaml(const Mode& mode) {
  Yaml knobs = yaml_map({});
  for (const KnobInfo& info : knob_table()) {
    knobs.entries.emplace_back(std::string(info.name), text(knob_value(mode.knobs, info.knob)));
  }
  Yaml environment = yaml_map({});
  for (const auto& [name, value] : mode.environment)
    environment.entries.emplace_back(name, text(value));
  return yaml_map({{"name", text(mode.name)},
                   {"note", text(mode.note)},
                   {"claims_reproducible", flag(mode.claims_reproducible)},
                   {"claims_invariant", flag(mode.claims_invariant)},
                   {"allow_unproven_environment", flag(mode.allow_unproven_environment)},
                   {"allow_unproven_knobs", flag(mode.allow_unproven_knobs)},
                   {"knobs", std::move(knobs)},
                   {"environment", std::move(environment)}});
}

Yaml link_yaml(const Link& link) {
  return yaml_map({{"bytes_per_second", number(link.bytes_per_second)},
                   {"latency_seconds", number(link.latency_seconds)}});
}

Yaml topology_yaml(const Topology& topology) {
  return yaml_map({{"nodes", integer(topology.nodes)},
                   {"ranks_per_node", integer(topology.ranks_per_node)},
                   {"links", yaml_map({{"intra_node", link_yaml(topology.intra_node)},
                                       {"inter_node", link_yaml(topology.inter_node)}})}});
}

Yaml case_yaml(const Case& planned) {
  return yaml_map(
      {{"label", text(planned.label)},
       {"model", model_yaml(planned.model)},
       {"layout", layout_yaml(planned.layout)},
       {"precision", word(to_string(planned.precision))},
       {"backend", word(to_string(planned.backend))},
       {"threads", integer(planned.topology.threads_per_rank)},
       {"topology", topology_yaml(planned.topology)},
       {"batch", yaml_map({{"micro", integer(planned.batch.micro)},
                           {"global", integer(planned.batch.global)},
                           {"sequence_length", integer(planned.batch.sequence_length)}})},
       {"data", yaml_map({{"kind", text(planned.data.kind)},
                          {"zipf_exponent", number(planned.data.zipf_exponent)},
                          {"path", text(planned.data.path)},
                          {"hash", text(planned.data.hash)}})},
       {"optimizer", optimizer_yaml(planned.optimizer)},
       {"seed", yaml_scalar(fmt::format("{}", planned.seed))},
       {"injections", injections_yaml(planned.injections)}});
}

Yaml suite_yaml(const Suite& suite) {
  std::vector<Yaml> modes;
  for (const Mode& mode : suite.modes) modes.push_back(mode_yaml(mode));
  std::vector<Yaml> cases;
  for (size_t i = 0; i < suite.cases.size(); ++i) {
    Yaml planned = case_yaml(suite.cases[i]);
    set_origin(planned, "case " + suite.cases[i].id(), fmt::format("cases.{}", i));
    cases.push_back(std::move(planned));
  }
  const auto& limit = suite.thresholds.max_overhead_ratio;
  Yaml whole =
      yaml_map({{"name", text(suite.name)},
                {"description", text(suite.description)},
                {"fast", mode_yaml(suite.fast)},
                {"modes", yaml_list(std::move(modes))},
                {"measure", measure_yaml(suite.measure)},
                {"evidence", evidence_yaml(suite.evidence)},
                {"profile", profile_yaml(suite.profile)},
                {"thresholds", yaml_map({{"max_overhead_ratio", limit ? number(*limit) : Yaml{}}})},
                {"cases", yaml_list(std::move(cases))}});
  // Left out where it says nothing, so that the hash of a suite of one process stays what it was.
  if (suite.launch != LaunchPlan{}) whole.entries.emplace_back("launch", launch_yaml(suite.launch));
  return whole;
}

std::string dump_suite(const Suite& suite) { return emit_yaml(suite_yaml(suite)); }

}  // namespace dettax
