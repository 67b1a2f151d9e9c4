#pragma once

#include <cstddef>

#include "harness/device/device.h"

namespace dettax {

// Pages from the system, 64-byte aligned at least, huge pages asked for from 4 MB on. No page is
// touched. Throws Error{infrastructure} that names the bytes.
Buffer allocate_pages(size_t bytes);

// Working memory that grows to the largest request and is then reused. Its contents do not survive
// a call that grows it. Not for several threads at once: grow before Team::run, or have one for
// each thread.
class Scratch {
 public:
  float* floats(size_t count);
  size_t bytes() const { return buffer_.bytes(); }

 private:
  Buffer buffer_;
};

}  // namespace dettax
