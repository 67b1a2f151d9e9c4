// The kernels of a mixture-of-experts layer, against the CPU's operations and under many schedules.

#include "tests/cuda/kernel_fixture.h"
#include "tests/device/expert_fixture.h"

namespace dettax::test {
namespace {

// Several tiles of choices, and experts that nobody chooses.
const ExpertShape kManyChoices{2, 600, 16, 11, 4};

TEST(CudaExperts, RoutersAgreeWithTheCpu) {
  OpsOn cpu(1);
  EmulatedKernels cuda;
  for (const ExpertShape& s : kExpertShapes) {
    for (const bool normalised : {false, true}) {
      const int64_t rows = s.rows();
      Floats logits = random_floats(rows * s.experts, 1, 3);
      logits[0] = logits[logits.size() / 2];  // equals somewhere
      struct Routed {
        Floats p, w, losses, dlogits;
        Ints experts;
      };
      Ints counts = random_ints(s.samples * s.experts, 2, 50);
      Floats dweights = random_floats(s.slots(), 3);
      const auto run = [&](auto& ops) {
        Routed r{Floats(logits.size()), Floats(dweights.size()),
                 Floats(static_cast<size_t>(rows), 1.0f), Floats(logits.size()),
                 Ints(dweights.size())};
        const Tensor p = tensor(r.p, {rows, s.experts});
        const Tensor experts = tensor(r.experts, rows, s.choices);
        const Tensor w = tensor(r.w, {rows, s.choices});
        const Tensor c = tensor(counts, s.samples, s.experts);
        ops->route_tokens(
            {p, experts, w, tensor(logits, {rows, s.experts}), s.samples, false, normalised});
        ops->balance_loss({tensor(r.losses), p, c, s.choices, 0.01});
        ops->route_tokens_backward({tensor(r.dlogits, {rows, s.experts}),
                                    tensor(dweights, {rows, s.choices}), p, experts, w, c,
                                    normalised, 0.02});
        return r;
      };
      const Routed expected = run(cpu);
      const Routed actual = run(cuda);
      EXPECT_EQ(actual.experts, expected.experts);
      expect_close(actual.p, to_doubles(expected.p), 2e-6, "probabilities");
      expect_close(actual.w, to_doubles(expected.w), 2e-6, "weights");
      expect_close(actual.losses, to_doubles(expected.losses), 2e-6, "losses");
      expect_close(actual.dlogits, to_doubles(expected.dlogits), 4e-6, "dlogits");
    }
  }
}

TEST(CudaExperts, EqualProbabilitiesGoToTheLowerIndex) {
  EmulatedKernels cuda;
  Floats logits(70, 1.0f);
  logits[40] = 2;
  Floats p(70);
  Floats w(4);
  Ints experts(4);
  cuda->route_tokens(
      {tensor(p, {1, 70}), tensor(experts, 1, 4), tensor(w, {1, 4}), tensor(logits, {1, 70})});
  EXPECT_EQ(experts, (Ints{40, 0, 1, 2}));
  RouteTokens turns{tensor(p, {1, 70}),
                    tensor(experts, 1, 4),
                    tensor(w, {1, 4}),
                    tensor(logits, {1, 70}),
                    1,
                    true};
  turns.places = {18, TokenPlaces::kNext};
  cuda->route_tokens(turns);
  EXPECT_EQ(experts, (Ints{2, 3, 4, 5}));
}

TEST(CudaExperts, OrderedPlansAreThoseOfTheCpu) {
  OpsOn cpu(1);
  EmulatedKernels cuda;
  std::vector<ExpertShape> shapes(std::begin(kExpertShapes), std::end(kExpertShapes));
  shapes.push_back(kManyChoices);
  for (const ExpertShape& s : shapes) {
    Ints experts = skewed_choices(s, 1);
    for (const int64_t capacity : {int64_t{0}, int64_t{1}, 1 + s.tokens / 3}) {
      for (const Ints& before : {Ints{}, random_ints(2 * s.samples * s.experts, 2, 9)}) {
        Plan expected;
        Plan actual;
        plan(cpu, s, experts, {Order::ordered}, expected, capacity, before);
        plan(cuda, s, experts, {Order::ordered}, actual, capacity, before);
        EXPECT_EQ(actual.counts, expected.counts);
        EXPECT_EQ(actual.segments, expected.segments);
        EXPECT_EQ(actual.slots, expected.slots);
        EXPECT_EQ(actual.sources, expected.sources);
      }
    }
  }
  cuda.expect_no_faults();
}

Floats plan_as_numbers(EmulatedKernels& cuda, Order order, int64_t capacity) {
  Ints experts = skewed_choices(kManyChoices, 1);
  Plan made;
  plan(cuda, kManyChoices, experts, {order}, made, capacity);
  return {made.slots.begin(), made.slots.end()};
}

TEST(CudaExperts, OnlyFastPlansDependOnTheSchedule) {
  EmulatedKernels cuda;
  for (const int64_t capacity : {0, 100}) {
    expect_only_fast_differs([&](Order order) { return plan_as_numbers(cuda, order, capacity); });
  }
}

TEST(CudaExperts, FastPlansKeepTheSameChoicesAndAreInverses) {
  OpsOn cpu(1);
  EmulatedKernels cuda;
  const ExpertShape& s = kManyChoices;
  Ints experts = skewed_choices(s, 1);
  for (const int64_t capacity : {0, 100}) {
    const ScheduleOf schedule(5);
    Plan expected;
    Plan actual;
    plan(cpu, s, experts, {Order::ordered}, expected, capacity);
    plan(cuda, s, experts, {Order::arrival}, actual, capacity);
    EXPECT_EQ(actual.segments, expected.segments);
    for (size_t i = 0; i < experts.size(); ++i) {
      const int32_t slot = actual.slots[i];
      ASSERT_EQ(slot < 0, expected.slots[i] < 0);
      if (slot < 0) continue;
      ASSERT_EQ(actual.sources[static_cast<size_t>(slot)], static_cast<int32_t>(i));
      const int32_t* segment = actual.segments.data() + experts[i] * (s.samples + 1);
      ASSERT_TRUE(slot >= segment[0] && slot < segment[s.samples]);
    }
  }
}

TEST(CudaExperts, AnExpertThatDoesNotExistIsReported) {
  EmulatedKernels cuda;
  const ExpertShape s{1, 4, 8, 3, 1};
  Ints experts{0, 1, 3, 2};
  Plan made;
  plan(cuda, s, experts, {Order::ordered}, made);
  EXPECT_THROW(CudaKernels::check_faults(*cuda.kernels.faults()), Error);
}

struct Rows {
  Floats x, weights, residual, dy;
};

TEST(CudaExperts, RowsGoToExpertsAndBackAsOnTheCpu) {
  OpsOn cpu(1);
  EmulatedKernels cuda;
  for (const DType type : kTypes) {
    for (const ExpertShape& s : kExpertShapes) {
      for (const int64_t capacity : {int64_t{0}, 1 + s.tokens / 3}) {
        Ints experts = skewed_choices(s, 1);
        Plan made;
        plan(cpu, s, experts, {Order::ordered}, made, capacity);
        const int64_t rows = s.rows();
        const Rows in{rounded_to(type, random_floats(rows * s.width, 1)),
                      random_floats(s.slots(), 2),
                      rounded_to(type, random_floats(rows * s.width, 3)),
                      rounded_to(type, random_floats(rows * s.width, 4))};
        Floats weights = in.weights;
        // The CPU's way.
        Floats x = in.x;
        Floats moved(static_cast<size_t>(s.slots() * s.width), 0.0f);
        cpu->permute_rows({tensor(moved, {s.slots(), s.width}), tensor(x, {rows, s.width}),
                           made.view.sources, s.choices});
        Floats residual = in.residual;
        Floats back(in.x.size());
        cpu->unpermute_rows({tensor(back, {rows, s.width}),
                             tensor(moved, {s.slots(), s.width}),
                             tensor(weights),
                             tensor(residual, {rows, s.width}),
                             made.view,
                             {Order::ordered}});
        Floats dy = in.dy;
        Floats drows(moved.size(), 0.0f);
        Floats dweights(weights.size());
        cpu->unpermute_rows_backward(
            {tensor(drows, {s.slots(), s.width}), tensor(dweights), tensor(dy, {rows, s.width}),
             tensor(moved, {s.slots(), s.width}), tensor(weights), made.view});
        // The device's.
        const Numbers on_x(type, in.x);
        const Numbers on_moved(type, Floats(moved.size(), 0.0f));
        cuda->permute_rows({on_moved.view({s.slots(), s.width}), on_x.view({rows, s.width}),
                            made.view.sources, s.choices});
        EXPECT_TRUE(same_bits(on_moved.read(), moved));
        const Numbers on_residual(type, in.residual);
        for (const Order order : kOrders) {
          for (const bool generic : {false, true}) {
            const Numbers on_back(type, rows * s.width);
            cuda->unpermute_rows({on_back.view({rows, s.width}),
                                  on_moved.view({s.slots(), s.width}),
                                  tensor(weights),
                                  on_residual.view({rows, s.width}),
                                  made.view,
                                  {order},
                                  generic});
            // Sums in the type of the result round at every addition.
            expect_close(on_back.read(), to_doubles(back), 4 * tolerance_of(type), "back");
          }
        }
        const Numbers on_dy(type, in.dy);
        const Numbers on_drows(type, Floats(moved.size(), 0.0f));
        Floats on_dweights(weights.size());
        cuda->unpermute_rows_backward(
            {on_drows.view({s.slots(), s.width}), tensor(on_dweights), on_dy.view({rows, s.width}),
             on_moved.view({s.slots(), s.width}), tensor(weights), made.view});
        expect_close(on_drows.read(), to_doubles(drows), tolerance_of(type), "drows");
        expect_close(on_dweights, to_doubles(dweights), 4e-6, "dweights");
      }
    }
  }
}

TEST(CudaExperts, OnlyTheFastWayBackDependsOnTheSchedule) {
  OpsOn cpu(1);
  EmulatedKernels cuda;
  const ExpertShape s{2, 50, 130, 11, 4};
  Ints experts = skewed_choices(s, 1);
  Plan made;
  plan(cpu, s, experts, {Order::ordered}, made);
  for (const DType type : kTypes) {
    const Numbers rows(type, cancelling_floats(s.slots() * s.width, 2));
    const auto run = [&](Order order, bool generic) {
      const Numbers y(type, s.rows() * s.width);
      cuda->unpermute_rows({y.view({s.rows(), s.width}),
                            rows.view({s.slots(), s.width}),
                            {},
                            {},
                            made.view,
                            {order},
                            generic});
      return y.read();
    };
    expect_only_fast_differs([&](Order order) { return run(order, false); });
    expect_one_result([&] { return run(Order::arrival, true); });
  }
}

}  // namespace
}  // namespace dettax::test
