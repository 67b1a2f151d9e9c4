// Traces as PyTorch's profiler writes them, and what users have met in them.
#include "profiles/import/kineto.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "profiles/attribution.h"
#include "profiles/partition.h"
#include "profiles/steps.h"
#include "profiles/summary.h"
#include "tests/profiles/files.h"
#include "tests/profiles/kineto_text.h"

namespace dettax {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class Trace_ : public testing::Test {
 protected:
  Trace read(const std::string& text, const ImportOptions& options = {}) {
    return read_kineto(folder_.write("trace.json", text), options);
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
  std::vector<std::string> work_names(const Trace& trace) {
    std::vector<std::string> names;
    for (const Span& span : trace.spans) {
      if (is_work(span.category)) names.push_back(trace.names[span.name]);
    }
    return names;
  }
  TestFolder folder_;
};
using Kineto = Trace_;
using Traces = Trace_;

// `kernels[i]` of step i's 12 launches leave a kernel; each step takes 400 us.
KinetoText steps_of(const std::vector<int>& kernels, double kernel_us = 10) {
  KinetoText text;
  for (size_t step = 0; step < kernels.size(); ++step) {
    const double begin = 400.0 * static_cast<double>(step);
    text.step(static_cast<int64_t>(step), begin, 400);
    for (int i = 0; i < 12; ++i) {
      text.work("aten::mm", "gemm", begin + 20 * i, begin + 20 * i + 50, kernel_us);
      if (i < 12 - kernels[step]) text.events.pop_back();
    }
  }
  return text;
}

TEST_F(Kineto, KernelsAreKeyedByTheOperationThatLaunchedThem) {
  KinetoText text;
  text.step(3, 0, 100);
  text.event("user_annotation", "forward", "100", "100", "1", "50");
  text.op("aten::linear", 2, 20);
  text.op("aten::addmm", 3, 10);
  text.launch(1, 4, 2);
  text.kernel("gemm_a", 1, 30, 5);
  text.op("aten::linear", 24, 20);
  text.launch(2, 26, 2);
  text.kernel("gemm_b", 2, 40, 5);
  const Trace trace = read(text.text());
  std::vector<std::string> keys;
  for (const Span& span : trace.spans) {
    if (is_work(span.category))
      keys.push_back(trace.paths[span.path] + " #" + std::to_string(span.ordinal));
  }
  EXPECT_THAT(keys, ElementsAre("forward/aten::linear #0", "forward/aten::linear #1"));
  EXPECT_EQ(trace.steps, (std::vector<StepMark>{{3, 0, 100'000}}));
}

TEST_F(Kineto, ABackwardThreadTakesTheAnnotationsOfTheMainThread) {
  KinetoText text;
  text.event("user_annotation", "backward", "100", "100", "10", "50");
  text.event("user_annotation", "other", "100", "100", "70", "5");
  text.op("MmBackward0", 20, 10, "200");
  text.event("cuda_runtime", "cudaLaunchKernel", "100", "200", "22", "2", "\"correlation\": 1");
  text.kernel("gemm", 1, 40, 5);
  const Trace trace = read(text.text());
  EXPECT_THAT(trace.spans, Contains(testing::Truly([&](const Span& span) {
                return is_work(span.category) && trace.paths[span.path] == "backward/MmBackward0";
              })));
}

TEST_F(Kineto, WorkUnderACollectiveCommunicatesWhateverItsKernelIsCalled) {
  KinetoText text;
  text.work("nccl:all_reduce", "brand_new_kernel", 0, 10, 5, 20);
  text.work("aten::mm", "brand_new_kernel_2", 20, 30, 5);
  text.work("x", "void ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgs)", 40, 50, 5);
  EXPECT_EQ(summarize(read(text.text())).communications, 2);
}

TEST_F(Kineto, ReadsWhatACollectiveSaysOfItself) {
  KinetoText text;
  text.header +=
      R"("distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8, "pg_count": 1},)";
  text.event(
      "kernel", "k", "0", "20", "1", "2",
      R"("stream": 20, "correlation": 9, "Collective name": "allreduce", "In msg nelems": 4, "Process Group Name": "0", "Process Group Ranks": "[0, 1]", "Group size": 2, "Seq": 17)");
  const Trace trace = read(text.text());
  EXPECT_EQ(trace.rank, 3);
  EXPECT_EQ(trace.world_size, 8);
  const Collective& collective = trace.collectives[trace.spans[0].collective];
  EXPECT_EQ(trace.names[collective.name], "allreduce");
  EXPECT_EQ(trace.names[collective.group], "0 [0, 1]");
  EXPECT_EQ(collective.sequence, 17);
  EXPECT_EQ(collective.group_size, 2);
}

TEST_F(Kineto, BadUtf8AndEscapesInNamesAreTaken) {
  KinetoText text;
  text.kernel("a\xff\xfe", 0, 1, 1);
  text.kernel(R"(\u00e9\\)", 0, 3, 1);
  EXPECT_THAT(work_names(read(text.text())), ElementsAre("a\uFFFD\uFFFD", "\u00e9\\"));
}

TEST_F(Kineto, EveryCutOfAFileIsDamageAndNothingWorse) {
  KinetoText text;
  for (int i = 0; i < 3; ++i) text.work("aten::mm", "gemm", 10 * i, 10 * i + 5, 2);
  const std::string whole = text.text();
  for (size_t length = 1; length + 2 < whole.size(); length += 5) {
    EXPECT_THAT(refusal([&] { read(whole.substr(0, length)); }, ErrorKind::config),
                HasSubstr("ends early"));
    EXPECT_NO_THROW(read(whole.substr(0, length), {.step_name = "", .salvage = true}));
  }
}

TEST_F(Kineto, BytesThatWereChangedAreReadOrRefusedInOneLine) {
  KinetoText text;
  text.header += R"("distributedInfo": {"rank": 0, "world_size": 8}, "baseTimeNanoseconds": 5,)";
  for (int i = 0; i < 4; ++i) text.work("aten::mm", "gemm", 10 * i, 10 * i + 5, 2);
  const std::string whole = text.text();
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    std::string changed = whole;
    for (int i = 0; i < 1 + round % 4; ++i) {
      const std::string_view bytes("\"{}[],:\\0e-.x\x01\xff\0", 17);
      changed[random() % changed.size()] = bytes[random() % bytes.size()];
    }
    for (const bool salvage : {false, true}) {
      try {
        const Trace trace = read(changed, {.step_name = "", .salvage = salvage});
        attribute({trace}, {trace});
      } catch (const Error& error) {
        EXPECT_NE(error.kind(), ErrorKind::internal) << error.what();
        EXPECT_THAT(error.what(), Not(HasSubstr("\n")));
      }
    }
  }
}

TEST_F(Kineto, TextThatIsNoTraceIsNamed) {
  EXPECT_THAT(refusal([&] { read("hello"); }, ErrorKind::config), HasSubstr("byte 0"));
  EXPECT_THAT(refusal([&] { read(""); }, ErrorKind::config), HasSubstr("ends early"));
  EXPECT_THAT(refusal([&] { read_kineto("/nowhere/x.json"); }, ErrorKind::usage),
              HasSubstr("/nowhere/x.json: cannot be read"));
}

TEST_F(Kineto, HalvesOfEventsAreRefused) {
  EXPECT_THAT(refusal([&] { read(R"([{"ph": "B", "cat": "kernel", "name": "k", "ts": 1}])"); },
                      ErrorKind::config),
              HasSubstr("event 1 at byte"));
}

TEST_F(Kineto, WorkOfSeveralDevicesInOneTraceIsNoted) {
  KinetoText text;
  text.event("kernel", "k", "0", "7", "1", "2", "\"device\": 0, \"stream\": 7");
  EXPECT_THAT(notes_of(read(text.text()), summarize(read(text.text()))),
              Not(Contains(HasSubstr("devices"))));
  text.event("kernel", "k", "1", "7", "1", "2", "\"device\": 1, \"stream\": 7");
  EXPECT_THAT(notes_of(read(text.text()), summarize(read(text.text()))),
              Contains(HasSubstr("work of 2 devices")));
}

TEST_F(Kineto, ABareArrayOfEventsIsATraceToo) {
  KinetoText text;
  text.kernel("k", 0, 1, 1);
  EXPECT_THAT(work_names(read("[" + text.events[0] + "]")), ElementsAre("k"));
}

TEST_F(Kineto, EventsLongerThanTheWindowAreRead) {
  KinetoText text;
  text.event("cpu_op", "aten::cat", "100", "100", "1", "9",
             "\"Input Dims\": \"" + std::string(3'000'000, 'x') + "\"");
  text.launch(1, 2, 1);
  text.kernel("k", 1, 4, 1);
  const Trace trace = read(text.text());
  EXPECT_EQ(trace.events, 3);
  EXPECT_EQ(trace.paths[trace.spans.back().path], "aten::cat");
}

TEST_F(Traces, Trace01KernelsWithTimeZeroAreCountedAndLeftOut) {
  KinetoText text;
  text.launch(41, 1786000000000100, 6);
  text.event("Kernel", "k1", "0", "\"stream 7\"", "0", "0", "\"correlation\": 41");
  for (int i = 0; i < 10; ++i)
    text.event("Kernel", "k", "0", "\"stream 7\"", std::to_string(1786000000000200 + 10 * i), "4",
               "\"correlation\": 0");
  const Trace trace = read(text.text());
  const TraceSummary summary = summarize(trace);
  EXPECT_EQ(summary.work, 10);
  EXPECT_EQ(summary.untimed, 1);
  EXPECT_EQ(summary.end_ns - summary.start_ns, 94'000);
  EXPECT_EQ(summary.busy_ns, 40'000);
  EXPECT_EQ(trace.streams[trace.spans.back().stream].stream_id, 7);
  EXPECT_THAT(notes_of(trace, summary), Contains(HasSubstr("1 kernel without times")));
  EXPECT_NO_THROW(refuse_if_unusable(trace, summary));
  // Its launch says where it belongs; one that no launch places could be anywhere.
  text.events.erase(text.events.begin());
  const Trace lost = read(text.text());
  EXPECT_THROW(refuse_if_unusable(lost, summarize(lost)), Error);
}

TEST_F(Traces, Trace02StepsWithMissingKernelsAreLeftOut) {
  const Trace fast = read(steps_of({0, 7, 12, 12, 12}).text());
  const TraceSummary summary = summarize(fast);
  EXPECT_EQ(summary.answered, 43);
  EXPECT_EQ(summary.launches, 60);
  const std::vector<StepWindow> windows = step_windows(fast);
  EXPECT_EQ(windows[0].incomplete, "0 of 12 launches left work on the device");
  EXPECT_EQ(windows[1].incomplete, "7 of 12 launches left work on the device");
  EXPECT_EQ(windows[2].incomplete + windows[3].incomplete, "");

  const Trace deterministic = read(steps_of({12, 12, 12, 12, 12}).text());
  const Attribution attribution = attribute({fast}, {deterministic});
  EXPECT_EQ(attribution.fast.steps, 2);
  EXPECT_EQ(attribution.deterministic.steps, 4);
  EXPECT_NEAR(attribution.step.delta_seconds, 0, 1e-12);
  for (const AttributionRow& row : attribution.rows) {
    EXPECT_EQ(row.fast_count, row.deterministic_count);
    EXPECT_EQ(row.match, KeyMatch::both);
  }
  EXPECT_THAT(attribution.notes, Contains(HasSubstr("43 of 60 launches left work on the device")));
  EXPECT_THAT(attribution.notes, Contains(HasSubstr("left out: step 0, as 0 of 12")));
  EXPECT_THAT(attribution.notes, Contains(HasSubstr("left out: step 1, as 7 of 12")));
}

TEST_F(Traces, Trace03OverlapOnOneStreamIsKept) {
  KinetoText text;
  text.event("kernel", "A", "0", "7", "1000", "10", "\"stream\": 7");
  text.event("kernel", "B", "0", "7", "1008.5", "4", "\"stream\": 7");
  text.event("kernel", "C", "0", "7", "1011", "0", "\"stream\": 7");
  const Trace trace = read(text.text());
  const TraceSummary summary = summarize(trace);
  EXPECT_EQ(summary.work, 3);
  EXPECT_EQ(summary.busy_ns, 12'500);
  EXPECT_EQ(summary.busy_sum_ns, 14'000);
  EXPECT_EQ(summary.same_stream_overlap_ns, 1'500);
  EXPECT_THAT(notes_of(trace, summary), Contains(HasSubstr("1.50 us overlap on one stream")));
  for (const StepPartition& step : partition(trace, step_windows(trace), {})) {
    EXPECT_EQ(step.window.length_ns(), 12'500);
    for (const Cell& cell : step.cells) EXPECT_GE(cell.owned_ns, 0);
  }
}

class Traces04 : public Trace_ {
 protected:
  // 50 events, of which the 30th has this name as it stands.
  std::string with_name(const std::string& name) {
    KinetoText text;
    for (int i = 1; i <= 50; ++i)
      text.kernel(i == 30 ? name : "k" + std::to_string(i), 0, 10.0 * i, 4);
    return text.text();
  }
  void expect_damage(const std::filesystem::path& path, size_t byte, const std::string& place) {
    const std::string message = refusal([&] { read_kineto(path); }, ErrorKind::config);
    EXPECT_THAT(message, HasSubstr(path.string()));
    if (byte > 0) {
      EXPECT_THAT(message, HasSubstr("at byte " + std::to_string(byte)));
    }
    EXPECT_THAT(message, HasSubstr(place));
    EXPECT_THAT(message, Not(HasSubstr("\n")));
    const Trace trace = read_kineto(path, {.step_name = "", .salvage = true});
    EXPECT_EQ(trace.losses.damaged, 1);
    EXPECT_THAT(
        notes_of(trace, summarize(trace)),
        Contains(HasSubstr(place == "in event 30" ? "49 of 50 events could be read" : "48 of 49")));
  }
};

TEST_F(Traces04, Trace04NamesThatAreNoJsonAreNamedAndTheRestIsSalvaged) {
  const std::string quotes = with_name(R"({"device": "cpu"}(12): run)");
  expect_damage(folder_.write("quotes.json", quotes), quotes.find("device\": \"cpu"),
                "in event 30");
  const std::string control = with_name("a\x01z");
  expect_damage(folder_.write("control.json", control), control.find('\x01'), "in event 30");
  const std::string backslash = with_name(R"(torch\cuda\x.py)");
  expect_damage(folder_.write("backslash.json", backslash), backslash.find("\\cuda"),
                "in event 30");
  const std::string unquoted = with_name(R"(half)");
  expect_damage(
      folder_.write("unquoted.json", std::string(unquoted).erase(unquoted.find("half\"") + 4, 1)),
      0, "in event 30");
}

TEST_F(Traces04, Trace04AFileCutOffInsideAnEventIsDamaged) {
  const std::string whole = with_name("k30");
  const std::string cut = whole.substr(0, whole.find("k49") + 40);
  expect_damage(folder_.write("cut.json", cut), cut.size(), "in event 49: the file ends early");
  expect_damage(folder_.write_gzip("cut.json.gz", cut), cut.size(),
                "in event 49: the file ends early");
}

TEST_F(Traces04, Trace04ATruncatedGzipFileIsDamaged) {
  std::string whole;
  for (int i = 0; i < 200; ++i) whole += with_name("k" + std::to_string(i * 7919 % 1009));
  whole = with_name(whole.substr(0, 0) + "k30");
  const auto path = folder_.write_gzip("whole.json.gz", whole);
  EXPECT_EQ(read_kineto(path).events, 50);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  EXPECT_THAT(refusal([&] { read_kineto(path); }, ErrorKind::config),
              HasSubstr("its gzip data end early"));
  const Trace trace = read_kineto(path, {.step_name = "", .salvage = true});
  EXPECT_GT(trace.events, 5);
  EXPECT_EQ(trace.losses.damaged, 1);
}

TEST_F(Kineto, AnEmptyObjectHoldsNoKernel) {
  const Trace trace = read("{}");
  EXPECT_EQ(trace.losses, Losses{});
  EXPECT_THAT(
      refusal([&] { refuse_if_unusable(trace, summarize(trace)); }, ErrorKind::infrastructure),
      HasSubstr("holds no kernel"));
  refusal([&] { read("{"); }, ErrorKind::config);
  refusal([&] { read("{,}"); }, ErrorKind::config);
}

TEST_F(Traces, Trace05NoDigitOfATimeIsLost) {
  KinetoText text;
  text.event("kernel", "a", "0", "7", "1786000000000000.100", "0.050", "\"stream\": 7");
  text.event("kernel", "b", "0", "7", "1786000000000000.350", "0.050", "\"stream\": 7");
  const Trace trace = read(text.text());
  EXPECT_EQ(trace.spans[1].start_ns - trace.spans[0].end_ns, 200);
  EXPECT_FALSE(trace.whole_microseconds);
}

TEST_F(Traces, Trace05RanksAreAlignedByTheirBase) {
  KinetoText text;
  text.event("kernel", "a", "0", "7", "0.100", "0.050", "\"stream\": 7");
  text.header = "\"baseTimeNanoseconds\": 1786000000000000000,\n";
  EXPECT_EQ(read(text.text()).spans[0].start_ns, 1786000000000000100);
  text.header = "\"baseTimeNanoseconds\": 1786000000000000900,\n";
  EXPECT_EQ(read(text.text()).spans[0].start_ns, 1786000000000001000);
  // A base behind the events counts as well.
  text.header.clear();
  std::string late = text.text();
  late.replace(late.find("\"traceName\": \"t\""), 16, "\"baseTimeNanoseconds\": 5000");
  EXPECT_EQ(read(late).spans[0].start_ns, 5100);
}

TEST_F(Traces, Trace05InWholeMicrosecondsNothingIsShort) {
  KinetoText text;
  text.event("kernel", "a", "0", "7", "1786000000000000", "0", "\"stream\": 7");
  const Trace trace = read(text.text());
  EXPECT_TRUE(trace.whole_microseconds);
  EXPECT_THAT(notes_of(trace, summarize(trace)),
              Contains(HasSubstr("a duration of 0 is one under 1 us")));
}

// The most memory that `body` made the process hold beyond what it held before.
int64_t peak_growth_kib(const std::function<void()>& body) {
  const auto status_kib = [](const std::string& key) {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;) {
      int64_t kib = 0;
      if (word == key && status >> kib) return kib;
    }
    return int64_t{-1};
  };
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak counts from here on
  const int64_t before = status_kib("VmRSS:");
  body();
  return status_kib("VmHWM:") - before;
}

TEST_F(Traces, Trace06MemoryGoesToSpansAndNotToText) {
  const auto path = folder_.path() / "frames.json";
  {
    std::ofstream file(path);
    file << "{\"traceEvents\": [\n";
    const std::string frame = R"({"ph": "X", "cat": "python_function", "name": ")" +
                              std::string(400, 'f') +
                              R"(", "pid": 1, "tid": 1, "ts": 1, "dur": 1, "args": {}},)" + "\n";
    for (int i = 0; i < 120'000; ++i) file << frame;
    file
        << R"({"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 2, "args": {"stream": 7}}]})";
  }
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(path));
  EXPECT_GT(bytes, 50'000'000);
  EXPECT_LT(peak_growth_kib([&] {
              const Trace trace = read_kineto(path);
              EXPECT_EQ(trace.events, 120'001);
              EXPECT_EQ(trace.spans.size(), 1U);
              EXPECT_LT(trace.names.size(), 5U);
            }),
            10'000);
  // A reader that held the text would be seen.
  EXPECT_GT(peak_growth_kib([&] {
              std::string text(static_cast<size_t>(bytes), ' ');
              std::ifstream(path).read(text.data(), bytes);
              EXPECT_EQ(text.back(), '}');
            }),
            bytes / 1024 - 10'000);
}

TEST_F(Traces, Trace07NoKernelsAreAnErrorAndNoEmptyAttribution) {
  const Trace blind = read(steps_of({0, 0, 0}).text()), good = read(steps_of({12, 12, 12}).text());
  EXPECT_THAT(refusal([&] { attribute({good}, {blind}); }, ErrorKind::infrastructure),
              HasSubstr("36 launches and no kernel"));
  EXPECT_THAT(refusal([&] { attribute({blind}, {good}); }, ErrorKind::infrastructure),
              HasSubstr("no kernel"));
}

TEST_F(Traces, Trace07DroppedRecordsAreAnError) {
  KinetoText text = steps_of({12, 12, 12});
  text.header +=
      R"("dettax": {"version": 1, "kind": "device", "host": "", "streams": [], "losses": {"dropped": 5, "untimed": 0, "told": "buffers full"}},)";
  const Trace lossy = read(text.text()), good = read(steps_of({12, 12, 12}).text());
  EXPECT_THAT(refusal([&] { attribute({good}, {lossy}); }, ErrorKind::infrastructure),
              HasSubstr("lost 5 records (buffers full)"));
}

TEST_F(Traces, Trace07TimeThatNothingIsKnownOfIsPrintedAndLimited) {
  KinetoText known = steps_of({12, 12, 12}), strange = steps_of({12, 12, 12});
  for (int step = 0; step < 3; ++step) {
    // Launched outside of any operation, under a name that says nothing.
    strange.launch(1000 + step, 400 * step + 300, 4);
    strange.kernel("mystery", 1000 + step, 400 * step + 310, 3);
  }
  const Trace fast = read(known.text()), odd = read(strange.text());
  const Attribution attribution = attribute({fast}, {odd});
  EXPECT_NEAR(attribution.unmapped.delta_seconds, 3e-6, 1e-12);
  EXPECT_NEAR(attribution.deterministic.unmapped_ratio, 3.0 / 400, 1e-9);
  AttributionOptions strict;
  strict.unmapped_ratio_max = 0.005;
  EXPECT_THAT(refusal([&] { attribute({fast}, {odd}, strict); }, ErrorKind::infrastructure),
              HasSubstr("0.8 % of the step time"));
}

TEST_F(Traces, Trace07KernelsOfGraphsCountAndMissingOnesAreNoticed) {
  const auto graphs = [](bool kernels) {
    KinetoText text;
    for (int step = 0; step < 3; ++step) {
      text.step(step, 400 * step, 400);
      text.work("aten::mm", "gemm", 400 * step + 1, 400 * step + 20, 10);
      text.op("graph_replay", 400 * step + 30, 20);
      text.launch(100 + step, 400 * step + 31, 10, "cudaGraphLaunch");
      for (int k = 0; k < 3 && kernels; ++k)
        text.event("kernel", "in_graph", "0", "7", KinetoText::number(400 * step + 50 + 10 * k),
                   "8",
                   fmt::format(
                       "\"stream\": 7, \"correlation\": {}, \"graph id\": 1, \"graph node id\": {}",
                       100 + step, k));
    }
    return text.text();
  };
  const Trace whole = read(graphs(true)), blind = read(graphs(false));
  const Attribution attribution = attribute({whole}, {whole});
  EXPECT_EQ(attribution.fast.steps, 2);
  EXPECT_THAT(attribution.rows, Contains(testing::Truly([](const AttributionRow& row) {
                return row.path == "graph_replay" && row.fast_count == 3 &&
                       std::abs(row.time.fast_seconds - 24e-6) < 1e-12;
              })));
  EXPECT_THAT(refusal([&] { attribute({whole}, {blind}); }, ErrorKind::infrastructure),
              HasSubstr("no step is complete"));
}

TEST_F(Traces, Trace07ManyRanksWithoutCommunicationAreNoted) {
  KinetoText text = steps_of({12, 12, 12});
  text.header += R"("distributedInfo": {"rank": 0, "world_size": 8},)";
  const Trace trace = read(text.text());
  EXPECT_THAT(attribute({trace}, {trace}).notes,
              Contains(HasSubstr("no work in it is known to communicate")));
}

// Steps of one large product, `fills` fills and a scatter, back to back on the device.
std::string filling_loop(int fills, double scatter_us) {
  KinetoText text;
  double begin = 0;
  for (int step = 0; step < 5; ++step) {
    const double length = 100 + 200'000 + 6.5 * fills + scatter_us;
    text.step(step, begin, length);
    double time = begin + 100;
    text.work("aten::mm", "gemm", begin + 1, time, 200'000);
    time += 200'000;
    for (int i = 0; i < fills; ++i, time += 6.5)
      text.work("aten::empty",
                "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>",
                begin + 10 + 7 * i, time, 6.5);
    text.work("aten::scatter_add_", scatter_us > 5000 ? "sort_and_add" : "scatter_atomic",
              begin + 50'000, time, scatter_us);
    begin += length;
  }
  return text.text();
}

TEST_F(Traces, Overhead01FillsOfFreshMemoryAreTheFirstCause) {
  const Attribution attribution =
      attribute({read(filling_loop(0, 4000))}, {read(filling_loop(2600, 7000))});
  EXPECT_NEAR(attribution.step.delta_seconds, 19.9e-3, 1e-9);
  const MechanismRow& first = attribution.mechanisms[0];
  EXPECT_EQ(first.mechanism, Mechanism::memory_fill);
  EXPECT_NEAR(first.time.delta_seconds, 16.9e-3, 1e-9);
  EXPECT_EQ(first.fast_count, 0);
  EXPECT_DOUBLE_EQ(first.deterministic_count, 2600);
  EXPECT_EQ(attribution.rows[0].path, "aten::empty");
  EXPECT_EQ(attribution.rows[0].match, KeyMatch::deterministic_only);
  const AttributionRow& scatter = attribution.rows[1];
  EXPECT_EQ(scatter.path, "aten::scatter_add_");
  EXPECT_NEAR(scatter.time.delta_seconds, 3e-3, 1e-9);
  EXPECT_EQ(scatter.fast_work, "scatter_atomic");
  EXPECT_EQ(scatter.deterministic_work, "sort_and_add");
  EXPECT_THAT(attribution.advice,
              ElementsAre(testing::AllOf(HasSubstr("16.9 ms"), HasSubstr("memory_fill"),
                                         HasSubstr("no order of summation"))));
}

}  // namespace
}  // namespace dettax
