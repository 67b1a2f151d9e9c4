#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "harness/plan/suite.h"
#include "tests/plan/temporary_file.h"

namespace dettax {
namespace {

TEST(Model, HasThePublishedNumberOfParameters) {
  EXPECT_EQ(parameter_count(load_model("gpt2-124m")), 124'439'808);
  EXPECT_EQ(parameter_count(load_model("llama3-8b")), 8'030'261'248);
  EXPECT_EQ(parameter_count(load_model("llama3-70b")), 70'553'706'496);
  EXPECT_EQ(parameter_count(load_model("llama3.1-405b")), 405'853'388'800);
  EXPECT_EQ(parameter_count(load_model("mixtral-8x7b")), 46'702'792'704);
  EXPECT_NEAR(static_cast<double>(parameter_count(load_model("gpt3-175b"))), 174.6e9, 0.05e9);
  EXPECT_NEAR(static_cast<double>(parameter_count(load_model("deepseek-v3"))), 671.0e9, 0.05e9);
}

TEST(Model, PadsItsVocabulary) {
  Model model = load_model("gpt2-124m");
  EXPECT_EQ(model.vocabulary, 50257);
  EXPECT_EQ(model.padded_vocabulary(), 50304);
  model.vocabulary_multiple = 1;
  EXPECT_EQ(model.padded_vocabulary(), 50257);
}

TEST(Model, AllShippedModelsLoadAndNameTheirSource) {
  EXPECT_GE(list_models().size(), 11U);
  for (const std::string& name : list_models()) {
    const Model model = load_model(name);
    EXPECT_EQ(model.name, name);
    EXPECT_FALSE(model.source.empty()) << name;
    EXPECT_EQ(model.layers, model.published_layers);
  }
}

TEST(Model, MadeOfAnotherDoesNotPassAsIt) {
  const TemporaryFile mine("mine.yaml", "base: gpt-tiny\nlayers: 1\n");
  EXPECT_EQ(load_model(mine.path()).name, "mine");
  const TemporaryFile named("file.yaml", "base: gpt-tiny\nname: ours\n");
  EXPECT_EQ(load_model(named.path()).name, "ours");
  const auto name_inside = [](const std::string& map) {
    const TemporaryFile suite(
        "suite.yaml", "modes: [deterministic]\ncases:\n- model: " + map +
                          "\n  layout: dp1\n  batch: {micro: 1, global: 1, sequence_length: 8}\n");
    return load_suite(suite.path()).cases.at(0).model.name;
  };
  EXPECT_EQ(name_inside("{base: gpt-tiny, layers: 1}"), "gpt-tiny");
  EXPECT_EQ(name_inside("{base: gpt-tiny, ffn_width: 128}"), "gpt-tiny+ffn_width");
}

TEST(Model, AFileSeeksWhatItNamesBesideItself) {
  const TemporaryFile suite("suite.yaml",
                            "modes: [deterministic]\ncases:\n- model: ./beside.yaml\n"
                            "  layout: dp1\n  batch: {micro: 1, global: 1, sequence_length: 8}\n");
  std::ofstream(suite.folder() + "/beside.yaml") << "base: ./below.yaml\n";
  std::ofstream(suite.folder() + "/below.yaml") << "base: gpt-tiny\nffn_width: 128\n";
  EXPECT_EQ(load_suite(suite.path()).cases.at(0).model.ffn_width, 128);
}

TEST(Model, FlopsAreSixPerWeightAndTokenPlusAttention) {
  const Model model = load_model("gpt-tiny");
  const double weights = 2.0 * (4 * 128 * 128 + 2 * 128 * 512) + 512 * 128;
  const double attention = 12.0 * 2 * 4 * 32 * 256 / 2;
  EXPECT_DOUBLE_EQ(flops_per_step(model, 1000, 256), 1000 * (6 * weights + attention));
}

TEST(Model, FlopsOfExpertsCountThoseUsed) {
  const Model model = load_model("mixtral-8x7b");
  // 12.9e9 active parameters are published; tables and norms do not multiply, the head does.
  EXPECT_NEAR(flops_per_step(model, 1, 1) / 6, 12.9e9 - 0.13e9, 0.1e9);
}

TEST(Layout, PrintsAxesAboveOne) {
  EXPECT_EQ(to_string(Layout{}), "dp1");
  EXPECT_EQ(to_string(Layout{.dp = 2, .tp = 4, .pp = 2}), "dp2.tp4.pp2");
  EXPECT_EQ(to_string(Layout{.tp = 4, .sequence_parallel = true, .zero_stage = 1}), "tp4.sp.zero1");
}

TEST(Case, IdNamesWhatDiffers) {
  Case planned;
  planned.model = load_model("gpt2-124m");
  planned.batch = {4, 4, 64};
  planned.topology.threads_per_rank = 2;
  EXPECT_EQ(planned.id(), "gpt2-124m.fp32.dp1.t2.b4x64");
  planned.model.layers = 2;
  planned.batch.global = 8;
  planned.label = "text";
  EXPECT_EQ(planned.id(), "gpt2-124m-l2.fp32.dp1.t2.b8x64.m4.text");
}

}  // namespace
}  // namespace dettax
