#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

namespace dettax {

// Throws Error{infrastructure} that names `call` and the reason, unless it succeeded.
void require_success(cudaError_t status, const char* call);
void require_success(cublasStatus_t status, const char* call);

}  // namespace dettax
