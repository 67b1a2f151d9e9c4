#include "harness/plan/pipeline_schedule.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

namespace dettax {
namespace {

using Stages = std::vector<std::vector<PipelineAction>>;

Layout layout_of(int pp, int vp, PipelineSchedule schedule) {
  Layout layout;
  layout.pp = pp;
  layout.vp = vp;
  layout.schedule = schedule;
  return layout;
}

Stages all_stages(const Layout& layout, int64_t micro_batches) {
  Stages stages;
  for (int s = 0; s < layout.pp; ++s) stages.push_back(pipeline_schedule(layout, s, micro_batches));
  return stages;
}

struct Pipeline {
  Layout layout;
  int64_t micro_batches;
};

std::vector<Pipeline> pipelines() {
  std::vector<Pipeline> all;
  for (const int pp : {1, 2, 3, 4, 8}) {
    for (const int64_t m : {1, 2, 5, 8, 24}) {
      all.push_back({layout_of(pp, 1, PipelineSchedule::gpipe), m});
      all.push_back({layout_of(pp, 1, PipelineSchedule::one_f_one_b), m});
    }
    for (const int vp : {2, 3}) {
      for (const int64_t groups : {1, 2, 3}) {
        if (pp > 1) all.push_back({layout_of(pp, vp, PipelineSchedule::interleaved), groups * pp});
      }
    }
  }
  return all;
}

// Runs a pipeline whose forward passes take 1 and backward passes 2 units, each stage its list in order, each action when its input
// is there; sending takes no time. With `gradient_buffers` a stage begins a backward pass only when the gradient that many passes
// before it has been taken by its receiver, whose own pass with it has begun. Nothing if they wait for each other.
class Simulation {
 public:
  Simulation(const Layout& layout, const Stages& stages, std::optional<int64_t> gradient_buffers)
      : layout_(layout),
        stages_(stages),
        buffers_(gradient_buffers),
        next_(stages.size(), 0),
        free_at_(stages.size(), 0),
        sent_(stages.size()) {}

  std::optional<double> total_time() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int s = 0; s < layout_.pp; ++s) {
        while (try_next(s)) moved = true;
      }
    }
    double end = 0;
    for (size_t s = 0; s < stages_.size(); ++s) {
      if (next_[s] < stages_[s].size()) return std::nullopt;
      end = std::max(end, free_at_[s]);
    }
    return end;
  }

 private:
  using Pass = std::tuple<bool, int64_t, int>;  // backward, micro-batch, chunk of the whole model

  int whole_chunk(int stage, const PipelineAction& a) const { return a.chunk * layout_.pp + stage; }

  // What must be done before.
  std::optional<Pass> input_of(int stage, const PipelineAction& a) const {
    const int chunk = whole_chunk(stage, a);
    const int last = layout_.pp * layout_.vp - 1;
    if (!a.backward && chunk == 0) return std::nullopt;
    if (a.backward && chunk == last) return Pass{false, a.micro_batch, chunk};
    return Pass{a.backward, a.micro_batch, a.backward ? chunk + 1 : chunk - 1};
  }

  bool memory_is_free(size_t stage, const PipelineAction& a) const {
    const auto& sent = sent_[stage];
    if (!buffers_ || !a.backward || std::ssize(sent) < *buffers_) return true;
    const std::optional<Pass>& taken = sent[sent.size() - static_cast<size_t>(*buffers_)];
    return !taken || ends_.contains(*taken);
  }

  bool try_next(int s) {
    const auto stage = static_cast<size_t>(s);
    if (next_[stage] == stages_[stage].size()) return false;
    const PipelineAction& a = stages_[stage][next_[stage]];
    const auto input = input_of(s, a);
    if (!memory_is_free(stage, a) || (input && !ends_.contains(*input))) return false;
    const double start = std::max(free_at_[stage], input ? ends_.at(*input) : 0);
    free_at_[stage] = start + (a.backward ? 2 : 1);
    const int chunk = whole_chunk(s, a);
    ends_[{a.backward, a.micro_batch, chunk}] = free_at_[stage];
    if (a.backward)
      sent_[stage].push_back(chunk == 0 ? std::optional<Pass>()
                                        : Pass{true, a.micro_batch, chunk - 1});
    ++next_[stage];
    return true;
  }

  const Layout& layout_;
  const Stages& stages_;
  const std::optional<int64_t> buffers_;
  std::vector<size_t> next_;
  std::vector<double> free_at_;
  std::vector<std::vector<std::optional<Pass>>> sent_;
  std::map<Pass, double> ends_;
};

TEST(PipelineSchedule, DoesEachPassOnceAndForwardBeforeBackward) {
  for (const auto& [layout, micro_batches] : pipelines()) {
    for (const auto& actions : all_stages(layout, micro_batches)) {
      std::map<std::pair<int64_t, int>, int> forward, backward;
      for (const PipelineAction& a : actions) {
        const std::pair key{a.micro_batch, a.chunk};
        if (a.backward) {
          EXPECT_EQ(forward[key], 1);
        }
        ++(a.backward ? backward : forward)[key];
      }
      EXPECT_EQ(std::ssize(actions), 2 * micro_batches * layout.vp);
      EXPECT_EQ(std::ssize(forward), micro_batches * layout.vp);
      EXPECT_EQ(forward, backward);
    }
  }
}

TEST(PipelineSchedule, KeepsMicroBatchesOfAChunkInOrder) {
  for (const auto& [layout, micro_batches] : pipelines()) {
    for (const auto& actions : all_stages(layout, micro_batches)) {
      std::map<std::pair<bool, int>, int64_t> next;
      for (const PipelineAction& a : actions)
        EXPECT_EQ(a.micro_batch, (next[{a.backward, a.chunk}]++));
    }
  }
}

// So that a message that was sent first is needed first.
TEST(PipelineSchedule, AllStagesPassTheSameSequence) {
  for (const auto& [layout, micro_batches] : pipelines()) {
    const Stages stages = all_stages(layout, micro_batches);
    for (const bool backward : {false, true}) {
      const auto only = [&](std::vector<PipelineAction> actions) {
        std::erase_if(actions, [&](const PipelineAction& a) { return a.backward != backward; });
        return actions;
      };
      for (const auto& actions : stages) EXPECT_EQ(only(actions), only(stages.front()));
    }
  }
}

TEST(PipelineSchedule, RunsToItsEndAlsoWithThreeBuffersForGradients) {
  for (const auto& [layout, micro_batches] : pipelines()) {
    const Stages stages = all_stages(layout, micro_batches);
    const auto unlimited = Simulation(layout, stages, std::nullopt).total_time();
    ASSERT_TRUE(unlimited.has_value()) << to_string(layout) << " m" << micro_batches;
    EXPECT_EQ(Simulation(layout, stages, 3).total_time(), unlimited)
        << to_string(layout) << " m" << micro_batches;
  }
}

// The twin: a stage that does things in another order waits for ever.
TEST(PipelineSchedule, AWrongOrderWouldBeSeenToHang) {
  const Layout layout = layout_of(2, 1, PipelineSchedule::one_f_one_b);
  Stages stages = all_stages(layout, 4);
  std::swap(stages[1][1], stages[1][2]);  // forward 1 before backward 0, and
  std::swap(stages[0][1], stages[0][2]);  // backward 0 before forward 1
  EXPECT_FALSE(Simulation(layout, stages, std::nullopt).total_time().has_value());
}

TEST(PipelineSchedule, HasTheBubbleThatWasPublished) {
  for (const auto& [layout, micro_batches] : pipelines()) {
    if (layout.schedule == PipelineSchedule::interleaved && micro_batches % layout.pp != 0)
      continue;
    const Stages stages = all_stages(layout, micro_batches);
    const double total = Simulation(layout, stages, std::nullopt).total_time().value();
    // With a stage's layers split into vp chunks a pass takes as long as its share of them.
    const double busy = 3.0 * static_cast<double>(micro_batches) * layout.vp;
    const double p = layout.pp;
    const double expected = (p - 1) / (static_cast<double>(micro_batches * layout.vp) + p - 1);
    EXPECT_NEAR((total - busy) / total, expected, 1e-12)
        << to_string(layout) << " m" << micro_batches;
  }
}

TEST(PipelineSchedule, HoldsAsManyMicroBatchesAsWasPublished) {
  for (const auto& [layout, micro_batches] : pipelines()) {
    const Stages stages = all_stages(layout, micro_batches);
    for (int s = 0; s < layout.pp; ++s) {
      int64_t alive = 0;
      int64_t most = 0;
      for (const PipelineAction& a : stages[static_cast<size_t>(s)]) {
        alive += a.backward ? -1 : 1;
        most = std::max(most, alive);
      }
      const int64_t all = micro_batches * layout.vp;
      int64_t expected = all;
      if (layout.schedule == PipelineSchedule::one_f_one_b)
        expected = std::min<int64_t>(layout.pp - s, all);
      if (layout.schedule == PipelineSchedule::interleaved) {
        const int64_t ahead = 2 * (layout.pp - 1 - s) + int64_t{layout.vp - 1} * layout.pp;
        expected = std::min(ahead + 1, all);
      }
      EXPECT_EQ(most, expected) << to_string(layout) << " stage " << s;
      int64_t slots = 0;
      for (int chunk = 0; chunk < layout.vp; ++chunk)
        slots += micro_batches_in_flight(stages[static_cast<size_t>(s)], chunk);
      EXPECT_GE(slots, most);
      EXPECT_LE(slots, most + int64_t{layout.pp} * layout.vp);
    }
  }
}

}  // namespace
}  // namespace dettax
