#include "harness/launch/control_messages.h"

#include <nlohmann/json.hpp>

namespace dettax {
namespace {

using nlohmann::json;

std::string dumped(json message, const char* kind) {
  message["message"] = kind;
  message["protocol"] = kProtocolVersion;
  return message.dump(-1, ' ', false, json::error_handler_t::replace);
}

void check_version(const json& message) {
  const int version = message.at("protocol").get<int>();
  if (version == kProtocolVersion) return;
  throw Error(ErrorKind::internal, "rank protocol: version " + std::to_string(version) +
                                       ", this side speaks " + std::to_string(kProtocolVersion) +
                                       "; every host needs the same dettax");
}

Hello hello_from(const json& message) {
  Hello hello;
  hello.token = message.at("token").get<std::string>();
  hello.rank = message.at("rank").get<int>();
  hello.size = message.at("size").get<int>();
  hello.local_rank = message.at("local_rank").get<int>();
  hello.host = message.at("host").get<std::string>();
  hello.machine = message.at("machine").get<std::string>();
  hello.process_id = message.at("process_id").get<int64_t>();
  hello.cores = message.at("cores").get<std::vector<int>>();
  hello.numa_nodes = message.at("numa_nodes").get<std::vector<int>>();
  hello.devices = message.at("devices").get<int>();
  hello.variables = message.at("variables").get<std::map<std::string, std::string>>();
  return hello;
}

Heartbeat heartbeat_from(const json& message) {
  return {message.at("step").get<int64_t>(), message.at("ops").get<int64_t>(),
          message.at("op").get<std::string>()};
}

template <typename F>
auto decoded(const std::string& line, F body) {
  try {
    return body(json::parse(line));
  } catch (const json::exception& error) {
    throw Error(ErrorKind::internal,
                std::string("rank protocol: malformed message: ") + error.what());
  }
}

}  // namespace

std::string encode(const Hello& value) {
  return dumped({{"token", value.token},
                 {"rank", value.rank},
                 {"size", value.size},
                 {"local_rank", value.local_rank},
                 {"host", value.host},
                 {"machine", value.machine},
                 {"process_id", value.process_id},
                 {"cores", value.cores},
                 {"numa_nodes", value.numa_nodes},
                 {"devices", value.devices},
                 {"variables", value.variables}},
                "hello");
}

std::string encode(const Heartbeat& value) {
  return dumped({{"step", value.step}, {"ops", value.ops}, {"op", value.op}}, "heartbeat");
}

std::string encode(const Welcome& value) {
  return dumped({{"heartbeat_seconds", value.heartbeat_seconds},
                 {"spin", value.spin},
                 {"cores", value.cores},
                 {"node_of_rank", value.node_of_rank}},
                "welcome");
}

RankMessage decode_rank_message(const std::string& line) {
  return decoded(line, [&](const json& message) -> RankMessage {
    const auto kind = message.find("message");
    // A reply's own `message` is its words; only it has `ok`.
    if (message.contains("ok") || kind == message.end()) return decode_reply(line);
    check_version(message);
    if (*kind == "hello") return hello_from(message);
    if (*kind == "heartbeat") return heartbeat_from(message);
    if (*kind == "last_words") {
      return LastWords{message.at("signal").get<int>(), heartbeat_from(message)};
    }
    throw Error(ErrorKind::internal, "rank protocol: unknown message " + kind->dump());
  });
}

Welcome decode_welcome(const std::string& line) {
  return decoded(line, [](const json& message) {
    check_version(message);
    Welcome welcome;
    welcome.heartbeat_seconds = message.at("heartbeat_seconds").get<double>();
    welcome.spin = message.at("spin").get<bool>();
    welcome.cores = message.at("cores").get<std::vector<int>>();
    welcome.node_of_rank = message.at("node_of_rank").get<std::vector<int>>();
    return welcome;
  });
}

}  // namespace dettax
