#include "harness/launch/channel.h"

#include <string>

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace dettax {
namespace {

TEST(Channel, LinesArriveWholeAndInOrder) {
  auto [a, b] = Channel::pair();
  const std::string wide(100'000, 'x');
  ASSERT_TRUE(a.send("first"));
  ASSERT_TRUE(a.send(wide));
  EXPECT_EQ(b.receive(1).line, "first");
  EXPECT_EQ(b.receive(1).line, wide);
}

TEST(Channel, SaysWhenTheTimeIsUp) {
  auto [a, b] = Channel::pair();
  EXPECT_EQ(b.receive(0.01).event, Channel::Event::timeout);
}

TEST(Channel, SaysWhenTheOtherSideIsGone) {
  auto [a, b] = Channel::pair();
  ASSERT_TRUE(a.send("last"));
  a.close();
  EXPECT_EQ(b.receive(1).line, "last");
  EXPECT_EQ(b.receive(1).event, Channel::Event::closed);
  EXPECT_FALSE(b.send("nobody reads"));
}

TEST(Channel, AnInterruptEndsTheWait) {
  auto [a, b] = Channel::pair();
  const Descriptor interrupt(::eventfd(1, EFD_CLOEXEC));
  EXPECT_EQ(b.receive(5, interrupt.get()).event, Channel::Event::interrupt);
}

}  // namespace
}  // namespace dettax
