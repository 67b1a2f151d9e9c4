#include "harness/launch/node_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "tests/launch/support.h"

namespace dettax {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::refusal_of;

std::string refused_list(const std::string& text) {
  return refusal_of([&] { expand_node_list(text); });
}

TEST(NodeList, Launch01SplitsAtCommasOutsideBrackets) {
  EXPECT_THAT(expand_node_list("login1,gpu[007-009,12],big3"),
              ElementsAre("login1", "gpu007", "gpu008", "gpu009", "gpu12", "big3"));
  EXPECT_THAT(expand_node_list("r[1-2]n[01-02]"), ElementsAre("r1n01", "r1n02", "r2n01", "r2n02"));
  EXPECT_THAT(expand_node_list("x[098-101]"), ElementsAre("x098", "x099", "x100", "x101"));
  EXPECT_THAT(expand_node_list("solo"), ElementsAre("solo"));
  EXPECT_THAT(expand_node_list("nodeA,nodeB[001,003],nodeC"),
              ElementsAre("nodeA", "nodeB001", "nodeB003", "nodeC"));
}

TEST(NodeList, Launch01RefusesWhatIsNoListAndQuotesIt) {
  EXPECT_THAT(refused_list(""), HasSubstr("names no node"));
  EXPECT_THAT(refused_list("a[1"), AllOf(HasSubstr("\"a[1\""), HasSubstr("not closed")));
  EXPECT_THAT(refused_list("a1]"), HasSubstr("never opened"));
  EXPECT_THAT(refused_list("a[1[2]]"), HasSubstr("bracket inside"));
  EXPECT_THAT(refused_list("a[3-1]"), HasSubstr("runs backwards"));
  EXPECT_THAT(refused_list("a[1-x]"), HasSubstr("\"1-x\" is neither number nor range"));
  EXPECT_THAT(refused_list("a[]"), HasSubstr("neither number nor range"));
  EXPECT_THAT(refused_list("a,,b"), HasSubstr("\"\" is no host name"));
  EXPECT_THAT(refused_list("a b"), HasSubstr("\"a b\" is no host name"));
  EXPECT_THAT(refused_list("a[1-99999999]"), HasSubstr("too many"));
}

TEST(NodeList, KeepsWhatFollowsABracket) {
  EXPECT_THAT(expand_node_list("n[1-2]-ib,m[9-10].site"),
              ElementsAre("n1-ib", "n2-ib", "m9.site", "m10.site"));
}

TEST(TaskCounts, Launch02ReadsRepeatedAndUnevenCounts) {
  EXPECT_THAT(expand_task_counts("4(x2)"), ElementsAre(4, 4));
  EXPECT_THAT(expand_task_counts("2(x3),1"), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(expand_task_counts("8"), ElementsAre(8));
  EXPECT_THAT(expand_task_counts("8,4(x2)"), ElementsAre(8, 4, 4));
}

TEST(TaskCounts, Launch02RefusesANodePastTheEnd) {
  for (const char* text : {"4(x2)", "2(x3),1", "8", "8,4(x2)"}) {
    const std::vector<int> counts = expand_task_counts(text);
    for (size_t node = 0; node < counts.size(); ++node) {
      EXPECT_EQ(tasks_on_node(counts, static_cast<int>(node)), counts[node]);
    }
    const int past = static_cast<int>(counts.size());
    EXPECT_THAT(refusal_of([&] { tasks_on_node(counts, past); }),
                HasSubstr("node " + std::to_string(past)));
    EXPECT_THROW(tasks_on_node(counts, -1), Error);
  }
}

TEST(TaskCounts, Launch02LocalRanksFollowUnevenCounts) {
  const std::vector<int> counts = expand_task_counts("2(x3),1");
  EXPECT_EQ(seat_of_rank(counts, 0), (Seat{0, 0, 2}));
  EXPECT_EQ(seat_of_rank(counts, 5), (Seat{2, 1, 2}));
  EXPECT_EQ(seat_of_rank(counts, 6), (Seat{3, 0, 1}));
  EXPECT_THROW(seat_of_rank(counts, 7), Error);
  EXPECT_THROW(seat_of_rank(counts, -1), Error);
}

TEST(TaskCounts, RefusesWhatIsNoCount) {
  for (const char* text : {"", "4(x)", "4(x2", "x2", "4(2)", "0", "-4", "4,"}) {
    EXPECT_THROW(expand_task_counts(text), Error) << text;
  }
}

}  // namespace
}  // namespace dettax
