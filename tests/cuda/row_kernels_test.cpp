// The kernels whose sums belong to one row or that have none, against the CPU's operations.

#include "tests/cuda/kernel_fixture.h"

namespace dettax::test {
namespace {

struct Shape {
  int64_t rows, width;
};
const Shape kShapes[] = {{1, 1}, {3, 7}, {5, 64}, {2, 200}, {65, 24}};

// A call made on both: `call(ops, numbers of y, numbers of x)`, with the CPU's x rounded to the type.
struct Case {
  DType type;
  Shape shape;
  std::string text() const {
    return std::string(type == DType::f32 ? "f32 " : "bf16 ") + std::to_string(shape.rows) + " x " +
           std::to_string(shape.width);
  }
};
void for_cases(const std::function<void(const Case&)>& f) {
  for (const DType type : kTypes) {
    for (const Shape& shape : kShapes) {
      const Case c{type, shape};
      SCOPED_TRACE(c.text());
      f(c);
    }
  }
}

TEST(CudaNorm, ForwardAgreesWithTheCpu) {
  OpsOn cpu(1);
  EmulatedKernels cuda;
  for (const Norm kind : {Norm::layer, Norm::rms}) {
    for_cases([&](const Case& c) {
      const auto [rows, width] = c.shape;
      Floats x = rounded_to(c.type, random_floats(rows * width, 1, 3, 1));
      Floats gamma = rounded_to(c.type, random_floats(width, 2));
      Floats beta = rounded_to(c.type, random_floats(width, 3));
      Floats y(x.size());
      Floats mean(static_cast<size_t>(rows));
      Floats rstd(mean.size());
      const bool layer = kind == Norm::layer;
      cpu->norm_forward({tensor(y, {rows, width}), layer ? tensor(mean) : Tensor{}, tensor(rstd),
                         tensor(x, {rows, width}), tensor(gamma), layer ? tensor(beta) : Tensor{},
                         kind, 1e-5});
      const Numbers on_x(c.type, x);
      const Numbers on_gamma(c.type, gamma);
      const Numbers on_beta(c.type, beta);
      const Numbers on_y(c.type, rows * width);
      Floats on_mean(mean.size());
      Floats on_rstd(rstd.size());
      cuda->norm_forward({on_y.view({rows, width}), layer ? tensor(on_mean) : Tensor{},
                          tensor(on_rstd), on_x.view({rows, width}), on_gamma.view({width}),
                          layer ? on_beta.view({width}) : Tensor{}, kind, 1e-5});
      expect_close(on_y.read(), to_doubles(y), tolerance_of(c.type), "y");
      expect_close(on_rstd, to_doubles(rstd), 1e-5, "rstd");
      if (layer) expect_close(on_mean, to_doubles(mean), 1e-5, "mean");
    });
  }
}

TEST(CudaNorm, TakesRowsWiderThanABlockHasThreads) {
  OpsOn cpu(1);
  EmulatedKernels cuda;
  for (const int64_t width : {1100, 1027, 4001}) {
    Floats x = random_floats(2 * width, 1);
    Floats gamma = random_floats(width, 2);
    Floats y(x.size());
    Floats rstd(2);
    Floats on_y(x.size());
    const NormForward call{tensor(y, {2, width}), {}, tensor(rstd), tensor(x, {2, width}),
                           tensor(gamma),         {}, Norm::rms,    1e-5};
    cpu->norm_forward(call);
    NormForward on = call;
    on.y = tensor(on_y, {2, width});
    cuda->norm_forward(on);
    expect_close(on_y, to_doubles(y), 2e-6, "y");
  }
}

TEST(CudaNorm, RefusesRowsThatNoBlockHolds) {
  EmulatedKernels cuda;
  Floats x(5001);
  Floats rstd(1);
  const Tensor row = tensor(x, {1, 5001});
  const NormForward call{row, {}, tensor(rstd), row, tensor(x), {}, Norm::rms, 1e-5};
  EXPECT_THROW(cuda->norm_forward(call), Error);
}

TEST(CudaActivation, AgreesWithTheCpu) {
  OpsOn cpu(1);
  EmulatedKernels cuda;
  for_cases([&](const Case& c) {
    const auto [rows, width] = c.shape;
    Floats x = rounded_to(c.type, random_floats(rows * 2 * width, 1, 6));
    Floats dy = rounded_to(c.type, random_floats(rows * width, 2));
    Floats y(dy.size());
    Floats dx(x.size());
    Floats gelu(x.size());
    cpu->swiglu_forward({tensor(y, {rows, width}), tensor(x, {rows, 2 * width})});
    cpu->swiglu_backward(
        {tensor(dx, {rows, 2 * width}), tensor(dy, {rows, width}), tensor(x, {rows, 2 * width})});
    cpu->gelu_forward({tensor(gelu), tensor(x)});
    const Numbers on_x(c.type, x);
    const Numbers on_dy(c.type, dy);
    const Numbers on_y(c.type, rows * width);
    const Numbers on_dx(c.type, rows * 2 * width);
    const Numbers on_gelu(c.type, rows * 2 * width);
    const Tensor x_view = on_x.view({rows, 2 * width});
    cuda->swiglu_forward({on_y.view({rows, width}), x_view});
    cuda->swiglu_backward({on_dx.view({rows, 2 * width}), on_dy.view({rows, width}), x_view});
    cuda->gelu_forward({on_gelu.view({rows, 2 * width}), x_view});
    expect_close(on_y.read(), to_doubles(y), tolerance_of(c.type), "swiglu");
    expect_close(on_dx.read(), to_doubles(dx), tolerance_of(c.type), "its gradient");
    expect_close(on_gelu.read(), to_doubles(gelu), tolerance_of(c.type), "gelu");
  });
}

TEST(CudaActivation, GeluBackwardIsTheSlopeOfGelu) {
  EmulatedKernels cuda;
  Floats x = random_floats(100, 1, 4);
  Floats dx(x.size(), 2.0f);
  cuda->gelu_backward(tensor(dx), tensor(x));
  for (size_t i = 0; i < x.size(); ++i) {
    Doubles at{static_cast<double>(x[i])};
    const auto gelu = [&] {
      const double u = std::sqrt(2 / M_PI) * (at[0] + 0.044715 * at[0] * at[0] * at[0]);
      return 0.5 * at[0] * (1 + std::tanh(u));
    };
    EXPECT_NEAR(static_cast<double>(dx[i]), 2 * slope(gelu, at, 0), 1e-5);
  }
}

TEST(CudaRope, RotatesAsTheCpuDoes) {
  OpsOn cpu(1);
  EmulatedKernels cuda;
  for (const DType type : kTypes) {
    for (const auto& [tokens, width] : {std::pair<int64_t, int64_t>{1, 2}, {5, 6}, {70, 16}}) {
      const int64_t columns = 8 * width;
      Floats qkv = rounded_to(type, random_floats(2 * tokens * columns, 1));
      const Numbers on(type, qkv);
      Rope call{.qkv = tensor(qkv, {2 * tokens, columns}),
                .samples = 2,
                .heads = 4,
                .key_value_heads = 2,
                .theta = 500,
                .places = {3, 90}};
      cpu->rope(call);
      call.qkv = on.view({2 * tokens, columns});
      cuda->rope(call);
      expect_close(on.read(), to_doubles(qkv), tolerance_of(type), "rotated");
      call.backward = true;
      cuda->rope(call);
    }
  }
}

TEST(CudaDropout, HasTheMaskOfTheCpu) {
  OpsOn cpu(1);
  EmulatedKernels cuda;
  for (const DType type : kTypes) {
    for (const uint64_t first : {uint64_t{0}, uint64_t{5}, (uint64_t{1} << 34U) - 2}) {
      Floats x = rounded_to(type, random_floats(1003, 1));
      const Numbers on(type, x);
      Dropout call{.y = tensor(x),
                   .x = tensor(x),
                   .probability = 0.3,
                   .key = {11, RandomPurpose::dropout, 4},
                   .step = (uint64_t{3} << 32U) + 5,
                   .first_element = first};
      cpu->dropout(call);
      call.y = call.x = on.view({1003});
      cuda->dropout(call);
      EXPECT_TRUE(same_bits(on.read(), rounded_to(type, x))) << first;
    }
  }
}

TEST(CudaElementwise, AgreesWithTheCpuToTheBit) {
  OpsOn cpu(1);
  EmulatedKernels cuda;
  for_cases([&](const Case& c) {
    const auto [rows, width] = c.shape;
    Floats a = rounded_to(c.type, random_floats(rows * width, 1));
    Floats b = rounded_to(c.type, random_floats(rows * width, 2));
    Floats bias = rounded_to(c.type, random_floats(width, 3));
    const Numbers on_a(c.type, a);
    const Numbers on_b(c.type, b);
    const Numbers on_bias(c.type, bias);
    const auto expect_same = [&](const char* what) {
      a = rounded_to(c.type, a);
      EXPECT_TRUE(same_bits(on_a.read(), a)) << what;
    };
    const Tensor view = on_a.view({rows, width});
    cpu->add(tensor(a), tensor(b));
    cuda->add(view, on_b.view({rows, width}));
    expect_same("add");
    cpu->scale(tensor(a), 0.3);
    cuda->scale(view, 0.3);
    expect_same("scale");
    cpu->add_bias_residual({tensor(a, {rows, width}), tensor(bias), tensor(b)});
    cuda->add_bias_residual({view, on_bias.view({width}), on_b.view({rows, width})});
    expect_same("bias and residual");
    const CopyColumns columns{
        tensor(a, {rows, width}), tensor(b, {rows, width}), 0, width / 2, width - width / 2, true};
    cpu->copy_columns(columns);
    CopyColumns on_columns = columns;
    on_columns.to = view;
    on_columns.from = on_b.view({rows, width});
    cuda->copy_columns(on_columns);
    expect_same("columns");
    cuda->copy(view, on_b.view({rows, width}));
    EXPECT_TRUE(same_bits(on_a.read(), b));
    cuda->fill_bytes(view, 0);
    EXPECT_TRUE(same_bits(on_a.read(), Floats(a.size(), 0.0f)));
  });
}

TEST(CudaElementwise, ACopyBetweenTypesRounds) {
  EmulatedKernels cuda;
  for (const int64_t count : {1, 8, 1003}) {
    const Floats x = random_floats(count, 1, 100);
    const Numbers wide(DType::f32, x);
    const Numbers narrow(DType::bf16, count);
    const Numbers again(DType::f32, count);
    cuda->copy(narrow.view({count}), wide.view({count}));
    EXPECT_TRUE(same_bits(narrow.read(), rounded_to(DType::bf16, x)));
    cuda->copy(again.view({count}), narrow.view({count}));
    EXPECT_TRUE(same_bits(again.read(), rounded_to(DType::bf16, x)));
  }
}

TEST(CudaAdamW, AgreesWithTheCpuToTheBit) {
  OpsOn cpu(1);
  EmulatedKernels cuda;
  for (const int64_t count : {1, 37, 4096}) {
    Floats w = random_floats(count, 1);
    Floats m = random_floats(count, 2);
    Floats v = random_floats(count, 3, 0.5, 0.5);
    Floats g = random_floats(count, 4);
    Floats on_w = w;
    Floats on_m = m;
    Floats on_v = v;
    AdamW call{tensor(w), tensor(g), tensor(m), tensor(v), 1e-2, 0.9, 0.95, 1e-8, 0.1, 0.5, 3};
    cpu->adamw(call);
    call.weights = tensor(on_w);
    call.first_moment = tensor(on_m);
    call.second_moment = tensor(on_v);
    cuda->adamw(call);
    EXPECT_TRUE(same_bits(on_w, w) && same_bits(on_m, m) && same_bits(on_v, v)) << count;
  }
}

TEST(CudaQuantize, HasTheBitsOfTheCpu) {
  OpsOn cpu(1);
  EmulatedKernels cuda;
  Floats x = cancelling_floats(7 * 40, 1);
  x[3] = 0;
  x[50] = std::numeric_limits<float>::infinity();
  std::fill(x.begin() + 80, x.begin() + 120, 0.0f);
  Floats finite = x;
  finite[50] = 1;
  Floats amax(1);
  cpu->absolute_maximum({tensor(amax), tensor(finite)});
  Floats on_amax(1);
  cuda->absolute_maximum({tensor(on_amax), tensor(finite)});
  EXPECT_TRUE(same_bits(amax, on_amax));
  for (const NumberFormat format : {NumberFormat::tf32, NumberFormat::bf16, NumberFormat::f16,
                                    NumberFormat::e4m3, NumberFormat::e5m2, NumberFormat::e2m1}) {
    for (const ScaleGroup group : {ScaleGroup::none, ScaleGroup::tensor, ScaleGroup::along_rows,
                                   ScaleGroup::along_columns}) {
      for (const NumberFormat scale : {NumberFormat::e8m0, NumberFormat::e4m3}) {
        Floats y(x.size());
        Floats on_y(x.size());
        Quantize call{tensor(y, {7, 40}), tensor(x, {7, 40}), format, group, 16, scale,
                      tensor(amax)};
        cpu->quantize(call);
        call.y = tensor(on_y, {7, 40});
        cuda->quantize(call);
        for (size_t i = 0; i < y.size(); ++i) {
          if (std::isnan(y[i])) y[i] = on_y[i] = std::isnan(on_y[i]) ? 0.0f : on_y[i];
        }
        EXPECT_TRUE(same_bits(y, on_y))
            << info(format).name << ", group " << static_cast<int>(group) << ", scale "
            << info(scale).name;
      }
    }
  }
}

struct LossSetUp {
  int64_t rows, width, vocabulary;
};
const LossSetUp kLosses[] = {{1, 1, 1}, {3, 10, 7}, {4, 1040, 1033}, {2, 64, 64}};

TEST(CudaLoss, CrossEntropyAgreesWithTheCpu) {
  OpsOn cpu(1);
  EmulatedKernels cuda;
  for (const DType type : kTypes) {
    for (const auto& [rows, width, vocabulary] : kLosses) {
      for (const bool generic : {false, true}) {
        Floats logits = rounded_to(type, random_floats(rows * width, 1, 8));
        Ints targets = random_ints(rows, 2, static_cast<int32_t>(vocabulary));
        Floats losses(targets.size());
        Floats on_losses(targets.size());
        const Numbers on(type, logits);
        CrossEntropy call{
            tensor(losses), tensor(logits, {rows, width}), tensor(targets), vocabulary, 0.25,
            generic};
        cpu->cross_entropy(call);
        call.losses = tensor(on_losses);
        call.logits = on.view({rows, width});
        cuda->cross_entropy(call);
        expect_close(on_losses, to_doubles(losses), 2e-6, "losses");
        expect_close(on.read(), to_doubles(logits), tolerance_of(type), "gradient");
      }
    }
  }
  cuda.expect_no_faults();
}

TEST(CudaLoss, PartsOfTheVocabularyAgreeWithTheCpu) {
  OpsOn cpu(1);
  EmulatedKernels cuda;
  constexpr int64_t kRows = 5;
  constexpr int64_t kWidth = 24;
  for (const bool generic : {false, true}) {
    for (const int64_t vocabulary : {20, 0}) {
      Floats logits = random_floats(kRows * kWidth, 1, 4);
      Floats on_logits = logits;
      Ints targets = random_ints(kRows, 2, 60);
      targets[0] = 25;
      Floats maxima(2 * kRows, 3.5f);
      Floats sums(2 * kRows);
      Floats losses(kRows);
      Floats on_maxima = maxima;
      Floats on_sums(2 * kRows);
      Floats on_losses(kRows);
      const auto run = [&](auto& ops, Floats& on_l, Floats& m, Floats& s, Floats& out) {
        const Tensor l = tensor(on_l, {kRows, kWidth});
        ops->cross_entropy_maxima({make_tensor(m.data(), DType::f32, {kRows}), l, vocabulary});
        ops->cross_entropy_sums({tensor(s, {2, kRows}), l, tensor(m, {2, kRows}), tensor(targets),
                                 20, vocabulary, generic});
        ops->cross_entropy_from_sums(
            {tensor(out), l, tensor(s, {2, kRows}), tensor(targets), 20, vocabulary, 0.5, generic});
      };
      run(cpu, logits, maxima, sums, losses);
      run(cuda, on_logits, on_maxima, on_sums, on_losses);
      EXPECT_TRUE(same_bits(maxima, on_maxima));
      if (vocabulary == 0) continue;  // no sum, no loss of its own
      expect_close(on_sums, to_doubles(sums), 2e-6, "sums");
      expect_close(on_losses, to_doubles(losses), 2e-6, "losses");
      expect_close(on_logits, to_doubles(logits), 2e-6, "gradient");
    }
  }
}

TEST(CudaLoss, ATargetBeyondTheVocabularyIsReported) {
  EmulatedKernels cuda;
  Floats logits(20, 1.0f);
  Floats losses(2);
  Ints targets{3, 10};
  cuda->cross_entropy({tensor(losses), tensor(logits, {2, 10}), tensor(targets), 10, 1, false});
  EXPECT_THROW(CudaKernels::check_faults(*cuda.kernels.faults()), Error);
}

TEST(CudaFingerprint, IsTheNumberOfTheCpu) {
  EmulatedKernels cuda;
  for (const DType type : kTypes) {
    for (const auto& [rows, width] :
         {std::pair<int64_t, int64_t>{1, 1}, {3, 5}, {2, 1000}, {1, 5003}}) {
      for (const uint64_t first : {uint64_t{0}, uint64_t{1021}, uint64_t{1} << 40U}) {
        const Numbers x(type, random_floats(rows * width, 1));
        const Tensor view = x.view({rows, width});
        const uint64_t stride = static_cast<uint64_t>(width) + 7;
        Fingerprint expected;
        for (int64_t r = 0; r < rows; ++r) {
          const auto* row = static_cast<const std::byte*>(view.data) +
                            static_cast<size_t>(r * width) * size_of(type);
          expected += fingerprint_scalar(row, static_cast<size_t>(width), size_of(type),
                                         first + static_cast<uint64_t>(r) * stride);
        }
        uint64_t lanes[2] = {0, 0};
        cuda->add_fingerprint(lanes, view, first, stride);
        EXPECT_EQ((Fingerprint{lanes[0], lanes[1]}), expected) << rows << " x " << width;
      }
    }
  }
}

TEST(CudaFingerprint, FindsWhatIsNotFinite) {
  EmulatedKernels cuda;
  for (const DType type : kTypes) {
    Floats values = random_floats(1000, 1);
    uint32_t found = 7;
    cuda->find_not_finite(&found, Numbers(type, values).view({1000}));
    EXPECT_EQ(found, 0U);
    values[999] = -std::numeric_limits<float>::infinity();
    cuda->find_not_finite(&found, Numbers(type, values).view({1000}));
    EXPECT_NE(found, 0U);
  }
}

}  // namespace
}  // namespace dettax::test
