#include "tests/device/op_fixture.h"

namespace dettax::test {
namespace {

TEST(AdamW, ThreeStepsMatchTheReference) {
  OpsOn on(2);
  for (const int64_t count : {1, 37, 50000}) {
    Floats w = random_floats(count, 1);
    Floats m(w.size(), 0.0f);
    Floats v(w.size(), 0.0f);
    Doubles rw = to_doubles(w);
    Doubles rm(w.size(), 0.0);
    Doubles rv(w.size(), 0.0);
    for (int64_t step = 1; step <= 3; ++step) {
      Floats g = random_floats(count, static_cast<uint32_t>(1 + step));
      on->adamw({.weights = tensor(w),
                 .gradients = tensor(g),
                 .first_moment = tensor(m),
                 .second_moment = tensor(v),
                 .learning_rate = 1e-2,
                 .beta1 = 0.9,
                 .beta2 = 0.95,
                 .epsilon = 1e-8,
                 .weight_decay = 0.1,
                 .gradient_scale = 0.5,
                 .step = step});
      for (size_t i = 0; i < g.size(); ++i) {
        const double gradient = 0.5 * static_cast<double>(g[i]);
        rm[i] = 0.9 * rm[i] + 0.1 * gradient;
        rv[i] = 0.95 * rv[i] + 0.05 * gradient * gradient;
        const double mean = rm[i] / (1 - std::pow(0.9, step));
        const double square = rv[i] / (1 - std::pow(0.95, step));
        rw[i] -= 1e-2 * (mean / (std::sqrt(square) + 1e-8) + 0.1 * rw[i]);
      }
    }
    expect_close(w, rw, 1e-6, "weights");
    expect_close(m, rm, 1e-6, "first moment");
    expect_close(v, rv, 1e-6, "second moment");
  }
}

// What is computed again has the bits of what was computed first, in the epilogue of a product.
TEST(Gelu, HasTheBitsOfTheEpilogue) {
  OpsOn on(2);
  for (const auto& [rows, width] : {std::pair<int64_t, int64_t>{1, 3}, {7, 40}, {65, 129}}) {
    const int64_t in = 24;
    Floats x = random_floats(rows * in, 1, 3);
    Floats w = random_floats(width * in, 2);
    Floats bias = random_floats(width, 3);
    Floats y(static_cast<size_t>(rows * width));
    Floats before(y.size());
    LinearForward call;
    call.y = tensor(y, {rows, width});
    call.x = tensor(x, {rows, in});
    call.w = tensor(w, {width, in});
    call.bias = tensor(bias);
    call.pre_activation = tensor(before, {rows, width});
    call.epilogue = Epilogue::bias_gelu;
    on->linear_forward(call);
    Floats again(y.size());
    on->gelu_forward({.y = tensor(again), .x = tensor(before)});
    EXPECT_TRUE(same_bits(y, again));
    before[0] = 0.5f;
    on->gelu_forward({.y = tensor(again), .x = tensor(before)});
    EXPECT_FALSE(same_bits(y, again));
  }
}

double silu(double a) { return a / (1 + std::exp(-a)); }

TEST(Swiglu, MatchesTheReferenceAndItsDifferences) {
  OpsOn on(2);
  for (const auto& [rows, width] : {std::pair<int64_t, int64_t>{1, 3}, {7, 40}, {5, 129}}) {
    Floats x = random_floats(rows * 2 * width, 1, 6);
    Floats dy = random_floats(rows * width, 2);
    Floats y(dy.size());
    Floats dx(x.size());
    on->swiglu_forward({.y = tensor(y, {rows, width}), .x = tensor(x, {rows, 2 * width})});
    on->swiglu_backward({.dx = tensor(dx, {rows, 2 * width}),
                         .dy = tensor(dy, {rows, width}),
                         .x = tensor(x, {rows, 2 * width})});
    Doubles expected_y;
    Doubles expected_dx(x.size());
    for (int64_t i = 0; i < rows * width; ++i) {
      const auto a = static_cast<size_t>(i / width * 2 * width + i % width);
      const size_t b = a + static_cast<size_t>(width);
      Doubles pair{static_cast<double>(x[a]), static_cast<double>(x[b])};
      const auto f = [&] { return silu(pair[0]) * pair[1]; };
      expected_y.push_back(f());
      const auto g = static_cast<double>(dy[static_cast<size_t>(i)]);
      expected_dx[a] = g * slope(f, pair, 0);
      expected_dx[b] = g * slope(f, pair, 1);
    }
    expect_close(y, expected_y, 1e-6, "y");
    expect_close(dx, expected_dx, 1e-6, "dx");
  }
}

TEST(Rope, GivesATokenTheSameBitsWhoeverHasIt) {
  OpsOn on(2);
  constexpr int64_t kTokens = 200;
  constexpr int64_t kColumns = 3 * 8;
  Floats whole = random_floats(kTokens * kColumns, 1);
  const Floats before = whole;
  on->rope({.qkv = tensor(whole, {kTokens, kColumns})});
  const TokenPlaces places{50, 100};
  const auto rows = [&](const Floats& of) {
    Floats part(of.begin() + 50 * kColumns, of.begin() + 75 * kColumns);
    part.insert(part.end(), of.begin() + 100 * kColumns, of.begin() + 125 * kColumns);
    return part;
  };
  Floats part = rows(before);
  Rope call{.qkv = tensor(part, {50, kColumns})};
  call.places = places;
  on->rope(call);
  EXPECT_TRUE(same_bits(part, rows(whole)));
  const Floats again = rows(before);
  std::copy(again.begin(), again.end(), part.begin());
  call.places = {50, 101};
  on->rope(call);
  EXPECT_FALSE(same_bits(part, rows(whole)));
}

TEST(Rope, RotatesQueriesAndKeysByTheirPosition) {
  OpsOn on(2);
  for (const auto& [tokens, width] :
       {std::pair<int64_t, int64_t>{1, 2}, {5, 6}, {200, 64}, {70, 40}}) {
    const int64_t heads = 4;
    const int64_t kv = 2;
    const int64_t columns = (heads + 2 * kv) * width;
    Floats qkv = random_floats(2 * tokens * columns, 1);
    const Floats old = qkv;
    Doubles expected = to_doubles(qkv);
    for (int64_t r = 0; r < 2 * tokens; ++r) {
      for (int64_t h = 0; h < heads + kv; ++h) {
        for (int64_t i = 0; i < width / 2; ++i) {
          const double angle =
              static_cast<double>(r % tokens) *
              std::pow(500.0, -2 * static_cast<double>(i) / static_cast<double>(width));
          double& a = expected[static_cast<size_t>(r * columns + h * width + i)];
          double& b = expected[static_cast<size_t>(r * columns + h * width + i + width / 2)];
          const double x = a;
          a = x * std::cos(angle) - b * std::sin(angle);
          b = x * std::sin(angle) + b * std::cos(angle);
        }
      }
    }
    const Rope call{.qkv = tensor(qkv, {2 * tokens, columns}),
                    .samples = 2,
                    .heads = heads,
                    .key_value_heads = kv,
                    .theta = 500};
    on->rope(call);
    expect_close(qkv, expected, 1e-6, "rotated");
    Rope back = call;
    back.backward = true;
    on->rope(back);
    expect_close(qkv, to_doubles(old), 1e-6, "rotated back");
  }
}

Floats dropped(OpsOn& on, const Floats& x, double probability, uint64_t first, uint64_t step) {
  Floats y = x;
  on->dropout({.y = tensor(y),
               .x = tensor(y),
               .probability = probability,
               .key = {11, RandomPurpose::dropout, 4},
               .step = step,
               .first_element = first});
  return y;
}

TEST(Dropout, MaskIsMadeOfTheWordsOfTheElementsIndex) {
  OpsOn on(2);
  const Floats x(5000, 1.0f);
  const uint64_t step = (uint64_t{3} << 32U) + 5;
  for (const uint64_t first :
       {uint64_t{0}, uint64_t{3}, uint64_t{1} << 36U, (uint64_t{1} << 34U) - 2001}) {
    const Floats y = dropped(on, x, 0.3, first, step);
    for (size_t i = 0; i < x.size(); ++i) {
      const uint64_t element = first + i;
      const uint32_t word =
          random_words({11, RandomPurpose::dropout, 4}, step, element / 4)[element % 4];
      const bool kept = static_cast<double>(word) >= std::floor(0.3 * 0x1p32);
      ASSERT_EQ(y[i], kept ? static_cast<float>(1 / 0.7) : 0.0f) << i;
    }
  }
}

TEST(Dropout, DoesNotDependOnThreadsOrOnHowTheBatchIsCut) {
  OpsOn one(1);
  OpsOn three(3);
  const Floats x = random_floats(30000, 1);
  const Floats whole = dropped(one, x, 0.1, 0, 1);
  EXPECT_TRUE(same_bits(whole, dropped(three, x, 0.1, 0, 1)));
  Floats low = dropped(three, {x.begin(), x.begin() + 7777}, 0.1, 0, 1);
  const Floats high = dropped(three, {x.begin() + 7777, x.end()}, 0.1, 7777, 1);
  low.insert(low.end(), high.begin(), high.end());
  EXPECT_TRUE(same_bits(whole, low));
  EXPECT_FALSE(same_bits(whole, dropped(one, x, 0.1, 0, 2)));
  EXPECT_TRUE(same_bits(x, dropped(one, x, 0, 0, 2)));
}

TEST(Elementwise, AddScaleCopyAndFillTouchEveryElement) {
  OpsOn on(3);
  for (const int64_t count : {1, 31, 100003}) {
    Floats a = random_floats(count, 1);
    Floats b = random_floats(count, 2);
    const Floats old = a;
    on->add(tensor(a), tensor(b));
    on->scale(tensor(a), 0.3);
    for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(a[i], (old[i] + b[i]) * 0.3f);
    on->copy(tensor(b), tensor(a));
    EXPECT_TRUE(same_bits(a, b));
    on->fill_bytes(tensor(a), 0xFF);
    for (const float v : a) ASSERT_TRUE(std::isnan(v));
    on->fill_bytes(tensor(a), 0);
    for (const float v : a) ASSERT_EQ(v, 0.0f);
  }
}

}  // namespace
}  // namespace dettax::test
