#include "harness/launch/protocol.h"

#include <array>
#include <string_view>
#include <type_traits>
#include <utility>

#include <nlohmann/json.hpp>

#include "harness/launch/base64.h"
#include "results/reason.h"
#include "results/run_folder.h"

namespace dettax {
namespace {

using nlohmann::json;

constexpr std::array<std::pair<ErrorKind, std::string_view>, 8> kErrorKinds = {{
    {ErrorKind::usage, "usage"},
    {ErrorKind::config, "config"},
    {ErrorKind::infrastructure, "infrastructure"},
    {ErrorKind::unsupported, "unsupported"},
    {ErrorKind::numeric, "numeric"},
    {ErrorKind::nondeterministic, "nondeterministic"},
    {ErrorKind::timeout, "timeout"},
    {ErrorKind::internal, "internal"},
}};

std::string_view name_of(ErrorKind kind) {
  for (const auto& [value, name] : kErrorKinds) {
    if (value == kind) return name;
  }
  return "internal";
}

ErrorKind error_kind(std::string_view name) {
  for (const auto& [value, known] : kErrorKinds) {
    if (known == name) return value;
  }
  return ErrorKind::internal;
}

// The case and its mode travel in the format of records: one serialisation of a case in the whole
// program.
json to_message(const request::Prepare& prepare) {
  Record carrier;
  carrier.planned = prepare.spec.planned;
  carrier.case_id = prepare.spec.planned.id();
  carrier.verdict = make_verdict("incomplete", "");  // every record has one
  ArmResult arm;
  arm.arm = prepare.spec.arm;
  arm.mode = prepare.spec.mode.name;
  arm.mode_hash = prepare.spec.mode.hash;
  arm.environment = prepare.spec.mode.environment;
  arm.claims_reproducible = prepare.spec.mode.claims_reproducible;
  for (const KnobInfo& info : knob_table()) {
    arm.knobs[std::string(info.name)] = knob_value(prepare.spec.mode.knobs, info.knob);
  }
  carrier.arms.push_back(std::move(arm));
  return {{"request", "prepare"},
          {"case", to_json(carrier)},
          {"claims_invariant", prepare.spec.mode.claims_invariant},
          {"placement", static_cast<int>(prepare.spec.placement)}};
}

json to_message(const request::Steps& steps) {
  return {{"request", "steps"}, {"count", steps.count}};
}

// Paths are bytes, which need not be UTF-8.
std::string path_from(const json& message, const char* name) {
  return from_base64(message.at(name).get<std::string>());
}

json to_message(const request::WriteLedger& ledger) {
  const CheckpointUse& use = ledger.checkpoints;
  return {{"request", "ledger"},         {"seed", ledger.seed},
          {"steps", ledger.steps},       {"path", to_base64(ledger.path)},
          {"stress", ledger.stress},     {"depth", static_cast<int>(ledger.depth)},
          {"load", to_base64(use.load)}, {"from", use.from},
          {"leave_out", use.leave_out},  {"save_into", to_base64(use.save_into)},
          {"save_at", use.save_at},      {"save_every", use.save_every}};
}

json to_message(const request::Weaken& weaken) {
  return {{"request", "weaken"}, {"knob", weaken.knob}};
}

json to_message(const request::Profile& profile) {
  return {{"request", "profile"}, {"count", profile.count}};
}

json to_message(const request::TakeTraces&) { return {{"request", "take_traces"}}; }

json to_message(const request::FindNonFinite& find) {
  return {{"request", "find_non_finite"}, {"step", find.step}};
}

json to_message(const request::Exit&) { return {{"request", "exit"}}; }

request::Prepare prepare_from(const json& message) {
  const Record carrier = parse_record(message.at("case").get<std::string>(), "prepare request");
  const ArmResult& arm = carrier.arms.at(0);
  request::Prepare prepare;
  prepare.spec.arm = arm.arm;
  prepare.spec.planned = carrier.planned;
  prepare.spec.mode.name = arm.mode;
  prepare.spec.mode.hash = arm.mode_hash;
  prepare.spec.mode.environment = arm.environment;
  prepare.spec.mode.claims_reproducible = arm.claims_reproducible;
  prepare.spec.mode.claims_invariant = message.at("claims_invariant").get<bool>();
  for (const auto& [name, value] : arm.knobs) set_knob(prepare.spec.mode.knobs, name, value);
  prepare.spec.placement = static_cast<RankPlacement>(message.at("placement").get<int>());
  return prepare;
}

WorkerRequest request_from(const json& message) {
  const auto name = message.at("request").get<std::string>();
  if (name == "prepare") return prepare_from(message);
  if (name == "steps") return request::Steps{message.at("count").get<int>()};
  if (name == "ledger") {
    return request::WriteLedger{
        message.at("seed").get<uint64_t>(),
        message.at("steps").get<int>(),
        path_from(message, "path"),
        message.at("stress").get<uint64_t>(),
        static_cast<LedgerDepth>(message.at("depth").get<int>()),
        {path_from(message, "load"), message.at("from").get<int>(),
         message.at("leave_out").get<std::vector<std::string>>(), path_from(message, "save_into"),
         message.at("save_at").get<int>(), message.at("save_every").get<int>()}};
  }
  if (name == "weaken") return request::Weaken{message.at("knob").get<std::string>()};
  if (name == "profile") return request::Profile{message.at("count").get<int>()};
  if (name == "take_traces") return request::TakeTraces{};
  if (name == "find_non_finite") return request::FindNonFinite{message.at("step").get<int64_t>()};
  if (name == "exit") return request::Exit{};
  throw Error(ErrorKind::internal, "worker protocol: unknown request \"" + name + "\"");
}

json parse_message(const std::string& line) {
  const json message = json::parse(line);
  const int version = message.at("protocol").get<int>();
  if (version != kProtocolVersion) {
    throw Error(ErrorKind::internal, "worker protocol: version " + std::to_string(version) +
                                         ", this side speaks " + std::to_string(kProtocolVersion));
  }
  return message;
}

[[noreturn]] void throw_malformed(const json::exception& error) {
  throw Error(ErrorKind::internal,
              std::string("worker protocol: malformed message: ") + error.what());
}

}  // namespace

std::string encode(const WorkerRequest& value) {
  json message = std::visit([](const auto& request) { return to_message(request); }, value);
  message["protocol"] = kProtocolVersion;
  return message.dump(-1, ' ', false, json::error_handler_t::replace);
}

// As a list, in the order of the fields.
json to_message(const MachineSample& sample) {
  return {sample.time_seconds,     sample.busy_core_seconds, sample.steal_core_seconds,
          sample.pressure_seconds, sample.frequency_hz,      sample.cores};
}

MachineSample machine_sample_from(const json& message) {
  return {message.at(0).get<double>(), message.at(1).get<double>(), message.at(2).get<double>(),
          message.at(3).get<double>(), message.at(4).get<double>(), message.at(5).get<int>()};
}

std::string encode(const Reply& value) {
  json machine = json::array();
  for (const MachineSample& sample : value.machine) machine.push_back(to_message(sample));
  const json message = {{"protocol", kProtocolVersion},
                        {"ok", value.ok},
                        {"kind", name_of(value.kind)},
                        {"message", value.message},
                        {"step", value.step},
                        {"engaged", value.engaged},
                        {"step_time_seconds", value.step_time_seconds},
                        {"cpu_seconds", value.cpu_seconds},
                        {"fills", {value.fills.count, value.fills.bytes, value.fills.time_ns}},
                        {"memory_peak_bytes", value.memory_peak_bytes},
                        {"machine", std::move(machine)},
                        {"ledger", to_base64(value.ledger)},
                        {"fresh_states", value.fresh_states},
                        {"restored_states", value.restored_states},
                        {"not_saved", value.not_saved},
                        {"traces", value.traces},
                        {"found_step", value.found_step},
                        {"found_op", value.found_op}};
  // A message of the operating system may hold bytes that are no UTF-8.
  return message.dump(-1, ' ', false, json::error_handler_t::replace);
}

WorkerRequest decode_request(const std::string& line) {
  try {
    return request_from(parse_message(line));
  } catch (const json::exception& error) {
    throw_malformed(error);
  }
}

Reply decode_reply(const std::string& line) {
  try {
    const json message = parse_message(line);
    Reply reply;
    reply.ok = message.at("ok").get<bool>();
    reply.kind = error_kind(message.at("kind").get<std::string>());
    reply.message = message.at("message").get<std::string>();
    reply.step = message.at("step").get<int64_t>();
    reply.engaged = message.at("engaged").get<std::map<std::string, std::string>>();
    reply.step_time_seconds =
        message.at("step_time_seconds").get<std::vector<std::vector<double>>>();
    reply.cpu_seconds = message.at("cpu_seconds").get<double>();
    const auto fills = message.at("fills").get<std::array<int64_t, 3>>();
    reply.fills = {fills[0], fills[1], fills[2]};
    reply.memory_peak_bytes = message.at("memory_peak_bytes").get<int64_t>();
    for (const json& sample : message.at("machine")) {
      reply.machine.push_back(machine_sample_from(sample));
    }
    reply.ledger = from_base64(message.at("ledger").get<std::string>());
    reply.fresh_states = message.at("fresh_states").get<std::vector<std::string>>();
    reply.restored_states = message.at("restored_states").get<std::vector<std::string>>();
    reply.not_saved = message.at("not_saved").get<std::string>();
    reply.traces = message.at("traces").get<std::vector<std::string>>();
    reply.found_step = message.at("found_step").get<int64_t>();
    reply.found_op = message.at("found_op").get<int64_t>();
    return reply;
  } catch (const json::exception& error) {
    throw_malformed(error);
  }
}

}  // namespace dettax
