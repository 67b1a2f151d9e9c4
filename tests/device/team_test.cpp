#include "harness/device/cpu/team.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "harness/base/error.h"

namespace dettax {
namespace {

class TeamOf : public testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  int threads() const { return std::get<0>(GetParam()); }
  Team team_{std::get<0>(GetParam()), std::get<1>(GetParam())};
};

TEST_P(TeamOf, RunsTheWorkOnceOnEachThread) {
  std::vector<int> calls(static_cast<size_t>(threads()));
  for (int round = 1; round <= 200; ++round) {
    team_.run([&](int thread) { ++calls[static_cast<size_t>(thread)]; });
    for (int count : calls) ASSERT_EQ(count, round);
  }
}

TEST_P(TeamOf, UsesItsOwnThreadsAndTheCaller) {
  std::vector<std::thread::id> ids(static_cast<size_t>(threads()));
  team_.run([&](int thread) { ids[static_cast<size_t>(thread)] = std::this_thread::get_id(); });
  EXPECT_EQ(ids[0], std::this_thread::get_id());
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(std::unique(ids.begin(), ids.end()), ids.end());
}

TEST_P(TeamOf, BarrierMakesEarlierWritesSeen) {
  std::vector<int> written(static_cast<size_t>(threads()));
  std::atomic<int> wrong{0};
  team_.run([&](int thread) {
    for (int round = 1; round <= 100; ++round) {
      written[static_cast<size_t>(thread)] = round;
      team_.barrier();
      if (std::accumulate(written.begin(), written.end(), 0) != round * threads()) ++wrong;
      team_.barrier();
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST_P(TeamOf, CoversARangeOnceWhateverTheGrain) {
  for (bool dynamic : {false, true}) {
    for (int64_t count : {0, 1, 7, 64, 1000}) {
      for (int64_t grain : {1, 3, 64, 5000}) {
        std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
        team_.parallel_for(count, grain, dynamic, [&](int64_t begin, int64_t end, int thread) {
          EXPECT_LT(thread, threads());
          EXPECT_EQ(begin % grain, 0);
          if (dynamic) {
            EXPECT_LE(end - begin, grain);
          }
          for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
        });
        for (const auto& times : seen) ASSERT_EQ(times, 1);
      }
    }
  }
}

TEST_P(TeamOf, StaticPartsAreTheSameEachTime) {
  const auto parts = [&] {
    std::vector<int> owner(100);
    team_.parallel_for(100, 1, false, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t i = begin; i < end; ++i) owner[static_cast<size_t>(i)] = thread;
    });
    return owner;
  };
  const auto first = parts();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(parts(), first);
}

TEST_P(TeamOf, RethrowsWhatAThreadThrewAndGoesOn) {
  for (int failing = 0; failing < threads(); ++failing) {
    EXPECT_THROW(team_.run([&](int thread) {
      if (thread == failing) throw Error(ErrorKind::numeric, "bad value");
    }),
                 Error);
    int sum = 0;
    team_.run([&](int thread) {
      if (thread == 0) sum = 1;
    });
    EXPECT_EQ(sum, 1);
  }
}

TEST_P(TeamOf, AFailureReleasesThreadsThatWaitAtTheBarrier) {
  for (int failing = 0; failing < threads(); ++failing) {
    EXPECT_THROW(team_.run([&](int thread) {
      if (thread == failing) throw std::runtime_error("gone");
      team_.barrier();
      team_.barrier();
    }),
                 std::runtime_error);
    std::atomic<int> passed{0};
    team_.run([&](int) {
      team_.barrier();
      ++passed;
    });
    EXPECT_EQ(passed, threads());
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, TeamOf,
                         testing::Combine(testing::Values(1, 2, 3, 5, 8), testing::Bool()));

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

TEST(Team, SleepsWhenThereIsNothingToDo) {
  Team team(4, true);
  team.run([](int) {});
  const double before = processor_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  // Three threads that polled all the time would use far more than a tenth of the time they slept.
  EXPECT_LT(processor_seconds() - before, 0.02);
}

// The thread that comes first, in each of many runs.
std::vector<int> first_threads(Team& team, bool after_barrier) {
  std::vector<int> firsts;
  for (int i = 0; i < 300; ++i) {
    std::atomic<int> first{-1};
    team.run([&](int thread) {
      if (after_barrier) team.barrier();
      int nobody = -1;
      first.compare_exchange_strong(nobody, thread);
    });
    firsts.push_back(first);
  }
  return firsts;
}

TEST(Team, UnderJitterEveryThreadComesFirstNowAndThen) {
  Team team(3, false);
  team.set_jitter(7);
  for (bool after_barrier : {false, true}) {
    const std::vector<int> firsts = first_threads(team, after_barrier);
    for (int thread = 0; thread < 3; ++thread)
      EXPECT_GT(std::count(firsts.begin(), firsts.end(), thread), 0) << thread << after_barrier;
  }
}

TEST(Team, RefusesToHaveNoThreads) { EXPECT_THROW(Team(0, true), Error); }

}  // namespace
}  // namespace dettax
