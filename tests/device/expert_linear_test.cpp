#include "tests/device/expert_fixture.h"

namespace dettax::test {
namespace {

constexpr int64_t kIn = 40, kOut = 56;

// Rows of all experts in the order of a plan, and the experts' weights.
struct Layers {
  Layers(OpsOn& on, const ExpertShape& shape, SumOrder sum) : s(shape) {
    plan(on, s, skewed_choices(s, 1), sum, p);
    x = cancelling_floats(s.slots() * kIn, 2);
    dy = cancelling_floats(s.slots() * kOut, 3);
    w = random_floats(s.experts * kOut * kIn, 4);
  }
  int64_t first(int64_t expert) const { return p.segments[row(expert)]; }
  int64_t end(int64_t expert) const {
    return p.segments[row(expert) + static_cast<size_t>(s.samples)];
  }
  size_t row(int64_t expert) const { return static_cast<size_t>(expert * (s.samples + 1)); }

  ExpertShape s;
  Plan p;
  Floats x, dy, w;
};

Tensor part(Floats& values, int64_t first_row, int64_t rows, int64_t columns) {
  return make_tensor(values.data() + first_row * columns, DType::f32, {rows, columns});
}

TEST(ExpertLinear, EachExpertDoesWhatALinearLayerDoesWithItsRows) {
  for (const ExpertShape& s : kExpertShapes) {
    OpsOn on(2);
    Layers l(on, s, {});
    Floats y(l.dy.size()), dx(l.x.size()), expected_y(y.size()), expected_dx(dx.size());
    on->expert_linear_forward({.y = tensor(y, {s.slots(), kOut}),
                               .x = tensor(l.x, {s.slots(), kIn}),
                               .w = tensor(l.w, {s.experts, kOut, kIn}),
                               .segments = l.p.view.segments,
                               .dynamic_schedule = true});
    on->expert_linear_backward_input({.dx = tensor(dx, {s.slots(), kIn}),
                                      .dy = tensor(l.dy, {s.slots(), kOut}),
                                      .w = tensor(l.w, {s.experts, kOut, kIn}),
                                      .segments = l.p.view.segments,
                                      .dynamic_schedule = true});
    for (int64_t e = 0; e < s.experts; ++e) {
      const int64_t rows = l.end(e) - l.first(e);
      if (rows == 0) continue;
      LinearForward forward;
      forward.y = part(expected_y, l.first(e), rows, kOut);
      forward.x = part(l.x, l.first(e), rows, kIn);
      forward.w = part(l.w, e * kOut, kOut, kIn);
      on->linear_forward(forward);
      LinearBackwardInput backward;
      backward.dx = part(expected_dx, l.first(e), rows, kIn);
      backward.dy = part(l.dy, l.first(e), rows, kOut);
      backward.w = forward.w;
      on->linear_backward_input(backward);
    }
    EXPECT_TRUE(same_bits(y, expected_y));
    EXPECT_TRUE(same_bits(dx, expected_dx));
  }
}

Floats weight_gradients(OpsOn& on, Layers& l, SumOrder sum, Floats old = {}) {
  const bool accumulate = !old.empty();
  if (!accumulate) old.assign(l.w.size(), NAN);
  on->expert_linear_backward_weight({.dw = tensor(old, {l.s.experts, kOut, kIn}),
                                     .dy = tensor(l.dy, {l.s.slots(), kOut}),
                                     .x = tensor(l.x, {l.s.slots(), kIn}),
                                     .segments = l.p.view.segments,
                                     .accumulate = accumulate,
                                     .sum = sum});
  return old;
}

Doubles weight_gradient_reference(const Layers& l, Doubles dw) {
  for (int64_t e = 0; e < l.s.experts; ++e) {
    for (int64_t r = l.first(e); r < l.end(e); ++r) {
      for (int64_t o = 0; o < kOut; ++o) {
        for (int64_t i = 0; i < kIn; ++i) {
          dw[static_cast<size_t>((e * kOut + o) * kIn + i)] +=
              static_cast<double>(l.dy[static_cast<size_t>(r * kOut + o)]) *
              static_cast<double>(l.x[static_cast<size_t>(r * kIn + i)]);
        }
      }
    }
  }
  return dw;
}

TEST(ExpertLinear, WeightGradientsOfEveryVariantMatchTheReference) {
  OpsOn on(2);
  for (const ExpertShape& s : kExpertShapes) {
    for (const SumOrder& sum : kAllSums) {
      Layers l(on, s, sum);
      const Doubles zeros(l.w.size());
      expect_close(weight_gradients(on, l, sum), weight_gradient_reference(l, zeros), 1e-5, "dw");
      const Floats old = random_floats(s.experts * kOut * kIn, 5);
      expect_close(weight_gradients(on, l, sum, old), weight_gradient_reference(l, to_doubles(old)),
                   1e-5, "dw");
    }
  }
}

// The rows of a layer's input by token, planned and multiplied: what the order of a plan does to bits.
Floats planned_gradient(OpsOn& on, const ExpertShape& s, const Ints& experts, Floats x, Floats dy,
                        SumOrder sum, Floats old = {}) {
  Plan p;
  plan(on, s, experts, sum, p);
  Floats rows(static_cast<size_t>(s.slots() * kIn));
  Floats gradients(static_cast<size_t>(s.slots() * kOut));
  const Tensor rows_view = tensor(rows, {s.slots(), kIn});
  const Tensor gradients_view = tensor(gradients, {s.slots(), kOut});
  on->permute_rows({rows_view, tensor(x, {s.rows(), kIn}), p.view.sources, s.choices});
  on->permute_rows({gradients_view, tensor(dy, {s.rows(), kOut}), p.view.sources, s.choices});
  const bool accumulate = !old.empty();
  if (!accumulate) old.assign(static_cast<size_t>(s.experts * kOut * kIn), NAN);
  on->expert_linear_backward_weight({.dw = tensor(old, {s.experts, kOut, kIn}),
                                     .dy = gradients_view,
                                     .x = rows_view,
                                     .segments = p.view.segments,
                                     .accumulate = accumulate,
                                     .sum = sum});
  return old;
}

TEST(ExpertLinear, RowsInOrderOfArrivalChangeTheBitsOfWeightGradients) {
  const ExpertShape s{4, 128, 1, 3, 2};
  const Ints experts = skewed_choices(s, 6);
  const Floats x = cancelling_floats(s.rows() * kIn, 7);
  const Floats dy = cancelling_floats(s.rows() * kOut, 8);
  OpsOn on(2);
  expect_only_arrival_differs([&](Order order) {
    // Else one thread often claims all rows before the other wakes.
    on.team.set_jitter(order == Order::arrival ? 1 : 0);
    return planned_gradient(on, s, experts, x, dy, {order, order == Order::arrival});
  });
}

TEST(ExpertLinear, OrderedAndInvariantDoNotDependOnThreads) {
  const ExpertShape s{4, 32, 1, 5, 2};
  for (const Order order : {Order::ordered, Order::invariant}) {
    OpsOn one(1);
    Layers l(one, s, {order});
    const Floats expected = weight_gradients(one, l, {order});
    for (const int threads : {2, 3, 5}) {
      OpsOn many(threads);
      EXPECT_TRUE(same_bits(expected, weight_gradients(many, l, {order, true}))) << threads;
    }
  }
}

// Gradients of eight samples at once and of twice four.
bool halves_add_up_to_the_whole(Order order) {
  const ExpertShape s{8, 24, 1, 5, 2};
  const ExpertShape half{4, 24, 1, 5, 2};
  const Ints experts = skewed_choices(s, 9);
  const Floats x = cancelling_floats(s.rows() * kIn, 10);
  const Floats dy = cancelling_floats(s.rows() * kOut, 11);
  OpsOn on(2);
  const Floats whole = planned_gradient(on, s, experts, x, dy, {order});
  const auto first_half = [](const auto& all) {
    return std::decay_t<decltype(all)>(all.begin(), all.begin() + std::ssize(all) / 2);
  };
  const auto second_half = [](const auto& all) {
    return std::decay_t<decltype(all)>(all.begin() + std::ssize(all) / 2, all.end());
  };
  Floats sum =
      planned_gradient(on, half, first_half(experts), first_half(x), first_half(dy), {order});
  sum = planned_gradient(on, half, second_half(experts), second_half(x), second_half(dy), {order},
                         sum);
  return same_bits(whole, sum);
}

TEST(ExpertLinear, InvariantGradientsOfMicroBatchesAddUpToTheWhole) {
  EXPECT_TRUE(halves_add_up_to_the_whole(Order::invariant));
}

TEST(ExpertLinear, OrderedGradientsDependOnTheMicroBatch) {
  EXPECT_FALSE(halves_add_up_to_the_whole(Order::ordered));
}

TEST(ExpertLinear, RowsBeyondTheInputAreAnError) {
  OpsOn on(1);
  Layers l(on, {1, 4, 1, 2, 1}, {});
  Floats y(l.dy.size());
  ExpertLinearForward call{.y = tensor(y, {4, kOut}),
                           .x = tensor(l.x, {4, kIn}),
                           .w = tensor(l.w, {2, kOut, kIn}),
                           .segments = l.p.view.segments};
  l.p.segments.back() = 5;
  EXPECT_THROW(on->expert_linear_forward(call), Error);
}

}  // namespace
}  // namespace dettax::test
