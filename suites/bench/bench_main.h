#pragma once

#include <cstdio>
#include <exception>

#include "harness/base/error.h"
#include "harness/base/exit_code.h"

namespace dettax {

// What the main function of a benchmark returns: `body`'s exit code, or that of the error it ended with, in one line on standard error.
template <class F>
int bench_main(const char* program, F body) {
  try {
    return body();
  } catch (const Error& error) {
    std::fprintf(stderr, "%s: %s\n", program, error.what());
    return static_cast<int>(exit_code_of(error.kind()));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", program, error.what());
    return static_cast<int>(ExitCode::internal);
  }
}

}  // namespace dettax
