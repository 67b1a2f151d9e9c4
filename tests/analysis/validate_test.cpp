#include "results/analysis/projection/validate.h"

#include <set>

#include <gtest/gtest.h>

namespace dettax {
namespace {

class Published : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    rows_ = new std::vector<PublishedRow>(load_published());
    result_ = new Validation(validate(*rows_, load_calibration()));
  }
  static void TearDownTestSuite() {
    delete rows_;
    delete result_;
  }
  static const GroupError& group(const std::string& name) {
    for (const GroupError& one : result_->groups) {
      if (one.group == name) return one;
    }
    throw std::runtime_error("no group " + name);
  }
  static std::vector<PublishedRow>* rows_;
  static Validation* result_;
};
std::vector<PublishedRow>* Published::rows_ = nullptr;
Validation* Published::result_ = nullptr;

TEST_F(Published, CalibrationRowsAreListedAndNeverJudged) {
  std::set<std::pair<std::string, size_t>> fitted;
  for (const Judged& one : result_->calibration) fitted.insert({one.row.table, one.row.row});
  EXPECT_LE(fitted.size(), 30U);
  EXPECT_GE(fitted.size(), 20U);
  for (const Judged& one : result_->judged)
    EXPECT_FALSE(fitted.contains({one.row.table, one.row.row})) << one.row.label;
  EXPECT_EQ(result_->judged.size() + result_->calibration.size() + result_->left_out.size(),
            rows_->size());
}

// Bounds a little above what was measured, so that a change that spoils a table is seen.
TEST_F(Published, ErrorsStayWhereTheyWereMeasured) {
  EXPECT_LT(group("dgxc_benchmarking/h100").errors.mean_absolute, 0.05);
  EXPECT_LT(group("dgxc_benchmarking/gb200-nvl72").errors.mean_absolute, 0.05);
  EXPECT_LT(group("megatron_bridge_perf/h100").errors.mean_absolute, 0.03);
  EXPECT_LT(group("megatron_bridge_perf/gb200-nvl72").errors.mean_absolute, 0.06);
  EXPECT_LT(group("megatron_bridge_perf/b200").errors.mean_absolute, 0.10);
  EXPECT_LT(group("megatron_sc21/a100").errors.mean_absolute, 0.07);
  EXPECT_LT(group("vtrain_multi/a100").errors.median_absolute, 0.10);
}

TEST_F(Published, TablesThatMissTheirLimitAreCounted) {
  EXPECT_TRUE(group("megatron_bridge_perf/h100").within_limit());
  EXPECT_TRUE(group("megatron_bridge_perf/b200").within_limit());
  EXPECT_EQ(group("megatron_bridge_perf/b200").limit(), 0.10);
  EXPECT_FALSE(group("vtrain_single/a100").within_limit());
  EXPECT_GT(result_->within_limit(), 0);
  EXPECT_LT(result_->within_limit(), static_cast<int>(result_->groups.size()));
}

TEST_F(Published, AnotherCalibrationGivesOtherErrors) {
  Calibration wrong = load_calibration();
  wrong["hopper"]["gemm_ratio"] *= 0.5;
  const Validation worse = validate(*rows_, wrong);
  EXPECT_GT(worse.groups[4].errors.mean_absolute, 0.2);
  EXPECT_EQ(worse.groups[4].group, "dgxc_benchmarking/h100");
}

TEST_F(Published, NothingIsLeftOutWithoutAReason) {
  for (const PublishedRow& row : result_->left_out) EXPECT_FALSE(row.left_out.empty());
  EXPECT_LT(result_->left_out.size(), 60U);
}

}  // namespace
}  // namespace dettax
