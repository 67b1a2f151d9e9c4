// Products against the CPU's, in every type and order.

#include <span>

#include <gmock/gmock.h>

#include "tests/cuda/runtime/products_fixture.h"

namespace dettax::test {
namespace {

using testing::HasSubstr;

// Of sums of a few hundred numbers; bf16 may be rounded twice.
double tolerance(DType out) { return out == DType::bf16 ? 0x1p-6 : 6e-6; }

constexpr LinearShape kOneLinearShape[] = {{40, 64, 24}};

struct ForwardData {
  ForwardData(const LinearShape& s, const ProductTypes& types)
      : shape(s),
        x(rounded_to(types.in, random_floats(s.m * s.k, 1))),
        w(rounded_to(types.in, random_floats(s.n * s.k, 2))),
        bias(rounded_to(types.out, random_floats(s.n, 3))),
        residual(rounded_to(types.out, random_floats(s.m * s.n, 4))) {}
  LinearShape shape;
  Floats x, w, bias, residual;
};
struct ForwardResult {
  Floats y, before;
};

// y is the residual's memory where there is one.
ForwardResult forward_on_cpu(OpsOn& cpu, ForwardData d, Epilogue epilogue) {
  const auto [m, k, n] = d.shape;
  ForwardResult to{d.residual, Floats(d.residual.size())};
  cpu->linear_forward({.y = tensor(to.y, {m, n}),
                       .x = tensor(d.x, {m, k}),
                       .w = tensor(d.w, {n, k}),
                       .bias = tensor(d.bias),
                       .residual = tensor(to.y, {m, n}),
                       .pre_activation = tensor(to.before, {m, n}),
                       .epilogue = epilogue});
  return to;
}
ForwardResult forward_on_cuda(EmulatedProducts& cuda, const ForwardData& d,
                              const ProductTypes& types, Epilogue epilogue, SumOrder sum,
                              NumberFormat operands = NumberFormat::f32,
                              bool may_fuse_gelu = true) {
  const auto [m, k, n] = d.shape;
  const Numbers x(types.in, d.x);
  const Numbers w(types.in, d.w);
  const Numbers bias(types.out, d.bias);
  const Numbers y(types.out, d.residual);
  const Numbers before(types.out, m * n);
  cuda->linear_forward({.y = y.view({m, n}),
                        .x = x.view({m, k}),
                        .w = w.view({n, k}),
                        .bias = bias.view({n}),
                        .residual = y.view({m, n}),
                        .pre_activation = before.view({m, n}),
                        .epilogue = epilogue,
                        .dynamic_schedule = sum.dynamic_schedule,
                        .operands = operands,
                        .order = sum.order,
                        .may_fuse_gelu = may_fuse_gelu});
  return {y.read(), before.read()};
}

void expect_forward_agrees(std::span<const LinearShape> shapes = kLinearShapes) {
  OpsOn cpu(1);
  EmulatedProducts cuda;
  for (const LinearShape& shape : shapes) {
    for (const ProductTypes& types : kProductTypes) {
      const ForwardData d(shape, types);
      for (const Epilogue e : {Epilogue::none, Epilogue::bias, Epilogue::bias_gelu,
                               Epilogue::bias_residual, Epilogue::residual}) {
        const ForwardResult expected = forward_on_cpu(cpu, d, e);
        for (const SumOrder& sum : kProductSums) {
          const ForwardResult actual = forward_on_cuda(cuda, d, types, e, sum);
          expect_close(actual.y, to_doubles(expected.y), tolerance(types.out), "y");
          if (e != Epilogue::bias_gelu) continue;
          expect_close(actual.before, to_doubles(expected.before), tolerance(types.out),
                       "pre_activation");
        }
      }
    }
  }
}

TEST(CudaLinear, ForwardAgreesWithTheCpuInAllVariants) { expect_forward_agrees(); }

TEST(CudaLinear, ForwardAgreesWhereTheLibraryHasNoEpilogue) {
  CublasLtAs library;
  library->has_epilogues = false;
  expect_forward_agrees();
}

TEST(CudaLinear, ForwardAgreesWhereTheLibraryCallsEpiloguesInvalid) {
  CublasLtAs library;
  library->epilogues_are_invalid = true;
  expect_forward_agrees(kOneLinearShape);
}

// Recomputed activations are those of the forward pass, so that only who recomputes none may leave gelu to the library.
TEST(CudaLinear, GeluHasTheBitsOfItsKernelUnlessItMayBeFused) {
  EmulatedProducts cuda;
  const ProductTypes types{DType::f32, DType::f32};
  const ForwardData d({40, 64, 24}, types);
  for (const Order order : kOrders) {
    for (const bool may_fuse : {false, true}) {
      const ForwardResult result = forward_on_cuda(cuda, d, types, Epilogue::bias_gelu,
                                                   {order, false}, NumberFormat::f32, may_fuse);
      Floats before = result.before;
      Floats again(before.size());
      cuda.kernels.gelu_forward({tensor(again), tensor(before)});
      EXPECT_EQ(same_bits(again, result.y), !may_fuse || order == Order::invariant);
    }
  }
}

TEST(CudaLinear, FusesTheGradientOfGeluInEveryOrderButTheInvariant) {
  Floats dy = random_floats(40 * 24, 1);
  Floats w = random_floats(24 * 64, 2);
  Floats before = random_floats(40 * 64, 3);
  EmulatedProducts cuda;
  const auto gradient = [&](Order order, bool may_fuse) {
    Floats dx(before.size());
    cuda->linear_backward_input({.dx = tensor(dx, {40, 64}),
                                 .dy = tensor(dy, {40, 24}),
                                 .w = tensor(w, {24, 64}),
                                 .gelu_pre_activation = tensor(before, {40, 64}),
                                 .order = order,
                                 .may_fuse_gelu = may_fuse});
    return dx;
  };
  for (const Order order : kOrders) {
    EXPECT_EQ(same_bits(gradient(order, true), gradient(order, false)), order == Order::invariant);
  }
}

TEST(CudaLinear, InputGradientAgreesWithTheCpuInAllVariants) {
  OpsOn cpu(1);
  EmulatedProducts cuda;
  for (const auto& [m, k, n] : kLinearShapes) {
    for (const ProductTypes& types : kProductTypes) {
      Floats dy = rounded_to(types.in, random_floats(m * n, 1));
      Floats w = rounded_to(types.in, random_floats(n * k, 2));
      Floats before = rounded_to(types.out, random_floats(m * k, 3));
      const Floats old = rounded_to(types.out, random_floats(m * k, 4));
      const Numbers on_dy(types.in, dy);
      const Numbers on_w(types.in, w);
      const Numbers on_before(types.out, before);
      for (const bool accumulate : {false, true}) {
        for (const bool gelu : {false, true}) {
          Floats expected = old;
          cpu->linear_backward_input(
              {.dx = tensor(expected, {m, k}),
               .dy = tensor(dy, {m, n}),
               .w = tensor(w, {n, k}),
               .gelu_pre_activation = gelu ? tensor(before, {m, k}) : Tensor{},
               .accumulate = accumulate});
          for (const SumOrder& sum : kProductSums) {
            const Numbers dx(types.out, accumulate ? old : Floats(old.size(), NAN));
            cuda->linear_backward_input(
                {.dx = dx.view({m, k}),
                 .dy = on_dy.view({m, n}),
                 .w = on_w.view({n, k}),
                 .gelu_pre_activation = gelu ? on_before.view({m, k}) : Tensor{},
                 .accumulate = accumulate,
                 .dynamic_schedule = sum.dynamic_schedule,
                 .order = sum.order,
                 .may_fuse_gelu = true});
            expect_close(dx.read(), to_doubles(expected), tolerance(types.out), "dx");
          }
        }
      }
    }
  }
}

struct WeightData {
  WeightData(const LinearShape& s, DType in, bool cancelling = false)
      : shape(s),
        dy(rounded_to(in,
                      cancelling ? cancelling_floats(s.m * s.n, 1) : random_floats(s.m * s.n, 1))),
        x(rounded_to(in, random_floats(s.m * s.k, 2))) {}
  LinearShape shape;
  Floats dy, x;
};
struct WeightGradients {
  Floats dw, dbias;
  bool same_bits_as(const WeightGradients& other) const {
    return same_bits(dw, other.dw) && same_bits(dbias, other.dbias);
  }
};

// Of rows [first, first + count), added to `to` or in its place.
void weight_gradient(EmulatedProducts& cuda, const WeightData& d, const ProductTypes& types,
                     int64_t first, int64_t count, int64_t samples, SumOrder sum, bool accumulate,
                     WeightGradients& to) {
  const auto [m, k, n] = d.shape;
  const Numbers dy(types.in, d.dy);
  const Numbers x(types.in, d.x);
  const Numbers dw(types.out, accumulate ? to.dw : Floats(to.dw.size(), NAN));
  const Numbers dbias(DType::f32, accumulate ? to.dbias : Floats(to.dbias.size(), NAN));
  const auto some_rows = [&](const Numbers& all, int64_t width) {
    Tensor rows = all.view({count, width});
    rows.data = static_cast<std::byte*>(rows.data) +
                first * width * static_cast<int64_t>(size_of(types.in));
    return rows;
  };
  cuda->linear_backward_weight({.dw = dw.view({n, k}),
                                .dbias = dbias.view({n}),
                                .dy = some_rows(dy, n),
                                .x = some_rows(x, k),
                                .accumulate = accumulate,
                                .samples = samples,
                                .sum = sum});
  to = {dw.read(), dbias.read()};
}
WeightGradients fresh(const LinearShape& s) {
  return {Floats(static_cast<size_t>(s.n * s.k)), Floats(static_cast<size_t>(s.n))};
}

void expect_weight_gradient_agrees(std::span<const LinearShape> shapes = kLinearShapes) {
  OpsOn cpu(1);
  EmulatedProducts cuda;
  for (const LinearShape& s : shapes) {
    for (const ProductTypes& types : kProductTypes) {
      WeightData d(s, types.in);
      const int64_t samples = s.m % 6 == 0 ? 6 : 1;
      const Floats old_dw = rounded_to(types.out, random_floats(s.n * s.k, 3));
      const Floats old_dbias = random_floats(s.n, 4);
      for (const bool accumulate : {false, true}) {
        WeightGradients expected{old_dw, old_dbias};
        cpu->linear_backward_weight({.dw = tensor(expected.dw, {s.n, s.k}),
                                     .dbias = tensor(expected.dbias),
                                     .dy = tensor(d.dy, {s.m, s.n}),
                                     .x = tensor(d.x, {s.m, s.k}),
                                     .accumulate = accumulate,
                                     .samples = samples,
                                     .sum = {Order::ordered}});
        for (const SumOrder& sum : kProductSums) {
          WeightGradients actual{old_dw, old_dbias};
          weight_gradient(cuda, d, types, 0, s.m, samples, sum, accumulate, actual);
          expect_close(actual.dw, to_doubles(expected.dw), tolerance(types.out), "dw");
          expect_close(actual.dbias, to_doubles(expected.dbias), 6e-6, "dbias");
        }
      }
    }
  }
}

TEST(CudaLinear, WeightGradientAgreesWithTheCpuInAllVariants) { expect_weight_gradient_agrees(); }

// The kernels sum chunks of rows, the stand-in's epilogue row after row.
TEST(CudaLinear, FusesTheGradientOfABiasInEveryOrderButTheInvariant) {
  const WeightData d({640, 24, 16}, DType::f32, true);
  const auto gradient = [&](Order order, bool has_epilogues) {
    CublasLtAs library;
    library->has_epilogues = has_epilogues;
    EmulatedProducts cuda;
    WeightGradients to = fresh(d.shape);
    weight_gradient(cuda, d, {DType::f32, DType::f32}, 0, 640, 8, {order, false}, false, to);
    return to.dbias;
  };
  for (const Order order : kOrders) {
    EXPECT_EQ(same_bits(gradient(order, true), gradient(order, false)), order == Order::invariant);
  }
}

TEST(CudaLinear, WeightGradientAgreesWhereTheLibraryCallsEpiloguesInvalid) {
  CublasLtAs library;
  library->epilogues_are_invalid = true;
  expect_weight_gradient_agrees(kOneLinearShape);
}

TEST(CudaLinear, WeightGradientAgreesWhereTheLibraryHasNoEpilogue) {
  CublasLtAs library;
  library->has_epilogues = false;
  expect_weight_gradient_agrees();
}

TEST(CudaLinear, ComputesInTf32WhereOperandsMayBeRounded) {
  OpsOn cpu(1);
  EmulatedProducts cuda;
  const ProductTypes types{DType::f32, DType::f32};
  const ForwardData d({40, 64, 24}, types);
  ForwardData rounded = d;
  for (Floats* values : {&rounded.x, &rounded.w}) {
    for (float& v : *values) v = round_to(NumberFormat::tf32, v);
  }
  for (const Order order : kOrders) {
    const SumOrder sum{order, false};
    const Floats actual =
        forward_on_cuda(cuda, d, types, Epilogue::none, sum, NumberFormat::tf32).y;
    expect_close(actual, to_doubles(forward_on_cpu(cpu, rounded, Epilogue::none).y), 6e-6, "y");
    EXPECT_FALSE(same_bits(actual, forward_on_cuda(cuda, d, types, Epilogue::none, sum).y));
  }
}

TEST(CudaLinear, OnlyTheFastProductsDependOnTheSchedule) {
  const ProductTypes types{DType::f32, DType::f32};
  ForwardData d({24, 264, 16}, types);
  d.x = cancelling_floats(24 * 264, 5);
  expect_only_fast_differs([&](Order order) {
    EmulatedProducts cuda;
    return forward_on_cuda(cuda, d, types, Epilogue::none, {order, false}).y;
  });
  const WeightData gradient({640, 24, 16}, DType::f32, true);
  for (auto part : {&WeightGradients::dw, &WeightGradients::dbias}) {
    CublasLtAs library;
    library->has_epilogues = false;  // sums of columns are then our own kernel's
    expect_only_fast_differs([&](Order order) {
      EmulatedProducts cuda;
      WeightGradients to = fresh(gradient.shape);
      weight_gradient(cuda, gradient, types, 0, 640, 8, {order, false}, false, to);
      return to.*part;
    });
  }
}

// The rows of a smaller batch are those of a larger one. In order of the shapes alone they need not be: the twin.
TEST(CudaLinear, OnlyInvariantRowsDoNotDependOnTheNumberOfRows) {
  const ProductTypes types{DType::f32, DType::f32};
  const ForwardData all({256, 64, 48}, types);
  const auto differing = [&](Order order) {
    int count = 0;
    EmulatedProducts cuda;
    const Floats whole = forward_on_cuda(cuda, all, types, Epilogue::bias, {order, false}).y;
    for (const int64_t rows : {1, 7, 32, 100, 128}) {
      ForwardData some = all;
      some.shape.m = rows;
      some.x.resize(static_cast<size_t>(rows * 64));
      some.residual.resize(static_cast<size_t>(rows * 48));
      const Floats part = forward_on_cuda(cuda, some, types, Epilogue::bias, {order, false}).y;
      count += same_bits(part, Floats(whole.begin(), whole.begin() + rows * 48)) ? 0 : 1;
    }
    return count;
  };
  EXPECT_EQ(differing(Order::invariant), 0);
  EXPECT_GT(differing(Order::ordered), 0);
}

TEST(CudaLinear, OnlyInvariantWeightGradientsDoNotDependOnMicroBatches) {
  for (const ProductTypes& types : {kProductTypes[0], kProductTypes[2]}) {
    const WeightData d({8 * 33, 24, 17}, types.in, true);
    const auto differing = [&](Order order) {
      int count = 0;
      EmulatedProducts cuda;
      WeightGradients whole = fresh(d.shape);
      weight_gradient(cuda, d, types, 0, d.shape.m, 8, {order, false}, false, whole);
      for (const int64_t calls : {2, 4, 8}) {
        WeightGradients parts = fresh(d.shape);
        const int64_t rows = d.shape.m / calls;
        for (int64_t i = 0; i < calls; ++i) {
          weight_gradient(cuda, d, types, i * rows, rows, 8 / calls, {order, false}, i > 0, parts);
        }
        // Two calls are added as the tree does it; more of them one after the other, as a trainer does not add them.
        if (calls == 2) count += parts.same_bits_as(whole) ? 0 : 1;
      }
      return count;
    };
    EXPECT_EQ(differing(Order::invariant), 0);
    EXPECT_GT(differing(Order::ordered), 0);
  }
}

TEST(CudaLinear, NamesShapeAndTypesWhereTheLibraryHasNoAlgorithm) {
  CublasLtAs library;
  library->has_algorithms = false;
  EmulatedProducts cuda;
  const ProductTypes types{DType::bf16, DType::f32};
  try {
    forward_on_cuda(cuda, ForwardData({3, 64, 33}, types), types, Epilogue::bias, {});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_STREQ(
        error.what(),
        "linear_forward: cuBLASLt has no algorithm for bf16 to f32, 33 x 3 sums of 64 (TN)");
  }
}

TEST(CudaLinear, RefusesRowsThatAPinnedAlgorithmCannotCompute) {
  CublasLtAs library;
  library->fewest_columns = 16;
  EmulatedProducts cuda;
  const ProductTypes types{DType::f32, DType::f32};
  const auto run = [&](int64_t rows, Order order) {
    forward_on_cuda(cuda, ForwardData({rows, 64, 33}, types), types, Epilogue::none, {order});
  };
  EXPECT_NO_THROW(run(16, Order::invariant));
  try {
    run(3, Order::invariant);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_THAT(error.what(), HasSubstr("33 x 3 sums of 64"));
  }
}

TEST(CudaLinear, RefusesTypesThatDoNotFit) {
  EmulatedProducts cuda;
  const ProductTypes types{DType::f32, DType::bf16};
  EXPECT_THROW(forward_on_cuda(cuda, ForwardData({3, 8, 8}, types), types, Epilogue::none, {}),
               Error);
}

// Work is enqueued and done later, in order.
TEST(CudaLinear, WaitsForNothing) {
  OpsOn cpu(1);
  const StreamsInOrder lazy(StreamOrder::lazy);
  auto& streams = EmulatedStreams::of_this_thread();
  const CudaStream stream = streams.create();
  {
    EmulatedProducts cuda(stream);
    LinearShape s{40, 64, 24};
    Floats x = random_floats(s.m * s.k, 1);
    Floats w = random_floats(s.n * s.k, 2);
    Floats bias = random_floats(s.n, 3);
    Floats y(static_cast<size_t>(s.m * s.n), NAN);
    Floats before = y;
    LinearForward call{.y = tensor(y, {s.m, s.n}),
                       .x = tensor(x, {s.m, s.k}),
                       .w = tensor(w, {s.n, s.k}),
                       .bias = tensor(bias),
                       .residual = {},
                       .pre_activation = tensor(before, {s.m, s.n}),
                       .epilogue = Epilogue::bias_gelu};
    cuda->linear_forward(call);
    EXPECT_TRUE(std::isnan(y.front()));
    streams.wait_for(stream);
    const Floats actual = y;
    cpu->linear_forward(call);
    expect_close(actual, to_doubles(y), 6e-6, "y");
  }
  streams.destroy(stream);
}

TEST(CudaLinear, EveryFailureOfTheLibraryIsOneErrorAndLeavesNothingBehind) {
  const ProductTypes types{DType::f32, DType::f32};
  const ForwardData d({3, 64, 32}, types);
  const int64_t alive = cublaslt().live_objects;
  int failures = 0;
  for (int call = 1;; ++call) {
    CublasLtAs library;
    library->fail_at = call;
    try {
      EmulatedProducts cuda;
      forward_on_cuda(cuda, d, types, Epilogue::bias_gelu, {Order::invariant, false});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::infrastructure);
      EXPECT_THAT(error.what(), HasSubstr("cublasLt"));
      ++failures;
    }
    EXPECT_EQ(cublaslt().live_objects, alive) << call;
    if (library->fail_at > 0) break;
  }
  EXPECT_GT(failures, 30);
}

}  // namespace
}  // namespace dettax::test
