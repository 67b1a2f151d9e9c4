#include <chrono>
#include <csignal>
#include <filesystem>
#include <ostream>
#include <random>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/base/error.h"
#include "results/run_folder.h"

namespace dettax {
namespace {

class AtomicFile : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() / ("dettax-atomic-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    file_ = folder_ / "metrics.prom";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      found.push_back(entry.path().filename().string());
    return found;
  }

  std::filesystem::path folder_, file_;
};

constexpr size_t kLength = 1U << 20U;

// Writes whole files of one letter, another letter each time, until it is killed.
[[noreturn]] void write_for_ever(const std::filesystem::path& file,
                                 void (*write)(const std::filesystem::path&, const std::string&)) {
  for (char letter = 'a';; letter = letter == 'z' ? 'a' : static_cast<char>(letter + 1))
    write(file, std::string(kLength, letter));
}

void plainly(const std::filesystem::path& file, const std::string& text) {
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  for (size_t at = 0; at < text.size(); at += 65536) {
    if (::write(descriptor, text.data() + at, 65536) < 0) ::_exit(1);
  }
  ::close(descriptor);
}

void atomically(const std::filesystem::path& file, const std::string& text) {
  write_file_atomically(file, text);
}

bool whole(const std::string& text) {
  return text.size() == kLength && text.find_first_not_of(text[0]) == std::string::npos;
}

// How many of `kills` writers that were killed at any moment left a file that is not whole.
int torn_files(const std::filesystem::path& file, int kills,
               void (*write)(const std::filesystem::path&, const std::string&)) {
  std::mt19937 random(7);
  int torn = 0;
  for (int i = 0; i < kills; ++i) {
    write(file, std::string(kLength, '0'));
    const pid_t writer = ::fork();
    if (writer == 0) write_for_ever(file, write);
    std::this_thread::sleep_for(std::chrono::microseconds(500 + random() % 20000));
    ::kill(writer, SIGKILL);
    ::waitpid(writer, nullptr, 0);
    std::error_code missing;
    if (std::filesystem::file_size(file, missing) == 0 || !whole(read_file(file))) ++torn;
  }
  return torn;
}

TEST_F(AtomicFile, AWriterThatIsKilledLeavesAWholeFile) {
  EXPECT_EQ(torn_files(file_, 25, atomically), 0);
  // The last one may have left its temporary file: the next writer removes it.
  write_file_atomically(file_, "new");
  EXPECT_THAT(names(), testing::ElementsAre("metrics.prom"));
}

TEST_F(AtomicFile, APlainWriterWouldNot) {  // twin of the above
  EXPECT_GT(torn_files(file_, 20, plainly), 0);
}

TEST_F(AtomicFile, WhatADeadWriterLeftIsRemoved) {
  for (const char* name : {"metrics.prom.tmp1", "metrics.prom.tmp4194305"})
    write_file_atomically(folder_ / name, "half of it");
  for (const char* name :
       {"metrics.prom.tmpx", "metrics.prom.tmp", "other.prom.tmp1", "metrics.json"})
    write_file_atomically(folder_ / name, "of somebody else");
  write_file_atomically(file_, "new");
  EXPECT_THAT(names(),
              testing::UnorderedElementsAre("metrics.prom", "metrics.prom.tmpx", "metrics.prom.tmp",
                                            "other.prom.tmp1", "metrics.json"));
}

TEST_F(AtomicFile, WhatALivingWriterHoldsStays) {
  const std::filesystem::path held = folder_ / "metrics.prom.tmp77";
  write_file_atomically(held, "half of it");
  const int descriptor = ::open(held.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(descriptor, LOCK_EX), 0);
  write_file_atomically(file_, "new");
  EXPECT_EQ(read_file(held), "half of it");
  ::close(descriptor);
  write_file_atomically(file_, "newer");
  EXPECT_THAT(names(), testing::ElementsAre("metrics.prom"));
}

TEST_F(AtomicFile, AWriterThatFailsLeavesTheOldFileAlone) {
  write_file_atomically(file_, "old");
  EXPECT_THROW(write_file_atomically(file_,
                                     [](std::ostream& out) {
                                       out << std::string(kLength, 'x');
                                       throw Error(ErrorKind::internal, "in the middle");
                                     }),
               Error);
  EXPECT_EQ(read_file(file_), "old");
  EXPECT_THAT(names(), testing::ElementsAre("metrics.prom"));
}

TEST_F(AtomicFile, AFullDiskIsAnErrorThatNamesTheFile) {
  try {
    write_file_atomically("/dev/full", std::string(kLength, 'x'));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::infrastructure);
    EXPECT_THAT(error.what(), testing::HasSubstr("/dev/full: cannot be written"));
  }
}

TEST_F(AtomicFile, ManyWritersOfOneFileLeaveOneOfTheirs) {
  std::vector<pid_t> writers;
  for (int i = 0; i < 4; ++i) {
    const pid_t writer = ::fork();
    if (writer == 0) {
      for (int turn = 0; turn < 10; ++turn)
        write_file_atomically(file_, std::string(kLength, static_cast<char>('a' + i)));
      ::_exit(0);
    }
    writers.push_back(writer);
  }
  for (const pid_t writer : writers) {
    int status = 0;
    ::waitpid(writer, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_TRUE(whole(read_file(file_)));
  EXPECT_THAT(names(), testing::ElementsAre("metrics.prom"));
}

}  // namespace
}  // namespace dettax
