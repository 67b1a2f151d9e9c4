#include "harness/plan/suite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/plan/yaml.h"
#include "tests/plan/temporary_file.h"

namespace dettax {
namespace {

using ::testing::HasSubstr;

Suite load_text(const std::string& text, const std::vector<Override>& overrides = {}) {
  return load_suite(TemporaryFile("s.yaml", text).path(), overrides);
}

const std::string kMatrix = R"(
name: matrix
modes: [deterministic, {base: deterministic, knobs: {memory_fill: on}, name: filled}]
thresholds: {max_overhead_ratio: 1.1}
defaults:
  threads: 2
  batch: {sequence_length: 64, micro: 2}
cases:
- model: [gpt-tiny, {base: gpt2-124m, layers: 2, dropout: 0.1}]
  layout: [dp1, dp2]
  batch: [{global: 4}, {global: 8, sequence_length: 128}]
- model: llama-tiny
  label: "on"
  batch: {global: 4}
  data: {kind: text, path: ")" DETTAX_SOURCE_DIR R"(/README.md"}
  injections: [{kind: slow, arm: filled, ratio: 0.03}]
)";

TEST(Suite, ExpandsEveryListAndMergesDefaults) {
  const Suite suite = load_text(kMatrix);
  ASSERT_EQ(suite.cases.size(), 9U);
  std::vector<std::string> ids;
  for (const Case& planned : suite.cases) {
    ids.push_back(planned.id());
    EXPECT_EQ(planned.topology.threads_per_rank, 2);
    EXPECT_EQ(planned.topology.ranks_per_node, planned.layout.dp);
    EXPECT_EQ(planned.batch.micro, 2);
  }
  EXPECT_EQ(ids[0], "gpt-tiny.fp32.dp1.t2.b4x64.m2");
  EXPECT_EQ(ids[3], "gpt-tiny.fp32.dp2.t2.b8x128.m2");
  EXPECT_EQ(ids[4], "gpt2-124m+dropout-l2.fp32.dp1.t2.b4x64.m2");
  EXPECT_EQ(ids[8], "llama-tiny.fp32.dp1.t2.b4x64.m2.on");
  EXPECT_EQ(suite.cases[4].model.published_layers, 12);
  EXPECT_EQ(suite.cases[4].model.dropout, 0.1);
  EXPECT_EQ(suite.modes[1].name, "filled");
  EXPECT_TRUE(suite.modes[1].knobs.memory_fill);
}

TEST(Suite, TheDumpLoadsToTheSameSuite) {
  for (const std::string& text : {dump_suite(load_text(kMatrix)), dump_suite(load_suite("quick")),
                                  dump_suite(load_suite("tiny"))}) {
    const Suite again = load_text(text);
    EXPECT_EQ(dump_suite(again), text);
  }
  EXPECT_EQ(load_text(dump_suite(load_text(kMatrix))).hash, load_text(kMatrix).hash);
}

TEST(Suite, TheHashSeesEveryChange) {
  const std::string hash = load_text(kMatrix).hash;
  for (const Override& change :
       std::vector<Override>{{"name", "other"},
                             {"measure.budget_seconds", "60"},
                             {"evidence.steps", "5"},
                             {"evidence.controls", "false"},
                             {"thresholds.max_overhead_ratio", "1.2"},
                             {"defaults.seed", "2"},
                             {"cases.1.optimizer.clip_norm", "0"},
                             {"cases.1.model.layers", "1"},
                             {"modes", "[invariant, {base: fast, name: filled}]"},
                             {"fast.knobs.overlap", "off"}}) {
    EXPECT_NE(load_text(kMatrix, {change}).hash, hash) << change.key;
  }
  EXPECT_EQ(load_text(kMatrix, {{"evidence.steps", "3"}}).hash, hash) << "the default, written out";
}

std::string fault_of(const std::vector<Override>& overrides) {
  try {
    load_text(kMatrix, overrides);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Suite, ChecksThatCheckpointsAreSomeAndNotTooMany) {
  EXPECT_EQ(load_text(kMatrix).evidence.checkpoints(), 0);
  const auto with = [](const char* steps, const char* every) {
    return std::vector<Override>{{"evidence.steps", steps}, {"evidence.checkpoint_every", every}};
  };
  const Suite suite = load_text(kMatrix, with("100", "30"));
  EXPECT_EQ(suite.evidence.checkpoints(), 3);
  EXPECT_EQ(load_text(kMatrix, with("90", "30")).evidence.checkpoints(), 2) << "none at the end";
  EXPECT_EQ(load_text(dump_suite(suite)).evidence.checkpoint_every, 30);
  EXPECT_THAT(fault_of(with("3", "3")),
              HasSubstr("checkpoint_every: 3 keeps no checkpoint of 3 steps (evidence.steps); 1 to "
                        "2, or 0 for none, would be right"));
  EXPECT_THAT(fault_of(with("1", "1")), HasSubstr("; 0 would be right"));
  EXPECT_THAT(fault_of(with("1000", "50")), HasSubstr("would keep 19 checkpoints of each arm, and "
                                                      "16 are the most; 59 or more would"));
  EXPECT_EQ(load_text(kMatrix, with("1000", "59")).evidence.checkpoints(), 16);
  EXPECT_NE(fault_of(with("1000", "58")), "");
  EXPECT_NE(fault_of(with("100", "-1")), "");
}

TEST(Suite, ACheckpointIsWeightsAndBothMoments) {
  const Case planned = load_text(kMatrix).cases[0];
  EXPECT_EQ(checkpoint_bytes(planned), 12 * parameter_count(planned.model));
}

TEST(Suite, OverridesReachIntoTheFile) {
  const Suite suite = load_text(kMatrix, {{"cases.1.batch.global", "16"},
                                          {"cases.1.model.layers", "1"},
                                          {"measure.budget_seconds", "2.5"},
                                          {"modes.0.knobs.gemm", "arrival"},
                                          {"thresholds.max_overhead_ratio", "null"}});
  EXPECT_EQ(suite.cases[8].batch.global, 16);
  EXPECT_EQ(suite.cases[8].model.layers, 1);
  EXPECT_EQ(suite.measure.budget_seconds, 2.5);
  EXPECT_EQ(suite.modes[0].name, "deterministic+gemm.arrival");
  EXPECT_FALSE(suite.thresholds.max_overhead_ratio.has_value());
}

TEST(Suite, AStarReachesEveryEntryOfAList) {
  for (const Case& planned : load_text(kMatrix, {{"cases.*.seed", "7"}}).cases)
    EXPECT_EQ(planned.seed, 7U);
  const Suite suite = load_text(kMatrix);
  const Suite changed = with_overrides(suite, {{"cases.*.batch.micro", "1"}});
  ASSERT_EQ(changed.cases.size(), suite.cases.size());
  for (const Case& planned : changed.cases) EXPECT_EQ(planned.batch.micro, 1);
  EXPECT_NE(changed.hash, suite.hash);
  EXPECT_EQ(with_overrides(suite, {}).hash, suite.hash);
}

// The suite of one case with this layout on the cluster.
Suite on_cluster(const std::string& cluster, const std::string& layout) {
  const TemporaryFile file(
      "s.yaml", "modes: [deterministic]\ncases: [{model: gpt-tiny, threads: 3, layout: " + layout +
                    ", topology: " + cluster +
                    ", batch: {micro: 1, global: 4, sequence_length: 32}}]\n");
  return load_suite(file.path());
}

TEST(Suite, ATopologyMayNameACluster) {
  const TemporaryFile file("mine.yaml", "nodes: 2\nranks_per_node: 2\n");
  const Topology topology = on_cluster(file.path(), "dp4").cases[0].topology;
  EXPECT_EQ(topology.nodes, 2);
  EXPECT_EQ(topology.ranks_per_node, 2);
  EXPECT_EQ(topology.threads_per_rank, 3);
  EXPECT_EQ(on_cluster("local", "dp4").cases[0].topology.ranks_per_node, 4);
  EXPECT_THROW(on_cluster(file.path(), "dp2"), Error);
}

TEST(Suite, AllShippedFilesLoad) {
  const std::vector<std::string> suites = list_suites();
  EXPECT_GE(suites.size(), 2U);
  for (const std::string& name : suites) EXPECT_EQ(load_suite(name).name, name);
  for (const std::string& name : list_clusters()) EXPECT_EQ(load_cluster(name).name, name);
}

TEST(Suite, QuickHasItsThreeCases) {
  const Suite suite = load_suite("quick");
  ASSERT_EQ(suite.cases.size(), 3U);
  EXPECT_EQ(suite.modes.size(), 2U);
  EXPECT_EQ(suite.cases[0].topology.threads_per_rank, 2);
  EXPECT_GT(suite.cases[1].layout.dp, 2) << "a sum of two has no order";
  EXPECT_EQ(suite.cases[2].model.norm, NormKind::rms_norm);
  for (const Case& planned : suite.cases) {
    EXPECT_GE(planned.tokens_per_step(), 1024);
    for (const Mode& mode : suite.modes) {
      EXPECT_EQ(refusal(planned, mode, int64_t{1} << 30U), std::nullopt) << planned.id();
    }
  }
}

TEST(Yaml, TextsThatLookLikeSomethingElseSurvive) {
  for (const char* text : {"on", "Yes", "null", "~", "1e3", "010", "", " a ", "a: b", "#c", "\"q\"",
                           "a\\b", "line\nbreak", "\t", "- x", "{a}", "ünïcode"}) {
    const Yaml map =
        yaml_map({{"key", yaml_scalar(text, true)}, {"on", yaml_list({yaml_scalar(text, true)})}});
    const Yaml again = parse_yaml(emit_yaml(map), "text");
    EXPECT_EQ(again.find("key")->text, text);
    EXPECT_EQ(again.find("on")->items[0].text, text);
  }
}

}  // namespace
}  // namespace dettax
