#include "hwy/detect_targets.h"
#include "hwy/targets.h"
#include "tests/device/op_fixture.h"

namespace dettax::test {
namespace {

// Highway uses only these instruction sets while this lives.
class OnlyTargets {
 public:
  explicit OnlyTargets(int64_t targets) { choose(targets); }
  ~OnlyTargets() { choose(0); }
  OnlyTargets(const OnlyTargets&) = delete;
  OnlyTargets& operator=(const OnlyTargets&) = delete;

 private:
  static void choose(int64_t targets) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().DeInit();
  }
};

void append(Floats& to, const Floats& from) { to.insert(to.end(), from.begin(), from.end()); }

constexpr int64_t kRows = 150;
constexpr int64_t kWidth = 104;  // six times 16 and a rest

Floats norm_results(OpsOn& on, Norm kind) {
  Floats x = random_floats(kRows * kWidth, 1);
  Floats dy = random_floats(kRows * kWidth, 2);
  Floats gamma = random_floats(kWidth, 3);
  Floats y(x.size());
  Floats dx(x.size());
  Floats mean(kRows);
  Floats rstd(kRows);
  Floats dgamma(gamma.size());
  Floats dbeta(gamma.size());
  const bool layer = kind == Norm::layer;
  const Tensor mean_tensor = layer ? tensor(mean) : Tensor{};
  on->norm_forward({.y = tensor(y, {kRows, kWidth}),
                    .mean = mean_tensor,
                    .rstd = tensor(rstd),
                    .x = tensor(x, {kRows, kWidth}),
                    .gamma = tensor(gamma),
                    .beta = layer ? tensor(gamma) : Tensor{},
                    .kind = kind});
  on->norm_backward({.dx = tensor(dx, {kRows, kWidth}),
                     .dgamma = tensor(dgamma),
                     .dbeta = layer ? tensor(dbeta) : Tensor{},
                     .dy = tensor(dy, {kRows, kWidth}),
                     .x = tensor(x, {kRows, kWidth}),
                     .mean = mean_tensor,
                     .rstd = tensor(rstd),
                     .gamma = tensor(gamma),
                     .kind = kind,
                     .samples = 2,
                     .sum = {}});
  for (const Floats* part : {&dx, &rstd, &dgamma, &dbeta}) append(y, *part);
  return y;
}

// Among the rows, then with keys of another rank.
Floats attention_results(OpsOn& on) {
  constexpr int64_t kHeads = 2;
  Floats qkv = random_floats(kRows * 3 * kHeads * kWidth, 4, 2);
  Floats dout = random_floats(kRows * kHeads * kWidth, 5);
  Floats keys_values = random_floats(kRows * 2 * kHeads * kWidth, 6, 2);
  Floats out(dout.size());
  Floats log_sum_exp(kRows * kHeads);
  Floats dqkv(qkv.size());
  Floats dkeys_values(keys_values.size());
  AttentionForward forward{.out = tensor(out, {kRows, kHeads * kWidth}),
                           .log_sum_exp = tensor(log_sum_exp),
                           .qkv = tensor(qkv, {kRows, 3 * kHeads * kWidth}),
                           .heads = kHeads,
                           .key_value_heads = kHeads,
                           .scale = 0.1};
  AttentionBackward backward{.dqkv = tensor(dqkv, {kRows, 3 * kHeads * kWidth}),
                             .dout = tensor(dout, {kRows, kHeads * kWidth}),
                             .out = forward.out,
                             .log_sum_exp = forward.log_sum_exp,
                             .qkv = forward.qkv,
                             .heads = kHeads,
                             .key_value_heads = kHeads,
                             .scale = 0.1,
                             .sum = {}};
  Floats results;
  for (const bool others : {false, true}) {
    if (others) {
      forward.block = {tensor(keys_values, {kRows, 2 * kHeads * kWidth}), 10, 90, 0, 75};
      backward.block = forward.block;
      backward.dkeys_values = tensor(dkeys_values, {kRows, 2 * kHeads * kWidth});
    }
    on->attention_forward(forward);
    on->attention_backward(backward);
    for (const Floats* part : {&out, &log_sum_exp, &dqkv}) append(results, *part);
  }
  append(results, dkeys_values);
  return results;
}

Floats loss_results(OpsOn& on) {
  Floats logits = random_floats(kRows * kWidth, 6, 5);
  Ints targets = random_ints(kRows, 7, 100);
  Floats losses(kRows);
  Floats sums(2);
  on->cross_entropy({.losses = tensor(losses),
                     .logits = tensor(logits, {kRows, kWidth}),
                     .targets = tensor(targets),
                     .vocabulary = 100});
  Floats loss(1);
  Floats squares(1);
  on->sum_scalar({.result = tensor(loss), .values = tensor(losses), .scale = 0.1, .sum = {}});
  on->sum_of_squares({.result = tensor(squares), .values = tensor(logits), .sum = {}});
  for (const Floats* part : {&logits, &loss, &squares}) append(losses, *part);
  return losses;
}

Floats embedding_results(OpsOn& on, Order order) {
  Floats table = random_floats(20 * kWidth, 8);
  Floats dy = random_floats(kRows * kWidth, 9);
  Ints tokens = random_ints(kRows, 10, 20);
  on->embedding_backward({.dtable = tensor(table, {20, kWidth}),
                          .dposition_table = {},
                          .dy = tensor(dy, {kRows, kWidth}),
                          .tokens = tensor(tokens),
                          .samples = 3,
                          .sum = {order}});
  return table;
}

Floats elementwise_results(OpsOn& on) {
  Floats w = random_floats(kRows * kWidth, 11);
  Floats g = random_floats(kRows * kWidth, 12);
  Floats m = random_floats(kRows * kWidth, 13);
  Floats v = random_floats(kRows * kWidth, 14, 1, 1);
  Floats half(w.size() / 2);
  on->adamw({.weights = tensor(w),
             .gradients = tensor(g),
             .first_moment = tensor(m),
             .second_moment = tensor(v),
             .learning_rate = 0.1,
             .beta1 = 0.9,
             .beta2 = 0.95,
             .epsilon = 1e-8,
             .weight_decay = 0.1});
  on->swiglu_forward({.y = tensor(half, {kRows, kWidth / 2}), .x = tensor(w, {kRows, kWidth})});
  on->swiglu_backward({.dx = tensor(g, {kRows, kWidth}),
                       .dy = tensor(half, {kRows, kWidth / 2}),
                       .x = tensor(w, {kRows, kWidth})});
  on->rope({.qkv = tensor(m, {kRows, kWidth}), .samples = 2, .heads = 2});
  on->dropout({.y = tensor(v), .x = tensor(v), .probability = 0.2, .key = {}});
  for (const Floats* part : {&half, &g, &m, &v}) append(w, *part);
  return w;
}

Floats all_results() {
  OpsOn on(2);
  Floats results = norm_results(on, Norm::layer);
  for (const Floats& part : {norm_results(on, Norm::rms), attention_results(on), loss_results(on),
                             embedding_results(on, Order::ordered),
                             embedding_results(on, Order::invariant), elementwise_results(on)}) {
    append(results, part);
  }
  return results;
}

#if HWY_ARCH_X86
TEST(VectorWidth, DoesNotChangeBits) {
  if ((hwy::SupportedTargets() & HWY_AVX3) == 0) GTEST_SKIP() << "this machine has no AVX-512";
  const Floats widest = all_results();
  const OnlyTargets narrow(HWY_AVX2);
  EXPECT_TRUE(same_bits(widest, all_results()));
}
#endif

// The emulation has no fused multiply-add: results are right, but with other bits, which also shows
// that the test above really changes the instruction set.
TEST(VectorWidth, EmulationIsRightWithOtherBits) {
  const Floats widest = all_results();
  const OnlyTargets none(HWY_SCALAR);
  const Floats emulated = all_results();
  if ((hwy::SupportedTargets() & ~int64_t{HWY_SCALAR}) != 0) GTEST_SKIP();
  EXPECT_FALSE(same_bits(widest, emulated));
  expect_close(emulated, to_doubles(widest), 1e-5, "emulated");
}

}  // namespace
}  // namespace dettax::test
