#include "suites/kernels/step_shape.h"

#include <algorithm>
#include <charconv>
#include <map>

namespace dettax {
namespace {

using Numbers = std::map<std::string, int64_t, std::less<>>;

bool read_numbers(std::string_view text, Numbers& numbers) {
  while (true) {
    const size_t end = std::min(text.find(','), text.size());
    const std::string_view part = text.substr(0, end);
    const size_t equals = part.find('=');
    if (equals == std::string_view::npos) return false;
    const std::string_view digits = part.substr(equals + 1);
    int64_t value = 0;
    const auto [rest, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (fault != std::errc() || rest != digits.data() + digits.size() || value < 0) return false;
    if (!numbers.emplace(part.substr(0, equals), value).second) return false;
    if (end == text.size()) return true;
    text.remove_prefix(end + 1);
  }
}

bool sound(const StepShape& s) {
  for (const int64_t needed : {s.samples, s.tokens, s.width, s.heads, s.layers, s.vocabulary,
                               s.parameters, s.micro_batches}) {
    if (needed < 1) return false;
  }
  if (s.head_width == 0 && s.width % s.heads != 0) return false;
  if (s.heads % s.key_heads() != 0 || s.expert_layers > s.layers) return false;
  return s.expert_layers == 0 || (s.expert_width > 0 && s.choices > 0 && s.choices <= s.experts);
}

}  // namespace

std::optional<StepShape> parse_step_shape(std::string_view text) {
  StepShape s;
  const size_t name = std::min(text.find(','), text.size());
  s.model = std::string(text.substr(0, name));
  s.of_case = true;
  Numbers numbers;
  if (name == 0 || !read_numbers(text.substr(std::min(name + 1, text.size())), numbers))
    return std::nullopt;
  const auto take = [&](const char* key, auto& value) {
    const auto found = numbers.find(key);
    if (found == numbers.end()) return;
    value = static_cast<std::decay_t<decltype(value)>>(found->second);
    numbers.erase(found);
  };
  take("samples", s.samples);
  take("tokens", s.tokens);
  take("width", s.width);
  take("heads", s.heads);
  take("layers", s.layers);
  take("vocabulary", s.vocabulary);
  take("parameters", s.parameters);
  take("key_value_heads", s.key_value_heads);
  take("head_width", s.head_width);
  take("ffn_width", s.ffn_width);
  take("rms_norm", s.rms_norm);
  take("swiglu", s.swiglu);
  take("rope", s.rope);
  take("drops_out", s.drops_out);
  take("recomputes_cheap", s.recomputes_cheap);
  take("recomputes_all", s.recomputes_all);
  take("micro_batches", s.micro_batches);
  take("expert_layers", s.expert_layers);
  take("experts", s.experts);
  take("choices", s.choices);
  take("expert_width", s.expert_width);
  take("shared_width", s.shared_width);
  if (!numbers.empty() || !sound(s)) return std::nullopt;
  return s;
}

StepCalls::StepCalls(const StepShape& s) {
  const int64_t micro = s.micro_batches;
  const int64_t all = micro * s.layers;
  const int64_t of_experts = micro * s.expert_layers;
  // Layers that have an MLP: dense ones, and those whose experts have a shared one.
  const int64_t mlps = s.shared_width > 0 ? all : all - of_experts;
  const int64_t cheap_again = s.recomputes_cheap || s.recomputes_all ? 1 : 0;
  const int64_t all_again = s.recomputes_all ? 1 : 0;
  ends = micro;
  norm_backward = 2 * all + micro;
  norm_forward = norm_backward + cheap_again * 2 * all;
  attention_backward = all;
  attention_forward = all * (1 + cheap_again);
  if (s.rope) rope = all * (2 + all_again);
  if (s.swiglu) {
    swiglu_backward = mlps;
    swiglu_forward = mlps * (1 + cheap_again);
  }
  if (s.drops_out) {
    // Of the embedding and of each layer's two branches, both ways; experts' results are not dropped out, their gradients pass one.
    dropout = 2 * micro + all * (1 + all_again) + mlps + 2 * all;
    add = all * (1 + all_again) + mlps;
  }
  expert_plan = of_experts;
  expert_permute = of_experts * (1 + all_again);
  expert_unpermute = 2 * of_experts;
  expert_backward = of_experts;
  expert_forward = of_experts * (1 + all_again);
}

std::vector<LinearCalls> linear_calls(const StepShape& s) {
  const int64_t micro = s.micro_batches;
  const int64_t all = micro * s.layers, of_experts = micro * s.expert_layers;
  const int64_t again = s.recomputes_all ? 1 : 0;
  const int64_t gates = s.swiglu ? 2 : 1;
  std::vector<LinearCalls> calls;
  const auto add = [&](int64_t inputs, int64_t outputs, int64_t forward, int64_t backward) {
    if (forward == 0) return;
    for (LinearCalls& one : calls) {
      if (one.inputs != inputs || one.outputs != outputs) continue;
      one.forward += forward;
      one.backward += backward;
      return;
    }
    calls.push_back({inputs, outputs, forward, backward});
  };
  const auto add_mlp = [&](int64_t inner, int64_t count) {
    if (inner == 0) return;
    add(s.width, gates * inner, count * (1 + again), count);
    add(inner, s.width, count, count);  // its result is not needed again
  };
  add(s.width, s.qkv_width(), all * (1 + again), all);
  add(s.attention_width(), s.width, all * (1 + again), all);
  add_mlp(s.inner_width(), all - of_experts);
  add_mlp(s.shared_width, of_experts);
  if (of_experts > 0) add(s.width, s.experts, of_experts, of_experts);
  add(s.width, s.vocabulary, micro, micro);
  return calls;
}

}  // namespace dettax
