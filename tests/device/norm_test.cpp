#include "tests/device/op_fixture.h"

namespace dettax::test {
namespace {

struct Shape {
  int64_t samples, tokens, width;
  int64_t rows() const { return samples * tokens; }
};

constexpr double kEpsilon = 1e-5;

// y of one row in double precision.
Doubles reference_row(Norm kind, const Doubles& x, const Doubles& gamma, const Doubles& beta) {
  const auto width = static_cast<double>(x.size());
  double mean = 0;
  if (kind == Norm::layer) {
    for (const double v : x) mean += v / width;
  }
  double square = 0;
  for (const double v : x) square += (v - mean) * (v - mean) / width;
  const double rstd = 1 / std::sqrt(square + kEpsilon);
  Doubles y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = (x[i] - mean) * rstd * gamma[i] + beta[i];
  return y;
}

Doubles row_of(const Floats& values, int64_t row, int64_t width) {
  const auto begin = values.begin() + row * width;
  return {begin, begin + width};
}

struct Problem {
  Shape s;
  Norm kind;
  Floats x, dy, gamma, beta, y, mean, rstd;

  Problem(const Shape& shape, Norm norm, bool cancelling = false) : s(shape), kind(norm) {
    x = random_floats(s.rows() * s.width, 1, 2, 0.5);
    dy = cancelling ? cancelling_floats(s.rows() * s.width, 2)
                    : random_floats(s.rows() * s.width, 2);
    gamma = random_floats(s.width, 3, 0.5, 1);
    beta = random_floats(s.width, 4);
    y.resize(x.size());
    mean.resize(static_cast<size_t>(s.rows()));
    rstd.resize(static_cast<size_t>(s.rows()));
  }
  void forward(OpsOn& on) {
    const bool layer = kind == Norm::layer;
    on->norm_forward({.y = tensor(y, {s.rows(), s.width}),
                      .mean = layer ? tensor(mean) : Tensor{},
                      .rstd = tensor(rstd),
                      .x = tensor(x, {s.rows(), s.width}),
                      .gamma = tensor(gamma),
                      .beta = layer ? tensor(beta) : Tensor{},
                      .kind = kind,
                      .epsilon = kEpsilon});
  }
  // Rows [begin, end) of samples; results are added to what dgamma and dbeta hold.
  void backward(OpsOn& on, SumOrder sum, Floats& dx, Floats& dgamma, Floats& dbeta,
                int64_t first_sample, int64_t samples, bool accumulate,
                bool accumulate_dx = false) {
    const int64_t row = first_sample * s.tokens;
    const int64_t rows = samples * s.tokens;
    const auto rows_of = [&](Floats& v) {
      return make_tensor(v.data() + row * s.width, DType::f32, {rows, s.width});
    };
    const auto one_each = [&](Floats& v) {
      return make_tensor(v.data() + row, DType::f32, {rows});
    };
    const bool layer = kind == Norm::layer;
    on->norm_backward({.dx = rows_of(dx),
                       .dgamma = tensor(dgamma),
                       .dbeta = layer ? tensor(dbeta) : Tensor{},
                       .dy = rows_of(dy),
                       .x = rows_of(x),
                       .mean = layer ? one_each(mean) : Tensor{},
                       .rstd = one_each(rstd),
                       .gamma = tensor(gamma),
                       .kind = kind,
                       .accumulate_dx = accumulate_dx,
                       .accumulate_parameters = accumulate,
                       .samples = samples,
                       .sum = sum});
  }
  Floats all_gradients(OpsOn& on, SumOrder sum, int64_t parts = 1) {
    Floats dx(x.size());
    Floats dgamma(gamma.size());
    Floats dbeta(beta.size());
    const int64_t samples = s.samples / parts;
    for (int64_t p = 0; p < parts; ++p) {
      backward(on, sum, dx, dgamma, dbeta, p * samples, samples, p > 0);
    }
    dx.insert(dx.end(), dgamma.begin(), dgamma.end());
    dx.insert(dx.end(), dbeta.begin(), dbeta.end());
    return dx;
  }
};

const Shape kShapes[] = {{1, 1, 8}, {2, 3, 17}, {4, 37, 96}, {3, 5, 130}};

TEST(Norm, ForwardMatchesTheReference) {
  OpsOn on(2);
  for (const Norm kind : {Norm::layer, Norm::rms}) {
    for (const Shape& s : kShapes) {
      Problem p(s, kind);
      p.forward(on);
      Doubles expected;
      const Doubles beta = kind == Norm::layer ? to_doubles(p.beta) : Doubles(p.beta.size(), 0.0);
      for (int64_t r = 0; r < s.rows(); ++r) {
        const Doubles y = reference_row(kind, row_of(p.x, r, s.width), to_doubles(p.gamma), beta);
        expected.insert(expected.end(), y.begin(), y.end());
      }
      expect_close(p.y, expected, 2e-6, "y");
    }
  }
}

// d of sum(dy * y) by x, gamma and beta, by differences of the reference.
void reference_gradients(const Problem& p, Doubles& dx, Doubles& dgamma, Doubles& dbeta) {
  Doubles gamma = to_doubles(p.gamma);
  Doubles beta = p.kind == Norm::layer ? to_doubles(p.beta) : Doubles(p.beta.size(), 0.0);
  dgamma.assign(gamma.size(), 0);
  dbeta.assign(gamma.size(), 0);
  for (int64_t r = 0; r < p.s.rows(); ++r) {
    Doubles x = row_of(p.x, r, p.s.width);
    const Doubles dy = row_of(p.dy, r, p.s.width);
    const auto loss = [&] { return dot(dy, reference_row(p.kind, x, gamma, beta)); };
    for (size_t i = 0; i < x.size(); ++i) {
      dx.push_back(slope(loss, x, i));
      dgamma[i] += slope(loss, gamma, i);
      dbeta[i] += slope(loss, beta, i);
    }
  }
}

TEST(Norm, EveryVariantOfTheGradientMatchesDifferencesOfTheReference) {
  OpsOn on(2);
  for (const Norm kind : {Norm::layer, Norm::rms}) {
    for (const Shape& s : kShapes) {
      Problem p(s, kind);
      p.forward(on);
      Doubles dx;
      Doubles dgamma;
      Doubles dbeta;
      reference_gradients(p, dx, dgamma, dbeta);
      for (const Order order : {Order::arrival, Order::ordered, Order::invariant}) {
        Floats ours(p.x.size(), 9.0f);
        Floats our_gamma(p.gamma.size(), 9.0f);
        Floats our_beta(p.beta.size(), 9.0f);
        p.backward(on, {order}, ours, our_gamma, our_beta, 0, s.samples, false);
        expect_close(ours, dx, 1e-4, "dx");
        expect_close(our_gamma, dgamma, 1e-4, "dgamma");
        if (kind == Norm::layer) expect_close(our_beta, dbeta, 1e-4, "dbeta");
        p.backward(on, {order}, ours, our_gamma, our_beta, 0, s.samples, true, true);
        for (double& v : dx) v *= 2;
        for (double& v : dgamma) v *= 2;
        expect_close(ours, dx, 1e-4, "accumulated dx");
        expect_close(our_gamma, dgamma, 1e-4, "accumulated dgamma");
        for (double& v : dx) v /= 2;
        for (double& v : dgamma) v /= 2;
      }
    }
  }
}

TEST(Norm, InvariantDoesNotDependOnThreadsOrMicroBatch) {
  Problem p({8, 33, 200}, Norm::layer, true);
  OpsOn one(1);
  p.forward(one);
  const Floats expected = p.all_gradients(one, {Order::invariant});
  for (const int threads : {1, 2, 3, 5}) {
    OpsOn on(threads);
    EXPECT_TRUE(same_bits(expected, p.all_gradients(on, {Order::invariant}))) << threads;
    EXPECT_TRUE(same_bits(expected, p.all_gradients(on, {Order::invariant}, 2))) << threads;
  }
}

TEST(Norm, OrderedDependsOnThreadsAndMicroBatch) {
  Problem p({8, 33, 200}, Norm::layer, true);
  OpsOn one(1);
  OpsOn two(2);
  p.forward(one);
  const Floats expected = p.all_gradients(one, {Order::ordered});
  EXPECT_FALSE(same_bits(expected, p.all_gradients(two, {Order::ordered})));
  EXPECT_FALSE(same_bits(expected, p.all_gradients(one, {Order::ordered}, 2)));
}

TEST(Norm, OnlyArrivalDiffersFromRunToRun) {
  Problem p({8, 64, 256}, Norm::layer, true);
  OpsOn on(2);
  p.forward(on);
  expect_only_arrival_differs([&](Order order) { return p.all_gradients(on, {order, false}); });
}

TEST(Norm, DynamicScheduleBreaksOrdered) {
  Problem p({8, 64, 256}, Norm::layer, true);
  OpsOn on(2);
  p.forward(on);
  const auto run = [&] { return p.all_gradients(on, {Order::ordered, true}); };
  EXPECT_GT(runs_until_different(run, kManyTries), 0);
}

}  // namespace
}  // namespace dettax::test
