#include "tests/device/op_fixture.h"

namespace dettax::test {
namespace {

struct Shape {
  int64_t samples, tokens, heads, key_value_heads, width;
  int64_t rows() const { return samples * tokens; }
  int64_t columns() const { return (heads + 2 * key_value_heads) * width; }
  int64_t out_columns() const { return heads * width; }
  double scale() const { return 1 / std::sqrt(static_cast<double>(width)); }
};

// Output of one query row of one head, straight from the formula; *log_sum_exp too.
Doubles reference_query(const Shape& s, const Doubles& qkv, int64_t sample, int64_t head,
                        int64_t query, double* log_sum_exp) {
  const int64_t kv = head / (s.heads / s.key_value_heads);
  const auto at = [&](int64_t token, int64_t column) {
    return qkv[static_cast<size_t>((sample * s.tokens + token) * s.columns() + column)];
  };
  Doubles scores;
  double largest = -1e300;
  for (int64_t k = 0; k <= query; ++k) {
    double score = 0;
    for (int64_t i = 0; i < s.width; ++i) {
      score += at(query, head * s.width + i) * at(k, (s.heads + kv) * s.width + i);
    }
    scores.push_back(score * s.scale());
    largest = std::max(largest, scores.back());
  }
  double total = 0;
  for (double& v : scores) total += v = std::exp(v - largest);
  *log_sum_exp = largest + std::log(total);
  Doubles out(static_cast<size_t>(s.width), 0.0);
  for (int64_t k = 0; k <= query; ++k) {
    for (int64_t i = 0; i < s.width; ++i) {
      out[static_cast<size_t>(i)] += scores[static_cast<size_t>(k)] / total *
                                     at(k, (s.heads + s.key_value_heads + kv) * s.width + i);
    }
  }
  return out;
}

struct Reference {
  Doubles out, log_sum_exp;
};
Reference reference(const Shape& s, const Doubles& qkv) {
  Reference r{Doubles(static_cast<size_t>(s.rows() * s.out_columns())),
              Doubles(static_cast<size_t>(s.rows() * s.heads))};
  for (int64_t b = 0; b < s.samples; ++b) {
    for (int64_t h = 0; h < s.heads; ++h) {
      for (int64_t q = 0; q < s.tokens; ++q) {
        const Doubles row = reference_query(
            s, qkv, b, h, q, &r.log_sum_exp[static_cast<size_t>((b * s.heads + h) * s.tokens + q)]);
        std::copy(row.begin(), row.end(),
                  r.out.begin() + (b * s.tokens + q) * s.out_columns() + h * s.width);
      }
    }
  }
  return r;
}

// Gradient of sum(dout * out) by qkv from the chain rule in double precision.
Doubles reference_gradient(const Shape& s, const Doubles& qkv, const Doubles& dout) {
  Doubles dqkv(qkv.size(), 0.0);
  const Reference forward = reference(s, qkv);
  for (int64_t b = 0; b < s.samples; ++b) {
    for (int64_t h = 0; h < s.heads; ++h) {
      const int64_t kv = h / (s.heads / s.key_value_heads);
      const auto at = [&](int64_t token, int64_t head, int64_t i) {
        return static_cast<size_t>((b * s.tokens + token) * s.columns() + head * s.width + i);
      };
      const auto out_at = [&](int64_t token, int64_t i) {
        return static_cast<size_t>((b * s.tokens + token) * s.out_columns() + h * s.width + i);
      };
      const int64_t key_head = s.heads + kv;
      const int64_t value_head = key_head + s.key_value_heads;
      for (int64_t q = 0; q < s.tokens; ++q) {
        double mean = 0;
        for (int64_t i = 0; i < s.width; ++i)
          mean += dout[out_at(q, i)] * forward.out[out_at(q, i)];
        for (int64_t k = 0; k <= q; ++k) {
          double score = 0;
          double dp = 0;
          for (int64_t i = 0; i < s.width; ++i) {
            score += qkv[at(q, h, i)] * qkv[at(k, key_head, i)];
            dp += dout[out_at(q, i)] * qkv[at(k, value_head, i)];
          }
          const double p =
              std::exp(score * s.scale() -
                       forward.log_sum_exp[static_cast<size_t>((b * s.heads + h) * s.tokens + q)]);
          const double ds = p * (dp - mean) * s.scale();
          for (int64_t i = 0; i < s.width; ++i) {
            dqkv[at(q, h, i)] += ds * qkv[at(k, key_head, i)];
            dqkv[at(k, key_head, i)] += ds * qkv[at(q, h, i)];
            dqkv[at(k, value_head, i)] += p * dout[out_at(q, i)];
          }
        }
      }
    }
  }
  return dqkv;
}

struct Problem {
  Shape s;
  Floats qkv, dout, out, log_sum_exp;

  explicit Problem(const Shape& shape) : s(shape) {
    qkv = random_floats(s.rows() * s.columns(), 1, 2);
    dout = random_floats(s.rows() * s.out_columns(), 2);
    out.resize(dout.size());
    log_sum_exp.resize(static_cast<size_t>(s.rows() * s.heads));
  }
  void forward(OpsOn& on) {
    on->attention_forward({.out = tensor(out, {s.rows(), s.out_columns()}),
                           .log_sum_exp = tensor(log_sum_exp, {s.samples, s.heads, s.tokens}),
                           .qkv = tensor(qkv, {s.rows(), s.columns()}),
                           .samples = s.samples,
                           .heads = s.heads,
                           .key_value_heads = s.key_value_heads,
                           .scale = s.scale()});
  }
  Floats backward(OpsOn& on, SumOrder sum) {
    // Every element must be written: what it held before must not matter.
    Floats dqkv(qkv.size(), std::numeric_limits<float>::quiet_NaN());
    on->attention_backward({.dqkv = tensor(dqkv, {s.rows(), s.columns()}),
                            .dout = tensor(dout, {s.rows(), s.out_columns()}),
                            .out = tensor(out, {s.rows(), s.out_columns()}),
                            .log_sum_exp = tensor(log_sum_exp, {s.samples, s.heads, s.tokens}),
                            .qkv = tensor(qkv, {s.rows(), s.columns()}),
                            .samples = s.samples,
                            .heads = s.heads,
                            .key_value_heads = s.key_value_heads,
                            .scale = s.scale(),
                            .sum = sum});
    return dqkv;
  }
};

// One row, less than a block, exactly one, several with a short last one, grouped heads, odd widths.
const Shape kShapes[] = {{1, 1, 1, 1, 32},    {2, 3, 2, 1, 8},   {1, 50, 2, 2, 24},
                         {2, 64, 2, 2, 64},   {1, 65, 1, 1, 40}, {2, 130, 4, 2, 32},
                         {1, 192, 1, 1, 128}, {3, 77, 3, 1, 13}, {1, 100, 1, 1, 256},
                         {1, 200, 6, 2, 80}};

TEST(Attention, ForwardMatchesTheReference) {
  OpsOn on(2);
  for (const Shape& s : kShapes) {
    SCOPED_TRACE(testing::Message() << "tokens " << s.tokens << " width " << s.width);
    Problem p(s);
    p.forward(on);
    const Reference expected = reference(s, to_doubles(p.qkv));
    expect_close(p.out, expected.out, 5e-6, "out");
    expect_close(p.log_sum_exp, expected.log_sum_exp, 2e-6, "log_sum_exp");
  }
}

TEST(Attention, EveryVariantOfTheGradientMatchesTheReference) {
  OpsOn on(3);
  for (const Shape& s : kShapes) {
    SCOPED_TRACE(testing::Message() << "tokens " << s.tokens << " width " << s.width);
    Problem p(s);
    p.forward(on);
    const Doubles expected = reference_gradient(s, to_doubles(p.qkv), to_doubles(p.dout));
    for (const Order order : {Order::arrival, Order::ordered, Order::invariant}) {
      for (const bool dynamic : {false, true}) {
        expect_close(p.backward(on, {order, dynamic}), expected, 1e-5, "dqkv");
      }
    }
  }
}

TEST(Attention, ReferenceGradientMatchesDifferencesOfTheReference) {
  const Shape s{2, 9, 4, 2, 6};
  Problem p(s);
  Doubles qkv = to_doubles(p.qkv);
  const Doubles dout = to_doubles(p.dout);
  const Doubles gradient = reference_gradient(s, qkv, dout);
  for (size_t i = 0; i < qkv.size(); i += 5) {
    const double expected = slope([&] { return dot(dout, reference(s, qkv).out); }, qkv, i);
    ASSERT_NEAR(gradient[i], expected, 1e-6) << i;
  }
}

// Scores far apart: a running maximum that was off would overflow, one that was not shrunk would
// leave what was summed before it.
TEST(Attention, LargeScoresNeitherOverflowNorVanish) {
  const Shape s{1, 150, 1, 1, 32};
  OpsOn on(2);
  Problem p(s);
  p.qkv = random_floats(s.rows() * s.columns(), 5, 30);
  p.forward(on);
  const Reference expected = reference(s, to_doubles(p.qkv));
  expect_close(p.out, expected.out, 2e-4, "out");
  expect_close(p.log_sum_exp, expected.log_sum_exp, 2e-6, "log_sum_exp");
}

TEST(Attention, DoesNotDependOnThreadsOrOnOtherSamples) {
  const Shape s{4, 150, 4, 2, 40};
  Problem whole(s);
  OpsOn one(1);
  whole.forward(one);
  const Floats expected = whole.backward(one, {Order::invariant});
  for (const int threads : {2, 3}) {
    OpsOn on(threads);
    Problem again(s);
    again.forward(on);
    EXPECT_TRUE(same_bits(whole.out, again.out));
    EXPECT_TRUE(same_bits(expected, again.backward(on, {Order::invariant, true})));
    EXPECT_TRUE(same_bits(expected, again.backward(on, {Order::ordered, false})));
  }
  Problem last({1, 150, 4, 2, 40});
  std::copy(whole.qkv.end() - static_cast<int64_t>(last.qkv.size()), whole.qkv.end(),
            last.qkv.begin());
  std::copy(whole.dout.end() - static_cast<int64_t>(last.dout.size()), whole.dout.end(),
            last.dout.begin());
  last.forward(one);
  const Floats gradient = last.backward(one, {Order::invariant});
  EXPECT_TRUE(std::equal(gradient.begin(), gradient.end(),
                         expected.end() - static_cast<int64_t>(gradient.size())));
}

// With fewer heads than threads, key blocks wait for each other instead of sharing a thread.
TEST(Attention, FewHeadsKeepTheOrderOfKeys) {
  const Shape s{1, 400, 2, 1, 40};
  OpsOn one(1);
  Problem p(s);
  p.forward(one);
  const Floats expected = p.backward(one, {Order::ordered});
  for (const int threads : {2, 3, 5}) {
    OpsOn on(threads);
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(same_bits(expected, p.backward(on, {Order::ordered}))) << threads;
    }
  }
}

// Three blocks of keys are the least at which an order of three contributions exists.
TEST(Attention, OnlyArrivalDiffersFromRunToRun) {
  OpsOn on(2);
  for (const bool dynamic : {false, true}) {
    Problem p({2, 192, 4, 4, 32});
    p.forward(on);
    expect_only_arrival_differs([&](Order order) { return p.backward(on, {order, dynamic}); });
  }
}

TEST(Attention, OnlyQueryGradientsDependOnArrival) {
  const Shape s{2, 256, 4, 4, 32};
  OpsOn on(3);
  Problem p(s);
  p.forward(on);
  const Floats first = p.backward(on, {Order::arrival, true});
  bool queries_differ = false;
  for (uint64_t i = 1; i <= 1000 && !queries_differ; ++i) {
    on.team.set_jitter(i);
    const Floats again = p.backward(on, {Order::arrival, true});
    for (size_t e = 0; e < first.size(); ++e) {
      if (first[e] == again[e]) continue;
      ASSERT_LT(static_cast<int64_t>(e) % s.columns(), s.out_columns()) << "a key or a value";
      queries_differ = true;
    }
  }
  EXPECT_TRUE(queries_differ);
}

}  // namespace
}  // namespace dettax::test
