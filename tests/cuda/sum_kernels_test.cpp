// The kernels with an order: all variants against the CPU's, and each of them under many schedules. What a schedule may change, the
// fast ones change; the deterministic ones keep their bits.

#include "harness/device/cuda/sort.cuh"
#include "tests/cuda/kernel_fixture.h"

namespace dettax::test {
namespace {

struct TokenShape {
  int64_t samples, tokens, width, vocabulary;
  int64_t rows() const { return samples * tokens; }
};
// One row; odd sizes; ids that fill several tiles; a vocabulary of two radix digits.
const TokenShape kTokenShapes[] = {{1, 1, 5, 3}, {3, 7, 33, 11}, {4, 40, 24, 9}, {5, 13, 16, 2000}};

// Low ids often, as in text.
Ints text_ids(const TokenShape& s, uint32_t stream) {
  Ints ids = random_ints(s.rows(), stream, static_cast<int32_t>(s.vocabulary));
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i % 3 != 0) ids[i] %= 3;
  }
  return ids;
}

struct TableGradients {
  Floats table, positions;
};
template <class O>
void run_embedding(O& ops, const TokenShape& s, const Tensor& dy, Ints& ids, SumOrder sum,
                   bool generic, TableGradients& to) {
  ops->embedding_backward({.dtable = tensor(to.table, {s.vocabulary, s.width}),
                           .dposition_table = tensor(to.positions, {s.tokens, s.width}),
                           .dy = dy,
                           .tokens = tensor(ids),
                           .samples = s.samples,
                           .sum = sum,
                           .generic = generic});
}

TEST(CudaEmbedding, BackwardAgreesWithTheCpuInAllVariants) {
  OpsOn cpu(1);
  EmulatedKernels cuda;
  for (const DType type : kTypes) {
    for (const TokenShape& s : kTokenShapes) {
      for (const Order order : kOrders) {
        for (const bool generic : {false, true}) {
          Floats dy = rounded_to(type, random_floats(s.rows() * s.width, 3));
          Ints ids = text_ids(s, 1);
          TableGradients expected{random_floats(s.vocabulary * s.width, 4),
                                  random_floats(s.tokens * s.width, 5)};
          TableGradients actual = expected;
          const Numbers on_dy(type, dy);
          run_embedding(cpu, s, tensor(dy, {s.rows(), s.width}), ids, {order}, generic, expected);
          run_embedding(cuda, s, on_dy.view({s.rows(), s.width}), ids, {order}, generic, actual);
          expect_close(actual.table, to_doubles(expected.table), 4e-6, "dtable");
          expect_close(actual.positions, to_doubles(expected.positions), 4e-6, "dposition_table");
          // The invariant chain and tree are the CPU's own, addition for addition.
          if (order == Order::invariant) {
            EXPECT_TRUE(same_bits(actual.table, expected.table));
          }
        }
      }
    }
  }
  cuda.expect_no_faults();
}

TEST(CudaEmbedding, OnlyTheFastBackwardDependsOnTheSchedule) {
  EmulatedKernels cuda;
  const TokenShape s{4, 40, 24, 9};
  Floats dy = cancelling_floats(s.rows() * s.width, 3);
  Ints ids = text_ids(s, 1);
  expect_only_fast_differs([&](Order order) {
    TableGradients to{Floats(static_cast<size_t>(s.vocabulary * s.width), 0.0f),
                      Floats(static_cast<size_t>(s.tokens * s.width), 0.0f)};
    run_embedding(cuda, s, tensor(dy, {s.rows(), s.width}), ids, {order}, false, to);
    return to.table;
  });
}

TEST(CudaEmbedding, APartOfATablePassesOverOtherTokens) {
  OpsOn cpu(1);
  EmulatedKernels cuda;
  Floats dy = random_floats(60 * 8, 1);
  Ints ids = random_ints(60, 2, 30);
  for (const Order order : kOrders) {
    Floats expected(10 * 8, 0.0f);
    Floats actual = expected;
    EmbeddingBackward call{
        tensor(expected, {10, 8}), {}, tensor(dy, {60, 8}), tensor(ids), 2, {order}};
    call.part = {12, true};
    cpu->embedding_backward(call);
    call.dtable = tensor(actual, {10, 8});
    cuda->embedding_backward(call);
    expect_close(actual, to_doubles(expected), 4e-6, "dtable");
  }
  cuda.expect_no_faults();
  Floats table(10 * 8, 0.0f);
  EmbeddingBackward call{tensor(table, {10, 8}), {}, tensor(dy, {60, 8}), tensor(ids), 2, {}};
  cuda->embedding_backward(call);
  EXPECT_THROW(CudaKernels::check_faults(*cuda.kernels.faults()), Error);
}

TEST(CudaEmbedding, ForwardHasTheBitsOfTheCpu) {
  OpsOn cpu(1);
  EmulatedKernels cuda;
  for (const DType type : kTypes) {
    for (const TokenShape& s : kTokenShapes) {
      Floats table = rounded_to(type, random_floats(s.vocabulary * s.width, 1));
      Floats positions = rounded_to(type, random_floats(s.tokens * s.width, 2));
      Ints ids = text_ids(s, 3);
      Floats y(static_cast<size_t>(s.rows() * s.width));
      const Numbers on_table(type, table);
      const Numbers on_positions(type, positions);
      const Numbers on_y(type, s.rows() * s.width);
      EmbeddingForward call{tensor(y, {s.rows(), s.width}), tensor(ids),
                            tensor(table, {s.vocabulary, s.width}),
                            tensor(positions, {s.tokens, s.width}), s.samples};
      cpu->embedding_forward(call);
      call.y = on_y.view({s.rows(), s.width});
      call.table = on_table.view({s.vocabulary, s.width});
      call.position_table = on_positions.view({s.tokens, s.width});
      cuda->embedding_forward(call);
      EXPECT_TRUE(same_bits(on_y.read(), rounded_to(type, y)));
    }
  }
}

TEST(CudaSort, IsStableUnderEverySchedule) {
  constexpr int64_t kCount = 5000;
  const Ints keys = random_ints(kCount, 1, 1000);
  WorkspaceLayout layout;
  const SortMemory memory = add_sort(layout, kCount);
  for (const ScheduleSeed seed : {0U, 1U, 2U}) {
    const ScheduleOf schedule(seed);
    const Buffer buffer = poisoned(layout.bytes());
    auto* bytes = static_cast<std::byte*>(buffer.data());
    std::copy(keys.begin(), keys.end(), layout.at<int32_t>(bytes, memory.keys[0]));
    const SortedPositions sorted =
        sort_positions({nullptr, 3}, layout, memory, bytes, kCount, 1000);
    for (int64_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(sorted.keys[i], keys[static_cast<size_t>(sorted.positions[i])]);
      if (i == 0) continue;
      ASSERT_TRUE(
          sorted.keys[i - 1] < sorted.keys[i] ||
          (sorted.keys[i - 1] == sorted.keys[i] && sorted.positions[i - 1] < sorted.positions[i]));
    }
  }
}

struct NormRun {
  Floats dx, dgamma, dbeta;
};
template <class O>
void run_norm(O& ops, Norm kind, const Tensor& dx, const Tensor& dy, const Tensor& x,
              const Tensor& gamma, const NormForward& kept, int64_t samples, SumOrder sum,
              NormRun& to) {
  NormBackward call;
  call.dx = dx;
  call.dgamma = tensor(to.dgamma);
  call.dy = dy;
  call.x = x;
  call.mean = kept.mean;
  call.rstd = kept.rstd;
  call.gamma = gamma;
  call.kind = kind;
  if (kind == Norm::layer) call.dbeta = tensor(to.dbeta);
  call.accumulate_dx = true;
  call.samples = samples;
  call.sum = sum;
  ops->norm_backward(call);
}

struct NormInput {
  int64_t rows, width;
  Floats x, dy, gamma, mean, rstd;
  NormForward kept;
  NormInput(int64_t r, int64_t w, DType type)
      : rows(r),
        width(w),
        x(rounded_to(type, random_floats(r * w, 1, 2, 1))),
        dy(rounded_to(type, cancelling_floats(r * w, 2))),
        gamma(rounded_to(type, random_floats(w, 3))),
        mean(random_floats(r, 4, 0.1, 1)),
        rstd(random_floats(r, 5, 0.1, 1)) {
    kept.mean = tensor(mean);
    kept.rstd = tensor(rstd);
  }
};

TEST(CudaNorm, BackwardAgreesWithTheCpuInAllVariants) {
  OpsOn cpu(1);
  EmulatedKernels cuda;
  for (const DType type : kTypes) {
    for (const auto& [rows, width] :
         {std::pair<int64_t, int64_t>{2, 1}, {2, 7}, {100, 40}, {70, 33}}) {
      NormInput in(rows, width, type);
      for (const Norm kind : {Norm::layer, Norm::rms}) {
        for (const Order order : kOrders) {
          const Floats old = rounded_to(type, random_floats(rows * width, 6));
          NormRun expected{old, random_floats(width, 7), random_floats(width, 8)};
          NormRun actual = expected;
          const Numbers x(type, in.x);
          const Numbers dy(type, in.dy);
          const Numbers gamma(type, in.gamma);
          const Numbers dx(type, old);
          run_norm(cpu, kind, tensor(expected.dx, {rows, width}), tensor(in.dy, {rows, width}),
                   tensor(in.x, {rows, width}), tensor(in.gamma), in.kept, 2, {order}, expected);
          run_norm(cuda, kind, dx.view({rows, width}), dy.view({rows, width}),
                   x.view({rows, width}), gamma.view({width}), in.kept, 2, {order}, actual);
          expect_close(dx.read(), to_doubles(expected.dx), 2 * tolerance_of(type), "dx");
          expect_close(actual.dgamma, to_doubles(expected.dgamma), 1e-5, "dgamma");
          expect_close(actual.dbeta, to_doubles(expected.dbeta), 1e-5, "dbeta");
        }
      }
    }
  }
}

Floats norm_sums(EmulatedKernels& cuda, NormInput& in, int64_t first_row, int64_t rows,
                 int64_t samples, Order order) {
  Floats dx(static_cast<size_t>(rows * in.width));
  Floats dgamma(static_cast<size_t>(in.width));
  const auto part = [&](Floats& of) {
    return make_tensor(of.data() + first_row * in.width, DType::f32, {rows, in.width});
  };
  NormBackward call;
  call.dx = tensor(dx, {rows, in.width});
  call.dgamma = tensor(dgamma);
  call.dy = part(in.dy);
  call.x = part(in.x);
  call.rstd = make_tensor(in.rstd.data() + first_row, DType::f32, {rows});
  call.gamma = tensor(in.gamma);
  call.kind = Norm::rms;
  call.accumulate_parameters = false;
  call.samples = samples;
  call.sum = {order};
  cuda->norm_backward(call);
  return dgamma;
}

TEST(CudaNorm, OnlyTheFastBackwardDependsOnTheScheduleOrOnTheDevice) {
  NormInput in(160, 24, DType::f32);
  EmulatedKernels small(2);
  EmulatedKernels large(40);
  expect_only_fast_differs([&](Order order) { return norm_sums(small, in, 0, 160, 4, order); });
  for (const Order order : {Order::ordered, Order::invariant}) {
    EXPECT_TRUE(
        same_bits(norm_sums(small, in, 0, 160, 4, order), norm_sums(large, in, 0, 160, 4, order)));
  }
}

// Two micro-batches of two samples give what one of four does; `ordered`, which knows no samples, does not.
TEST(CudaNorm, InvariantSumsDoNotDependOnMicroBatches) {
  NormInput in(160, 24, DType::f32);
  EmulatedKernels cuda;
  const auto in_two = [&](Order order) {
    Floats sum = norm_sums(cuda, in, 0, 80, 2, order);
    const Floats rest = norm_sums(cuda, in, 80, 80, 2, order);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += rest[i];
    return sum;
  };
  EXPECT_TRUE(
      same_bits(in_two(Order::invariant), norm_sums(cuda, in, 0, 160, 4, Order::invariant)));
  EXPECT_FALSE(same_bits(in_two(Order::ordered), norm_sums(cuda, in, 0, 160, 4, Order::ordered)));
}

TEST(CudaSums, AgreeWithTheCpuInAllVariants) {
  OpsOn cpu(1);
  EmulatedKernels cuda;
  for (const int64_t count : {1, 6, 4099, 50000}) {
    for (const Order order : kOrders) {
      Floats values = random_floats(count, 1, 1, 1);
      Floats expected{0.5f};
      Floats actual{0.5f};
      const SumOfSquares squares{tensor(expected), tensor(values), true, {order}};
      cpu->sum_of_squares(squares);
      cuda->sum_of_squares({tensor(actual), tensor(values), true, {order}});
      EXPECT_NEAR(actual[0], expected[0], 1e-5 * static_cast<double>(expected[0]));
      const int64_t samples = count % 2 == 0 ? 2 : 1;
      cpu->sum_scalar({tensor(expected), tensor(values), 0.25, samples, {order}});
      cuda->sum_scalar({tensor(actual), tensor(values), 0.25, samples, {order}});
      EXPECT_NEAR(actual[0], expected[0], 1e-5 * static_cast<double>(expected[0]));
    }
  }
}

TEST(CudaSums, OnlyTheFastOnesDependOnTheScheduleOrOnTheDevice) {
  EmulatedKernels small(2);
  EmulatedKernels large(7);
  Floats values = cancelling_floats(60000, 1);
  const auto norm = [&](EmulatedKernels& cuda, Order order) {
    Floats result(1);
    cuda->sum_of_squares({tensor(result), tensor(values), false, {order}});
    return result;
  };
  const auto loss = [&](Order order) {
    Floats result(1);
    small->sum_scalar({tensor(result), tensor(values), 1, 3, {order}});
    return result;
  };
  expect_only_fast_differs([&](Order order) { return norm(small, order); });
  expect_only_fast_differs(loss);
  EXPECT_TRUE(same_bits(norm(small, Order::ordered), norm(large, Order::ordered)));
}

TEST(CudaSums, InvariantLossesAddUpOverMicroBatches) {
  EmulatedKernels cuda;
  Floats values = cancelling_floats(4 * 5000, 1);
  const auto sum = [&](int64_t first, int64_t samples) {
    Floats result(1);
    cuda->sum_scalar({tensor(result),
                      make_tensor(values.data() + first * 5000, DType::f32, {samples * 5000}),
                      0.3,
                      samples,
                      {Order::invariant}});
    return result[0];
  };
  EXPECT_EQ(sum(0, 4), sum(0, 2) + sum(2, 2));
}

}  // namespace
}  // namespace dettax::test
