#include <gtest/gtest.h>

#include "harness/plan/crowding.h"
#include "harness/plan/suite.h"

namespace dettax {
namespace {

constexpr int64_t kPlenty = int64_t{1} << 50U;

Case tiny() {
  Case planned;
  planned.model = load_model("gpt-tiny");
  planned.batch = {2, 4, 64};
  return planned;
}

std::string reason(const Case& planned, const char* mode = "deterministic",
                   int64_t available = kPlenty) {
  return refusal(planned, load_mode(mode), available).value_or("");
}

TEST(Refusal, AcceptsWhatCanRun) {
  EXPECT_EQ(reason(tiny()), "");
  EXPECT_EQ(reason(tiny(), "invariant"), "");
}

TEST(Refusal, NamesWhatIsNotThere) {
  Case planned = tiny();
  planned.backend = Backend::cuda;
  EXPECT_EQ(reason(planned), "");  // whether there is a device is asked where it would be used
  planned.layout.dp = 2;
  EXPECT_EQ(reason(planned), "layout dp2 has 2 ranks; backend cuda has one yet, without NCCL");
  planned.layout.dp = 1;
  planned.precision = Precision::bf16;
  EXPECT_EQ(reason(planned),
            "precision bf16 is not available on the cuda backend yet; use fp32, tf32");
  planned = tiny();
  planned.layout.dp = planned.layout.ep = 2;
  EXPECT_EQ(reason(planned), "layout dp2.ep2: model gpt-tiny has no experts to spread over ep 2");
  planned = tiny();
  planned.model = load_model("deepseek-v3");
  EXPECT_EQ(reason(planned), "model deepseek-v3 has latent attention, which is not available yet");
}

TEST(Refusal, NamesWhatExpertsCannotBeCombinedWith) {
  Case experts = tiny();
  experts.model = load_model("moe-tiny");
  EXPECT_EQ(reason(experts), "");
  Case planned = experts;
  for (const Layout& layout :
       {Layout{.pp = 2}, Layout{.cp = 2}, Layout{.tp = 2}, Layout{.recompute = Recompute::full},
        Layout{.dp = 2, .pp = 2, .ep = 2, .zero_stage = 3, .recompute = Recompute::selective}}) {
    planned.layout = layout;
    EXPECT_EQ(reason(planned), "");
  }
  planned = experts;
  planned.precision = Precision::fp8_mx;
  EXPECT_EQ(reason(planned), "precision fp8_mx: experts are not available in it yet");
  planned = experts;
  planned.model.dropout = 0.1;
  EXPECT_EQ(reason(planned), "model moe-tiny: experts with dropout are not available yet");
}

TEST(Refusal, ExpertsAreSpreadEvenly) {
  Case planned = tiny();
  planned.layout = {.dp = 2, .ep = 2};
  planned.topology.ranks_per_node = 2;
  planned.batch = {1, 4, 64};
  EXPECT_EQ(reason(planned), "layout dp2.ep2: model gpt-tiny has no experts to spread over ep 2");
  planned.model = load_model("moe-tiny");
  EXPECT_EQ(reason(planned), "");
  EXPECT_EQ(
      reason(planned, "invariant"),
      "layout dp2.ep2: experts see the samples of all ranks together; invariant sums need one "
      "micro-batch a rank, batch.global makes 2");
  planned.batch.global = 2;
  EXPECT_EQ(reason(planned, "invariant"), "");
  planned.model.moe->experts = 7;
  EXPECT_EQ(reason(planned), "model.moe.experts 7 is not divisible by ep 2");
}

TEST(Refusal, TensorRanksShareEverythingEvenly) {
  Case planned = tiny();
  planned.layout.tp = 2;
  planned.layout.sequence_parallel = true;
  planned.topology.ranks_per_node = 2;
  EXPECT_EQ(reason(planned), "");
  planned.batch.sequence_length = 63;
  EXPECT_EQ(reason(planned), "rows of a sample on a rank 63 is not divisible by tp 2");
  planned.layout.sequence_parallel = false;
  EXPECT_EQ(reason(planned), "");
  planned.model.ffn_width = 255;
  EXPECT_EQ(reason(planned), "model.ffn_width 255 is not divisible by tp 2");
  planned = tiny();
  planned.layout.sequence_parallel = true;
  EXPECT_EQ(reason(planned), "layout dp1.sp: sequence parallelism needs tp > 1");
}

TEST(Refusal, ContextRanksShareEverySequenceEvenly) {
  Case planned = tiny();
  planned.layout.cp = 2;
  planned.topology.ranks_per_node = 2;
  EXPECT_EQ(reason(planned), "");
  EXPECT_EQ(reason(planned, "invariant"), "");
  planned.batch.sequence_length = 62;
  EXPECT_EQ(reason(planned), "batch.sequence_length 62 is not divisible by 2 * cp 4");
}

// cases/layout.md, layout-01: the padding is the model's, so that no layout trains another model.
TEST(Case, Layout01TheVocabularyIsNeverPaddedForALayout) {
  Case planned = tiny();
  planned.model.vocabulary = 97;
  planned.model.vocabulary_multiple = 1;
  EXPECT_EQ(reason(planned), "");
  planned.layout.tp = 2;
  planned.topology.ranks_per_node = 2;
  EXPECT_EQ(
      reason(planned),
      "padded vocabulary 97 is not divisible by tp 2: set model.vocabulary_multiple, for every "
      "layout alike");
  planned.model.vocabulary_multiple = 2;
  EXPECT_EQ(reason(planned), "");
}

TEST(Refusal, ASequenceMustFitTheContext) {
  Case planned = tiny();
  planned.batch.sequence_length = 2048;
  EXPECT_EQ(reason(planned),
            "batch.sequence_length 2048 is longer than the context 1024 of model gpt-tiny");
}

TEST(Refusal, NamesThePrecisionsThatThereAre) {
  Case planned = tiny();
  for (const Precision usable : usable_precisions(Backend::cpu)) {
    planned.precision = usable;
    EXPECT_EQ(reason(planned), "") << to_string(usable);
  }
}

TEST(Refusal, ScalesOfWholeTensorsCannotBeInvariant) {
  Case planned = tiny();
  planned.precision = Precision::bf16;
  EXPECT_EQ(reason(planned, "invariant"), "");
  planned.precision = Precision::fp8_cs;
  EXPECT_EQ(reason(planned, "invariant"),
            "precision fp8_cs: its scales belong to a micro-batch, bits cannot be invariant");
  planned.precision = Precision::fp8_mx;
  planned.batch.sequence_length = 40;
  EXPECT_EQ(reason(planned, "invariant"),
            "batch.sequence_length 40: invariant bits in fp8_mx need a multiple of 32");
}

TEST(Precision, OnlyWhatTheMachineHasIsNotEmulated) {
  Case planned = tiny();
  EXPECT_EQ(emulation_note(planned), "");
  planned.precision = Precision::tf32;
  EXPECT_NE(emulation_note(planned).find("tf32 is emulated"), std::string::npos);
  planned.backend = Backend::cuda;
  EXPECT_EQ(emulation_note(planned), "");
}

TEST(Crowding, SharingCoresIsAllowedAndSaid) {
  Case planned = tiny();
  planned.layout.dp = planned.topology.ranks_per_node = 16;
  EXPECT_EQ(oversubscription(planned, 16), "");
  EXPECT_EQ(oversubscription(planned, 2),
            "16 ranks of 1 thread on 2 cores: step times include waiting for a core");
  EXPECT_EQ(crowding(planned, 2), std::nullopt);
}

TEST(Crowding, MoreThreadsThanCanGetAnywhereAreRefused) {
  Case planned = tiny();
  planned.topology.threads_per_rank = 128;
  EXPECT_EQ(crowding(planned, 2), std::nullopt);
  planned.topology.threads_per_rank = 129;
  EXPECT_EQ(
      crowding(planned, 2).value_or(""),
      "1 rank of 129 threads on 2 cores would hardly get anywhere; at most 128 threads in all "
      "are run here");
}

TEST(Refusal, InvariantSumsNeedPowersOfTwo) {
  Case planned = tiny();
  planned.batch = {3, 6, 64};
  EXPECT_EQ(reason(planned), "");
  EXPECT_EQ(reason(planned, "invariant"), "batch.micro 3: invariant sums need a power of two");
  planned.batch = {2, 6, 64};
  EXPECT_EQ(reason(planned, "invariant"),
            "batch.global 6 makes 3 micro-batches a rank: invariant sums need a power of two");
  planned.layout.dp = 3;
  EXPECT_EQ(reason(planned, "invariant"), "layout.dp 3: invariant sums need a power of two");
}

TEST(Refusal, WhatDoesNotFitIsRefusedWithBothNumbers) {
  Case planned = tiny();
  planned.model = load_model("llama3-8b");
  const std::string text = reason(planned, "deterministic", int64_t{16} << 30U);
  EXPECT_EQ(text.rfind("needs about ", 0), 0U) << text;
  EXPECT_NE(text.find("GiB of memory, 16.0 GiB are available"), std::string::npos) << text;
  const int64_t needed = estimate_memory(planned, load_mode("deterministic")).total();
  EXPECT_EQ(reason(planned, "deterministic", needed), "");
  EXPECT_NE(reason(planned, "deterministic", needed - 1), "");
}

TEST(MemoryEstimate, HoldsWeightsGradientsAndMomentsOnce) {
  Case planned = tiny();
  const int64_t bytes = 4 * parameter_count(planned.model);  // the vocabulary needs no padding
  const MemoryEstimate one = estimate_memory(planned, load_mode("deterministic"));
  EXPECT_EQ(one.weights, bytes);
  EXPECT_EQ(one.gradients, bytes);
  EXPECT_EQ(one.optimizer, 2 * bytes);
  planned.layout.dp = planned.topology.ranks_per_node = 2;
  planned.batch.global = 8;
  EXPECT_EQ(estimate_memory(planned, load_mode("deterministic")).weights, 2 * bytes);
}

TEST(MemoryEstimate, InvariantSumsKeepTheOpenLevelsOfTheirTree) {
  Case planned = tiny();
  planned.model = load_model("llama-tiny");  // untied
  const Mode mode = load_mode("invariant");
  const int64_t bytes = 4 * parameter_count(planned.model);
  const auto gradients = [&](int64_t micro_batches) {
    planned.batch = {2, 2 * micro_batches, 64};
    return estimate_memory(planned, mode).gradients;
  };
  EXPECT_EQ(gradients(1), bytes);
  EXPECT_EQ(gradients(2), 2 * bytes);
  EXPECT_EQ(gradients(4), 3 * bytes);
  EXPECT_EQ(gradients(8), 4 * bytes);
  planned.model = load_model("gpt-tiny");  // tied
  const int64_t table = 4 * planned.model.padded_vocabulary() * planned.model.width;
  const int64_t tied_bytes = 4 * parameter_count(planned.model);
  EXPECT_EQ(gradients(1), tied_bytes);
  EXPECT_EQ(gradients(2), 2 * (tied_bytes + table));
}

TEST(MemoryEstimate, GrowsWithWhatIsStored) {
  Case planned = tiny();
  const Mode mode = load_mode("deterministic");
  const auto activations = [&] { return estimate_memory(planned, mode).activations; };
  const int64_t before = activations();
  planned.batch.sequence_length *= 2;
  EXPECT_GT(activations(), before + before / 2);
  planned = tiny();
  planned.batch.global *= 2;
  EXPECT_EQ(activations(), before) << "micro-batches reuse their memory";
}

}  // namespace
}  // namespace dettax
