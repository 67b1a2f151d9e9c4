// Sequences cut over ranks: who has which tokens, what goes around, and that one wrong bit of it is seen. That every such layout trains
// the model of one rank is in layout_test.cpp, that other data-parallel ranks change no bit in invariance_test.cpp.

#include "harness/train/context_parallel.h"

#include <cmath>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "layout_runs.h"

namespace dettax {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

Case ring_case(const Model& model, int ranks) {
  Case planned = small_case(model);
  planned.batch = {2, 4, 24};
  planned.layout.cp = ranks;
  planned.topology.threads_per_rank = 1;
  return planned;
}

// Every token has one rank, and every rank as many pairs of a query and a key that it sees.
TEST(ContextParallel, PiecesFromBothEndsAreEqualWork) {
  for (const int ranks : {1, 2, 3, 4}) {
    constexpr int64_t kTokens = 48;
    std::set<int64_t> seen;
    std::set<int64_t> work;
    for (int r = 0; r < ranks; ++r) {
      const TokenPlaces places = places_of({.cp = ranks}, {.cp = r}, kTokens);
      const int64_t rows = kTokens / ranks;
      int64_t pairs = 0;
      for (int64_t row = 0; row < rows; ++row) {
        const int64_t position = places.position(row, rows);
        EXPECT_TRUE(seen.insert(position).second);
        EXPECT_EQ(places.position(row + places.run(row, rows) - 1, rows),
                  position + places.run(row, rows) - 1);
        pairs += position + 1;
      }
      work.insert(pairs);
    }
    EXPECT_EQ(seen.size(), 48U);
    EXPECT_EQ(*seen.rbegin(), 47);
    EXPECT_EQ(work.size(), 1U) << ranks;
  }
}

// Keys and values go on from every rank but the last to get them, and so do sums of their gradients; nothing else does.
TEST(ContextParallel, SendsWhatItMustAndNoMore) {
  for (const int ranks : {2, 3, 4}) {
    for (const bool overlap : {false, true}) {
      const Case planned = ring_case(small_llama(), ranks);
      Mode mode = deterministic();
      mode.knobs.overlap = overlap;
      train_on_ranks(planned, mode, [&](RankRun& rank) {
        rank.train.reset(1);
        rank.train.step();
        const OperationStats sent = rank.train.mesh().context().stats().of(OperationKind::send);
        const int64_t passes = planned.micro_batches() * planned.model.layers;
        EXPECT_EQ(sent.calls, passes * 3 * (ranks - 1));
        const int64_t rows = planned.batch.micro * planned.batch.sequence_length / ranks;
        const int64_t columns = 2 * planned.model.key_value_heads * planned.model.head_width;
        EXPECT_EQ(sent.bytes, sent.calls * rows * columns * 4);
      });
    }
  }
}

// Overlapping moves when messages are on their way, not what is computed.
TEST(ContextParallel, OverlapChangesNoBit) {
  Mode with = deterministic();
  Mode without = deterministic();
  with.knobs.overlap = true;
  without.knobs.overlap = false;
  for (const int ranks : {2, 4}) {
    const Case planned = ring_case(small_llama(), ranks);
    EXPECT_EQ(first_difference(layout_free(record(planned, with, 2)),
                               layout_free(record(planned, without, 2))),
              "");
  }
}

// The twin of all equal bits on such layouts: attention that adds in order of arrival is seen there, and first in dQ.
TEST(ContextParallel, AttentionInOrderOfArrivalIsSeen) {
  Case planned = ring_case(small_llama(), 2);
  planned.model.context = 512;
  planned.batch = {1, 1, 512};
  planned.topology.threads_per_rank = 2;
  Mode mode = deterministic();
  mode.knobs.attention = Order::arrival;
  const std::string difference = difference_in_the_end(planned, mode);
  EXPECT_NE(difference.find("/attention dq"), std::string::npos) << difference;
}

// One bit of one message.
class Flip : public StepObserver {
 public:
  Flip(std::string tensor, Log& log, Device& device)
      : tensor_(std::move(tensor)), log_(log), device_(device) {}
  void on_op(std::string_view) override {}
  void on_tensor(std::string_view path, std::string_view name, const Tensor& tensor,
                 uint64_t first_index) override {
    if (path == "backward/layer1/context_exchange" && name == tensor_ && flipped_++ == 0)
      tensor.f32()[5] = std::nextafter(tensor.f32()[5], 9.0F);
    log_.push_back(
        {std::string(path), std::string(name), device_.fingerprint(tensor, first_index)});
  }

 private:
  const std::string tensor_;
  Log& log_;
  Device& device_;
  int flipped_ = 0;
};

std::vector<Log> with_flip(const Case& planned, const std::string& tensor) {
  std::vector<Log> logs(static_cast<size_t>(planned.layout.ranks()));
  train_on_ranks(planned, deterministic(), [&](RankRun& rank) {
    Log& log = logs[static_cast<size_t>(rank.communicator.rank())];
    const bool flips = rank.communicator.rank() == 1;
    Flip flip(flips ? tensor : "", log, rank.device);
    rank.train.reset(planned.seed);
    rank.train.observe(&flip);
    rank.train.step();
    rank.train.observe(nullptr);
  });
  return logs;
}

TEST(ContextParallel, AMessageThatChangedOnItsWayIsSeenThere) {
  Case planned = ring_case(small_gpt(), 3);
  planned.batch.micro = 4;
  const auto expected = with_flip(planned, "");
  EXPECT_EQ(first_difference(expected, with_flip(planned, "")), "");
  for (const std::string tensor : {"keys_values", "dkeys_values"}) {
    EXPECT_EQ(first_difference(expected, with_flip(planned, tensor)),
              "backward/layer1/context_exchange " + tensor);
  }
}

TEST(ContextParallel, EndsWithTheOthersWhenOneRankFails) {
  class Failing : public StepObserver {
   public:
    void on_op(std::string_view path) override {
      if (path == "micro1/backward/layer0/attention")
        throw Error(ErrorKind::infrastructure, "a rank gave up");
    }
    void on_tensor(std::string_view, std::string_view, const Tensor&, uint64_t) override {}
  };
  for (const bool overlap : {false, true}) {
    Mode mode = deterministic();
    mode.knobs.overlap = overlap;
    try {
      train_on_ranks(ring_case(small_gpt(), 3), mode, [&](RankRun& rank) {
        Failing failing;
        rank.train.reset(1);
        if (rank.communicator.rank() == 1) rank.train.observe(&failing);
        rank.train.step();
      });
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("rank 1: a rank gave up"), std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace dettax
