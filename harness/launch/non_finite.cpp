#include "harness/launch/non_finite.h"

#include <algorithm>

namespace dettax {

void NonFiniteObserver::on_op(std::string_view) { ++op_index_; }

void NonFiniteObserver::on_tensor(std::string_view path, std::string_view tensor_name,
                                  const Tensor& tensor, uint64_t) {
  if (first_ || tensor.type != DType::f32 || device_.all_finite(tensor)) return;
  std::vector<float> values(static_cast<size_t>(tensor.count()));
  device_.copy_to_host(values.data(), tensor.data, values.size() * sizeof(float));
  const auto bad = std::count_if(values.begin(), values.end(),
                                 [](float value) { return !std::isfinite(value); });
  first_ = NonFiniteFinding{
      step_, op_index_, std::string(path), std::string(tensor_name), int64_t{bad}, tensor.count()};
}

}  // namespace dettax
