#include <algorithm>

#include "harness/base/random.h"
#include "suites/kernels/ops_bench.h"

namespace dettax {
namespace {

constexpr int64_t kExperts = 8;
constexpr int64_t kChoices = 2;

Tensor matrix(std::vector<int32_t>& values, int64_t rows, int64_t columns) {
  return make_tensor(values.data(), DType::i32, {rows, columns});
}

// A plan for two random experts a token, and its memory.
struct BenchPlan {
  explicit BenchPlan(const StepShape& s)
      : rows(s.rows()),
        experts(static_cast<size_t>(rows * kChoices)),
        slots(experts.size()),
        sources(experts.size()),
        segments(static_cast<size_t>(kExperts * (s.samples + 1))),
        counts(static_cast<size_t>(s.samples * kExperts)),
        view{matrix(slots, rows, kChoices), tensor(sources),
             matrix(segments, kExperts, s.samples + 1), matrix(counts, s.samples, kExperts)} {
    for (size_t i = 0; i < experts.size(); i += kChoices) {
      const auto words = random_words({2, RandomPurpose::test, 0}, 0, i);
      experts[i] = static_cast<int32_t>(words[0] % kExperts);
      experts[i + 1] = static_cast<int32_t>((words[0] + 1 + words[1] % (kExperts - 1)) % kExperts);
    }
  }
  void make(CpuOps& ops, const SumOrder& sum) {
    ops.plan_experts({view, matrix(experts, rows, kChoices), 0, sum});
  }

  int64_t rows;
  std::vector<int32_t> experts, slots, sources, segments, counts;
  ExpertPlan view;
};

std::shared_ptr<BenchPlan> made_plan(const StepShape& s, CpuOps& ops, const SumOrder& sum) {
  auto plan = std::make_shared<BenchPlan>(s);
  plan->make(ops, sum);
  return plan;
}

void add_rows(const StepShape& s) {
  const int64_t slots = s.rows() * kChoices;
  add_variants("expert_plan/" + s.model, [=](CpuOps& ops, const SumOrder& sum) {
    auto plan = std::make_shared<BenchPlan>(s);
    return Work{[=, &ops] { plan->make(ops, sum); }, 4 * slots * 4, s.layers};
  });
  add_benchmark("expert_permute/" + s.model, [=](CpuOps& ops, const SumOrder& sum) {
    auto plan = made_plan(s, ops, sum);
    auto x = cold(s.rows(), s.width);
    auto y = cold(slots, s.width);
    return Work{
        [=, &ops] { ops.permute_rows({y->next(), x->next(), plan->view.sources, kChoices}); },
        4 * (slots + s.rows()) * s.width, s.layers};
  });
  for (const bool generic : {false, true}) {
    const MakeWork unpermute = [=](CpuOps& ops, const SumOrder& sum) {
      auto plan = made_plan(s, ops, sum);
      auto y = cold(s.rows(), s.width);
      auto residual = cold(s.rows(), s.width);
      auto rows = cold(slots, s.width);
      auto weights = warm(s.rows(), kChoices);
      return Work{[=, &ops] {
                    ops.unpermute_rows({.y = y->next(),
                                        .rows = rows->next(),
                                        .weights = weights->next(),
                                        .residual = residual->next(),
                                        .plan = plan->view,
                                        .sum = sum,
                                        .generic = generic});
                  },
                  4 * (slots + 2 * s.rows()) * s.width, 2 * s.layers};
    };
    const std::string name = "expert_unpermute/" + s.model;
    if (generic) {
      add_benchmark(name + "/generic", unpermute);
    } else {
      add_variants(name, unpermute);
    }
  }
}

// Experts of half the usual MLP width against one linear layer with as many products.
void add_linear(const StepShape& s) {
  const int64_t slots = s.rows() * kChoices;
  const int64_t out = 2 * s.width;
  const double flops = 2.0 * static_cast<double>(slots * s.width * out);
  add_benchmark("expert_linear_forward/" + s.model, [=](CpuOps& ops, const SumOrder& sum) {
    auto plan = made_plan(s, ops, sum);
    auto x = cold(slots, s.width);
    auto y = cold(slots, out);
    auto w = cold(kExperts * out, s.width);
    return Work{[=, &ops] {
                  ops.expert_linear_forward({y->next(), x->next(), w->next(), plan->view.segments});
                },
                4 * (slots * (s.width + out) + kExperts * out * s.width), s.layers, flops};
  });
  add_benchmark("one_linear_forward/" + s.model, [=](CpuOps& ops, const SumOrder&) {
    auto x = cold(slots, s.width);
    auto y = cold(slots, out);
    auto w = cold(kExperts * out, s.width);
    return Work{[=, &ops] {
                  LinearForward call;
                  call.y = y->next();
                  call.x = x->next();
                  call.w = make_tensor(w->next().data, DType::f32, {out, s.width});
                  ops.linear_forward(call);
                },
                4 * (slots * (s.width + out) + out * s.width), s.layers, flops};
  });
  add_variants("expert_linear_backward_weight/" + s.model, [=](CpuOps& ops, const SumOrder& sum) {
    auto plan = made_plan(s, ops, sum);
    auto x = cold(slots, s.width);
    auto dy = cold(slots, out);
    auto dw = cold(kExperts * out, s.width);
    return Work{[=, &ops] {
                  ops.expert_linear_backward_weight(
                      {dw->next(), dy->next(), x->next(), plan->view.segments, true, sum});
                },
                4 * (slots * (s.width + out) + 2 * kExperts * out * s.width), s.layers, flops};
  });
}

}  // namespace

void add_experts(const StepShape& s) {
  add_rows(s);
  add_linear(s);
}

}  // namespace dettax
