#pragma once

#include "tests/device/op_fixture.h"

namespace dettax::test {

// Attention straight from the formula, in double precision, and the same on the operations.

struct AttentionSizes {
  int64_t samples, tokens, heads, key_value_heads, width;
  int64_t rows() const { return samples * tokens; }
  int64_t columns() const { return (heads + 2 * key_value_heads) * width; }
  int64_t out_columns() const { return heads * width; }
  double scale() const { return 1 / std::sqrt(static_cast<double>(width)); }
};

// Output of one query row of one head, straight from the formula; *log_sum_exp too.
inline Doubles reference_query(const AttentionSizes& s, const Doubles& qkv, int64_t sample,
                               int64_t head, int64_t query, double* log_sum_exp) {
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

struct AttentionReference {
  Doubles out, log_sum_exp;
};
inline AttentionReference attention_reference(const AttentionSizes& s, const Doubles& qkv) {
  AttentionReference r{Doubles(static_cast<size_t>(s.rows() * s.out_columns())),
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
inline Doubles attention_gradient(const AttentionSizes& s, const Doubles& qkv,
                                  const Doubles& dout) {
  Doubles dqkv(qkv.size(), 0.0);
  const AttentionReference forward = attention_reference(s, qkv);
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

struct AttentionProblem {
  AttentionSizes s;
  Floats qkv, dout, out, log_sum_exp;

  explicit AttentionProblem(const AttentionSizes& shape) : s(shape) {
    qkv = random_floats(s.rows() * s.columns(), 1, 2);
    dout = random_floats(s.rows() * s.out_columns(), 2);
    out.resize(dout.size());
    log_sum_exp.resize(static_cast<size_t>(s.rows() * s.heads));
  }
  AttentionForward forward_call() {
    return {.out = tensor(out, {s.rows(), s.out_columns()}),
            .log_sum_exp = tensor(log_sum_exp, {s.samples, s.heads, s.tokens}),
            .qkv = tensor(qkv, {s.rows(), s.columns()}),
            .samples = s.samples,
            .heads = s.heads,
            .key_value_heads = s.key_value_heads,
            .scale = s.scale()};
  }
  // On the operations of any backend that works on the host's memory.
  template <class O>
  void forward(O& on) {
    on->attention_forward(forward_call());
  }
  AttentionBackward backward_call(Floats& dqkv, SumOrder sum) {
    return {.dqkv = tensor(dqkv, {s.rows(), s.columns()}),
            .dout = tensor(dout, {s.rows(), s.out_columns()}),
            .out = tensor(out, {s.rows(), s.out_columns()}),
            .log_sum_exp = tensor(log_sum_exp, {s.samples, s.heads, s.tokens}),
            .qkv = tensor(qkv, {s.rows(), s.columns()}),
            .samples = s.samples,
            .heads = s.heads,
            .key_value_heads = s.key_value_heads,
            .scale = s.scale(),
            .sum = sum};
  }
  template <class O>
  Floats backward(O& on, SumOrder sum) {
    // Every element must be written: what it held before must not matter.
    Floats dqkv(qkv.size(), std::numeric_limits<float>::quiet_NaN());
    on->attention_backward(backward_call(dqkv, sum));
    return dqkv;
  }
};

}  // namespace dettax::test
