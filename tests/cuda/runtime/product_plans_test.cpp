// Which algorithm is chosen, and what it may depend on.

#include "harness/device/cuda/runtime/product_plans.h"

#include <algorithm>
#include <random>
#include <set>

#include <gmock/gmock.h>

#include "harness/device/cuda/runtime/algorithm_trial.h"
#include "harness/device/number_format.h"
#include "tests/cuda/standins/cublaslt.h"
#include "tests/cuda/standins/cudart_events.h"

namespace dettax::test {
namespace {

using testing::HasSubstr;
using testing::Not;

Buffer memory(size_t bytes) {
  auto* data = ::operator new(bytes, std::align_val_t{256});
  return {data, bytes, [](void* at, size_t) { ::operator delete(at, std::align_val_t{256}); }};
}

// A product of ones: every sum is k, in whatever order.
class Plans {
 public:
  Plans() : plans_(nullptr, memory), a_(kNumbers, 1), b_(kNumbers, 1), d_(kNumbers, 0) {}

  ProductCall call(int64_t rows, Order order, bool timed = false) {
    ProductCall call;
    call.operation = "product";
    call.product = {.m = 48, .n = rows, .k = 256, .transpose_a = true};
    call.memory = {.a = a_.data(), .b = b_.data(), .d = d_.data()};
    call.order = order;
    call.timed = timed;
    if (order == Order::invariant) call.plan_rows = PlanRows::any;
    return call;
  }
  void run(const ProductCall& call) { EXPECT_TRUE(plans_.run(call)); }
  std::string described_after(const ProductCall& call) {
    std::fill(d_.begin(), d_.end(), 0.0F);
    EXPECT_TRUE(plans_.run(call));
    EXPECT_EQ(d_.front(), static_cast<float>(call.product.k));
    return plans_.describe();
  }

 private:
  static constexpr size_t kNumbers = 48 * 256;
  ProductPlans plans_;
  std::vector<float> a_, b_, d_;
};

std::string plan_of(Order order) {
  Plans fresh;
  return fresh.described_after(fresh.call(32, order));
}
// Of shuffled lists.
std::set<std::string> plans_over_lists(Order order) {
  std::set<std::string> plans;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    CublasLtAs library;
    library->list_seed = seed;
    plans.insert(plan_of(order));
  }
  return plans;
}

TEST(ProductPlans, APinnedOneIsTheHeuristicsFirstThatSumsInOnePiece) {
  for (const Order order : {Order::ordered, Order::invariant}) {
    const std::string first = plan_of(order);
    CublasLtAs library;
    library->heeds_wishes = false;
    EXPECT_EQ(plan_of(order), first);  // those that split, the best ones here, were passed over
  }
  EXPECT_THAT(plan_of(Order::arrival), Not(HasSubstr("split 1,")));
  // The first and not the best by numbers of our own: the twin.
  EXPECT_GT(plans_over_lists(Order::ordered).size(), 1U);
}

TEST(ProductPlans, APinnedOneSumsInOnePieceWhateverTheListIs) {
  CublasLtAs library;
  library->heeds_wishes = false;
  for (const Order order : {Order::ordered, Order::invariant}) {
    for (const std::string& text : plans_over_lists(order)) {
      EXPECT_THAT(text, HasSubstr("split 1, reduction 0, workspace 0 bytes"));
    }
  }
}

TEST(ProductPlans, OneForAnyNumberOfRowsIsMadeOnce) {
  Plans plans;
  const std::string first = plans.described_after(plans.call(1, Order::invariant));
  for (const int64_t rows : {2, 31, 48}) {
    EXPECT_EQ(plans.described_after(plans.call(rows, Order::invariant)), first);
  }
  EXPECT_NE(plans.described_after(plans.call(2, Order::ordered)), first);
}

TEST(ProductPlans, RowsOfExpertsAreRoundedUpToAPowerOfTwo) {
  Plans plans;
  ProductCall call = plans.call(17, Order::ordered);
  call.plan_rows = PlanRows::rounded_up;
  const std::string first = plans.described_after(call);
  EXPECT_THAT(first, HasSubstr("48 x 32 sums"));
  call.product.n = 30;
  EXPECT_EQ(plans.described_after(call), first);
  call.product.n = 33;
  EXPECT_NE(plans.described_after(call), first);
}

TEST(ProductPlans, DependOnAlignmentUpToSixteenBytesAlone) {
  std::vector<float> numbers(48 * 256 + 64, 1);
  const auto at = [&](size_t bytes) {
    auto* base =
        reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(numbers.data()) + 63) / 64 * 64);
    return base + bytes;
  };
  Plans plans;
  ProductCall call = plans.call(32, Order::ordered);
  call.memory.b = at(0);
  const std::string whole = plans.described_after(call);
  call.memory.b = at(16);
  EXPECT_EQ(plans.described_after(call), whole);
  call.memory.b = at(4);
  EXPECT_THAT(plans.described_after(call), HasSubstr("aligned 16 4 16 16 0 0: algorithm"));
}

TEST(ProductPlans, TheFastestIsFoundBeforeTheFirstResult) {
  for (const Order order : {Order::arrival, Order::ordered}) {
    Plans plans;
    const ProductCall call = plans.call(32, order, true);
    const std::string chosen = plans.described_after(call);
    EXPECT_THAT(chosen, HasSubstr("timed: "));
    EXPECT_THAT(chosen, HasSubstr("split "));
    const uint64_t times = event_times_seed() = 5;
    EXPECT_EQ(plans.described_after(call), chosen);
    EXPECT_EQ(event_times_seed(), times);  // nothing was timed again
    event_times_seed() = 0;
    if (order == Order::ordered) {
      EXPECT_THAT(chosen, HasSubstr("split 1,"));
    }
  }
}

TEST(ProductPlans, ATrialAddsToAResultOnce) {
  Plans plans;
  for (const bool in_place : {true, false}) {
    std::vector<float> old(48 * 32, 2);
    std::vector<float> result(old.size(), 3);
    ProductCall call = plans.call(32, Order::arrival, true);
    call.product.add_c = true;
    call.memory.c = in_place ? result.data() : old.data();
    call.memory.d = result.data();
    plans.run(call);
    EXPECT_EQ(result, std::vector<float>(old.size(), in_place ? 256 + 3 : 256 + 2));
  }
}

TEST(AlgorithmTrial, TakesTheLeastOfThreeTimesAfterOneCallToWarmUp) {
  constexpr size_t kTimed = 3;
  for (uint64_t seed = 100; seed < 110; ++seed) {
    std::vector<size_t> calls(4, 0);
    event_times_seed() = seed;
    const size_t chosen = fastest_of(calls.size(), nullptr, [&](size_t i) { ++calls[i]; });
    EXPECT_EQ(calls, std::vector<size_t>(4, kTimed + 1));
    event_times_seed() = 0;
    std::vector<float> least(calls.size(), 1e9F);
    for (size_t i = 0; i < calls.size() * kTimed; ++i) {
      const auto time = static_cast<float>(1 + std::mt19937_64(seed + i)() % 1000);
      least[i / kTimed] = std::min(least[i / kTimed], time);
    }
    EXPECT_EQ(chosen, fastest_by(least));
  }
}

TEST(AlgorithmTrial, LeavesTheFirstOnlyForAGainOfMoreThanThreePercent) {
  const auto choice = [](const std::vector<float>& milliseconds) {
    return fastest_by(milliseconds);
  };
  EXPECT_EQ(choice({1.0F}), 0U);
  EXPECT_EQ(choice({1.0F, 0.98F, 1.2F}), 0U);
  EXPECT_EQ(choice({1.0F, 0.96F, 1.2F}), 1U);
  EXPECT_EQ(choice({1.0F, 0.96F, 0.95F}), 2U);
}

// Which is why a dynamic schedule does not go with a claim to be reproducible in order.
TEST(ProductPlans, ATimedOneDependsOnTimesAndAPinnedOneDoesNot) {
  const auto plans_over_times = [](bool timed) {
    std::set<std::string> chosen;
    for (uint64_t seed = 1; seed <= 8; ++seed) {
      event_times_seed() = 100 * seed;
      Plans plans;
      chosen.insert(plans.described_after(plans.call(32, Order::ordered, timed)));
    }
    event_times_seed() = 0;
    return chosen.size();
  };
  EXPECT_GT(plans_over_times(true), 1U);
  EXPECT_EQ(plans_over_times(false), 1U);
}

// Libraries tell so of epilogues that they do not know; of a plain product it is a mistake of ours.
TEST(ProductPlans, AnEpilogueThatIsAnInvalidValueHasNoAlgorithm) {
  CublasLtAs library;
  library->epilogues_are_invalid = true;
  ProductPlans plans(nullptr, memory);
  Plans numbers;
  std::vector<float> bias(48, 1);
  ProductCall call = numbers.call(32, Order::ordered);
  call.product.epilogue = CUBLASLT_EPILOGUE_BIAS;
  call.memory.vector = bias.data();
  EXPECT_FALSE(plans.run(call));
  EXPECT_THAT(plans.describe(), HasSubstr("no algorithm"));
  ProductCall broken = numbers.call(32, Order::ordered);
  broken.product.n = 0;
  EXPECT_THROW(plans.run(broken), Error);
}

TEST(ProductPlans, SaysWhereTheLibraryHasNone) {
  CublasLtAs library;
  library->has_algorithms = false;
  ProductPlans plans(nullptr, memory);
  Plans numbers;
  EXPECT_FALSE(plans.run(numbers.call(32, Order::ordered)));
  EXPECT_THAT(plans.describe(), HasSubstr("no algorithm"));
}

}  // namespace
}  // namespace dettax::test
