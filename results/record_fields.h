#pragma once

// The fields of a record, said once for writing and for reading: `archive(key, field)` and its kin
// are called for each in the order of the file. What an absent value means is said beside it.
// Included by record_text.cpp, which writes, and record_json.cpp, which reads.

#include <array>
#include <string_view>

#include "results/record.h"

namespace dettax::record_fields {

// What stands beside a null that was a number.
inline const char* reason_not_finite(double value) {
  if (value != value) return "not a number";
  return value > 0 ? "positive infinity" : "negative infinity";
}

inline constexpr std::array kStatuses{Status::pass, Status::fail, Status::inconclusive,
                                      Status::skipped, Status::error};
inline constexpr std::array kControlStatuses{ControlStatus::caught, ControlStatus::misplaced,
                                             ControlStatus::not_shown, ControlStatus::not_run};
inline constexpr std::array kNorms{NormKind::layer_norm, NormKind::rms_norm};
inline constexpr std::array kActivations{Activation::gelu, Activation::swiglu};
inline constexpr std::array kSchedules{PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b,
                                       PipelineSchedule::interleaved};
inline constexpr std::array kRecomputes{Recompute::none, Recompute::selective, Recompute::full};
inline constexpr std::array kRoutings{Routing::natural, Routing::balanced};
inline constexpr std::array kPositions{Position::learned, Position::rope};
inline constexpr std::array kBackends{Backend::cpu, Backend::cuda};
inline constexpr std::array kPrecisions{Precision::fp32,   Precision::tf32,   Precision::bf16,
                                        Precision::fp16,   Precision::fp8_cs, Precision::fp8_ds,
                                        Precision::fp8_mx, Precision::nvfp4};

template <class Archive>
void fields(Archive& archive, Estimate& value) {
  archive("value", value.value);
  archive("low", value.low);
  archive("high", value.high);
  archive("count", value.count);
}

template <class Archive>
void fields(Archive& archive, Environment& value) {
  archive("tool_version", value.tool_version);
  archive("git_commit", value.git_commit);
  archive("compiler", value.compiler);
  archive("build_type", value.build_type);
  archive("host", value.host);
  archive("cpu_model", value.cpu_model);
  archive("kernel", value.kernel);
  archive("simd_target", value.simd_target);
  archive("cores", value.cores);
  archive("memory_bytes", value.memory_bytes);
  archive("variables", value.variables);
  archive("started_at", value.started_at);
}

template <class Archive>
void fields(Archive& archive, Block& value) {
  archive("round", value.round);
  archive("position", value.position);
  archive("start_seconds", value.start_seconds);
  archive("repeated", value.repeated);
  archive("step_time_seconds", value.step_time_seconds);
  archive("device_step_time_seconds", value.device_step_time_seconds);
  archive("steal_ratio", value.steal_ratio);
  archive("other_load_ratio", value.other_load_ratio);
  archive("pressure_ratio", value.pressure_ratio);
  archive("frequency_hz", value.frequency_hz);
}

template <class Archive>
void fields(Archive& archive, VariantChange& value) {
  archive("knob", value.knob);
  archive("fast", value.fast);
  archive("here", value.here);
  archive("ops", value.ops);
}

template <class Archive>
void fields(Archive& archive, Fills& value) {
  archive("count", value.count);
  archive("bytes", value.bytes);
  archive("seconds", value.seconds);
}

template <class Archive>
void fields(Archive& archive, Contrast& value) {
  archive("arm", value.arm);
  archive("against", value.against);
  archive("knob", value.knob);
  archive("value", value.value);
  archive("against_value", value.against_value);
  archive("ratio", value.ratio);
  archive("seconds_per_step", value.seconds_per_step);
  archive("bits", value.bits);
}

template <class Archive>
void fields(Archive& archive, RankPlace& value) {
  archive("rank", value.rank);
  archive("host", value.host);
  archive("cores", value.cores);
  archive("bound", value.bound);
}

template <class Archive>
void fields(Archive& archive, ArmResult& value) {
  archive("arm", value.arm);
  archive("mode", value.mode);
  archive("mode_hash", value.mode_hash);
  archive("claims_reproducible", value.claims_reproducible);
  archive("knobs", value.knobs);
  archive("engaged", value.engaged);
  archive("environment", value.environment);
  archive("environment_before", value.environment_before);
  archive("changed", value.changed);
  archive("fills_per_step", value.fills_per_step);
  archive("warmup_step_time_seconds", value.warmup_step_time_seconds);
  archive("blocks", value.blocks);
  archive.optional("step_time_seconds", value.step_time_seconds, "no block was finished");
  archive("tokens_per_second", value.tokens_per_second);
  archive("memory_peak_bytes", value.memory_peak_bytes);
  archive("memory_estimate_bytes", value.memory_estimate_bytes);
  archive("failure_code", value.failure_code);
  archive("failure", value.failure);
  archive("places", value.places);
}

template <class Archive>
void fields(Archive& archive, Tax& value) {
  archive("arm", value.arm);
  archive("overhead_ratio", value.overhead_ratio);
  archive.optional("control_ratio", value.control_ratio,
                   "no control arm, or too few of its rounds");
  archive("min_detectable_overhead_ratio", value.min_detectable_overhead_ratio);
  archive("published", value.published);
  archive("drift_ratio_per_hour", value.drift_ratio_per_hour);
  archive("warnings", value.warnings);
}

template <class Archive>
void fields(Archive& archive, ScopeEvidence& value) {
  archive("scope", value.scope);
  archive("tested", value.tested);
  archive("equal", value.equal);
  archive("compared", value.compared);
  archive("runs", value.runs);
  archive("first_difference", value.first_difference);
  archive("first_difference_op", value.first_difference_op);
  archive("cause", value.cause);
  archive("advice", value.advice);
}

template <class Archive>
void fields(Archive& archive, RankAgreement& value) {
  archive("tested", value.tested);
  archive("equal", value.equal);
  archive("compared", value.compared);
  archive("first_difference", value.first_difference);
}

template <class Archive>
void fields(Archive& archive, ArmEvidence& value) {
  archive("arm", value.arm);
  archive("reproducible", value.reproducible);
  archive("scopes", value.scopes);
  archive("ranks", value.ranks);
  archive("ledger_digest", value.ledger_digest);
  archive("ledger_file", value.ledger_file);
}

template <class Archive>
void fields(Archive& archive, KnobControl& value) {
  archive("arm", value.arm);
  archive("knob", value.knob);
  archive.choice("status", value.status, kControlStatuses);
  archive("runs", value.runs);
  archive("first_op", value.first_op);
  archive("reason", value.reason);
}

template <class Archive>
void fields(Archive& archive, MechanismTime& value) {
  archive("mechanism", value.mechanism);
  archive("fast_seconds", value.fast_seconds);
  archive("deterministic_seconds", value.deterministic_seconds);
  archive("delta_seconds", value.delta_seconds);
}

template <class Archive>
void fields(Archive& archive, PathTime& value) {
  archive("path", value.path);
  archive("mechanism", value.mechanism);
  archive("fast_seconds", value.fast_seconds);
  archive("deterministic_seconds", value.deterministic_seconds);
  archive("delta_seconds", value.delta_seconds);
}

template <class Archive>
void fields(Archive& archive, ArmProfile& value) {
  archive("arm", value.arm);
  archive("ranks", value.ranks);
  archive("steps", value.steps);
  archive("fast_seconds", value.fast_seconds);
  archive("deterministic_seconds", value.deterministic_seconds);
  archive("mechanisms", value.mechanisms);
  archive("paths", value.paths);
  archive("distortion_seconds", value.distortion_seconds);
  archive.optional("fast_recording_ratio", value.fast_recording_ratio, "too few rounds");
  archive.optional("recording_ratio", value.recording_ratio, "too few rounds");
  archive("notes", value.notes);
  archive("refusal", value.refusal);
}

template <class Archive>
void fields(Archive& archive, KnobCost& value) {
  archive("knob", value.knob);
  archive("part", value.part);
  archive.optional("seconds", value.seconds, "too few rounds");
  archive("first_in_seconds", value.first_in_seconds);
  archive("last_in_seconds", value.last_in_seconds);
  archive("cells", value.cells);
  archive("recording_seconds", value.recording_seconds);
}

template <class Archive>
void fields(Archive& archive, SufficientSet& value) {
  archive("knobs", value.knobs);
  archive("reproducible", value.reproducible);
  archive("runs", value.runs);
  archive.optional("overhead_ratio", value.overhead_ratio, "not measured");
  archive("reason", value.reason);
}

template <class Archive>
void fields(Archive& archive, Ablation& value) {
  archive("arm", value.arm);
  archive("rounds", value.rounds);
  archive("mechanisms", value.mechanisms);
  archive("knobs", value.knobs);
  archive("interaction", value.interaction);
  archive("total", value.total);
  archive("sufficient", value.sufficient);
  archive("notes", value.notes);
  archive("refusal", value.refusal);
}

template <class Archive>
void fields(Archive& archive, Evidence& value) {
  archive("arms", value.arms);
  archive("fast_differed", value.fast_differed);
  archive("blindness", value.blindness);
  archive("controls", value.controls);
}

template <class Archive>
void fields(Archive& archive, Verdict& value) {
  archive.choice("status", value.status, kStatuses);
  archive("reason_code", value.reason_code);
  archive("reason", value.reason);
  archive.optional("seconds_needed", value.seconds_needed,
                   "more time is not needed or does not help");
  archive("exit_code", value.exit_code);
}

template <class Archive>
void fields(Archive& archive, Moe& value) {
  archive("experts", value.experts);
  archive("top_k", value.top_k);
  archive("expert_width", value.expert_width);
  archive("shared_experts", value.shared_experts);
  archive("first_layer", value.first_layer);
  archive("normalised", value.normalised);
  archive("balance_weight", value.balance_weight);
  archive("capacity_factor", value.capacity_factor);
  archive.choice("routing", value.routing, kRoutings);
}

template <class Archive>
void fields(Archive& archive, LatentAttention& value) {
  archive("query_rank", value.query_rank);
  archive("key_value_rank", value.key_value_rank);
  archive("rope_head_width", value.rope_head_width);
  archive("nope_head_width", value.nope_head_width);
  archive("value_head_width", value.value_head_width);
}

template <class Archive>
void fields(Archive& archive, Model& value) {
  archive("name", value.name);
  archive("vocabulary", value.vocabulary);
  archive("vocabulary_multiple", value.vocabulary_multiple);
  archive("context", value.context);
  archive("layers", value.layers);
  archive("published_layers", value.published_layers);
  archive("width", value.width);
  archive("heads", value.heads);
  archive("key_value_heads", value.key_value_heads);
  archive("head_width", value.head_width);
  archive("ffn_width", value.ffn_width);
  archive.choice("norm", value.norm, kNorms);
  archive("norm_epsilon", value.norm_epsilon);
  archive.choice("activation", value.activation, kActivations);
  archive.choice("position", value.position, kPositions);
  archive("rope_theta", value.rope_theta);
  archive("tied_head", value.tied_head);
  archive("bias", value.bias);
  archive("dropout", value.dropout);
  archive.part("moe", value.moe);
  archive.part("latent_attention", value.latent_attention);
  archive("source", value.source);
}

template <class Archive>
void fields(Archive& archive, Layout& value) {
  archive("dp", value.dp);
  archive("tp", value.tp);
  archive("pp", value.pp);
  archive("vp", value.vp);
  archive("cp", value.cp);
  archive("ep", value.ep);
  archive("sequence_parallel", value.sequence_parallel);
  archive("zero_stage", value.zero_stage);
  archive.choice("schedule", value.schedule, kSchedules);
  archive.choice("recompute", value.recompute, kRecomputes);
}

template <class Archive>
void fields(Archive& archive, Link& value) {
  archive("latency_seconds", value.latency_seconds);
  archive("bytes_per_second", value.bytes_per_second);
}

template <class Archive>
void fields(Archive& archive, Topology& value) {
  archive("nodes", value.nodes);
  archive("ranks_per_node", value.ranks_per_node);
  archive("threads_per_rank", value.threads_per_rank);
  archive("intra_node", value.intra_node);
  archive("inter_node", value.inter_node);
}

template <class Archive>
void fields(Archive& archive, Batch& value) {
  archive("micro", value.micro);
  archive("global", value.global);
  archive("sequence_length", value.sequence_length);
}

template <class Archive>
void fields(Archive& archive, Data& value) {
  archive("kind", value.kind);
  archive("zipf_exponent", value.zipf_exponent);
  archive("path", value.path);
  archive("bytes", value.bytes);
  archive("hash", value.hash);
}

template <class Archive>
void fields(Archive& archive, Optimizer& value) {
  archive("learning_rate", value.learning_rate);
  archive("beta1", value.beta1);
  archive("beta2", value.beta2);
  archive("epsilon", value.epsilon);
  archive("weight_decay", value.weight_decay);
  archive("clip_norm", value.clip_norm);
}

template <class Archive>
void fields(Archive& archive, Injection& value) {
  archive("kind", value.kind);
  archive("arm", value.arm);
  archive("rank", value.rank);
  archive("step", value.step);
  archive("op", value.op);
  archive("tensor", value.tensor);
  archive("ratio", value.ratio);
  archive("seconds", value.seconds);
}

template <class Archive>
void fields(Archive& archive, Case& value) {
  archive("label", value.label);
  archive("model", value.model);
  archive("layout", value.layout);
  archive.choice("precision", value.precision, kPrecisions);
  archive("topology", value.topology);
  archive.choice("backend", value.backend, kBackends);
  archive("batch", value.batch);
  archive("data", value.data);
  archive("optimizer", value.optimizer);
  archive("seed", value.seed);
  archive("injections", value.injections);
}

template <class Archive>
void fields(Archive& archive, KernelTime& value) {
  archive("name", value.name);
  archive("seconds", value.seconds);
  archive("bytes_per_second", value.bytes_per_second);
  archive("flops_per_second", value.flops_per_second);
  archive("of_roofline_ratio", value.of_roofline_ratio);
  archive("calls_per_step", value.calls_per_step);
}

template <class Archive>
void fields(Archive& archive, KernelSuite& value) {
  archive("peak_flops_per_second", value.peak_flops_per_second);
  archive("memory_bytes_per_second", value.memory_bytes_per_second);
  archive("kernels", value.kernels);
}

template <class Archive>
void fields(Archive& archive, Record& value) {
  archive("schema_version", value.schema_version);
  archive("run_id", value.run_id);
  archive("suite", value.suite);
  archive("suite_hash", value.suite_hash);
  archive("case_id", value.case_id);
  archive("verdict", value.verdict);
  archive("taxes", value.taxes);
  archive("contrasts", value.contrasts);
  archive("profiles", value.profiles);
  archive.part("ablation", value.ablation);
  archive.addition("kernels", value.kernels);
  archive("evidence", value.evidence);
  archive("planned", value.planned);
  archive("environment", value.environment);
  archive("arms", value.arms);
  archive("duration_seconds", value.duration_seconds);
  archive("precision_note", value.precision_note);
}

}  // namespace dettax::record_fields
