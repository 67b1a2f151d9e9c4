#include "harness/cli/case_kernels.h"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "suites/kernels/step_shape.h"

namespace dettax {
namespace {

Case planned_case() {
  Case planned;
  planned.model.name = "a model";
  planned.model.vocabulary = 500;
  planned.model.layers = 3;
  planned.model.width = 96;
  planned.model.heads = 6;
  planned.model.key_value_heads = 2;
  planned.model.head_width = 16;
  planned.model.ffn_width = 256;
  planned.model.activation = Activation::swiglu;
  planned.batch = {4, 8, 64};
  return planned;
}

StepShape shape_of(const Case& planned) {
  const std::string argument = shape_argument(planned);
  const std::string flag = "--shape=";
  EXPECT_EQ(argument.substr(0, flag.size()), flag);
  const auto shape = parse_step_shape(argument.substr(flag.size()));
  EXPECT_TRUE(shape.has_value()) << argument;
  return shape.value_or(StepShape{});
}

TEST(CaseKernels, HaveTheShapeOfTheModelAndTheBatchOfARank) {
  const Case planned = planned_case();
  const StepShape shape = shape_of(planned);
  EXPECT_EQ(shape.rows(), 4 * 64);
  EXPECT_EQ(shape.vocabulary, 512);
  EXPECT_EQ(shape.parameters, parameter_count(planned.model));
  EXPECT_EQ(shape.qkv_width(), 160) << "queries and keys and values of 96 + 2 x 32";
  EXPECT_EQ(shape.inner_width(), 256);
  EXPECT_EQ(shape.micro_batches, 2);
  std::vector<std::pair<int64_t, int64_t>> widths;
  for (const LinearCalls& one : linear_calls(shape)) widths.emplace_back(one.inputs, one.outputs);
  EXPECT_EQ(widths,
            (std::vector<std::pair<int64_t, int64_t>>{{96, 160}, {96, 96}, {96, 512}, {256, 96}}));
}

TEST(CaseKernels, CountTheCallsOfAllMicroBatches) {
  const StepCalls calls(shape_of(planned_case()));
  EXPECT_EQ(calls.ends, 2);
  EXPECT_EQ(calls.norm_forward, 2 * (2 * 3 + 1));
  EXPECT_EQ(calls.attention_forward, 2 * 3);
  EXPECT_EQ(calls.swiglu_forward, 2 * 3);
  EXPECT_EQ(calls.once, 1) << "the optimizer does not depend on micro-batches";
  for (const LinearCalls& one : linear_calls(shape_of(planned_case()))) {
    // The halves of the MLP and the head have one shape here.
    const int64_t expected = one.outputs == 512 ? 2 * 3 + 2 : 2 * 3;
    EXPECT_EQ(one.forward, expected) << one.inputs << " " << one.outputs;
    EXPECT_EQ(one.backward, expected);
  }
}

TEST(CaseKernels, AreThoseThatTheCaseHas) {
  Case planned = planned_case();
  planned.model.activation = Activation::gelu;
  const StepCalls plain(shape_of(planned));
  EXPECT_EQ(plain.swiglu_forward, 0);
  EXPECT_EQ(plain.rope, 0);
  EXPECT_EQ(plain.dropout, 0);
  EXPECT_EQ(plain.expert_plan, 0);
  EXPECT_FALSE(shape_of(planned).rms_norm);
  planned.model.norm = NormKind::rms_norm;
  planned.model.position = Position::rope;
  planned.model.dropout = 0.1;
  const StepCalls all(shape_of(planned));
  EXPECT_TRUE(shape_of(planned).rms_norm);
  EXPECT_EQ(all.rope, 2 * 2 * 3);
  EXPECT_EQ(all.dropout, 2 * (4 * 3 + 2));
}

TEST(CaseKernels, CountExpertsInTheirLayersOnly) {
  Case planned = planned_case();
  Moe moe;
  moe.experts = 8;
  moe.top_k = 2;
  moe.expert_width = 48;
  moe.first_layer = 1;
  planned.model.moe = moe;
  const StepShape shape = shape_of(planned);
  const StepCalls calls(shape);
  EXPECT_EQ(shape.expert_width, 48);
  EXPECT_EQ(calls.expert_plan, 2 * 2);
  EXPECT_EQ(calls.expert_unpermute, 2 * 2 * 2);
  EXPECT_EQ(calls.swiglu_backward, 2 * 1) << "one dense layer";
  planned.layout.recompute = Recompute::full;
  const StepCalls again(shape_of(planned));
  EXPECT_EQ(again.attention_forward, 2 * calls.attention_forward);
  EXPECT_EQ(again.attention_backward, calls.attention_backward);
}

TEST(CaseKernels, AShapeOfAnotherFormIsRefused) {
  const std::string good =
      "a,samples=1,tokens=8,width=32,heads=2,layers=1,vocabulary=64,parameters=9";
  EXPECT_TRUE(parse_step_shape(good).has_value());
  for (const std::string& bad :
       {std::string(), std::string("a"), good + ",", good + ",rope", good + ",roop=1",
        good + ",samples=2", good + ",experts=x", good + ",expert_layers=2", good.substr(2)})
    EXPECT_FALSE(parse_step_shape(bad).has_value()) << bad;
}

TEST(CaseKernels, CollectivesRunOverTheRanksOfTheCase) {
  Case planned = planned_case();
  EXPECT_EQ(collective_filter(planned), "") << "one rank has none";
  planned.layout.dp = 2;
  EXPECT_EQ(collective_filter(planned), "--benchmark_filter=/ranks:2/bytes:(1048576|16777216)/");
  planned.layout.tp = 2;
  EXPECT_EQ(collective_filter(planned), "--benchmark_filter=/ranks:4/bytes:(1048576|16777216)/");
}

}  // namespace
}  // namespace dettax
