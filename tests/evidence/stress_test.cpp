// Training steps under stress: what is ordered keeps its bits, what races is caught at its op.
#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/evidence/controls.h"
#include "harness/evidence/knob_places.h"
#include "harness/evidence/ledger.h"

namespace dettax {
namespace {

// A scalar sum of few chunks has two or three possible values, or one: more steps give it more chances.
constexpr int kSteps = 2;
constexpr int kMostRuns = 40;

Mode mode_of(Order order) {
  Mode mode;
  mode.name = mode.hash = order == Order::ordered ? "ordered" : "invariant";
  Knobs& k = mode.knobs;
  k.gemm = k.attention = k.embedding = k.norm = k.loss = k.moe = k.grad_norm = k.collectives =
      order;
  k.dynamic_schedule = false;
  return mode;
}

// Every knob has many contributions to put in order.
Case racing_case(int ranks, int threads) {
  Case planned;
  Model& model = planned.model;
  model.name = "racing";
  model.vocabulary = 2048;
  model.context = 256;
  model.layers = model.published_layers = 1;
  model.width = 64;
  model.heads = model.key_value_heads = 4;
  model.head_width = 16;
  model.ffn_width = 768;
  model.bias = true;
  planned.layout.dp = ranks;
  planned.topology.ranks_per_node = ranks;
  planned.topology.threads_per_rank = threads;
  planned.batch = {ranks == 1 ? 4 : 1, 4, 256};
  return planned;
}

// Ledgers of one group: the first without stress, then under another each time until one differs.
class Runs {
 public:
  Runs(const Case& planned, const Mode& mode) : planned_(planned), mode_(mode) {}

  LedgerComparison until_they_differ(int most) {
    const auto ranks = static_cast<size_t>(planned_.layout.ranks());
    Ledger first = head(), again = head();
    first.ranks.resize(ranks);
    again.ranks.resize(ranks);
    LedgerComparison found;
    bool more = true;
    run_ranks(planned_.layout.ranks(), false, [&](Communicator& communicator) {
      const auto rank = static_cast<size_t>(communicator.rank());
      const auto device = make_cpu_device(planned_.topology.threads_per_rank, false);
      TrainStep step(planned_, mode_, *device, communicator);
      first.ranks[rank] = record_ledger(step, *device, planned_.seed, kSteps);
      for (uint64_t run = 1; more; ++run) {
        device->set_jitter(run * ranks + rank);
        again.ranks[rank] = record_ledger(step, *device, planned_.seed, kSteps);
        communicator.barrier();
        if (rank == 0) {
          found = compare_ledgers(first, again);
          more = found.equal && run < static_cast<uint64_t>(most);
        }
        communicator.barrier();
      }
    });
    return found;
  }

 private:
  Ledger head() const {
    Ledger ledger;
    ledger.case_id = "racing";
    ledger.mode = ledger.mode_hash = mode_.hash;
    ledger.steps = kSteps;
    return ledger;
  }
  const Case& planned_;
  const Mode& mode_;
};

TEST(Stress, ChangesNoBitOfOrderedAndInvariantSums) {
  for (const Order order : {Order::ordered, Order::invariant}) {
    const Mode mode = mode_of(order);
    for (const Case& planned : {racing_case(1, 2), racing_case(1, 3), racing_case(4, 2)}) {
      const LedgerComparison found = Runs(planned, mode).until_they_differ(4);
      EXPECT_TRUE(found.equal) << mode.name << ": " << found.description;
      EXPECT_GT(found.compared, 100);
    }
  }
}

struct WeakKnob {
  Knob knob;
  int ranks, threads;
};
std::ostream& operator<<(std::ostream& out, const WeakKnob& weak) {
  return out << knob_name(weak.knob) << " on " << weak.ranks;
}

class OneKnobWeakened : public testing::TestWithParam<WeakKnob> {};

INSTANTIATE_TEST_SUITE_P(
    Knobs, OneKnobWeakened,
    testing::Values(WeakKnob{Knob::gemm, 1, 2}, WeakKnob{Knob::attention, 1, 2},
                    WeakKnob{Knob::embedding, 1, 2}, WeakKnob{Knob::norm, 1, 2},
                    WeakKnob{Knob::loss, 1, 2}, WeakKnob{Knob::grad_norm, 1, 2},
                    WeakKnob{Knob::schedule, 1, 2}, WeakKnob{Knob::collectives, 4, 1},
                    WeakKnob{Knob::loss, 4, 2}, WeakKnob{Knob::grad_norm, 4, 2}),
    [](const auto& instance) {
      return std::string(knob_name(instance.param.knob)) + "_on_" +
             std::to_string(instance.param.ranks);
    });

TEST_P(OneKnobWeakened, IsCaughtUnderStressAtItsOp) {
  const WeakKnob& weak = GetParam();
  const Case planned = racing_case(weak.ranks, weak.threads);
  const Mode mode = weakened(mode_of(Order::ordered), weak.knob);
  ASSERT_FALSE(why_not_shown(planned, mode_of(Order::ordered), weak.knob));
  const LedgerComparison found = Runs(planned, mode).until_they_differ(kMostRuns);
  ASSERT_TRUE(found.first) << "nothing differed";
  EXPECT_TRUE(acts_at(weak.knob, found.first->path)) << found.description;
}

// Gradients that are summed as ranks arrive, while the backward pass goes on or behind it, for all ranks or for who owns them.
class BucketsOnArrival : public testing::TestWithParam<Layout> {};

INSTANTIATE_TEST_SUITE_P(Layouts, BucketsOnArrival,
                         testing::Values(Layout{.dp = 4}, Layout{.dp = 4, .zero_stage = 1},
                                         Layout{.dp = 4, .zero_stage = 3}),
                         [](const auto& instance) {
                           std::string name = to_string(instance.param);
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

TEST_P(BucketsOnArrival, AreCaughtAtTheReduction) {
  Case planned = racing_case(4, 1);
  planned.layout = GetParam();
  for (const bool overlap : {true, false}) {
    Mode mode = mode_of(Order::ordered);
    mode.knobs.overlap = overlap;
    const LedgerComparison ordered = Runs(planned, mode).until_they_differ(3);
    EXPECT_TRUE(ordered.equal) << ordered.description;
    // The sum of the losses races as well, and comes first.
    LedgerComparison found;
    for (int attempt = 0; attempt < 20 && (!found.first || found.first->path == "reduce/loss");
         ++attempt)
      found = Runs(planned, weakened(mode, Knob::collectives)).until_they_differ(kMostRuns);
    ASSERT_TRUE(found.first) << "nothing differed";
    EXPECT_EQ(found.first->path, "reduce/gradients") << found.description;
    EXPECT_THAT(found.description, testing::HasSubstr(".grad differs"));
  }
}

// Where the case cannot show it, it does not.
TEST(Stress, ShowsNothingWhereWhyNotShownSaysSo) {
  for (const auto& [knob, ranks, threads] :
       {WeakKnob{Knob::collectives, 2, 2}, WeakKnob{Knob::norm, 1, 1},
        WeakKnob{Knob::loss, 4, 1}}) {
    const Case planned = racing_case(ranks, threads);
    const Mode mode = mode_of(Order::ordered);
    ASSERT_TRUE(why_not_shown(planned, mode, knob));
    const LedgerComparison found = Runs(planned, weakened(mode, knob)).until_they_differ(6);
    EXPECT_TRUE(found.equal) << knob_name(knob) << ": " << found.description;
  }
}

}  // namespace
}  // namespace dettax
