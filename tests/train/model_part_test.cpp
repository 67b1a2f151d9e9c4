#include <map>
#include <set>

#include <gtest/gtest.h>

#include "harness/train/model_layout.h"
#include "harness/train/parameters.h"
#include "tests/train/small_cases.h"

namespace dettax {
namespace {

using testing_support::small_gpt;
using testing_support::small_llama;

// How often each element of each whole parameter is held, over all ranks of one replica.
using Held = std::map<std::string, std::vector<int>>;

Held held_by_one_replica(const Model& model, const Layout& layout) {
  Held held;
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    const MeshPosition position = position_of(layout, rank);
    if (position.dp > 0 || position.cp > 0) continue;
    for (const ParameterSpec& spec :
         make_model_layout(model, part_of(model, layout, position)).parameters) {
      std::vector<int>& times = held[spec.name];
      times.resize(static_cast<size_t>(spec.whole_count()));
      for (int64_t i = 0; i < spec.count();) {
        const Run run = run_at(spec, i);
        for (int64_t k = 0; k < run.count; ++k) ++times[static_cast<size_t>(run.whole_index + k)];
        i += run.count;
      }
    }
  }
  return held;
}

TEST(ModelPart, ShardsOfAReplicaCoverEveryParameterOnce) {
  for (const Model& model : {small_gpt(), small_llama()}) {
    Held held = held_by_one_replica(model, {.dp = 2, .tp = 2, .pp = model.layers > 1 ? 2 : 1});
    const ModelLayout whole = make_model_layout(model, whole_model(model));
    EXPECT_EQ(held.size(), whole.parameters.size());
    for (const ParameterSpec& spec : whole.parameters) {
      const std::vector<int>& times = held.at(spec.name);
      ASSERT_EQ(times.size(), static_cast<size_t>(spec.count())) << spec.name;
      const std::set<int> different(times.begin(), times.end());
      EXPECT_EQ(different.size(), 1u) << spec.name;
      EXPECT_GE(*different.begin(), 1) << spec.name;
    }
  }
}

TEST(ModelPart, HeadsOfQueriesKeysAndValuesAreCutSeparately) {
  const Model model = small_llama();
  const Layout layout{.tp = 2};
  const ModelLayout part = make_model_layout(model, part_of(model, layout, {.tp = 1}));
  const ParameterSpec& qkv = part.parameters[static_cast<size_t>(part.layers[0].qkv.weight)];
  const int64_t queries = attention_width(model);
  const int64_t keys = model.key_value_heads * model.head_width;
  ASSERT_EQ(qkv.blocks.size(), 3u);
  EXPECT_EQ(qkv.blocks[0].first, queries / 2);
  EXPECT_EQ(qkv.blocks[1].first, queries + keys / 2);
  EXPECT_EQ(qkv.blocks[2].first, queries + keys + keys / 2);
}

TEST(ModelPart, AnInterleavedStageHoldsEveryPpThChunk) {
  Model model = small_gpt();
  model.layers = 8;
  const Layout layout{.pp = 2, .vp = 2, .schedule = PipelineSchedule::interleaved};
  EXPECT_EQ(part_of(model, layout, {.pp = 0}).layers, (std::vector<int64_t>{0, 1, 4, 5}));
  EXPECT_EQ(part_of(model, layout, {.pp = 1}).layers, (std::vector<int64_t>{2, 3, 6, 7}));
}

}  // namespace
}  // namespace dettax
