#pragma once

#include <string>

#include "harness/base/error.h"

namespace dettax {

// Shapes are the trainer's business, so one that does not fit is a fault of dettax itself.
inline void require(bool fits, const char* operation) {
  if (!fits) {
    throw Error(ErrorKind::internal, std::string(operation) + ": the shapes do not fit together");
  }
}

}  // namespace dettax
