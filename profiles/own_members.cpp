#include "profiles/own_members.h"

#include <nlohmann/json.hpp>

#include "harness/base/error.h"

namespace dettax {
namespace {

using Json = nlohmann::ordered_json;

// Runs `body`, with what the parser says turned into one line.
template <typename Body>
auto naming(const std::string& source, std::string_view member, const Body& body) {
  try {
    return body();
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::config, source + ": " + std::string(member) + ": " + error.what());
  }
}

}  // namespace

std::string write_own_members(const OwnMembers& members) {
  Json json;
  json["version"] = 1;
  json["kind"] = members.kind == TraceKind::host ? "host" : "device";
  json["host"] = members.host;
  json["streams"] = Json::array();
  for (const Stream& stream : members.streams)
    json["streams"].push_back({{"process", stream.process}, {"thread", stream.thread}});
  json["losses"] = {
      {"dropped", members.dropped}, {"untimed", members.untimed}, {"told", members.told}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

OwnMembers read_own_members(std::string_view text, const std::string& source) {
  return naming(source, kOwnMember, [&] {
    const Json json = Json::parse(text);
    if (json.at("version") != 1)
      throw Error(ErrorKind::config, source + ": " + std::string(kOwnMember) + ".version: is " +
                                         json.at("version").dump() + "; this build reads 1");
    OwnMembers members;
    members.kind = json.at("kind") == "host" ? TraceKind::host : TraceKind::device;
    members.host = json.at("host").get<std::string>();
    for (const Json& stream : json.at("streams"))
      members.streams.push_back({stream.at("process").get<std::string>(),
                                 stream.at("thread").get<std::string>(), false, 0, 0});
    const Json& losses = json.at("losses");
    members.dropped = losses.at("dropped").get<int64_t>();
    members.untimed = losses.at("untimed").get<int64_t>();
    members.told = losses.at("told").get<std::string>();
    return members;
  });
}

DistributedInfo read_distributed_info(std::string_view text, const std::string& source) {
  return naming(source, "distributedInfo", [&] {
    const Json json = Json::parse(text);
    DistributedInfo info;
    if (json.contains("rank")) info.rank = json.at("rank").get<int>();
    if (json.contains("world_size")) info.world_size = json.at("world_size").get<int>();
    return info;
  });
}

}  // namespace dettax
