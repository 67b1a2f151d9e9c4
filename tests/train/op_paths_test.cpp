// The list of a step's ops against what a step shows, so that neither can change alone.
#include "harness/train/op_paths.h"

#include <set>

#include <gtest/gtest.h>

#include "tests/train/small_cases.h"

namespace dettax {
namespace {

using testing_support::deterministic;
using testing_support::fast;
using testing_support::invariant;
using testing_support::record;
using testing_support::small_case;
using testing_support::small_gpt;
using testing_support::small_llama;

std::set<std::string> listed(const Case& planned, const Mode& mode) {
  const std::vector<std::string> paths = op_paths(planned, mode);
  const std::set<std::string> unique(paths.begin(), paths.end());
  EXPECT_EQ(unique.size(), paths.size());
  return unique;
}

// Paths under which a step of rank 0 shows tensors, without the micro-batch.
std::set<std::string> shown(const Case& planned, const Mode& mode) {
  std::set<std::string> paths;
  const auto logs = record(planned, mode, 1);
  for (const auto& entry : logs.at(0)) {
    if (entry.path == "result" || entry.path == "state") continue;
    const bool micro = entry.path.starts_with("micro");
    paths.insert(micro ? entry.path.substr(entry.path.find('/') + 1) : entry.path);
  }
  return paths;
}

struct Variation {
  const char* name;
  Case planned;
  Mode mode;
};

std::vector<Variation> variations() {
  Case dropped = small_case(small_gpt());
  dropped.model.dropout = 0.1;
  Case ranks = small_case(small_gpt());
  ranks.layout.dp = ranks.topology.ranks_per_node = 2;
  ranks.batch = {1, 4, ranks.batch.sequence_length};
  Mode filled = deterministic();
  filled.knobs.memory_fill = true;
  filled.knobs.fused_loss = false;
  Case narrow = small_case(small_gpt());
  narrow.precision = Precision::bf16;
  return {{"gpt", small_case(small_gpt()), fast()},
          {"gpt in bf16", narrow, deterministic()},
          {"llama", small_case(small_llama()), deterministic()},
          {"llama filled, separate loss", small_case(small_llama()), filled},
          {"dropout", dropped, deterministic()},
          {"ranks", ranks, deterministic()},
          {"ranks, tree", ranks, invariant()}};
}

// Ops that show no tensor.
bool silent(const std::string& path) {
  for (const char* op : {"/memory_fill", "/bucket", "/tied_head", "/adamw"}) {
    if (path.ends_with(op)) return true;
  }
  return false;
}

TEST(OpPaths, AreThoseThatAStepShows) {
  for (const Variation& one : variations()) {
    std::set<std::string> paths = listed(one.planned, one.mode);
    std::erase_if(paths, silent);
    EXPECT_EQ(paths, shown(one.planned, one.mode)) << one.name;
  }
}

TEST(OpPaths, DependOnModelAndMode) {
  const Case gpt = small_case(small_gpt());
  const auto has = [](const Case& planned, const Mode& mode, const char* path) {
    return listed(planned, mode).contains(path);
  };
  EXPECT_TRUE(has(small_case(small_llama()), fast(), "forward/layer0/swiglu"));
  EXPECT_FALSE(has(gpt, fast(), "forward/layer0/swiglu"));
  EXPECT_FALSE(has(gpt, fast(), "forward/layer2/attention")) << "it has two layers";
  EXPECT_FALSE(has(gpt, fast(), "reduce/bucket")) << "it has one rank";
}

TEST(OpPaths, OfOtherLayoutsAreAllThatCanBeNamed) {
  Case split = small_case(small_gpt());
  split.layout.tp = 2;
  EXPECT_TRUE(listed(split, fast()).contains("reduce/bucket"));
}

}  // namespace
}  // namespace dettax
