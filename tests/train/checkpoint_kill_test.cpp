// Saving that is cut short: by SIGKILL, a full disk, a folder that takes nothing. What was saved before stays, and nothing is ever
// loaded that was not saved.
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checkpoint_runs.h"
#include "harness/base/error.h"
#include "harness/train/rank_states.h"
#include "tests/memory_folder.h"

namespace dettax {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)
using testing::HasSubstr;
namespace fs = std::filesystem;

Case tiny() {
  Case planned = small_case(small_gpt());
  planned.model.layers = planned.model.published_layers = 1;
  planned.model.dropout = 0.1;
  planned.batch = {1, 1, 4};
  planned.topology.threads_per_rank = 1;
  return planned;
}

// Goes on from the last checkpoint and saves after every step, until it is killed. Tells of each that is complete.
[[noreturn]] void save_for_ever(const fs::path& folder, int tell) {
  train_on_ranks(tiny(), deterministic(), [&](RankRun& rank) {
    const auto last = nearest_checkpoint(folder);
    last ? load_checkpoint(last->path, rank.train) : rank.train.reset(1);
    CheckpointSaver saver({folder, 2}, rank.communicator);
    for (;;) {
      rank.train.step();
      saver.schedule(rank.train);
      saver.finish();
      const int64_t step = rank.train.steps_done();
      if (::write(tell, &step, sizeof step) != ssize_t{sizeof step}) return;
    }
  });
  std::_Exit(EXIT_FAILURE);
}

// Killed so long after its start, or after it has told of a step; the last step that it told of, -1 if there is none.
int64_t killed_run(const fs::path& folder, std::chrono::microseconds after, bool once_told) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) return -1;
  const pid_t child = ::fork();
  if (child == 0) save_for_ever(folder, ends[1]);
  ::close(ends[1]);
  int64_t told = -1;
  if (once_told && ::read(ends[0], &told, sizeof told) != ssize_t{sizeof told}) told = -1;
  std::this_thread::sleep_for(after);
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  for (int64_t step = 0; ::read(ends[0], &step, sizeof step) == ssize_t{sizeof step};) told = step;
  ::close(ends[0]);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? told : -2;
}

int kills() {
  const char* asked = std::getenv("DETTAX_KILLS");  // NOLINT(concurrency-mt-unsafe)
  return asked == nullptr ? 200 : std::atoi(asked);
}

TEST(CheckpointKills, NeverLeaveOneThatLoadsWrongAndNeverLoseTheOneBefore) {
  const MemoryFolder folder;
  std::mt19937 random(11);
  int64_t told = 0;
  int64_t expected_step = 0;
  int between = 0;  // killed while something was being written
  for (int i = 0; i < kills(); ++i) {
    const auto after = std::chrono::microseconds(random() % 16000);
    // On a busy machine too some must get somewhere.
    const int64_t now = killed_run(folder.path(), after, i % 10 == 9);
    ASSERT_NE(now, -2);
    told = std::max(told, now);
    for (const auto& entry : fs::directory_iterator(folder.path()))
      if (entry.path().filename().string().starts_with(".")) between += 1;
    const auto last = nearest_checkpoint(folder.path());
    if (told == 0 && !last) continue;
    ASSERT_TRUE(last) << "after kill " << i;
    ASSERT_GE(last->step, told);
    expected_step = last->step;
    if (i % 10 != 0) continue;  // else the bits are looked at by the next child alone
    train_on_ranks(tiny(), deterministic(), [&](RankRun& rank) {
      load_checkpoint(last->path, rank.train);
      EXPECT_EQ(rank.train.steps_done(), last->step);
    });
  }
  EXPECT_GT(between, 0);
  // What came through all of this is what a run that was never stopped has.
  const auto last = nearest_checkpoint(folder.path());
  ASSERT_TRUE(last);
  train_on_ranks(tiny(), deterministic(), [&](RankRun& rank) {
    rank.train.reset(1);
    while (rank.train.steps_done() < expected_step) rank.train.step();
    const auto straight = describe_state(rank.train);
    load_checkpoint(last->path, rank.train);
    EXPECT_EQ(straight, describe_state(rank.train));
  });
  std::cout << "  " << kills() << " kills, " << expected_step << " steps, " << between
            << " found half written\n";
}

// The same run with a folder that fails in between: the training and the checkpoint before stay as they are.
void expect_survived(const fs::path& folder, const std::string& words,
                     const std::function<void()>& fail, const std::function<void()>& mend) {
  train_on_ranks(tiny(), deterministic(), [&](RankRun& rank) {
    rank.train.reset(1);
    rank.train.step();
    CheckpointSaver saver({folder, 1}, rank.communicator);
    saver.schedule(rank.train);
    saver.finish();
    rank.train.step();
    const auto live = describe_state(rank.train);
    fail();
    std::string message;
    try {
      saver.schedule(rank.train);
      saver.finish();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::infrastructure);
      message = error.what();
    }
    EXPECT_THAT(message, HasSubstr("checkpoint of step 2 is not saved: rank 0"));
    EXPECT_THAT(message, HasSubstr(words));
    EXPECT_EQ(live, describe_state(rank.train));
    const auto last = nearest_checkpoint(folder);
    ASSERT_TRUE(last);
    EXPECT_EQ(last->step, 1);
    load_checkpoint(last->path, rank.train);
    rank.train.step();
    EXPECT_EQ(live, describe_state(rank.train));
    mend();
    saver.schedule(rank.train);
    saver.finish();
    EXPECT_EQ(nearest_checkpoint(folder)->step, 2);
    EXPECT_EQ(list_checkpoints(folder).size(), 1U);
  });
}

TEST(CheckpointFailures, AFileThatMayNotGrowIsToldAndTheOneBeforeStays) {
  const MemoryFolder folder;
  const auto limit = [](rlim_t bytes) {
    rlimit now{};
    ::getrlimit(RLIMIT_FSIZE, &now);
    now.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &now);
  };
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  expect_survived(
      folder.path(), "cannot be written", [&] { limit(20000); }, [&] { limit(RLIM_INFINITY); });
  std::signal(SIGXFSZ, before);
}

// A small file system in memory, gone with this.
class SmallDisk {
 public:
  explicit SmallDisk(const fs::path& at) : at_(at), mounted_(mount("size=1m", 0)) {}
  ~SmallDisk() {
    if (mounted_) ::umount2(at_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool mounted() const { return mounted_; }
  void read_only(bool on) const {
    ::mount("tmpfs", at_.c_str(), "tmpfs", on ? MS_REMOUNT | MS_RDONLY : MS_REMOUNT, "size=1m");
  }

 private:
  bool mount(const char* options, unsigned long flags) const {
    return ::mount("tmpfs", at_.c_str(), "tmpfs", flags, options) == 0;
  }
  const fs::path at_;
  const bool mounted_;
};

TEST(CheckpointFailures, AFullDiskIsToldAndTheOneBeforeStays) {
  const MemoryFolder folder;
  const SmallDisk disk(folder.path());
  if (!disk.mounted()) GTEST_SKIP() << "a file system can be mounted by root only";
  const fs::path filler = folder.path() / "filler";
  const auto fill = [&] {
    std::ofstream out(filler, std::ios::binary);
    const std::string page(4096, 'x');
    while (out << page << std::flush) {
    }
  };
  expect_survived(folder.path() / "saves", "No space left", fill, [&] { fs::remove(filler); });
}

TEST(CheckpointFailures, AFolderThatTakesNothingIsToldAndTheOneBeforeStays) {
  const MemoryFolder folder;
  const SmallDisk disk(folder.path());
  if (disk.mounted()) {
    expect_survived(
        folder.path() / "saves", "Read-only", [&] { disk.read_only(true); },
        [&] { disk.read_only(false); });
    return;
  }
  if (::geteuid() == 0) GTEST_SKIP() << "root without mounts is refused by no folder";
  const auto allow = [&](fs::perms perms) { fs::permissions(folder.path(), perms); };
  expect_survived(
      folder.path(), "Permission denied", [&] { allow(fs::perms(0500)); },
      [&] { allow(fs::perms(0700)); });
}

}  // namespace
}  // namespace dettax
