// Files that are written while a capture lasts, by processes that may end at any byte.
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/base/error.h"
#include "profiles/capture/capture_reader.h"
#include "profiles/capture/capture_writer.h"
#include "profiles/import/import.h"
#include "tests/profiles/files.h"

namespace dettax {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Capture small_capture(int kernels, std::optional<int> rank = 3) {
  Capture capture;
  capture.host = "node1";
  capture.process = getpid();
  capture.rank = rank;
  capture.world_size = 8;
  capture.start_ns = 1000;
  for (int i = 0; i < kernels; ++i) {
    DeviceRecord record;
    record.name = capture.names.intern("kernel " + std::to_string(i));
    record.start_ns = 1000 + 100 * i;
    record.end_ns = record.start_ns + 50;
    record.correlation = static_cast<uint32_t>(i + 1);
    capture.records.push_back(record);
  }
  return capture;
}

std::string bytes_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Two appends of two kernels each, and where in the file the second begins and ends.
struct Written {
  std::filesystem::path file;
  size_t second = 0, end = 0, all = 0;
};
Written write_two(const TestFolder& folder) {
  const Capture all = small_capture(4);
  const std::span<const DeviceRecord> records(all.records);
  CaptureWriter writer(folder.path(), all);
  writer.append(small_capture(2), records.first(2));
  Written written{.file = writer.path()};
  written.second = std::filesystem::file_size(written.file);
  writer.append(all, records.last(2));
  written.end = std::filesystem::file_size(written.file);
  writer.finish("window");
  written.all = std::filesystem::file_size(written.file);
  return written;
}

std::string error_of(const std::filesystem::path& file) {
  try {
    read_capture(file);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(CaptureFile, HoldsWhatWasWritten) {
  const TestFolder folder;
  Capture written = small_capture(3);
  written.losses = {.dropped = 4,
                    .refused_buffers = 5,
                    .broken_buffers = 6,
                    .lost_ranges = 7,
                    .unknown = 8,
                    .faults = "flushing failed"};
  written.notes = {"one", "two\nlines"};
  written.end_ns = 2000;
  written.flushed_ns = 2100;
  CaptureWriter writer(folder.path(), written);
  EXPECT_FALSE(writer.begun()) << "no file of a process that records nothing";
  writer.append(written, written.records);
  writer.finish("window");
  EXPECT_THAT(writer.path(), HasSubstr("/node1." + std::to_string(getpid()) + ".rank3.capture"));

  const Capture read = read_capture(writer.path());
  EXPECT_EQ(read.host, "node1");
  EXPECT_EQ(read.process, getpid());
  EXPECT_EQ(read.rank, 3);
  EXPECT_EQ(read.world_size, 8);
  EXPECT_EQ(read.start_ns, 1000);
  EXPECT_EQ(read.end_ns, 2000);
  EXPECT_EQ(read.flushed_ns, 2100);
  EXPECT_EQ(read.losses, written.losses);
  EXPECT_THAT(read.notes, ElementsAre("one", "two lines"));
  EXPECT_EQ(read.records, written.records);
  EXPECT_EQ(read.names[2], "kernel 1");
  EXPECT_EQ(read.unfinished, "");
}

TEST(CaptureFile, IsGoodWhereverItsProcessWasKilled) {
  const TestFolder folder;
  const Written written = write_two(folder);
  const std::string bytes = bytes_of(written.file);
  ASSERT_EQ(bytes.size(), written.all);
  ASSERT_THAT(read_capture(written.file).unfinished, IsEmpty());
  for (size_t length = 0; length < bytes.size(); ++length) {
    const Capture read = read_capture(folder.write("torn.capture", bytes.substr(0, length)));
    ASSERT_NE(read.unfinished, "") << length;
    ASSERT_GE(read.records.size(), length >= written.second ? 2U : 0U) << length;
    ASSERT_EQ(read.records.size() == 4, length >= written.end) << length;
  }
}

TEST(CaptureFile, SaysOfATornTailWhereItBegins) {
  const TestFolder folder;
  const Written written = write_two(folder);
  const std::string bytes = bytes_of(written.file);
  const Trace trace =
      read_capture_trace(folder.write("torn.capture", bytes.substr(0, written.end + 5)));
  EXPECT_TRUE(trace.losses.cut_off);
  EXPECT_THAT(trace.notes, ElementsAre(HasSubstr("at byte " + std::to_string(written.end))));
}

TEST(CaptureFile, NamesTheByteOfDamage) {
  const TestFolder folder;
  const Written written = write_two(folder);
  const std::string bytes = bytes_of(written.file);
  for (size_t at = written.second; at < written.end; ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x40);
    const std::string said = error_of(folder.write("damaged.capture", damaged));
    ASSERT_THAT(said, HasSubstr("is damaged at byte ")) << at;
    const size_t named = std::stoul(said.substr(said.find("at byte ") + 8));
    ASSERT_LE(named, at);
    ASSERT_GE(named, written.second);
  }
}

TEST(CaptureFile, IsReadPastDamageOnDemandAndThenRefused) {
  const TestFolder folder;
  const Written written = write_two(folder);
  std::string bytes = bytes_of(written.file);
  const size_t records = written.end - 3;  // in the last chunk of records
  bytes[records] = static_cast<char>(bytes[records] ^ 1);
  const Trace trace = read_capture_trace(folder.write("damaged.capture", bytes),
                                         {.step_name = "", .salvage = true});
  EXPECT_EQ(trace.events, 2);
  EXPECT_EQ(trace.losses.dropped, 1);
  EXPECT_THAT(trace.losses.told, HasSubstr("1 of its chunks is damaged"));
}

TEST(CaptureFile, DoesNotMisnameWhereNamesWereDamaged) {
  const TestFolder folder;
  const Written written = write_two(folder);
  std::string bytes = bytes_of(written.file);
  const size_t name = bytes.find("kernel 0");
  bytes[name] = 'K';
  const Capture read =
      read_capture(folder.write("damaged.capture", bytes), {.step_name = "", .salvage = true});
  EXPECT_THAT(read.records, IsEmpty()) << "their names are not known";
  EXPECT_THAT(read.losses.faults, HasSubstr("chunks are damaged"));
}

TEST(CaptureFile, RefusesBytesBehindItsEnd) {
  const TestFolder folder;
  const Written written = write_two(folder);
  EXPECT_THAT(error_of(folder.write("more.capture", bytes_of(written.file) + "x")),
              AllOf(HasSubstr("at byte " + std::to_string(written.all)),
                    HasSubstr("stand behind its end")));
}

TEST(CaptureFile, BelongsToOneProcess) {
  const TestFolder folder;
  const Capture capture = small_capture(1);
  CaptureWriter first(folder.path(), capture), second(folder.path(), capture);
  first.append(capture, capture.records);
  second.append(capture, capture.records);  // the same host, process and rank: an earlier run's
  EXPECT_NE(first.path(), second.path());
  const pid_t child = fork();
  if (child == 0) {
    first.abandon();
    first.append(capture, capture.records);
    _exit(first.fault().empty() ? 1 : 0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  first.finish("window");
  second.finish("window");
  for (const CaptureWriter* writer : {&first, &second})
    EXPECT_EQ(read_capture(writer->path()).records, capture.records);
}

TEST(CaptureFile, SaysWhyItCannotBeWritten) {
  const Capture capture = small_capture(1);
  CaptureWriter writer("/nowhere/at/all", capture);
  writer.append(capture, capture.records);
  writer.append(capture, capture.records);
  EXPECT_THAT(writer.fault(),
              AllOf(HasSubstr("/nowhere/at/all/node1"), HasSubstr("cannot be made")));
  CaptureWriter full("/dev/full", capture);
  full.append(capture, capture.records);
  EXPECT_THAT(full.fault(), HasSubstr("cannot be made"));
}

TEST(CaptureFile, IsReadLikeTheTracesOfOtherProfilers) {
  const TestFolder folder;
  for (const int rank : {1, 0}) {
    const Capture capture = small_capture(2 + rank, rank);
    CaptureWriter writer(folder.path(), capture);
    writer.append(capture, capture.records);
    writer.finish("window");
  }
  const std::vector<Trace> traces = read_traces(folder.path());
  ASSERT_EQ(traces.size(), 2U);
  EXPECT_EQ(traces[0].rank, 0);
  EXPECT_EQ(traces[1].events, 3);
  EXPECT_EQ(traces[1].host, "node1");
}

}  // namespace
}  // namespace dettax
