// Products of experts, and the head with its loss, against the CPU's.

#include "harness/device/cuda/host/emulation.h"
#include "harness/device/cuda/runtime/handles.h"
#include "tests/cuda/runtime/products_fixture.h"
#include "tests/cuda/standins/cudart.h"
#include "tests/device/expert_fixture.h"

namespace dettax::test {
namespace {

double tolerance(DType type) { return type == DType::bf16 ? 0x1p-7 : 6e-6; }

// Products on a device that the host cannot look into: segments lie there, and are read by a copy.
struct DeviceProducts {
  FakeCuda fake{StreamOrder::lazy};
  StreamHandle stream;
  EmulatedProducts cuda{stream.get()};
  MatrixProducts* operator->() { return &cuda.products; }

  Tensor segments(const Ints& values, int64_t experts) {
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, values.size() * sizeof(int32_t)), cudaSuccess);
    memory_.emplace_back(memory, 0, [](void* at, size_t) { cudaFree(at); });
    enqueue_on(stream.get(), [memory, values] {
      std::copy(values.begin(), values.end(), static_cast<int32_t*>(memory));
    });
    return make_tensor(memory, DType::i32,
                       {experts, static_cast<int64_t>(values.size()) / experts});
  }

 private:
  std::vector<Buffer> memory_;
};

// A layer of experts with `width` inputs and some outputs.
struct Experts {
  Experts(const ExpertShape& s, DType type, int64_t outputs_of_each)
      : shape(s),
        outputs(outputs_of_each),
        x(rounded_to(type, random_floats(s.slots() * s.width, 1))),
        w(rounded_to(type, random_floats(s.experts * outputs * s.width, 2))),
        dy(rounded_to(type, random_floats(s.slots() * outputs, 3))) {
    OpsOn cpu(1);
    plan(cpu, s, skewed_choices(s, 4), {Order::invariant}, its_plan);
  }
  Tensor segments() { return its_plan.view.segments; }  // where a CPU reads them
  Tensor segments(DeviceProducts& on) { return on.segments(its_plan.segments, shape.experts); }
  ExpertShape shape;
  int64_t outputs;
  Floats x, w, dy;
  Plan its_plan;
};

TEST(CudaExperts, ForwardAndInputGradientAgreeWithTheCpu) {
  OpsOn cpu(1);
  DeviceProducts cuda;
  for (const ExpertShape& s : kExpertShapes) {
    for (const DType type : kTypes) {
      Experts e(s, type, 24);
      Floats y(e.dy.size(), 0.0F);
      Floats dx(e.x.size(), 0.0F);
      cpu->expert_linear_forward({.y = tensor(y, {s.slots(), 24}),
                                  .x = tensor(e.x, {s.slots(), s.width}),
                                  .w = tensor(e.w, {s.experts, 24, s.width}),
                                  .segments = e.segments()});
      cpu->expert_linear_backward_input({.dx = tensor(dx, {s.slots(), s.width}),
                                         .dy = tensor(e.dy, {s.slots(), 24}),
                                         .w = tensor(e.w, {s.experts, 24, s.width}),
                                         .segments = e.segments()});
      const Numbers x(type, e.x);
      const Numbers w(type, e.w);
      const Numbers dy(type, e.dy);
      for (const Order order : kOrders) {
        const Numbers on_y(type, Floats(y.size(), 0.0F));
        const Numbers on_dx(type, Floats(dx.size(), 0.0F));
        cuda->expert_linear_forward({.y = on_y.view({s.slots(), 24}),
                                     .x = x.view({s.slots(), s.width}),
                                     .w = w.view({s.experts, 24, s.width}),
                                     .segments = e.segments(cuda),
                                     .order = order});
        cuda->expert_linear_backward_input({.dx = on_dx.view({s.slots(), s.width}),
                                            .dy = dy.view({s.slots(), 24}),
                                            .w = w.view({s.experts, 24, s.width}),
                                            .segments = e.segments(cuda),
                                            .order = order});
        cuda.stream.synchronize();
        expect_close(on_y.read(), to_doubles(y), tolerance(type), "y");
        expect_close(on_dx.read(), to_doubles(dx), tolerance(type), "dx");
      }
    }
  }
}

TEST(CudaExperts, WeightGradientAgreesWithTheCpuAlsoWhereAnExpertHasNoRows) {
  OpsOn cpu(1);
  DeviceProducts cuda;
  for (const ExpertShape& s : kExpertShapes) {
    for (const ProductTypes& types : kProductTypes) {
      Experts e(s, types.in, 24);
      const Floats old = rounded_to(types.out, random_floats(s.experts * 24 * s.width, 5));
      const Numbers x(types.in, e.x);
      const Numbers dy(types.in, e.dy);
      for (const bool accumulate : {false, true}) {
        Floats dw = old;
        cpu->expert_linear_backward_weight({.dw = tensor(dw, {s.experts, 24, s.width}),
                                            .dy = tensor(e.dy, {s.slots(), 24}),
                                            .x = tensor(e.x, {s.slots(), s.width}),
                                            .segments = e.segments(),
                                            .accumulate = accumulate,
                                            .sum = {Order::ordered}});
        for (const Order order : kOrders) {
          const Numbers on_dw(types.out, accumulate ? old : Floats(old.size(), NAN));
          cuda->expert_linear_backward_weight({.dw = on_dw.view({s.experts, 24, s.width}),
                                               .dy = dy.view({s.slots(), 24}),
                                               .x = x.view({s.slots(), s.width}),
                                               .segments = e.segments(cuda),
                                               .accumulate = accumulate,
                                               .sum = {order}});
          cuda.stream.synchronize();
          expect_close(on_dw.read(), to_doubles(dw), tolerance(types.out), "dw");
        }
      }
    }
  }
}

// Rows of `samples` samples from `first` on, as a micro-batch has them: neighbours by expert and then by sample.
struct MicroBatch {
  Ints segments;
  Floats x, dy;
};
MicroBatch micro_batch(const Experts& all, int64_t first, int64_t samples) {
  const ExpertShape& s = all.shape;
  MicroBatch to;
  const auto append = [](Floats& rows, const Floats& from, int32_t row, int64_t width) {
    rows.insert(rows.end(), from.begin() + row * width, from.begin() + (row + 1) * width);
  };
  int32_t at = 0;
  for (int64_t e = 0; e < s.experts; ++e) {
    const int32_t* begins = all.its_plan.segments.data() + e * (s.samples + 1);
    to.segments.push_back(at);
    for (int64_t sample = first; sample < first + samples; ++sample) {
      for (int32_t row = begins[sample]; row < begins[sample + 1]; ++row, ++at) {
        append(to.x, all.x, row, s.width);
        append(to.dy, all.dy, row, all.outputs);
      }
      to.segments.push_back(at);
    }
  }
  return to;
}

TEST(CudaExperts, OnlyInvariantWeightGradientsDoNotDependOnMicroBatches) {
  Experts e({8, 40, 24, 5, 2}, DType::f32, 16);
  e.dy = cancelling_floats(static_cast<int64_t>(e.dy.size()), 6);
  const auto gradient = [&](Order order, int64_t calls) {
    DeviceProducts cuda;
    Floats dw(static_cast<size_t>(5 * 16 * 24), NAN);
    for (int64_t i = 0; i < calls; ++i) {
      const int64_t samples = 8 / calls;
      MicroBatch rows = micro_batch(e, i * samples, samples);
      const auto count = static_cast<int64_t>(rows.x.size()) / 24;
      cuda->expert_linear_backward_weight({.dw = tensor(dw, {5, 16, 24}),
                                           .dy = tensor(rows.dy, {count, 16}),
                                           .x = tensor(rows.x, {count, 24}),
                                           .segments = cuda.segments(rows.segments, 5),
                                           .accumulate = i > 0,
                                           .sum = {order}});
      cuda.stream.synchronize();
    }
    return dw;
  };
  EXPECT_TRUE(same_bits(gradient(Order::invariant, 1), gradient(Order::invariant, 2)));
  EXPECT_FALSE(same_bits(gradient(Order::ordered, 1), gradient(Order::ordered, 2)));
}

TEST(CudaExperts, RefusesSegmentsThatAreNone) {
  DeviceProducts cuda;
  Experts e({2, 5, 16, 2, 1}, DType::f32, 8);
  Floats y(e.dy.size());
  for (const Ints& wrong :
       {Ints{0, 2, 1, 1, 3, 10}, Ints{0, 2, 4, 4, 6, 11}, Ints{-1, 2, 4, 4, 6, 8}}) {
    EXPECT_THROW(cuda->expert_linear_forward({.y = tensor(y, {10, 8}),
                                              .x = tensor(e.x, {10, 16}),
                                              .w = tensor(e.w, {2, 8, 16}),
                                              .segments = cuda.segments(wrong, 2)}),
                 Error);
  }
}

TEST(CudaFusedLoss, AgreesWithTheCpu) {
  OpsOn cpu(1);
  EmulatedProducts cuda;
  const int64_t rows = 12;
  const int64_t width = 24;
  const int64_t vocabulary = 37;
  const int64_t padded = 40;
  for (const ProductTypes& types : {kProductTypes[0], kProductTypes[2]}) {
    Floats x = rounded_to(types.in, random_floats(rows * width, 1));
    Floats w = rounded_to(types.in, random_floats(padded * width, 2));
    Ints targets = random_ints(rows, 3, vocabulary);
    const Floats old = random_floats(padded * width, 4);
    const double near = types.in == DType::bf16 ? 0x1p-6 : 6e-6;
    Floats losses(rows), dx(x.size()), logits(static_cast<size_t>(rows * padded)), dw = old;
    FusedLinearCrossEntropy call{.losses = tensor(losses),
                                 .dx = tensor(dx, {rows, width}),
                                 .dw = tensor(dw, {padded, width}),
                                 .x = tensor(x, {rows, width}),
                                 .w = tensor(w, {padded, width}),
                                 .targets = tensor(targets),
                                 .logits = tensor(logits),
                                 .vocabulary = vocabulary,
                                 .gradient_scale = 0.25,
                                 .samples = 4,
                                 .sum = {Order::ordered}};
    cpu->fused_linear_cross_entropy(call);
    for (const SumOrder& sum : kProductSums) {
      const Numbers on_x(types.in, x);
      const Numbers on_w(types.in, w);
      const Numbers on_dx(types.in, rows * width);
      Floats on_losses(rows, NAN), on_dw = old;
      FusedLinearCrossEntropy on = call;
      on.losses = tensor(on_losses);
      on.dx = on_dx.view({rows, width});
      on.dw = tensor(on_dw, {padded, width});
      on.x = on_x.view({rows, width});
      on.w = on_w.view({padded, width});
      on.sum = sum;
      cuda->fused_linear_cross_entropy(on);
      expect_close(on_losses, to_doubles(losses), near, "losses");
      expect_close(on_dx.read(), to_doubles(dx), near, "dx");
      expect_close(on_dw, to_doubles(dw), near, "dw");
    }
  }
}

TEST(CudaHead, RoundsToTf32InAllThreeProductsWhereItMay) {
  EmulatedProducts cuda;
  Floats x = random_floats(8 * 32, 1);
  Floats w = random_floats(24 * 32, 2);
  std::vector<int32_t> targets(8, 3);
  const auto results = [&](NumberFormat operands) {
    Floats losses(8), dx(x.size()), dw(w.size()), logits(8 * 24);
    cuda->fused_linear_cross_entropy({.losses = tensor(losses),
                                      .dx = tensor(dx, {8, 32}),
                                      .dw = tensor(dw, {24, 32}),
                                      .x = tensor(x, {8, 32}),
                                      .w = tensor(w, {24, 32}),
                                      .targets = make_tensor(targets.data(), DType::i32, {8}),
                                      .logits = tensor(logits, {8, 24}),
                                      .vocabulary = 24,
                                      .accumulate = false,
                                      .sum = {Order::ordered},
                                      .operands = operands});
    return std::vector<Floats>{losses, dx, dw};
  };
  const auto exact = results(NumberFormat::f32);
  const auto rounded = results(NumberFormat::tf32);
  for (size_t i = 0; i < exact.size(); ++i) {
    EXPECT_FALSE(same_bits(exact[i], rounded[i]));
    expect_close(rounded[i], to_doubles(exact[i]), 4e-3, "rounded");
  }
}

TEST(CudaColumns, AgreeWithPlainSumsInAllOrders) {
  EmulatedKernels cuda;
  for (const auto& [rows, width] : {std::pair<int64_t, int64_t>{1, 1}, {6, 33}, {600, 40}}) {
    for (const DType type : kTypes) {
      const Floats values = rounded_to(type, random_floats(rows * width, 1));
      const Numbers on(type, values);
      for (const bool accumulate : {false, true}) {
        Doubles expected(static_cast<size_t>(width), accumulate ? 3.0 : 0.0);
        for (size_t i = 0; i < values.size(); ++i) {
          expected[i % expected.size()] += static_cast<double>(values[i]);
        }
        for (const Order order : kOrders) {
          Floats sums(static_cast<size_t>(width), accumulate ? 3.0F : NAN);
          cuda->sum_columns({.sums = tensor(sums),
                             .values = on.view({rows, width}),
                             .accumulate = accumulate,
                             .samples = rows % 3 == 0 ? 3 : 1,
                             .sum = {order}});
          expect_close(sums, expected, 4e-6, "sums");
        }
      }
    }
  }
}

}  // namespace
}  // namespace dettax::test
