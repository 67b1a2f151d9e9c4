// Which algorithm is chosen, and what it may depend on.

#include "harness/device/cuda/runtime/product_plans.h"

#include <set>

#include <gmock/gmock.h>

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

std::set<std::string> plans_over_lists(Order order) {
  std::set<std::string> plans;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    CublasLtAs library;
    library->list_seed = seed;
    Plans fresh;
    plans.insert(fresh.described_after(fresh.call(32, order)));
  }
  return plans;
}

TEST(ProductPlans, APinnedOneStaysWhateverTheOrderOfTheHeuristicsList) {
  EXPECT_EQ(plans_over_lists(Order::ordered).size(), 1U);
  EXPECT_EQ(plans_over_lists(Order::invariant).size(), 1U);
  EXPECT_GT(plans_over_lists(Order::arrival).size(), 1U);
}

TEST(ProductPlans, APinnedOneSumsInOnePiece) {
  for (const Order order : {Order::ordered, Order::invariant}) {
    for (const std::string& text : plans_over_lists(order)) {
      EXPECT_THAT(text, HasSubstr("split 1, reduction 0, workspace 0 bytes"));
    }
  }
  Plans fast;
  EXPECT_THAT(fast.described_after(fast.call(32, Order::arrival)), Not(HasSubstr("split 1,")));
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

TEST(ProductPlans, TheFastestIsFoundInCallsThatCount) {
  for (const Order order : {Order::arrival, Order::ordered}) {
    Plans plans;
    const ProductCall call = plans.call(32, order, true);
    int trial = 1;
    while (plans.described_after(call).find("on trial") != std::string::npos) ++trial;
    EXPECT_EQ(trial, 8);
    const std::string chosen = plans.described_after(call);
    EXPECT_EQ(plans.described_after(call), chosen);
    if (order == Order::ordered) {
      EXPECT_THAT(chosen, HasSubstr("split 1,"));
    }
  }
}

// Which is why a dynamic schedule does not go with a claim to be reproducible in order.
TEST(ProductPlans, ATimedOneDependsOnTimesAndAPinnedOneDoesNot) {
  const auto plans_over_times = [](bool timed) {
    std::set<std::string> chosen;
    for (uint64_t seed = 1; seed <= 8; ++seed) {
      event_times_seed() = 100 * seed;
      Plans plans;
      std::string text;
      for (int i = 0; i < 9; ++i) {
        text = plans.described_after(plans.call(32, Order::ordered, timed));
      }
      chosen.insert(text);
    }
    event_times_seed() = 0;
    return chosen.size();
  };
  EXPECT_GT(plans_over_times(true), 1U);
  EXPECT_EQ(plans_over_times(false), 1U);
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
