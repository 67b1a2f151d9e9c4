#include <algorithm>

#include "harness/base/random.h"
#include "suites/kernels/ops_bench.h"

namespace dettax {
namespace {

Tensor matrix(std::vector<int32_t>& values, int64_t rows, int64_t columns) {
  return make_tensor(values.data(), DType::i32, {rows, columns});
}

// A plan for some random experts in a row a token, and its memory.
struct BenchPlan {
  explicit BenchPlan(const StepShape& s)
      : rows(s.rows()),
        choices(s.choices),
        experts(static_cast<size_t>(rows * choices)),
        slots(experts.size()),
        sources(experts.size()),
        segments(static_cast<size_t>(s.experts * (s.samples + 1))),
        counts(static_cast<size_t>(s.samples * s.experts)),
        view{matrix(slots, rows, choices), tensor(sources),
             matrix(segments, s.experts, s.samples + 1), matrix(counts, s.samples, s.experts)} {
    for (int64_t row = 0; row < rows; ++row) {
      const auto words = random_words({2, RandomPurpose::test, 0}, 0, static_cast<uint64_t>(row));
      for (int64_t k = 0; k < choices; ++k)
        experts[static_cast<size_t>(row * choices + k)] =
            static_cast<int32_t>((int64_t{words[0]} + k) % s.experts);
    }
  }
  void make(CpuOps& ops, const SumOrder& sum) {
    ops.plan_experts({view, matrix(experts, rows, choices), 0, sum});
  }

  int64_t rows, choices;
  std::vector<int32_t> experts, slots, sources, segments, counts;
  ExpertPlan view;
};

std::shared_ptr<BenchPlan> made_plan(const StepShape& s, CpuOps& ops, const SumOrder& sum) {
  auto plan = std::make_shared<BenchPlan>(s);
  plan->make(ops, sum);
  return plan;
}

void add_rows(const StepShape& s) {
  const int64_t slots = s.rows() * s.choices;
  add_variants("expert_plan/" + s.model, [=](CpuOps& ops, const SumOrder& sum) {
    auto plan = std::make_shared<BenchPlan>(s);
    return Work{[=, &ops] { plan->make(ops, sum); }, 4 * slots * 4, StepCalls(s).expert_plan};
  });
  add_benchmark("expert_permute/" + s.model, [=](CpuOps& ops, const SumOrder& sum) {
    auto plan = made_plan(s, ops, sum);
    auto x = cold(s.rows(), s.width);
    auto y = cold(slots, s.width);
    return Work{
        [=, &ops] { ops.permute_rows({y->next(), x->next(), plan->view.sources, s.choices}); },
        4 * (slots + s.rows()) * s.width, StepCalls(s).expert_permute};
  });
  for (const bool generic : {false, true}) {
    const MakeWork unpermute = [=](CpuOps& ops, const SumOrder& sum) {
      auto plan = made_plan(s, ops, sum);
      auto y = cold(s.rows(), s.width);
      auto residual = cold(s.rows(), s.width);
      auto rows = cold(slots, s.width);
      auto weights = warm(s.rows(), s.choices);
      return Work{[=, &ops] {
                    ops.unpermute_rows({.y = y->next(),
                                        .rows = rows->next(),
                                        .weights = weights->next(),
                                        .residual = residual->next(),
                                        .plan = plan->view,
                                        .sum = sum,
                                        .generic = generic});
                  },
                  4 * (slots + 2 * s.rows()) * s.width, StepCalls(s).expert_unpermute};
    };
    const std::string name = "expert_unpermute/" + s.model;
    if (generic) {
      add_benchmark(name + "/generic", unpermute);
    } else {
      add_variants(name, unpermute);
    }
  }
}

std::string of_shape(int64_t in, int64_t out) {
  return "/inputs:" + std::to_string(in) + "/outputs:" + std::to_string(out);
}

// A product of all experts.
void add_product(const StepShape& s, const std::string& end, int64_t in, int64_t out) {
  const StepCalls calls(s);
  const int64_t slots = s.rows() * s.choices;
  const double flops = 2.0 * static_cast<double>(slots * in * out);
  add_benchmark("expert_linear_forward/" + s.model + end, [=](CpuOps& ops, const SumOrder& sum) {
    auto plan = made_plan(s, ops, sum);
    auto x = cold(slots, in);
    auto y = cold(slots, out);
    auto w = cold(s.experts * out, in);
    return Work{[=, &ops] {
                  ops.expert_linear_forward({y->next(), x->next(), w->next(), plan->view.segments});
                },
                4 * (slots * (in + out) + s.experts * out * in), calls.expert_forward, flops};
  });
  add_variants("expert_linear_backward_weight/" + s.model + end, [=](CpuOps& ops,
                                                                     const SumOrder& sum) {
    auto plan = made_plan(s, ops, sum);
    auto x = cold(slots, in);
    auto dy = cold(slots, out);
    auto dw = cold(s.experts * out, in);
    return Work{[=, &ops] {
                  ops.expert_linear_backward_weight(
                      {dw->next(), dy->next(), x->next(), plan->view.segments, true, sum});
                },
                4 * (slots * (in + out) + 2 * s.experts * out * in), calls.expert_backward, flops};
  });
}

// One linear layer with as many products as experts of half the usual MLP width.
void add_one_linear(const StepShape& s) {
  const int64_t slots = s.rows() * s.choices;
  const int64_t out = 2 * s.width;
  const double flops = 2.0 * static_cast<double>(slots * s.width * out);
  add_benchmark("one_linear_forward/" + s.model, [=](CpuOps& ops, const SumOrder&) {
    auto x = cold(slots, s.width);
    auto y = cold(slots, out);
    auto w = cold(s.experts * out, s.width);
    return Work{[=, &ops] {
                  LinearForward call;
                  call.y = y->next();
                  call.x = x->next();
                  call.w = make_tensor(w->next().data, DType::f32, {out, s.width});
                  ops.linear_forward(call);
                },
                4 * (slots * (s.width + out) + out * s.width), 0, flops};
  });
}

}  // namespace

void add_experts(const StepShape& s) {
  add_rows(s);
  if (s.of_case) {
    const int64_t up = s.expert_width * (s.swiglu ? 2 : 1);
    add_product(s, of_shape(s.width, up), s.width, up);
    add_product(s, of_shape(s.expert_width, s.width), s.expert_width, s.width);
  } else {
    add_product(s, "", s.width, 2 * s.width);
    add_one_linear(s);
  }
}

}  // namespace dettax
