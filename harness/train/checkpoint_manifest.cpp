#include "harness/train/checkpoint_manifest.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <system_error>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/base/error.h"

namespace dettax {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "dettax checkpoint";
constexpr std::array<const char*, 4> kTypeNames{"f32", "f64", "i64", "u64"};

const char* name_of(StateType type) { return kTypeNames.at(static_cast<size_t>(type)); }

StateType type_named(const std::string& name) {
  const auto found = std::ranges::find(kTypeNames, name);
  if (found == kTypeNames.end()) throw Error(ErrorKind::config, "type \"" + name + "\" is unknown");
  return static_cast<StateType>(found - kTypeNames.begin());
}

json range_json(const StateRange& range) {
  json rows = json::array();
  for (const RowBlock& block : range.blocks) rows.push_back({block.first, block.count});
  return {{"shape", {range.whole_rows, range.whole_columns}},
          {"rows", rows},
          {"columns", {range.first_column, range.columns}},
          {"elements", {range.first, range.count}}};
}

int64_t number_at(const json& value, size_t place) { return value.at(place).get<int64_t>(); }

StateRange range_from(const json& value) {
  StateRange range;
  range.whole_rows = number_at(value.at("shape"), 0);
  range.whole_columns = number_at(value.at("shape"), 1);
  range.blocks.clear();
  for (const json& block : value.at("rows"))
    range.blocks.push_back({number_at(block, 0), number_at(block, 1)});
  range.first_column = number_at(value.at("columns"), 0);
  range.columns = number_at(value.at("columns"), 1);
  range.first = number_at(value.at("elements"), 0);
  range.count = number_at(value.at("elements"), 1);
  return range;
}

json part_json(const SavedPart& part) {
  json value = range_json(part.range);
  value["fingerprint"] = to_string(part.fingerprint);
  value["ranks"] = part.holders;
  if (!part.value.empty()) value["value"] = part.value;
  return value;
}

SavedPart part_from(const json& value) {
  SavedPart part;
  part.range = range_from(value);
  part.fingerprint = parse_fingerprint(value.at("fingerprint").get<std::string>());
  part.holders = value.at("ranks").get<std::vector<int>>();
  part.value = value.value("value", "");
  if (part.holders.empty()) throw Error(ErrorKind::config, "a part that no rank holds");
  return part;
}

json tensor_json(const SavedTensor& tensor) {
  json parts = json::array();
  for (const SavedPart& part : tensor.parts) parts.push_back(part_json(part));
  json value = {{"name", tensor.name},
                {"item", tensor.item},
                {"dtype", name_of(tensor.type)},
                {"parts", parts}};
  value["fingerprint"] =
      tensor.copies_differ() ? json(nullptr) : json(to_string(tensor.fingerprint()));
  return value;
}

SavedTensor tensor_from(const json& value) {
  SavedTensor tensor;
  tensor.name = value.at("name").get<std::string>();
  tensor.item = value.at("item").get<std::string>();
  tensor.type = type_named(value.at("dtype").get<std::string>());
  for (const json& part : value.at("parts")) tensor.parts.push_back(part_from(part));
  return tensor;
}

// A case's name may hold bytes that are no UTF-8.
std::string text_of(const json& value, int indent) {
  return value.dump(indent, ' ', false, json::error_handler_t::replace);
}

// Of the text with an empty check in it; keys of an object are sorted, so that the text is one.
std::string check_of(json manifest) {
  manifest["check"] = "";
  const std::string text = text_of(manifest, -1);
  return to_string(fingerprint(text.data(), text.size(), 1));
}

CheckpointManifest manifest_from(const json& value) {
  CheckpointManifest manifest;
  if (value.at("format") != kFormat) throw Error(ErrorKind::config, "is no checkpoint's manifest");
  const auto version = value.at("version").get<int64_t>();
  if (version != kManifestVersion)
    throw Error(ErrorKind::config, fmt::format("has version {}; this build reads version {}",
                                               version, kManifestVersion));
  if (value.at("check") != check_of(value))
    throw Error(ErrorKind::config, "is damaged: its check is another");
  manifest.step = value.at("step").get<int64_t>();
  manifest.case_id = value.at("case").get<std::string>();
  manifest.layout = value.at("layout").get<std::string>();
  for (const json& place : value.at("mesh"))
    manifest.mesh.push_back({place.at("dp").get<int>(), place.at("tp").get<int>(),
                             place.at("pp").get<int>(), place.at("cp").get<int>()});
  for (const json& file : value.at("files"))
    manifest.files.push_back({file.at("rank").get<int>(), file.at("bytes").get<int64_t>()});
  for (const json& tensor : value.at("tensors")) manifest.tensors.push_back(tensor_from(tensor));
  return manifest;
}

}  // namespace

bool SavedTensor::copies_differ() const {
  std::set<StateRange> ranges;
  return !std::ranges::all_of(
      parts, [&](const SavedPart& part) { return ranges.insert(part.range).second; });
}

Fingerprint SavedTensor::fingerprint() const {
  Fingerprint sum;
  for (const SavedPart& part : parts) sum += part.fingerprint;
  return sum;
}

const SavedPart* SavedTensor::held_by(int rank) const {
  const auto found = std::ranges::find_if(parts, [&](const SavedPart& part) {
    return std::ranges::find(part.holders, rank) != part.holders.end();
  });
  return found == parts.end() ? nullptr : &*found;
}

const SavedTensor* CheckpointManifest::find(const std::string& name) const {
  const auto found = std::ranges::find(tensors, name, &SavedTensor::name);
  return found == tensors.end() ? nullptr : &*found;
}

std::string saved_file_name(int rank) { return fmt::format("rank_{:05}.safetensors", rank); }

std::vector<SavedTensor> merge_states(const std::vector<std::vector<StateEntry>>& ranks) {
  std::vector<SavedTensor> merged;
  std::map<std::string, size_t> places;
  std::map<std::tuple<size_t, StateRange, uint64_t, uint64_t>, size_t> parts_at;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const StateEntry& entry : ranks[rank]) {
      const auto [place, is_new] = places.try_emplace(entry.name, merged.size());
      if (is_new) merged.push_back({entry.item, entry.name, entry.type, {}});
      auto& parts = merged[place->second].parts;
      const auto [part, first] = parts_at.try_emplace(
          {place->second, entry.range, entry.fingerprint.lane0, entry.fingerprint.lane1},
          parts.size());
      if (first) parts.push_back({entry.range, entry.fingerprint, entry.value, {}});
      parts[part->second].holders.push_back(static_cast<int>(rank));
    }
  }
  return merged;
}

std::vector<std::vector<StateEntry>> states_of(const CheckpointManifest& manifest) {
  std::vector<std::vector<StateEntry>> ranks(manifest.mesh.size());
  for (const SavedTensor& tensor : manifest.tensors) {
    for (const SavedPart& part : tensor.parts) {
      for (const int rank : part.holders)
        ranks.at(static_cast<size_t>(rank))
            .push_back(
                {tensor.item, tensor.name, tensor.type, part.range, part.fingerprint, part.value});
    }
  }
  return ranks;
}

std::string to_json(const CheckpointManifest& manifest) {
  json mesh = json::array();
  for (const MeshPosition& at : manifest.mesh)
    mesh.push_back({{"dp", at.dp}, {"tp", at.tp}, {"pp", at.pp}, {"cp", at.cp}});
  json files = json::array();
  for (const SavedFile& file : manifest.files)
    files.push_back(
        {{"rank", file.rank}, {"name", saved_file_name(file.rank)}, {"bytes", file.bytes}});
  json tensors = json::array();
  for (const SavedTensor& tensor : manifest.tensors) tensors.push_back(tensor_json(tensor));
  json value = {{"format", kFormat},        {"version", kManifestVersion}, {"step", manifest.step},
                {"case", manifest.case_id}, {"layout", manifest.layout},   {"mesh", mesh},
                {"files", files},           {"tensors", tensors}};
  value["check"] = check_of(value);
  return text_of(value, 1) + '\n';
}

CheckpointManifest read_manifest(const std::filesystem::path& checkpoint) {
  const std::filesystem::path path = checkpoint / kManifestName;
  std::ifstream in;
  std::ostringstream text;
  std::error_code neither;
  // To open a pipe would wait for who writes it.
  if (std::filesystem::is_regular_file(path, neither)) in.open(path, std::ios::binary);
  if (in.is_open()) text << in.rdbuf();
  if (!in.is_open() || !in || !text)
    throw Error(ErrorKind::config,
                checkpoint.string() + ": is no checkpoint: it has no readable " + kManifestName);
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorKind::config, path.string() + ": " + why);
  };
  CheckpointManifest manifest;
  try {
    manifest = manifest_from(json::parse(text.str()));
  } catch (const json::exception&) {
    refuse("is damaged: it is no JSON of a manifest's form");
  } catch (const Error& error) {
    refuse(error.what());
  }
  return manifest;
}

}  // namespace dettax
