#pragma once

#include <functional>
#include <vector>

#include "tests/device/attention_problem.h"

namespace dettax::test {

// A problem whose tokens are spread over several ranks in two pieces each, as context parallelism calls attention.

// One rank's part of a problem: pieces `rank` and 2 * ranks - 1 - rank of every sample.
struct Share {
  AttentionSizes whole;
  int64_t ranks, rank;
  int64_t piece() const { return whole.tokens / (2 * ranks); }
  AttentionSizes sizes() const {
    AttentionSizes s = whole;
    s.tokens = 2 * piece();
    return s;
  }
  TokenPlaces places() const { return {rank * piece(), (2 * ranks - 1 - rank) * piece()}; }
  // Of its row in the whole problem.
  int64_t whole_row(int64_t row) const {
    const int64_t tokens = 2 * piece();
    return row / tokens * whole.tokens + places().position(row % tokens, tokens);
  }
};

inline Floats take_rows(const Share& share, const Floats& whole, int64_t columns) {
  Floats part;
  for (int64_t r = 0; r < share.sizes().rows(); ++r) {
    const auto from = whole.begin() + share.whole_row(r) * columns;
    part.insert(part.end(), from, from + columns);
  }
  return part;
}
inline void put_rows(const Share& share, const Floats& part, int64_t columns, Floats& whole) {
  for (int64_t r = 0; r < share.sizes().rows(); ++r)
    std::copy_n(part.begin() + r * columns, columns, whole.begin() + share.whole_row(r) * columns);
}

struct Spread {
  AttentionSizes s;
  int64_t ranks;
  Floats out, log_sum_exp, dqkv;
  std::vector<AttentionProblem> parts;
  std::vector<Floats> keys_values;
  // Which ranks' keys a rank meets after its own, in order. By default as a ring brings them.
  std::function<std::vector<int64_t>(int64_t rank)> visits = [this](int64_t rank) {
    std::vector<int64_t> others;
    for (int64_t i = 1; i < ranks; ++i) others.push_back((rank + ranks - i) % ranks);
    return others;
  };

  Spread(const AttentionProblem& problem, int64_t ranks_of_it) : s(problem.s), ranks(ranks_of_it) {
    for (int64_t r = 0; r < ranks; ++r) {
      const Share share{s, ranks, r};
      AttentionProblem part(share.sizes());
      part.qkv = take_rows(share, problem.qkv, s.columns());
      part.dout = take_rows(share, problem.dout, s.out_columns());
      parts.push_back(part);
      Floats kv(static_cast<size_t>(part.s.rows() * key_columns()));
      OpsOn on(1);
      on->copy_columns({.to = tensor(kv, {part.s.rows(), key_columns()}),
                        .from = tensor(part.qkv, {part.s.rows(), s.columns()}),
                        .from_column = s.out_columns(),
                        .columns = key_columns()});
      keys_values.push_back(kv);
    }
  }
  Spread(const Spread&) = delete;

  int64_t key_columns() const { return 2 * s.key_value_heads * s.width; }

  // What of rank `other`'s keys stands before which of `rank`'s queries: the first piece before all, or all before the second.
  AttentionBlock block(int64_t rank, int64_t other) {
    const int64_t piece = Share{s, ranks, rank}.piece();
    const Tensor kv =
        tensor(keys_values[static_cast<size_t>(other)], {s.samples * 2 * piece, key_columns()});
    if (other < rank) return {kv, 0, 2 * piece, 0, piece};
    return {kv, piece, piece, 0, 2 * piece};
  }

  template <class O>
  void forward(O& on) {
    out.assign(static_cast<size_t>(s.rows() * s.out_columns()), 0.0f);
    for (int64_t r = 0; r < ranks; ++r) {
      AttentionProblem& p = parts[static_cast<size_t>(r)];
      p.forward(on);
      AttentionForward call = p.forward_call();
      for (const int64_t other : visits(r)) {
        call.block = block(r, other);
        on->attention_forward(call);
      }
      put_rows({s, ranks, r}, p.out, s.out_columns(), out);
    }
  }

  template <class O>
  const Floats& backward(O& on, SumOrder sum) {
    std::vector<Floats> gradients;
    for (AttentionProblem& p : parts) gradients.push_back(p.backward(on, sum));
    for (int64_t r = 0; r < ranks; ++r) {
      for (const int64_t other : visits(r)) add_block(on, sum, r, other, gradients);
    }
    dqkv.assign(static_cast<size_t>(s.rows() * s.columns()), 0.0f);
    for (int64_t r = 0; r < ranks; ++r)
      put_rows({s, ranks, r}, gradients[static_cast<size_t>(r)], s.columns(), dqkv);
    return dqkv;
  }

  template <class O>
  void add_block(O& on, SumOrder sum, int64_t rank, int64_t other, std::vector<Floats>& gradients) {
    AttentionProblem& p = parts[static_cast<size_t>(rank)];
    // Rows of no key here must stay as they are.
    Floats dkv(static_cast<size_t>(p.s.rows() * key_columns()), 0.0f);
    AttentionBackward call = p.backward_call(gradients[static_cast<size_t>(rank)], sum);
    call.block = block(rank, other);
    call.dkeys_values = tensor(dkv, {p.s.rows(), key_columns()});
    on->attention_backward(call);
    on->copy_columns(
        {.to = tensor(gradients[static_cast<size_t>(other)], {p.s.rows(), s.columns()}),
         .from = tensor(dkv, {p.s.rows(), key_columns()}),
         .to_column = s.out_columns(),
         .columns = key_columns(),
         .add = true});
  }
};

}  // namespace dettax::test
