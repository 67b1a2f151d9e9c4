// SQLite exports of Nsight Systems, made by hand with the tables and columns that nsys writes.
#include "profiles/import/nsight.h"

#include <functional>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include "harness/base/error.h"
#include "profiles/attribution.h"
#include "profiles/import/import.h"
#include "profiles/summary.h"
#include "tests/profiles/files.h"
#include "tests/profiles/kineto_text.h"

namespace dettax {
namespace {

using testing::Contains;
using testing::HasSubstr;

constexpr int64_t kProcess = (int64_t{1} << 56) | (int64_t{1234} << 24);

class Export {
 public:
  explicit Export(const std::filesystem::path& path) : path_(path) {
    EXPECT_EQ(sqlite3_open(path.c_str(), &database_), SQLITE_OK);
    sql("PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF;"
        "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, contextId INT, "
        "streamId INT, correlationId INT, globalPid INT, demangledName INT, shortName INT);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INT, end INT, deviceId INT, streamId INT, "
        "correlationId INT, globalPid INT, bytes INT, copyKind INT);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, eventClass INT, globalTid "
        "INT, correlationId INT, nameId INT, returnValue INT);"
        "CREATE TABLE NVTX_EVENTS (start INT, end INT, eventType INT, text TEXT, globalTid INT, "
        "textId INT, domainId INT);"
        "CREATE TABLE DIAGNOSTIC_EVENT (timestamp INT, severity INT, text TEXT);"
        "CREATE TABLE TARGET_INFO_SYSTEM_ENV (name TEXT, value TEXT);"
        "INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES ('Hostname', 'node7')");
  }
  Export(const Export&) = delete;
  ~Export() { sqlite3_close(database_); }

  void sql(const std::string& text) {
    char* message = nullptr;
    EXPECT_EQ(sqlite3_exec(database_, text.c_str(), nullptr, nullptr, &message), SQLITE_OK)
        << message << " in " << text;
  }
  int string(const std::string& text) {
    sql(fmt::format("INSERT INTO StringIds VALUES ({}, '{}')", ++strings_, text));
    return strings_;
  }
  void range(const std::string& name, int64_t start, int64_t end, int64_t process = kProcess,
             int type = 59) {
    sql(fmt::format("INSERT INTO NVTX_EVENTS VALUES ({}, {}, {}, '{}', {}, NULL, 0)", start, end,
                    type, name, process + 1234));
  }
  // Within `name`'s range: a launch, and its kernel.
  void work(const std::string& name, int kernel_name, int64_t launch, int64_t start, int64_t end,
            int device = 0, int64_t process = kProcess) {
    range(name, launch - 1, launch + 10, process);
    sql(fmt::format(
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES ({}, {}, 0, {}, {}, {}, 0)", launch,
        launch + 4, process + 1234, ++correlation_,
        launch_name_ != 0 ? launch_name_ : launch_name_ = string("cudaLaunchKernel_v7000")));
    if (end > start)
      sql(fmt::format(
          "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({}, {}, {}, 1, 7, {}, {}, {}, {})", start,
          end, device, correlation_, process, kernel_name, kernel_name));
  }

 private:
  std::filesystem::path path_;
  sqlite3* database_ = nullptr;
  int strings_ = 0, launch_name_ = 0;
  int correlation_ = 0;
};

class Nsight : public testing::Test {
 protected:
  // Three iterations of one product and one all-reduce.
  void write_loop(const std::string& file, const std::string& kernel, int64_t length,
                  const std::function<void(Export&)>& more = {}) {
    Export out(folder_.path() / file);
    const int product = out.string(kernel), reduce = out.string("ncclDevKernel_AllReduce");
    for (int64_t step = 0; step < 3; ++step) {
      const int64_t begin = 10'000 * step;
      out.range("iteration " + std::to_string(step), begin, begin + 9'000);
      out.work("forward", product, begin + 10, begin + 100, begin + 100 + length);
      out.work("reduce", reduce, begin + 40, begin + 5'000, begin + 6'000);
    }
    if (more) more(out);
  }
  std::string refusal(const std::function<void()>& body, ErrorKind kind) {
    try {
      body();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "nothing was thrown";
    return "";
  }
  TestFolder folder_;
};

TEST_F(Nsight, RangesKernelsAndCallsAreRead) {
  write_loop("a.sqlite", "gemm", 2'000, [](Export& out) {
    out.sql(fmt::format(
        "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (7000, 7100, 0, 13, 0, {}, 4096, 1)",
        kProcess));
  });
  const std::vector<Trace> traces = read_nsight(folder_.path() / "a.sqlite");
  ASSERT_EQ(traces.size(), 1U);
  const Trace& trace = traces[0];
  EXPECT_EQ(trace.host, "node7");
  EXPECT_EQ(trace.steps.size(), 3U);
  const TraceSummary summary = summarize(trace);
  EXPECT_EQ(summary.work, 7);
  EXPECT_EQ(summary.communications, 3);
  EXPECT_EQ(summary.launches, 6);
  EXPECT_EQ(summary.answered, 6);
  EXPECT_THAT(trace.spans, Contains(testing::Truly([&](const Span& span) {
                return trace.names[span.name] == "gemm" && trace.paths[span.path] == "forward" &&
                       span.end_ns - span.start_ns == 2'000;
              })));
  EXPECT_THAT(trace.spans, Contains(testing::Truly([&](const Span& span) {
                return span.category == Category::copy && span.bytes == 4096;
              })));
}

TEST_F(Nsight, StepsOfANameThatNoRangeHasAreRefusedWithThoseThatAreThere) {
  write_loop("a.sqlite", "gemm", 2'000, [](Export& out) {
    for (int64_t i = 0; i < 12; ++i) out.range(fmt::format("block{}_{}", i, i), i, i + 1);
    out.range("123", 1, 2);
  });
  const auto steps = [&](const std::string& name) {
    return read_traces(folder_.path() / "a.sqlite", {.step_name = name})[0].steps.size();
  };
  EXPECT_EQ(steps("iteration"), 3U);
  EXPECT_EQ(steps("block3"), 1U);
  EXPECT_THAT(refusal([&] { steps("epoch"); }, ErrorKind::usage),
              testing::AllOf(HasSubstr("--step epoch: "),
                             HasSubstr("a.sqlite marks no such step; it has, with a number behind: "
                                       "iteration, block0, block1, block10,"),
                             testing::EndsWith(", 5 more")));
}

TEST_F(Nsight, TwoExportsAreAttributed) {
  write_loop("fast.sqlite", "gemm_split", 2'000);
  write_loop("det.sqlite", "gemm_ordered", 2'500);
  const Attribution attribution = attribute(read_traces(folder_.path() / "fast.sqlite"),
                                            read_traces(folder_.path() / "det.sqlite"));
  EXPECT_EQ(attribution.fast.steps, 2);
  const auto row =
      std::find_if(attribution.rows.begin(), attribution.rows.end(), [](const AttributionRow& r) {
        return r.path == "forward" && r.mechanism == Mechanism::compute;
      });
  ASSERT_NE(row, attribution.rows.end());
  EXPECT_NEAR(row->time.delta_seconds, 500e-9, 1e-15);
  EXPECT_EQ(row->deterministic_work, "gemm_ordered");
}

TEST_F(Nsight, ProcessesOfOneReportAreRanksByDevice) {
  Export out(folder_.path() / "node.sqlite");
  const int name = out.string("k");
  const int64_t other = kProcess + (int64_t{5} << 24), idle = kProcess + (int64_t{9} << 24);
  out.work("a", name, 10, 100, 200, 1, kProcess);
  out.work("a", name, 10, 100, 300, 0, other);
  out.range("only host", 5, 6, idle);
  const std::vector<Trace> traces = read_traces(folder_.path() / "node.sqlite");
  ASSERT_EQ(traces.size(), 2U);
  EXPECT_EQ(traces[0].rank, 0);
  EXPECT_EQ(summarize(traces[0]).busy_ns, 200);
  EXPECT_EQ(summarize(traces[1]).busy_ns, 100);
}

TEST_F(Nsight, DiagnosticsOfLostRecordsAreALoss) {
  write_loop("lossy.sqlite", "gemm", 2'000, [](Export& out) {
    out.sql(
        "INSERT INTO DIAGNOSTIC_EVENT VALUES (0, 1, 'Profiling has started.'), (0, 3, 'Some CUPTI "
        "records were dropped: 17 events')");
  });
  const Trace trace = read_nsight(folder_.path() / "lossy.sqlite")[0];
  EXPECT_EQ(trace.losses.dropped, 1);
  EXPECT_THAT(
      refusal([&] { refuse_if_unusable(trace, summarize(trace)); }, ErrorKind::infrastructure),
      HasSubstr("records were dropped"));
  write_loop("whole.sqlite", "gemm", 2'000);
  EXPECT_EQ(read_nsight(folder_.path() / "whole.sqlite")[0].losses.dropped, 0);
}

TEST_F(Nsight, GraphsTracedAsAWholeAreWorkWithANote) {
  write_loop("graphs.sqlite", "gemm", 2'000, [](Export& out) {
    out.sql(fmt::format(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INT, end INT, deviceId INT, graphId "
        "INT, streamId INT, correlationId INT, globalPid INT);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (7000, 7600, 0, 3, 7, 77, {})",
        kProcess));
  });
  const Trace trace = read_nsight(folder_.path() / "graphs.sqlite")[0];
  EXPECT_EQ(summarize(trace).work, 7);
  EXPECT_THAT(trace.notes, Contains(HasSubstr("--cuda-graph-trace=node")));
}

TEST_F(Nsight, OtherFilesAreNamed) {
  const auto text = folder_.write("x.sqlite", "SQLite format 3 but not really");
  EXPECT_THAT(refusal([&] { read_nsight(text); }, ErrorKind::config),
              HasSubstr("x.sqlite: cannot be read as an SQLite export"));
  sqlite3* database = nullptr;
  sqlite3_open((folder_.path() / "empty.sqlite").c_str(), &database);
  sqlite3_exec(database, "CREATE TABLE t (a INT)", nullptr, nullptr, nullptr);
  sqlite3_close(database);
  EXPECT_THAT(refusal([&] { read_traces(folder_.path() / "empty.sqlite"); }, ErrorKind::config),
              HasSubstr("is no SQLite export of Nsight Systems"));
  EXPECT_THAT(refusal([&] { read_traces(folder_.write("r.nsys-rep", "x")); }, ErrorKind::usage),
              HasSubstr("nsys export --type sqlite r.nsys-rep"));
}

class Folders : public Nsight {
 protected:
  std::string trace_of_rank(std::optional<int> rank) {
    KinetoText text;
    if (rank)
      text.header +=
          fmt::format("\"distributedInfo\": {{\"rank\": {}, \"world_size\": 4}},\n", *rank);
    text.work("op", "k", 0, 10, 5);
    return text.text();
  }
};

TEST_F(Folders, HoldOneFileARank) {
  folder_.write("b.json", trace_of_rank(0));
  folder_.write_gzip("a.json.gz", trace_of_rank(1));
  folder_.write("rank2_step5.json", trace_of_rank({}));
  folder_.write("notes.txt", "not a trace");
  const std::vector<Trace> traces = read_traces(folder_.path());
  ASSERT_EQ(traces.size(), 3U);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(traces[static_cast<size_t>(rank)].rank, rank);
}

TEST_F(Folders, WithTwoFilesOfOneRankOrOneWithoutAreRefused) {
  folder_.write("a.json", trace_of_rank(1));
  folder_.write("b.json", trace_of_rank(1));
  EXPECT_THAT(refusal([&] { read_traces(folder_.path()); }, ErrorKind::usage),
              HasSubstr("are both of rank 1"));
  folder_.write("b.json", trace_of_rank({}));
  EXPECT_THAT(refusal([&] { read_traces(folder_.path()); }, ErrorKind::usage),
              HasSubstr("b.json: tells no rank"));
}

TEST_F(Folders, WithoutATraceAreRefused) {
  EXPECT_THAT(refusal([&] { read_traces(folder_.path()); }, ErrorKind::usage),
              HasSubstr("has no trace in it"));
}

}  // namespace
}  // namespace dettax
