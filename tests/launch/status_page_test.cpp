#include "harness/launch/status_page.h"

#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>

namespace dettax {
namespace {

TEST(StatusPage, BothSidesSeeTheSame) {
  StatusPage ours = StatusPage::create();
  StatusPage theirs = StatusPage::open(Descriptor(::fcntl(ours.descriptor(), F_DUPFD_CLOEXEC, 3)));
  theirs.layout().ranks[1].step = 4;
  theirs.layout().ranks[1].set_op("backward/layer1/attention");
  EXPECT_EQ(ours.layout().ranks[1].step, 4);
  EXPECT_EQ(ours.layout().ranks[1].op_text(), "backward/layer1/attention");
  EXPECT_EQ(ours.layout().ranks[0].step, -1);
}

TEST(StatusPage, ALongTextIsCut) {
  StatusPage page = StatusPage::create();
  page.layout().ranks[0].set_op(std::string(1000, 'x'));
  EXPECT_EQ(page.layout().ranks[0].op_text(), std::string(RankStatus::kTextBytes - 1, 'x'));
}

}  // namespace
}  // namespace dettax
