// What is written must read back the same, and must not have what other tools stumble over.
#include "profiles/export/chrome_export.h"

#include <algorithm>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/base/error.h"
#include "profiles/attribution.h"
#include "profiles/host_recorder.h"
#include "profiles/import/kineto.h"
#include "tests/profiles/files.h"
#include "tests/profiles/resolved.h"
#include "tests/profiles/simulation.h"

namespace dettax {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Json = nlohmann::json;

std::string chrome_text(const Trace& trace) {
  std::ostringstream out;
  write_chrome_trace(out, trace);
  return out.str();
}

// All kinds of spans that a device's trace has.
Trace device_trace() {
  SimulatedLoop loop;
  loop.fill_ns = 6'500;
  Trace trace = simulate(loop)[0];
  const auto add = [&](const char* name, Category category, uint32_t stream, int64_t at,
                       uint64_t correlation, int64_t bytes) {
    Span span{.start_ns = trace.steps[0].start_ns + at,
              .bytes = bytes,
              .correlation = correlation,
              .stream = stream,
              .category = category};
    span.end_ns = span.start_ns + 777;
    span.name = trace.names.intern(name);
    trace.spans.push_back(span);
  };
  add("Memcpy HtoD (Pinned -> Device)", Category::copy, 1, 40'000, 900, 4096);
  add("cudaMemcpyAsync", Category::launch, 0, 39'000, 900, 0);
  add("Memset (Device)", Category::memset, 1, 50'000, 901, 512);
  add("cuMemsetD8Async", Category::launch, 0, 49'000, 901, 0);
  add("Buffer Flush", Category::profiler, 0, 60'000, 0, 0);
  add("cudaMalloc", Category::allocate, 0, 61'000, 0, 0);
  add("cudaGetLastError", Category::api, 0, 63'000, 0, 0);
  add("quote \" backslash \\ tab \t", Category::annotation, 0, 1, 0, 0);
  trace.losses = {2, 1, 0, "told"};
  sort_spans(trace);
  assign_paths(trace);
  return trace;
}

// A rank on two threads; the clock is a counter, so that every time is known.
Trace host_trace() {
  static int64_t clock;
  clock = 1'786'000'000'000'000'000;
  HostRecorder recorder(
      {.threads = {"rank", "progress"}, .spans_per_thread = 100, .steps = 8, .now_ns = [] {
         return clock += 10;
       }});
  HostLane& lane = recorder.lane(0);
  for (int step = 4; step < 7; ++step) {
    recorder.begin_step(step);
    for (int micro = 0; micro < 2; ++micro)
      lane.enter(lane.text_of("forward/layer0/attention"), Category::compute);
    lane.enter(lane.text_of("forward/memory_fill"), Category::fill, 1 << 20);
    lane.enter(lane.text_of("reduce/bucket"), Category::compute);
    const int64_t since = lane.leave();
    lane.add_part(lane.text_of("reduce/bucket"),
                  {lane.text_of("all_reduce"), lane.text_of("dp"), step, 2, 64}, since,
                  lane.time_ns(), false);
    lane.resume(lane.text_of("reduce/bucket"), Category::compute, clock);
    recorder.lane(1).add(recorder.lane(1).text_of("reduce/bucket"), Category::communication,
                         clock - 5, clock + 30);
    lane.leave();
    lane.enter(lane.text_of("optimizer/copy"), Category::copy);
    lane.leave();
    recorder.end_step();
  }
  Trace trace = recorder.take();
  trace.host = "node";
  trace.rank = 3;
  trace.world_size = 4;
  return trace;
}

class ChromeExport : public testing::TestWithParam<Trace (*)()> {
 protected:
  TestFolder folder_;
};

TEST_P(ChromeExport, ReadsBackTheSame) {
  const Trace trace = GetParam()();
  const Trace again = read_kineto(folder_.write("trace.json", chrome_text(trace)));
  EXPECT_EQ(again.kind, trace.kind);
  EXPECT_EQ(again.host, trace.kind == TraceKind::host ? trace.host : again.host);
  EXPECT_EQ(again.rank, trace.rank);
  EXPECT_EQ(again.world_size, trace.world_size);
  EXPECT_EQ(again.steps, trace.steps);
  EXPECT_EQ(again.losses, trace.losses);
  EXPECT_EQ(resolved(again), resolved(trace));
}

TEST_P(ChromeExport, ATraceThatWasChangedDoesNotReadBackTheSame) {
  const Trace trace = GetParam()();
  Trace other = trace;
  other.spans[other.spans.size() / 2].end_ns += 1;
  EXPECT_NE(resolved(read_kineto(folder_.write("trace.json", chrome_text(other)))),
            resolved(trace));
}

TEST_P(ChromeExport, IsStrictJsonWithTheKeysThatToolsLookFor) {
  const Json json = Json::parse(chrome_text(GetParam()()));
  for (const char* key : {"schemaVersion", "deviceProperties", "distributedInfo", "displayTimeUnit",
                          "baseTimeNanoseconds", "traceEvents", "traceName"})
    EXPECT_TRUE(json.contains(key)) << key;
  for (const Json& event : json["traceEvents"]) {
    for (const char* key : {"ph", "name", "pid", "tid", "ts"})
      EXPECT_TRUE(event.contains(key)) << event;
    if (event["ph"] == "X") {
      EXPECT_TRUE(event.contains("dur") && event.contains("cat") && event.contains("args"))
          << event;
    }
  }
}

TEST_P(ChromeExport, HasNothingThatToolsStumbleOver) {
  const std::string text = chrome_text(GetParam()());
  EXPECT_THAT(text, HasSubstr("\"rank\": "));  // read by a pattern that wants the space
  EXPECT_LT(text.find("distributedInfo"), text.find("traceEvents"));
  const Json json = Json::parse(text);
  std::set<int64_t> launches;
  int steps = 0;
  for (const Json& event : json["traceEvents"]) {
    if (event.value("cat", "") == "cuda_runtime" || event.value("cat", "") == "cuda_driver")
      launches.insert(event["args"].value("correlation", int64_t{0}));
    steps += event["name"].get<std::string>().starts_with("ProfilerStep#") ? 1 : 0;
  }
  EXPECT_GT(steps, 1);
  for (const Json& event : json["traceEvents"]) {
    EXPECT_LT(event["ts"].get<double>(), 1e9) << event;  // relative to the base
    const std::string category = event.value("cat", "");
    if (category != "kernel" && category != "gpu_memcpy" && category != "gpu_memset") continue;
    EXPECT_GT(event["args"]["stream"].get<int>(), 0) << event;
    EXPECT_EQ(event["tid"], event["args"]["stream"]);
    EXPECT_TRUE(launches.contains(event["args"]["correlation"].get<int64_t>())) << event;
    if (event["args"].contains("Collective name")) {
      EXPECT_TRUE(event["name"].get<std::string>().starts_with("nccl")) << event;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Both, ChromeExport, testing::Values(&device_trace, &host_trace),
                         [](const auto& parameter) {
                           return parameter.index == 0 ? "Device" : "Host";
                         });

TEST(ChromeExportOf, AStreamZeroMovesToAFreeOne) {
  Trace trace;
  trace.streams = {{"0", "0", true, 0, 0}, {"0", "7", true, 0, 7}};
  trace.names.intern("k");
  trace.spans = {{.start_ns = 5, .end_ns = 6, .name = 1, .stream = 0},
                 {.start_ns = 7, .end_ns = 8, .name = 1, .stream = 1}};
  const Json json = Json::parse(chrome_text(trace));
  std::vector<int> streams;
  for (const Json& event : json["traceEvents"]) {
    if (event["ph"] == "X") streams.push_back(event["tid"].get<int>());
  }
  EXPECT_THAT(streams, ElementsAre(8, 7));
}

TEST(ChromeExportOf, ATraceOfTheHostClosesItsLastStep) {
  const Json json = Json::parse(chrome_text(host_trace()));
  std::vector<std::string> steps;
  for (const Json& event : json["traceEvents"]) {
    const std::string name = event["name"].get<std::string>();
    if (name.starts_with("ProfilerStep#")) steps.push_back(name);
  }
  EXPECT_THAT(steps,
              ElementsAre("ProfilerStep#4", "ProfilerStep#5", "ProfilerStep#6", "ProfilerStep#7"));
}

TEST(ChromeExportOf, AnExportedTraceIsAttributedAsTheOriginal) {
  TestFolder folder;
  const Trace trace = host_trace();
  const Trace again = read_kineto(folder.write("trace.json", chrome_text(trace)));
  const Attribution attribution = attribute({trace}, {again});
  EXPECT_EQ(attribution.fast.steps, 3);
  EXPECT_EQ(attribution.step.delta_seconds, 0);
  for (const AttributionRow& row : attribution.rows) EXPECT_EQ(row.time.delta_seconds, 0);
}

TEST(ChromeExportOf, ATraceOfTheHostWhoseStreamsAreMissingIsRefused) {
  TestFolder folder;
  std::string text = chrome_text(host_trace());
  text.replace(text.find("\"streams\":["),
               std::string("\"streams\":[{\"process\":\"rank\",\"thread\":\"rank\"},").size(),
               "\"streams\":[");
  EXPECT_THROW(read_kineto(folder.write("trace.json", text)), Error);
}

class CutOff : public testing::Test {
 protected:
  // Cut inside the first kernel's event of this step (of 4, 5, 6).
  Trace salvaged(size_t step) {
    const Trace whole = host_trace();
    std::string text = chrome_text(whole);
    const auto before = std::ranges::count_if(whole.spans, [&](const Span& span) {
      return span.start_ns < whole.steps[step].start_ns && is_work(span.category) &&
             span.category != Category::copy;
    });
    size_t at = 0;
    for (int64_t i = 0; i < before + 1; ++i) at = text.find("\"cat\": \"kernel\"", at + 1);
    EXPECT_NE(at, std::string::npos);
    const auto path = folder_.write("cut.json", text.substr(0, at + 20));
    return read_kineto(path, {.step_name = "", .salvage = true});
  }
  TestFolder folder_;
};

TEST_F(CutOff, StepsOfTheHostBehindTheCutAreLeftOutAndNoted) {
  const Attribution whole = attribute({host_trace()}, {host_trace()});
  const Attribution cut = attribute({host_trace()}, {salvaged(2)});
  EXPECT_EQ(whole.deterministic.steps, 3);
  EXPECT_LT(cut.deterministic.steps, 3);
  EXPECT_GT(cut.deterministic.steps, 0);
  EXPECT_THAT(cut.notes, testing::Contains(HasSubstr("the file was cut off before its end")));
  EXPECT_NEAR(cut.step.delta_seconds, 0, 2e-8);
}

TEST_F(CutOff, WithoutAWholeStepNothingIsAttributed) {
  try {
    attribute({host_trace()}, {salvaged(0)});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::infrastructure) << error.what();
  }
}

}  // namespace
}  // namespace dettax
