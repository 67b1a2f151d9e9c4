#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

#include "harness/train/observer.h"

namespace dettax::testing_support {

// The first gradient that is shown is infinite, once: in fp16 the loss scale halves.
class OneInfinity : public StepObserver {
 public:
  void on_op(std::string_view) override {}
  void on_tensor(std::string_view path, std::string_view name, const Tensor& tensor,
                 uint64_t) override {
    if (done_ || !path.starts_with("backward/") || !name.ends_with(".grad")) return;
    tensor.f32()[0] = std::numeric_limits<float>::infinity();
    done_ = true;
  }

 private:
  bool done_ = false;
};

}  // namespace dettax::testing_support
