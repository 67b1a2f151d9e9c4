// Slow-downs of known size are put into real steps, whose ranks are threads of this process, and must come out in the right row with the
// right size. They are long against what a busy machine does to a step of a millisecond; where it does worse, the steps are taken again.
#include <chrono>
#include <cmath>
#include <functional>
#include <mutex>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/launch/rank_pool.h"
#include "harness/launch/step_recorder.h"
#include "profiles/attribution.h"
#include "tests/launch/support.h"

namespace dettax {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::TemporaryFolder;
using testing::tiny_suite;

constexpr int kRounds = 3;
constexpr int kStepsABlock = 2;
constexpr int kTries = 5;
constexpr double kMs = 1e-3;

// One arm: its ranks, and what they recorded.
class RecordedArm {
 public:
  explicit RecordedArm(const ArmSpec& spec, double gap_seconds = 0)
      : gap_seconds_(gap_seconds), pool_(spec, page_) {
    pool_.run([&](RankContext& rank) {
      rank.train->reset(spec.planned.seed);
      StepSize size;
      rank.delays->listen(*rank.train, &size);
      rank.train->step();
      rank.recorder = std::make_unique<StepRecorder>(rank.rank, spec.planned.layout.ranks(),
                                                     kRounds * kStepsABlock, size);
      rank.delays->listen(*rank.train, rank.recorder.get());
    });
    before_ = totals();
  }

  void run_block() {
    pool_.run([&](RankContext& rank) {
      rank.recorder->begin_block();
      rank.communicator->barrier();
      for (int i = 0; i < kStepsABlock; ++i) {
        rank.recorder->begin_step();
        rank.train->step();
        std::this_thread::sleep_for(std::chrono::duration<double>(gap_seconds_));
        rank.recorder->end_step();
      }
    });
  }

  std::vector<Trace> take() {
    std::vector<Trace> traces(static_cast<size_t>(pool_.size()));
    pool_.run([&](RankContext& rank) { traces[rank.index] = rank.recorder->take(); });
    return traces;
  }

  // As the parts themselves counted, a step and rank.
  double fill_seconds() { return per_step(totals().fill_ns - before_.fill_ns); }
  double delay_seconds() { return per_step(totals().delay_ns - before_.delay_ns); }
  double exposed_seconds() { return per_step(totals().exposed_ns - before_.exposed_ns); }

 private:
  struct Totals {
    int64_t fill_ns = 0, delay_ns = 0, exposed_ns = 0;
  };
  Totals totals() {
    Totals totals;
    std::mutex mutex;
    pool_.run([&](RankContext& rank) {
      const Mesh& mesh = rank.train->mesh();
      const std::lock_guard lock(mutex);
      totals.fill_ns += rank.train->fills().time_ns;
      totals.delay_ns += rank.delays->delayed_ns();
      for (const Communicator* group : {&mesh.replicas(), &mesh.world(), &mesh.model()})
        totals.exposed_ns += group->stats().exposed_ns;
    });
    return totals;
  }
  double per_step(int64_t ns) const {
    return 1e-9 * static_cast<double>(ns) / (kRounds * kStepsABlock * pool_.size());
  }

  double gap_seconds_;
  StatusPage page_ = StatusPage::create();
  RankPool pool_;
  Totals before_;
};

double delta_of(const Attribution& attribution, Mechanism mechanism) {
  for (const MechanismRow& row : attribution.mechanisms)
    if (row.mechanism == mechanism) return row.time.delta_seconds;
  return 0;
}

// Empty if the time is within a tenth of what was put in, or holds it in its interval.
std::string miss(const AttributedTime& time, double seconds, const std::string& what) {
  const bool near = std::abs(time.delta_seconds - seconds) <= 0.1 * seconds;
  const bool inside = time.delta && time.delta->low <= seconds && seconds <= time.delta->high;
  if (near || inside) return "";
  return what + " is " + std::to_string(time.delta_seconds) + " s longer, " +
         std::to_string(seconds) + " s were put in\n";
}

std::string miss(const Attribution& attribution, const std::string& path, Mechanism mechanism,
                 double seconds) {
  const std::string what = path + ", " + std::string(key_of(mechanism));
  for (const AttributionRow& row : attribution.rows)
    if (row.path == path && row.mechanism == mechanism) return miss(row.time, seconds, what);
  return "no row " + what + "\n";
}

std::string miss(const Attribution& attribution, Mechanism mechanism, double seconds) {
  for (const MechanismRow& row : attribution.mechanisms)
    if (row.mechanism == mechanism) return miss(row.time, seconds, std::string(key_of(mechanism)));
  return "no row " + std::string(key_of(mechanism)) + "\n";
}

class RecordedCauses : public ::testing::Test {
 protected:
  RecordedCauses() {
    const Suite suite = tiny_suite(folder_.path(), "  - {}\n");
    fast_ = slowed_ = {"fast", suite.cases.at(0), suite.fast};
    fast_.mode.knobs.overlap = slowed_.mode.knobs.overlap = false;
    slowed_.arm = "slowed";
  }

  void on_layout(const Layout& layout) {
    fast_.planned.layout = slowed_.planned.layout = layout;
    fast_.planned.topology.ranks_per_node = slowed_.planned.topology.ranks_per_node =
        layout.ranks();
  }

  static void delay(ArmSpec& spec, int rank, const std::string& op, double seconds) {
    Injection injection;
    injection.kind = "delay";
    injection.rank = rank;
    injection.op = op;
    injection.seconds = seconds;
    spec.planned.injections.push_back(injection);
  }

  // What is missed of the causes, in the best of some tries; each takes all steps anew.
  using Misses =
      std::function<std::string(const Attribution&, RecordedArm& fast, RecordedArm& slowed)>;
  std::string misses(const Misses& missed) {
    std::string all;
    for (int i = 0; i < kTries; ++i) {
      RecordedArm fast(fast_), slowed(slowed_, gap_seconds_);
      const Attribution attribution = attribute(fast, slowed);
      const std::string now = missed(attribution, fast, slowed);
      if (now.empty()) return "";
      all += now;
    }
    return all;
  }

  static Attribution attribute(RecordedArm& fast, RecordedArm& slowed) {
    for (int round = 0; round < kRounds; ++round) {
      fast.run_block();
      slowed.run_block();
    }
    return dettax::attribute(fast.take(), slowed.take());
  }

  TemporaryFolder folder_;
  ArmSpec fast_, slowed_;
  double gap_seconds_ = 0;
};

TEST_F(RecordedCauses, FindsASlowerOp) {
  for (const int rank : {0, 1}) delay(slowed_, rank, "backward/layer1/attention", 30 * kMs);
  EXPECT_EQ(misses([](const Attribution& found, auto&, auto&) {
              return miss(found, "backward/layer1/attention", Mechanism::compute, 30 * kMs) +
                     miss(found.step, 30 * kMs, "the step");
            }),
            "");
}

TEST_F(RecordedCauses, FindsASlowerCollective) {
  // Rank 0 is slow within it, and the other cannot go on without its part.
  delay(slowed_, 0, "reduce/bucket", 30 * kMs);
  EXPECT_EQ(misses([](const Attribution& found, auto&, auto&) {
              return miss(found, "reduce/bucket", Mechanism::communication_transfer, 30 * kMs) +
                     miss(found.step, 30 * kMs, "the step");
            }),
            "");
}

TEST_F(RecordedCauses, FindsASlowRankAndWhoWaitsForIt) {
  delay(slowed_, 0, "backward/layer1/attention", 40 * kMs);
  EXPECT_EQ(misses([](const Attribution& found, auto&, auto&) {
              return miss(found, "backward/layer1/attention", Mechanism::compute, 20 * kMs) +
                     miss(found, "reduce/bucket", Mechanism::communication_wait, 20 * kMs) +
                     miss(found.step, 40 * kMs, "the step");
            }),
            "");
}

TEST_F(RecordedCauses, FindsTwoCausesAtOnce) {
  delay(slowed_, 0, "forward/layer0/attention", 40 * kMs);
  delay(slowed_, 0, "reduce/bucket", 30 * kMs);
  EXPECT_EQ(misses([](const Attribution& found, auto&, auto&) {
              return miss(found, "forward/layer0/attention", Mechanism::compute, 20 * kMs) +
                     miss(found, "reduce/bucket", Mechanism::communication_wait, 20 * kMs) +
                     miss(found, "reduce/bucket", Mechanism::communication_transfer, 30 * kMs);
            }),
            "");
}

TEST_F(RecordedCauses, ACauseThatWasNotPutInIsNotFound) {
  delay(slowed_, 0, "backward/layer1/attention", 40 * kMs);
  RecordedArm fast(fast_), slowed(slowed_);
  const Attribution found = attribute(fast, slowed);
  EXPECT_NE(miss(found, "backward/layer0/attention", Mechanism::compute, 20 * kMs), "");
}

TEST_F(RecordedCauses, FindsAFillOfEachBuffer) {
  slowed_.mode.knobs.memory_fill = true;
  for (const int rank : {0, 1}) delay(slowed_, rank, "forward/memory_fill", 20 * kMs);
  EXPECT_EQ(misses([](const Attribution& found, auto&, RecordedArm& slowed) {
              return miss(found, Mechanism::memory_fill,
                          slowed.delay_seconds() + slowed.fill_seconds());
            }),
            "");
}

TEST_F(RecordedCauses, FindsALaunchGap) {
  gap_seconds_ = 30 * kMs;
  EXPECT_EQ(misses([](const Attribution& found, auto&, auto&) {
              return miss(found, Mechanism::idle_host, 30 * kMs);
            }),
            "");
}

// Each layer's weights come and its gradients go over a slow link, beside the layer that is computed meanwhile.
TEST_F(RecordedCauses, FindsALostOverlap) {
  Layout layout{.dp = 2};
  layout.zero_stage = 3;
  on_layout(layout);
  for (ArmSpec* spec : {&fast_, &slowed_}) {
    Topology& topology = spec->planned.topology;
    topology.nodes = 2;
    topology.ranks_per_node = 1;
    topology.inter_node.latency_seconds = 8 * kMs;
    for (const int rank : {0, 1}) {
      for (const char* op : {"forward/layer0/attention", "forward/layer1/attention",
                             "backward/layer0/attention", "backward/layer1/attention"})
        delay(*spec, rank, op, 10 * kMs);
    }
  }
  fast_.mode.knobs.overlap = true;
  EXPECT_EQ(misses([](const Attribution& found, RecordedArm& fast, RecordedArm& slowed) {
              const double lost = slowed.exposed_seconds() - fast.exposed_seconds();
              if (lost < 10 * kMs) return std::string("nothing was lost\n");
              double exposed = 0, hidden = 0;
              for (const AttributionRow& row : found.rows) {
                if (row.mechanism != Mechanism::communication_wait &&
                    row.mechanism != Mechanism::communication_transfer)
                  continue;
                exposed += row.time.delta_seconds;
                hidden -= row.hidden_delta_seconds;
              }
              std::string missed = miss({0, 0, exposed, {}}, lost, "exposed communication");
              if (hidden < lost / 2) missed += "it was not hidden before\n";
              if (std::abs(delta_of(found, Mechanism::compute)) > lost / 4)
                missed += "compute changed as well\n";
              return missed;
            }),
            "");
}

TEST_F(RecordedCauses, ARankWaitsForAMessageUntilItIsSent) {
  on_layout({.pp = 2});
  delay(slowed_, 0, "forward/layer0/attention", 40 * kMs);
  const double passes = static_cast<double>(fast_.planned.micro_batches());
  EXPECT_EQ(misses([&](const Attribution& found, auto&, auto&) {
              return miss(found, "forward/layer0/attention", Mechanism::compute,
                          passes * 20 * kMs) +
                     miss(found, Mechanism::communication_wait, passes * 20 * kMs);
            }),
            "");
}

TEST_F(RecordedCauses, OnEveryLayoutExposedCommunicationIsSplit) {
  Layout sequence_parallel{.tp = 2};
  sequence_parallel.sequence_parallel = true;
  for (const bool overlap : {false, true}) {
    for (const Layout& layout : {Layout{.dp = 2}, sequence_parallel, Layout{.pp = 2},
                                 Layout{.cp = 2}, Layout{.dp = 2, .tp = 2}}) {
      on_layout(layout);
      fast_.mode.knobs.overlap = overlap;
      RecordedArm arm(fast_);
      arm.run_block();
      const std::vector<Trace> traces = arm.take();
      const Attribution found = dettax::attribute(traces, traces);
      EXPECT_THAT(found.notes, Not(Contains(HasSubstr("not split")))) << to_string(layout);
      double split = 0;
      for (const MechanismRow& row : found.mechanisms) {
        EXPECT_NE(row.mechanism, Mechanism::communication_unsplit) << to_string(layout);
        if (row.mechanism == Mechanism::communication_transfer) split += row.time.fast_seconds;
      }
      EXPECT_GT(split, 0) << to_string(layout);
    }
  }
}

}  // namespace
}  // namespace dettax
