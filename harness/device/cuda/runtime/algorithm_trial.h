#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include <cuda_runtime_api.h>

namespace dettax {

// Calls of each candidate in a trial: one to warm up, the others timed.
inline constexpr size_t kTrialCalls = 4;

// Which of several ways to compute the same thing is the fastest by its best timed call. The first, which is the library's own choice,
// unless another one gains enough to be no accident: more than 3 %. `enqueue` puts candidate i on the stream. Waits for the stream.
size_t fastest_of(size_t candidates, cudaStream_t stream,
                  const std::function<void(size_t)>& enqueue);

// The choice by each one's time alone.
size_t fastest_by(std::span<const float> milliseconds);

}  // namespace dettax
