#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "harness/base/text.h"
#include "harness/plan/catalog.h"
#include "harness/plan/loaders.h"
#include "harness/plan/suite.h"
#include "harness/plan/yaml_reader.h"

namespace dettax {
namespace {

constexpr NumberRange kSeconds{0, 1e7, true};

void read_measure(MapReader& reader, MeasureSettings& measure) {
  const Yaml* node = reader.find("measure");
  if (node == nullptr) return;
  MapReader keys(*node, reader.path("measure"));
  keys.integer("warmup_steps_min", measure.warmup_steps_min, {0, 1'000'000});
  keys.integer("warmup_steps_max", measure.warmup_steps_max, {0, 1'000'000});
  keys.integer("steps_per_block", measure.steps_per_block, {0, 1'000'000});
  keys.number("block_seconds", measure.block_seconds, kSeconds);
  keys.integer("rounds_min", measure.rounds_min, {3, 1'000'000});
  keys.integer("rounds_max", measure.rounds_max, {3, 1'000'000});
  keys.number("budget_seconds", measure.budget_seconds, kSeconds);
  keys.number("target_half_width", measure.target_half_width, {0, 1, true});
  keys.number("confidence", measure.confidence, {0.5, 0.9999});
  keys.number("case_timeout_seconds", measure.case_timeout_seconds, kSeconds);
  keys.number("step_timeout_seconds", measure.step_timeout_seconds, kSeconds);
  keys.finish();
  if (measure.warmup_steps_max < measure.warmup_steps_min) {
    throw keys.fault("warmup_steps_max", fmt::format("must be at least warmup_steps_min ({})",
                                                     measure.warmup_steps_min));
  }
  if (measure.rounds_max < measure.rounds_min) {
    throw keys.fault("rounds_max",
                     fmt::format("must be at least rounds_min ({})", measure.rounds_min));
  }
}

// Of so many steps that not one is left, and of so few that the disk would fill, neither is what was meant.
void check_checkpoints(const MapReader& keys, const EvidenceSettings& evidence) {
  const int every = evidence.checkpoint_every;
  if (every == 0) return;
  if (every >= evidence.steps) {
    throw keys.fault(
        "checkpoint_every",
        fmt::format(
            "{} keeps no checkpoint of {} steps (evidence.steps); {}", every, evidence.steps,
            evidence.steps == 1
                ? "0 would be right"
                : fmt::format("1 to {}, or 0 for none, would be right", evidence.steps - 1)));
  }
  if (evidence.checkpoints() <= kMostCheckpoints) return;
  const int least = (evidence.steps - 1) / (kMostCheckpoints + 1) + 1;
  throw keys.fault("checkpoint_every",
                   fmt::format("{} would keep {} checkpoints of each arm, and {} are the most; {} "
                               "or more would be right",
                               every, evidence.checkpoints(), kMostCheckpoints, least));
}

void read_evidence(MapReader& reader, EvidenceSettings& evidence) {
  const Yaml* node = reader.find("evidence");
  if (node == nullptr) return;
  MapReader keys(*node, reader.path("evidence"));
  keys.integer("steps", evidence.steps, {1, 1'000'000});
  keys.integer("runs", evidence.runs, {2, 1000});
  keys.word("depth", evidence.depth, ledger_depth_words());
  keys.flag("relaunch", evidence.relaunch);
  keys.flag("other_allocation", evidence.other_allocation);
  keys.flag("other_threads", evidence.other_threads);
  keys.flag("other_ranks", evidence.other_ranks);
  keys.flag("controls", evidence.controls);
  keys.integer("checkpoint_every", evidence.checkpoint_every, {0, 1'000'000});
  keys.finish();
  check_checkpoints(keys, evidence);
}

void read_profile(MapReader& reader, ProfileSettings& profile) {
  const Yaml* node = reader.find("profile");
  if (node == nullptr) return;
  MapReader keys(*node, reader.path("profile"));
  keys.flag("arms", profile.arms);
  keys.flag("ablate", profile.ablate);
  keys.number("budget_seconds", profile.budget_seconds, kSeconds);
  keys.finish();
}

void read_thresholds(MapReader& reader, Thresholds& thresholds) {
  const Yaml* node = reader.find("thresholds");
  if (node == nullptr) return;
  MapReader keys(*node, reader.path("thresholds"));
  const Yaml* limit = keys.find("max_overhead_ratio");
  if (limit != nullptr && limit->kind != Yaml::Kind::null) {
    // A ratio: 1.10 is 10 % slower, and 0.10 would fail everything.
    thresholds.max_overhead_ratio =
        read_number(*limit, keys.path("max_overhead_ratio"), {.low = 1});
  }
  keys.finish();
}

void check_arm_name(const MapReader& reader, const Suite& suite, const Mode& mode, const Yaml& node,
                    const std::string& key) {
  if (mode.name == "control")
    throw config_error(node, key, "control is the name of the second fast arm");
  bool taken = mode.name == suite.fast.name;
  if (taken && node.origin.starts_with("--"))  // a flag cannot give it a name
    throw config_error(node, key,
                       fmt::format("{} is the suite's fast arm already, and promises nothing; name "
                                   "another mode",
                                   mode.name));
  for (const Mode& other : suite.modes) taken = taken || other.name == mode.name;
  if (taken) {
    throw config_error(node, key,
                       fmt::format("a second arm named \"{}\" in {}; give it a name of its own",
                                   mode.name, reader.path("modes")));
  }
}

// The arm to compare with; one that names no base is a variation of the mode `fast`.
Mode read_fast(MapReader& reader) {
  const Yaml* node = reader.find("fast");
  if (node == nullptr) return load_mode("fast");
  const bool whole = node->kind != Yaml::Kind::map || node->find("base") || node->find("name");
  return read_mode(whole ? *node : merge_yaml(yaml_map({{"base", yaml_scalar("fast")}}), *node),
                   reader.path("fast"));
}

void read_modes(MapReader& reader, Suite& suite) {
  suite.fast = read_fast(reader);
  const Yaml& node = reader.require("modes");
  const std::string key = reader.path("modes");
  const std::vector<Yaml> items =
      node.kind == Yaml::Kind::list ? node.items : std::vector<Yaml>{node};
  if (items.empty()) throw config_error(node, key, "is an empty list; it must name a mode");
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string item_key = fmt::format("{}.{}", key, i);
    Mode mode = read_mode(items[i], item_key);
    check_arm_name(reader, suite, mode, items[i], item_key);
    suite.modes.push_back(std::move(mode));
  }
}

void check_injections(const Suite& suite, const Case& planned, const Yaml& node,
                      const std::string& key) {
  std::vector<std::string> arms = {suite.fast.name, "control"};
  for (const Mode& mode : suite.modes) arms.push_back(mode.name);
  for (size_t i = 0; i < planned.injections.size(); ++i) {
    const std::string& arm = planned.injections[i].arm;
    if (arm.empty() || std::count(arms.begin(), arms.end(), arm) > 0) continue;
    const Yaml& at = *node.find("injections")->items.at(i).find("arm");
    throw config_error(at, fmt::format("{}.injections.{}.arm", key, i),
                       fmt::format("there is no arm \"{}\"{}", arm, did_you_mean(arm, arms)));
  }
}

void add_cases(Suite& suite, const Yaml& entry, const std::string& key, KnownTexts& texts) {
  for (Case& planned : read_cases(entry, key, texts)) {
    check_injections(suite, planned, entry, key);
    for (const Case& other : suite.cases) {
      if (other.id() != planned.id()) continue;
      throw config_error(entry, key,
                         fmt::format("a second case {}; a `label` tells them apart", planned.id()));
    }
    suite.cases.push_back(std::move(planned));
  }
}

void read_all_cases(MapReader& reader, Suite& suite) {
  KnownTexts texts;
  Yaml defaults = yaml_map({});
  if (const Yaml* node = reader.find("defaults")) {
    MapReader must_be_a_map(*node, reader.path("defaults"));
    defaults = *node;
  }
  const Yaml& node = reader.require("cases");
  const std::string key = reader.path("cases");
  if (node.kind != Yaml::Kind::list) throw config_error(node, key, "must be a list of cases");
  if (node.items.empty()) throw config_error(node, key, "is an empty list; it must hold a case");
  for (size_t i = 0; i < node.items.size(); ++i) {
    const std::string item_key = fmt::format("{}.{}", key, i);
    const MapReader must_be_a_map(node.items[i], item_key);
    add_cases(suite, merge_yaml(defaults, node.items[i]), item_key, texts);
  }
}

// A text is known by what it holds, wherever it lies.
std::string hash_of(Suite suite) {
  for (Case& planned : suite.cases)
    planned.data.path = std::filesystem::path(planned.data.path).filename().string();
  return hash_text(dump_suite(suite));
}

Suite read_suite(const Yaml& root, const std::string& default_name) {
  MapReader reader(root, "");
  Suite suite;
  suite.name = default_name;
  reader.text("name", suite.name);
  reader.text("description", suite.description);
  read_modes(reader, suite);
  read_measure(reader, suite.measure);
  read_evidence(reader, suite.evidence);
  read_profile(reader, suite.profile);
  read_thresholds(reader, suite.thresholds);
  if (const Yaml* launch = reader.find("launch")) {
    suite.launch = read_launch(*launch, reader.path("launch"));
  }
  read_all_cases(reader, suite);
  reader.finish();
  const Yaml* name = root.find("name");
  check_name(name == nullptr ? root : *name, "name", suite.name);
  suite.hash = hash_of(suite);
  return suite;
}

// A suite with overrides; a fault that only they cause is told as theirs.
class LaidOver {
 public:
  LaidOver(const Yaml& base, const std::vector<Override>& overrides, std::string default_name)
      : base_(base), overrides_(overrides), default_name_(std::move(default_name)) {}

  Suite read() const {
    try {
      return read_without("");
    } catch (const Error& error) {
      throw Error(error.kind(), culprits(error.what()) + error.what());
    }
  }

 private:
  Suite read_without(const std::string& left_out) const {
    Yaml root = base_;
    for (const Override& setting : overrides_) {
      if (setting.written != left_out) lay_over(root, setting);
    }
    return read_suite(root, default_name_);
  }

  std::string message_without(const std::string& left_out) const {
    try {
      read_without(left_out);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }

  // "--dp 3: " where the message, which names none of them, would be another without it.
  std::string culprits(const std::string& message) const {
    std::vector<std::string> found;
    for (const Override& setting : overrides_) {
      if (message.starts_with(setting.source + ":")) return "";
      const bool known = std::find(found.begin(), found.end(), setting.written) != found.end();
      if (!known && message_without(setting.written) != message) found.push_back(setting.written);
    }
    return found.empty() ? "" : join(found, " ") + ": ";
  }

  const Yaml& base_;
  const std::vector<Override>& overrides_;
  std::string default_name_;
};

}  // namespace

Suite load_suite(const std::string& name_or_path, const std::vector<Override>& overrides) {
  const std::string path = resolve(FileKind::suite, name_or_path);
  return LaidOver(read_yaml(path), overrides, stem(path)).read();
}

Suite parse_suite(const std::string& yaml, const std::string& file) {
  return LaidOver(parse_yaml(yaml, file), {}, stem(file)).read();
}

Suite with_overrides(const Suite& suite, const std::vector<Override>& overrides) {
  return LaidOver(suite_yaml(suite), overrides, suite.name).read();
}

}  // namespace dettax
