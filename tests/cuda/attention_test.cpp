// Attention's kernels against the CPU's in both types, calls for blocks of keys in ring order, and what a schedule may change: dQ of the
// fast backward pass and nothing else.

#include "tests/cuda/kernel_fixture.h"
#include "tests/device/attention_spread.h"

namespace dettax::test {
namespace {

// One token; less than a tile, exactly one, some with a short last one; grouped heads; odd widths, and one for each size of tile.
const AttentionSizes kShapes[] = {{1, 1, 1, 1, 8},   {2, 3, 2, 1, 8},    {1, 50, 2, 2, 24},
                                  {2, 64, 1, 1, 32}, {3, 77, 3, 1, 13},  {1, 130, 4, 2, 64},
                                  {1, 65, 2, 1, 80}, {1, 99, 1, 1, 128}, {1, 70, 1, 1, 256}};

// A problem that holds numbers of a type, and its tensors on the device.
struct OnDevice {
  DType type;
  AttentionProblem p;
  Numbers qkv, dout;
  Numbers out{type, p.s.rows() * p.s.out_columns()};
  Numbers dqkv{type, p.s.rows() * p.s.columns()};
  Floats log_sum_exp = p.log_sum_exp;

  OnDevice(DType its_type, const AttentionSizes& s)
      : type(its_type), p(problem_of(type, s)), qkv(type, p.qkv), dout(type, p.dout) {}
  AttentionForward forward_call() {
    AttentionForward call = p.forward_call();
    call.qkv = qkv.view({p.s.rows(), p.s.columns()});
    call.out = out.view({p.s.rows(), p.s.out_columns()});
    call.log_sum_exp = tensor(log_sum_exp, {p.s.samples, p.s.heads, p.s.tokens});
    return call;
  }
  // Of what the forward pass of the CPU gave.
  AttentionBackward backward_call(SumOrder sum) {
    AttentionBackward call = p.backward_call(p.qkv, sum);
    out = Numbers(type, p.out);
    call.qkv = qkv.view({p.s.rows(), p.s.columns()});
    call.dqkv = dqkv.view({p.s.rows(), p.s.columns()});
    call.out = out.view({p.s.rows(), p.s.out_columns()});
    call.dout = dout.view({p.s.rows(), p.s.out_columns()});
    return call;
  }

 private:
  static AttentionProblem problem_of(DType type, const AttentionSizes& s) {
    AttentionProblem p(s);
    p.qkv = rounded_to(type, p.qkv);
    p.dout = rounded_to(type, p.dout);
    return p;
  }
};

TEST(CudaAttention, ForwardAgreesWithTheCpu) {
  OpsOn cpu(1);
  EmulatedKernels cuda;
  for (const DType type : kTypes) {
    for (const AttentionSizes& s : kShapes) {
      SCOPED_TRACE(testing::Message() << "tokens " << s.tokens << " width " << s.width);
      OnDevice on(type, s);
      on.p.forward(cpu);
      cuda->attention_forward(on.forward_call());
      expect_close(on.out.read(), to_doubles(on.p.out), tolerance_of(type), "out");
      expect_close(on.log_sum_exp, to_doubles(on.p.log_sum_exp), 2e-6, "log_sum_exp");
    }
  }
}

TEST(CudaAttention, BackwardAgreesWithTheCpuInAllVariants) {
  OpsOn cpu(1);
  EmulatedKernels cuda;
  for (const DType type : kTypes) {
    for (const AttentionSizes& s : kShapes) {
      SCOPED_TRACE(testing::Message() << "tokens " << s.tokens << " width " << s.width);
      OnDevice on(type, s);
      on.p.forward(cpu);
      on.p.out = rounded_to(type, on.p.out);
      const Floats expected = on.p.backward(cpu, {Order::ordered});
      for (const Order order : {Order::arrival, Order::ordered}) {
        cuda->attention_backward(on.backward_call({order}));
        expect_close(on.dqkv.read(), to_doubles(expected), 2 * tolerance_of(type), "dqkv");
      }
    }
  }
}

TEST(CudaAttention, LargeScoresNeitherOverflowNorVanish) {
  EmulatedKernels cuda;
  AttentionProblem p({1, 150, 1, 1, 32});
  p.qkv = random_floats(p.s.rows() * p.s.columns(), 5, 30);
  p.forward(cuda);
  const AttentionReference expected = attention_reference(p.s, to_doubles(p.qkv));
  expect_close(p.out, expected.out, 2e-4, "out");
  expect_close(p.log_sum_exp, expected.log_sum_exp, 2e-6, "log_sum_exp");
}

TEST(CudaAttention, OnlyQueryGradientsOfTheFastBackwardDependOnTheSchedule) {
  EmulatedKernels cuda;
  AttentionProblem p({1, 200, 2, 1, 12});
  p.forward(cuda);
  expect_only_fast_differs([&](Order order) { return p.backward(cuda, {order}); });
  expect_one_result([&] {
    Floats keys;
    const Floats dqkv = p.backward(cuda, {Order::arrival});
    for (size_t i = 0; i < dqkv.size(); ++i) {
      if (static_cast<int64_t>(i) % p.s.columns() >= p.s.out_columns()) keys.push_back(dqkv[i]);
    }
    return keys;
  });
  expect_one_result([&] {
    AttentionProblem again(p.s);
    again.forward(cuda);
    return again.out;
  });
}

TEST(CudaAttention, OnlyTheFastBackwardOfHalvesDependsOnTheSchedule) {
  OpsOn cpu(1);
  EmulatedKernels cuda;
  OnDevice on(DType::bf16, {1, 200, 2, 1, 16});
  // The second tile of keys gives dQ what takes away the first one's large share, exactly; the third gives a small one, which is
  // rounded to the large one's unit if it comes between: so that an order of f32 sums is seen behind bf16.
  const int64_t columns = on.p.s.columns();
  for (int64_t row = 0; row < on.p.s.rows(); ++row) {
    float* to = &on.p.qkv[static_cast<size_t>(row * columns)];
    std::fill_n(to, on.p.s.out_columns(), 0.0f);
    if (row >= 128) continue;
    if (row >= 64) std::copy_n(to - 64 * columns, columns, to);
    for (int64_t i = on.p.s.out_columns(); i < on.p.s.out_columns() + on.p.s.width; ++i) {
      to[i] *= row < 64 ? 0x1p16f : -1.0f;
    }
  }
  on.qkv = Numbers(DType::bf16, on.p.qkv);
  on.p.forward(cpu);
  expect_only_fast_differs([&](Order order) {
    cuda->attention_backward(on.backward_call({order}));
    return on.dqkv.read();
  });
  OnDevice forward(DType::bf16, on.p.s);
  expect_one_result([&] {
    cuda->attention_forward(forward.forward_call());
    return forward.out.read();
  });
}

TEST(CudaAttention, InvariantIsOrderedAndNeitherSamplesNorMultiprocessorsMatter) {
  AttentionProblem whole({3, 90, 2, 1, 20});
  EmulatedKernels cuda;
  whole.forward(cuda);
  const Floats expected = whole.backward(cuda, {Order::invariant});
  EXPECT_TRUE(same_bits(expected, whole.backward(cuda, {Order::ordered})));
  EXPECT_FALSE(same_bits(expected, whole.backward(cuda, {Order::arrival})));

  EmulatedKernels larger(17);
  AttentionProblem last({1, 90, 2, 1, 20});
  const auto take_end = [](const Floats& from, Floats& to) {
    std::copy(from.end() - static_cast<int64_t>(to.size()), from.end(), to.begin());
  };
  take_end(whole.qkv, last.qkv);
  take_end(whole.dout, last.dout);
  last.forward(larger);
  const Floats gradient = last.backward(larger, {Order::invariant});
  Floats end(gradient.size());
  take_end(expected, end);
  EXPECT_TRUE(same_bits(end, gradient));
  Floats out(last.out.size());
  take_end(whole.out, out);
  EXPECT_TRUE(same_bits(out, last.out));
}

TEST(CudaAttention, HeadsThatAreTooWideAreRefused) {
  EmulatedKernels cuda;
  AttentionProblem p({1, 2, 1, 1, 257});
  EXPECT_THROW(p.forward(cuda), Error);
}

struct SpreadCase {
  AttentionSizes s;
  int64_t ranks;
};
// One token a piece; grouped heads and an odd width; pieces longer than a tile.
const SpreadCase kSpreads[] = {
    {{1, 4, 1, 1, 8}, 2}, {{2, 36, 4, 2, 13}, 3}, {{1, 280, 2, 1, 24}, 2}};

TEST(CudaAttentionBlocks, InRingOrderMatchTheReference) {
  EmulatedKernels cuda;
  for (const auto& [s, ranks] : kSpreads) {
    SCOPED_TRACE(testing::Message() << "tokens " << s.tokens << " ranks " << ranks);
    const AttentionProblem p(s);
    Spread spread(p, ranks);
    spread.forward(cuda);
    expect_close(spread.out, attention_reference(s, to_doubles(p.qkv)).out, 5e-6, "out");
    const Doubles expected = attention_gradient(s, to_doubles(p.qkv), to_doubles(p.dout));
    for (const Order order : {Order::arrival, Order::ordered}) {
      expect_close(spread.backward(cuda, {order}), expected, 1e-5, "dqkv");
    }
  }
}

TEST(CudaAttentionBlocks, OnlyTheFastBackwardDependsOnTheSchedule) {
  EmulatedKernels cuda;
  Spread spread(AttentionProblem({1, 2 * 132, 2, 2, 12}), 2);
  spread.forward(cuda);
  expect_only_fast_differs([&](Order order) { return spread.backward(cuda, {order}); });
}

// A part of the queries against a part of the keys, in both types: all else must stay as it is.
TEST(CudaAttentionBlocks, OfAPartAgreeWithTheCpu) {
  OpsOn cpu(1);
  EmulatedKernels cuda;
  const AttentionSizes s{2, 100, 4, 2, 24};
  constexpr int64_t kKeyTokens = 90;
  const int64_t key_columns = 2 * s.key_value_heads * s.width;
  for (const DType type : kTypes) {
    for (const int64_t keys : {int64_t{77}, int64_t{0}}) {
      OnDevice on(type, s);
      on.p.forward(cpu);
      on.p.out = rounded_to(type, on.p.out);
      on.log_sum_exp = on.p.log_sum_exp;
      on.out = Numbers(type, on.p.out);
      Floats kv = rounded_to(type, random_floats(s.samples * kKeyTokens * key_columns, 9, 2));
      const Numbers on_kv(type, kv);
      AttentionForward call = on.p.forward_call();
      call.block = {tensor(kv, {s.samples * kKeyTokens, key_columns}), 20, 71, 6, keys};
      AttentionForward on_call = on.forward_call();
      on_call.block = call.block;
      on_call.block.keys_values = on_kv.view({s.samples * kKeyTokens, key_columns});
      cpu->attention_forward(call);
      cuda->attention_forward(on_call);
      expect_close(on.out.read(), to_doubles(on.p.out), tolerance_of(type), "out");
      expect_close(on.log_sum_exp, to_doubles(on.p.log_sum_exp), 2e-6, "log_sum_exp");

      on.p.out = rounded_to(type, on.p.out);
      for (const Order order : kOrders) {
        Floats dqkv = rounded_to(type, random_floats(s.rows() * s.columns(), 11));
        Floats dkv = rounded_to(type, random_floats(s.samples * kKeyTokens * key_columns, 12));
        on.dqkv = Numbers(type, dqkv);
        const Numbers on_dkv(type, dkv);
        AttentionBackward back = on.p.backward_call(dqkv, {order});
        back.block = call.block;
        back.dkeys_values = tensor(dkv, {s.samples * kKeyTokens, key_columns});
        AttentionBackward on_back = on.backward_call({order});
        on_back.block = on_call.block;
        on_back.dkeys_values = on_dkv.view({s.samples * kKeyTokens, key_columns});
        cpu->attention_backward(back);
        cuda->attention_backward(on_back);
        expect_close(on.dqkv.read(), to_doubles(dqkv), 2 * tolerance_of(type), "dqkv");
        expect_close(on_dkv.read(), to_doubles(dkv), 2 * tolerance_of(type), "dkeys_values");
      }
    }
  }
}

}  // namespace
}  // namespace dettax::test
