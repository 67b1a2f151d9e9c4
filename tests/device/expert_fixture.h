#pragma once

#include "tests/device/op_fixture.h"

namespace dettax::test {

inline Tensor tensor(Ints& values, int64_t rows, int64_t columns) {
  return make_tensor(values.data(), DType::i32, {rows, columns});
}

// Sizes of a mixture-of-experts layer.
struct ExpertShape {
  int64_t samples, tokens, width, experts, choices;
  int64_t rows() const { return samples * tokens; }
  int64_t slots() const { return rows() * choices; }
};

inline const ExpertShape kExpertShapes[] = {
    {1, 1, 5, 1, 1}, {3, 7, 33, 5, 2}, {4, 40, 64, 8, 2}, {2, 50, 130, 11, 4}};

// Choices of a skewed router: low experts often, some never.
inline Ints skewed_choices(const ExpertShape& s, uint32_t stream) {
  const Ints draws = random_ints(s.slots(), stream, static_cast<int32_t>(s.experts));
  Ints experts(draws.size());
  for (int64_t t = 0; t < s.rows(); ++t) {
    for (int64_t k = 0; k < s.choices; ++k) {
      const auto i = static_cast<size_t>(t * s.choices + k);
      const auto first = draws[static_cast<size_t>(t * s.choices)] * (t % 3 == 0 ? 1 : 0);
      experts[i] = static_cast<int32_t>((first + k) % s.experts);
    }
  }
  return experts;
}

// A plan and its memory.
struct Plan {
  Ints slots, sources, segments, counts;
  ExpertPlan view;
};

// `on`: operations of a CPU or of a device. `before`: of PlanExperts, if there is any.
template <class On>
void plan(On& on, const ExpertShape& s, Ints experts, SumOrder sum, Plan& to, int64_t capacity = 0,
          Ints before = {}) {
  to.slots.assign(static_cast<size_t>(s.slots()), -9);
  to.sources.assign(to.slots.size(), -9);
  to.segments.assign(static_cast<size_t>(s.experts * (s.samples + 1)), -9);
  to.counts.assign(static_cast<size_t>(s.samples * s.experts), -9);
  to.view = {tensor(to.slots, s.rows(), s.choices), tensor(to.sources),
             tensor(to.segments, s.experts, s.samples + 1),
             tensor(to.counts, s.samples, s.experts)};
  PlanExperts call{.plan = to.view,
                   .experts = tensor(experts, s.rows(), s.choices),
                   .capacity = capacity,
                   .sum = sum};
  if (!before.empty()) call.before = tensor(before, 2 * s.samples, s.experts);
  on->plan_experts(call);
}

inline const SumOrder kAllSums[] = {{Order::arrival, false},   {Order::arrival, true},
                                    {Order::ordered, false},   {Order::ordered, true},
                                    {Order::invariant, false}, {Order::invariant, true}};

}  // namespace dettax::test
