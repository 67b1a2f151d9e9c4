#include "harness/launch/machine.h"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include "harness/base/error.h"

namespace dettax {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(Machine, HasTheCoresThisProcessMayUse) {
  const Machine machine = find_machine();
  ASSERT_FALSE(machine.cores.empty());
  EXPECT_THAT(machine.numa_nodes, SizeIs(machine.cores.size()));
  EXPECT_LE(machine.cores.size(), static_cast<size_t>(machine.hardware_threads));
  EXPECT_THAT(machine.description, HasSubstr("usable core"));
  EXPECT_FALSE(machine_identity().empty());
}

TEST(Machine, OfABoundThreadHasFewerCores) {
  std::thread([] {
    const Machine whole = find_machine();
    bind_this_thread({whole.cores.back()});
    EXPECT_THAT(find_machine().cores, ElementsAre(whole.cores.back()));
  }).join();
}

TEST(Binding, GivesEachRankItsOwnCores) {
  const std::vector<int> cores = {0, 1, 2, 3, 8, 9};
  EXPECT_THAT(cores_of_rank(Binding::none, cores, 1, 3, 2), IsEmpty());
  EXPECT_THAT(cores_of_rank(Binding::core, cores, 0, 3, 2), ElementsAre(0, 1));
  EXPECT_THAT(cores_of_rank(Binding::core, cores, 2, 3, 2), ElementsAre(8, 9));
}

TEST(Binding, RefusesTooFewCoresWithBothNumbers) {
  try {
    cores_of_rank(Binding::core, {0, 1}, 0, 2, 2);
    FAIL() << "four threads do not fit on two cores";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::config);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("need 4 cores, found 2"), HasSubstr("binding: none")));
  }
}

TEST(CoreList, IsShort) {
  EXPECT_EQ(core_list({}), "");
  EXPECT_EQ(core_list({5}), "5");
  EXPECT_EQ(core_list({3, 0, 1, 2, 8}), "0-3,8");
}

}  // namespace
}  // namespace dettax
