#include "tests/cuda/check/operations.h"

namespace dettax::test {
namespace {

constexpr double kSums = 2e-5;       // of products and rows in f32, in another order
constexpr double kFunctions = 4e-6;  // exp, tanh and the like of another library
constexpr double kTf32 = 2e-3;       // operands of 11 bits
constexpr double kHalves = 2e-2;     // stored with 8 bits

using Results = std::vector<Tensor>;

struct Sizes {
  int64_t samples, tokens, width, inner, vocabulary, heads, head_width;
  int64_t rows() const { return samples * tokens; }
};
Sizes sizes_of(int64_t scale) {
  return {2, 19 * scale, 36 * scale, 52 * scale, 101 * scale, 4, scale == 1 ? 8 : 128};
}

void add_products(const Sizes& s, std::vector<CheckedOperation>& all) {
  all.push_back({"linear_forward",
                 [s](Side& on, SumOrder sum) {
                   const Tensor y = on.empty({s.rows(), s.inner}),
                                before = on.empty({s.rows(), s.inner});
                   on.ops().linear_forward({.y = y,
                                            .x = on.floats({s.rows(), s.width}, 1),
                                            .w = on.floats({s.inner, s.width}, 2),
                                            .bias = on.floats({s.inner}, 3),
                                            .residual = {},
                                            .pre_activation = before,
                                            .epilogue = Epilogue::bias_gelu,
                                            .order = sum.order});
                   return Results{y, before};
                 },
                 kSums, true});
  all.push_back({"linear_forward in tf32 with a residual",
                 [s](Side& on, SumOrder sum) {
                   const Tensor y = on.floats({s.rows(), s.inner}, 4);
                   on.ops().linear_forward({.y = y,
                                            .x = on.floats({s.rows(), s.width}, 1),
                                            .w = on.floats({s.inner, s.width}, 2),
                                            .bias = on.floats({s.inner}, 3),
                                            .residual = y,
                                            .pre_activation = {},
                                            .epilogue = Epilogue::bias_residual,
                                            .operands = NumberFormat::tf32,
                                            .order = sum.order});
                   return Results{y};
                 },
                 kTf32, true});
  all.push_back({"linear_backward_input",
                 [s](Side& on, SumOrder sum) {
                   const Tensor dx = on.floats({s.rows(), s.width}, 1);
                   on.ops().linear_backward_input({.dx = dx,
                                                   .dy = on.floats({s.rows(), s.inner}, 2),
                                                   .w = on.floats({s.inner, s.width}, 3),
                                                   .gelu_pre_activation = {},
                                                   .accumulate = true,
                                                   .order = sum.order});
                   return Results{dx};
                 },
                 kSums, true});
  all.push_back({"linear_backward_weight",
                 [s](Side& on, SumOrder sum) {
                   const Tensor dw = on.floats({s.inner, s.width}, 1),
                                dbias = on.floats({s.inner}, 2);
                   on.ops().linear_backward_weight({.dw = dw,
                                                    .dbias = dbias,
                                                    .dy = on.floats({s.rows(), s.inner}, 3),
                                                    .x = on.floats({s.rows(), s.width}, 4),
                                                    .accumulate = true,
                                                    .samples = s.samples,
                                                    .sum = sum});
                   return Results{dw, dbias};
                 },
                 kSums, true});
}

// The forward pass, and what the backward pass reads of it.
struct Attention {
  Tensor qkv, out, log_sum_exp;
};

void add_attention(const Sizes& s, bool halves, std::vector<CheckedOperation>& all) {
  const int64_t groups = s.heads / 2, columns = (s.heads + 2 * groups) * s.head_width;
  const int64_t width = s.heads * s.head_width;
  const std::string type = halves ? " in bf16" : "";
  const double tolerance = halves ? kHalves : kSums;
  const auto numbers = [halves](Side& on, std::initializer_list<int64_t> shape, uint32_t stream) {
    return halves ? on.halves(shape, stream) : on.floats(shape, stream);
  };
  const auto empty = [halves](Side& on, std::initializer_list<int64_t> shape) {
    return halves ? on.empty_halves(shape) : on.empty(shape);
  };
  const auto forward = [=](Side& on) {
    const Attention made{numbers(on, {s.rows(), columns}, 1), empty(on, {s.rows(), width}),
                         on.empty({s.samples, s.heads, s.tokens})};
    on.ops().attention_forward({.out = made.out,
                                .log_sum_exp = made.log_sum_exp,
                                .qkv = made.qkv,
                                .samples = s.samples,
                                .heads = s.heads,
                                .key_value_heads = groups,
                                .scale = 0.5});
    return made;
  };
  all.push_back({"attention_forward" + type,
                 [forward](Side& on, SumOrder) {
                   const Attention made = forward(on);
                   return Results{made.out, made.log_sum_exp};
                 },
                 tolerance});
  all.push_back({"attention_backward" + type,
                 [=](Side& on, SumOrder sum) {
                   const Attention made = forward(on);
                   const Tensor dqkv = empty(on, {s.rows(), columns});
                   on.ops().attention_backward({.dqkv = dqkv,
                                                .dout = numbers(on, {s.rows(), width}, 2),
                                                .out = made.out,
                                                .log_sum_exp = made.log_sum_exp,
                                                .qkv = made.qkv,
                                                .samples = s.samples,
                                                .heads = s.heads,
                                                .key_value_heads = groups,
                                                .scale = 0.5,
                                                .sum = sum});
                   return Results{dqkv};
                 },
                 tolerance, true});
}

void add_rope(const Sizes& s, std::vector<CheckedOperation>& all) {
  const int64_t groups = s.heads / 2, columns = (s.heads + 2 * groups) * s.head_width;
  all.push_back(
      {"rope",
       [s, groups, columns](Side& on, SumOrder) {
         const Tensor qkv = on.floats({s.rows(), columns}, 1);
         on.ops().rope(
             {.qkv = qkv, .samples = s.samples, .heads = s.heads, .key_value_heads = groups});
         return Results{qkv};
       },
       kFunctions});
}

void add_ends(const Sizes& s, std::vector<CheckedOperation>& all) {
  all.push_back({"embedding_forward", [s](Side& on, SumOrder) {
                   const Tensor y = on.empty({s.rows(), s.width});
                   on.ops().embedding_forward({.y = y,
                                               .tokens = on.ints({s.rows()}, 1, s.vocabulary),
                                               .table = on.floats({s.vocabulary, s.width}, 2),
                                               .position_table = on.floats({s.tokens, s.width}, 3),
                                               .samples = s.samples});
                   return Results{y};
                 }});
  all.push_back({"embedding_backward",
                 [s](Side& on, SumOrder sum) {
                   const Tensor table = on.floats({s.vocabulary, s.width}, 1),
                                places = on.floats({s.tokens, s.width}, 2);
                   on.ops().embedding_backward(
                       {.dtable = table,
                        .dposition_table = places,
                        .dy = on.put(cancelling_floats(s.rows() * s.width, 3), {s.rows(), s.width}),
                        .tokens = on.ints({s.rows()}, 4, 5),
                        .samples = s.samples,
                        .sum = sum});
                   return Results{table, places};
                 },
                 kSums, true});
  all.push_back({"cross_entropy",
                 [s](Side& on, SumOrder) {
                   const Tensor losses = on.empty({s.rows()}),
                                logits = on.floats({s.rows(), s.vocabulary}, 1, 4);
                   on.ops().cross_entropy({.losses = losses,
                                           .logits = logits,
                                           .targets = on.ints({s.rows()}, 2, s.vocabulary - 3),
                                           .vocabulary = s.vocabulary - 3,
                                           .gradient_scale = 0.125});
                   return Results{losses, logits};
                 },
                 kFunctions});
  all.push_back(
      {"fused_linear_cross_entropy",
       [s](Side& on, SumOrder sum) {
         const Tensor losses = on.empty({s.rows()}), dx = on.empty({s.rows(), s.width}),
                      dw = on.floats({s.vocabulary, s.width}, 1);
         const int64_t chunk = fused_loss_chunk_rows(s.rows(), s.vocabulary, s.samples, sum.order);
         on.ops().fused_linear_cross_entropy({.losses = losses,
                                              .dx = dx,
                                              .dw = dw,
                                              .x = on.floats({s.rows(), s.width}, 2),
                                              .w = on.floats({s.vocabulary, s.width}, 3, 0.2),
                                              .targets = on.ints({s.rows()}, 4, s.vocabulary),
                                              .logits = on.empty({chunk * s.vocabulary}),
                                              .vocabulary = s.vocabulary,
                                              .gradient_scale = 0.125,
                                              .samples = s.samples,
                                              .sum = sum});
         return Results{losses, dx, dw};
       },
       kSums, true});
}

void add_rows(const Sizes& s, std::vector<CheckedOperation>& all) {
  for (const Norm kind : {Norm::layer, Norm::rms}) {
    const std::string name = kind == Norm::layer ? "layer_norm" : "rms_norm";
    const auto forward = [s, kind](Side& on, NormForward& call) {
      const bool layer = kind == Norm::layer;
      call = {.y = on.empty({s.rows(), s.width}),
              .mean = layer ? on.empty({s.rows()}) : Tensor(),
              .rstd = on.empty({s.rows()}),
              .x = on.floats({s.rows(), s.width}, 1),
              .gamma = on.floats({s.width}, 2),
              .beta = layer ? on.floats({s.width}, 3) : Tensor(),
              .kind = kind};
      on.ops().norm_forward(call);
    };
    all.push_back({name + "_forward",
                   [forward](Side& on, SumOrder) {
                     NormForward call;
                     forward(on, call);
                     return Results{call.y, call.rstd};
                   },
                   kFunctions});
    all.push_back({name + "_backward",
                   [s, kind, forward](Side& on, SumOrder sum) {
                     NormForward call;
                     forward(on, call);
                     const Tensor dx = on.empty({s.rows(), s.width}),
                                  dgamma = on.floats({s.width}, 4);
                     const Tensor dbeta = kind == Norm::layer ? on.floats({s.width}, 5) : Tensor();
                     on.ops().norm_backward({.dx = dx,
                                             .dgamma = dgamma,
                                             .dbeta = dbeta,
                                             .dy = on.put(cancelling_floats(s.rows() * s.width, 6),
                                                          {s.rows(), s.width}),
                                             .x = call.x,
                                             .mean = call.mean,
                                             .rstd = call.rstd,
                                             .gamma = call.gamma,
                                             .kind = kind,
                                             .samples = s.samples,
                                             .sum = sum});
                     return Results{dx, dgamma};
                   },
                   kSums, true});
  }
  all.push_back({"gelu_forward",
                 [s](Side& on, SumOrder) {
                   const Tensor y = on.empty({s.rows(), s.inner});
                   on.ops().gelu_forward({y, on.floats({s.rows(), s.inner}, 1, 4)});
                   return Results{y};
                 },
                 kFunctions});
  all.push_back({"swiglu",
                 [s](Side& on, SumOrder) {
                   const Tensor x = on.floats({s.rows(), 2 * s.inner}, 1, 4);
                   const Tensor y = on.empty({s.rows(), s.inner}),
                                dx = on.empty({s.rows(), 2 * s.inner});
                   on.ops().swiglu_forward({y, x});
                   on.ops().swiglu_backward({dx, on.floats({s.rows(), s.inner}, 2), x});
                   return Results{y, dx};
                 },
                 kFunctions});
  all.push_back({"dropout", [s](Side& on, SumOrder) {
                   const Tensor y = on.empty({s.rows(), s.width});
                   on.ops().dropout({.y = y,
                                     .x = on.floats({s.rows(), s.width}, 1),
                                     .probability = 0.25,
                                     .key = {5, RandomPurpose::dropout, 2},
                                     .step = 3,
                                     .first_element = 7});
                   return Results{y};
                 }});
}

void add_whole_arrays(const Sizes& s, std::vector<CheckedOperation>& all) {
  const int64_t count = 4096 * 3 + s.rows() * s.width + 5;
  all.push_back({"sum_of_squares",
                 [count](Side& on, SumOrder sum) {
                   const Tensor result = on.empty({1});
                   on.ops().sum_of_squares({.result = result,
                                            .values = on.put(cancelling_floats(count, 1), {count}),
                                            .sum = sum});
                   return Results{result};
                 },
                 kSums, true});
  all.push_back({"sum_scalar",
                 [s](Side& on, SumOrder sum) {
                   const Tensor result = on.empty({1});
                   on.ops().sum_scalar(
                       {.result = result,
                        .values = on.put(cancelling_floats(s.rows(), 1), {s.rows()}),
                        .scale = 0.5,
                        .samples = s.samples,
                        .sum = sum});
                   return Results{result};
                 },
                 kSums, true});
  all.push_back({"adamw", [count](Side& on, SumOrder) {
                   const Tensor w = on.floats({count}, 1), m = on.floats({count}, 2),
                                v = on.put(Floats(static_cast<size_t>(count), 0.5F), {count});
                   on.ops().adamw({.weights = w,
                                   .gradients = on.floats({count}, 3),
                                   .first_moment = m,
                                   .second_moment = v,
                                   .learning_rate = 1e-3,
                                   .beta1 = 0.9,
                                   .beta2 = 0.95,
                                   .epsilon = 1e-8,
                                   .weight_decay = 0.1,
                                   .step = 3});
                   return Results{w, m, v};
                 }});
  all.push_back({"add, scale and copy", [count](Side& on, SumOrder) {
                   const Tensor to = on.floats({count}, 1), copied = on.empty({count});
                   on.ops().add(to, on.floats({count}, 2));
                   on.ops().scale(to, 0.3);
                   on.ops().copy(copied, to);
                   return Results{copied};
                 }});
}

void add_experts(const Sizes& s, std::vector<CheckedOperation>& all) {
  constexpr int64_t kExperts = 5, kChoices = 2;
  const int64_t slots = s.rows() * kChoices;
  all.push_back({"route_tokens",
                 [s](Side& on, SumOrder) {
                   const Tensor probabilities = on.empty({s.rows(), kExperts}),
                                experts = on.empty_ints({s.rows(), kChoices}),
                                weights = on.empty({s.rows(), kChoices});
                   on.ops().route_tokens({.probabilities = probabilities,
                                          .experts = experts,
                                          .weights = weights,
                                          .logits = on.floats({s.rows(), kExperts}, 1, 3),
                                          .samples = s.samples});
                   return Results{probabilities, experts, weights};
                 },
                 kFunctions});
  all.push_back(
      {"experts",
       [s, slots](Side& on, SumOrder sum) {
         const ExpertPlan plan{on.empty_ints({s.rows(), kChoices}), on.empty_ints({slots}),
                               on.empty_ints({kExperts, s.samples + 1}),
                               on.empty_ints({s.samples, kExperts})};
         on.ops().plan_experts({.plan = plan,
                                .experts = on.ints({s.rows(), kChoices}, 1, kExperts - 1),
                                .capacity = 0,
                                .sum = sum});
         // The last expert has no row.
         const Tensor x = on.floats({slots, s.width}, 9), y = on.empty({slots, s.inner}),
                      w = on.floats({kExperts, s.inner, s.width}, 2);
         on.ops().permute_rows({.y = x,
                                .x = on.floats({s.rows(), s.width}, 3),
                                .index = plan.sources,
                                .divisor = kChoices});
         on.ops().expert_linear_forward({.y = y, .x = x, .w = w, .segments = plan.segments});
         const Tensor dx = on.empty({slots, s.width}),
                      dw = on.floats({kExperts, s.inner, s.width}, 4),
                      out = on.empty({s.rows(), s.inner});
         on.ops().expert_linear_backward_input(
             {.dx = dx, .dy = y, .w = w, .segments = plan.segments});
         on.ops().expert_linear_backward_weight(
             {.dw = dw, .dy = y, .x = x, .segments = plan.segments, .sum = sum});
         on.ops().unpermute_rows({.y = out,
                                  .rows = y,
                                  .weights = on.floats({s.rows(), kChoices}, 5),
                                  .residual = {},
                                  .plan = plan,
                                  .sum = sum});
         return Results{plan.counts, dw, out};
       },
       kSums, true});
}

}  // namespace

std::vector<CheckedOperation> checked_operations(int64_t scale) {
  const Sizes s = sizes_of(scale);
  std::vector<CheckedOperation> all;
  add_products(s, all);
  for (const bool halves : {false, true}) add_attention(s, halves, all);
  add_rope(s, all);
  add_ends(s, all);
  add_rows(s, all);
  add_whole_arrays(s, all);
  add_experts(s, all);
  return all;
}

}  // namespace dettax::test
