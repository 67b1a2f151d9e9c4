#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/device/device.h"
#include "harness/train/observer.h"

namespace dettax {

// Where the first value that is not finite was seen on a rank. `op_index` counts ops of the watched
// steps, so that ranks compare.
struct NonFiniteFinding {
  int64_t step = 0;
  int64_t op_index = 0;
  std::string path;
  std::string tensor;
  int64_t bad = 0;  // values of this tensor that are not finite
  int64_t total = 0;
};

// Checks every op's outputs and keeps the first that is not finite.
class NonFiniteObserver : public StepObserver {
 public:
  explicit NonFiniteObserver(Device& device) : device_(device) {}
  void begin_step(int64_t step) { step_ = step; }
  void on_op(std::string_view path) override;
  void on_tensor(std::string_view path, std::string_view tensor_name, const Tensor& tensor,
                 uint64_t first_index) override;
  const std::optional<NonFiniteFinding>& first() const { return first_; }

 private:
  Device& device_;
  int64_t step_ = 0;
  int64_t op_index_ = 0;
  std::optional<NonFiniteFinding> first_;
};

}  // namespace dettax
