// Compute threads tied to cores.
#include <mutex>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include "harness/base/error.h"
#include "harness/device/cpu/team.h"

namespace dettax {
namespace {

std::vector<int> usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(static_cast<size_t>(core), &set)) cores.push_back(core);
  }
  return cores;
}

// Cores that each thread may use.
std::vector<std::vector<int>> cores_by_thread(Team& team) {
  std::vector<std::vector<int>> cores(static_cast<size_t>(team.size()));
  team.run([&](int thread) { cores[static_cast<size_t>(thread)] = usable_cores(); });
  return cores;
}

TEST(Binding, TiesEachThreadButTheCallerToItsCore) {
  const std::vector<int> all = usable_cores();
  Team team(3, false, {all.front(), all.back(), all.front()});
  const auto cores = cores_by_thread(team);
  EXPECT_EQ(cores[0], all);
  EXPECT_THAT(cores[1], ::testing::ElementsAre(all.back()));
  EXPECT_THAT(cores[2], ::testing::ElementsAre(all.front()));
}

TEST(Binding, IsNotThereUnlessAskedFor) {
  Team team(2, false);
  for (const auto& cores : cores_by_thread(team)) EXPECT_EQ(cores, usable_cores());
}

TEST(Binding, ToACoreThatIsNotThereIsRefused) {
  try {
    Team team(2, false, {0, CPU_SETSIZE - 1});
    FAIL() << "no machine here has that many cores";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("cannot bind a compute thread to core"));
  }
}

}  // namespace
}  // namespace dettax
