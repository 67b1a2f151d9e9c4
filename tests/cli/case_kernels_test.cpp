#include "harness/cli/case_kernels.h"

#include <gtest/gtest.h>

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

TEST(CaseKernels, HaveTheShapeOfTheModelAndTheBatchOfARank) {
  const Case planned = planned_case();
  EXPECT_EQ(shape_argument(planned), "--shape=case,4,64,96,6,3,512," +
                                         std::to_string(parameter_count(planned.model)) +
                                         ",160,256,512")
      << "queries and keys and values of 96 + 2 x 32, two halves of an MLP of 256";
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
