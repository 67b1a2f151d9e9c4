#include "harness/device/cuda/runtime/matmul.h"

#include "harness/base/error.h"
#include "harness/device/cuda/runtime/check.h"

namespace dettax {
namespace {

cudaDataType_t library_type(DType type) {
  if (type == DType::i32) throw Error(ErrorKind::internal, "a product was given indices");
  return type == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F;
}

const char* name_of(DType type) { return type == DType::bf16 ? "bf16" : "f32"; }

const char* name_of(cublasLtEpilogue_t epilogue) {
  switch (epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
      return "";
    case CUBLASLT_EPILOGUE_BIAS:
      return ", bias";
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
      return ", bias and gelu";
    case CUBLASLT_EPILOGUE_DGELU:
      return ", gradient of gelu";
    case CUBLASLT_EPILOGUE_BGRADB:
      return ", gradient of a bias";
    default:
      return ", another epilogue";
  }
}

bool has_auxiliary(cublasLtEpilogue_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS || epilogue == CUBLASLT_EPILOGUE_DGELU;
}

// The only way to f32 sums of products that may round: f32 matrices in, and the format asked for.
cublasComputeType_t compute_type(const Matmul& product) {
  const bool rounds = product.in == DType::f32 && product.operands == NumberFormat::tf32;
  return rounds ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

template <class T>
void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  require_success(cublasLtMatmulDescSetAttribute(operation, attribute,
                                                 static_cast<const void*>(&value), sizeof value),
                  "cublasLtMatmulDescSetAttribute");
}

cublasLtMatrixLayout_t layout(DType type, int64_t rows, int64_t columns) {
  cublasLtMatrixLayout_t made = nullptr;
  require_success(cublasLtMatrixLayoutCreate(&made, library_type(type), static_cast<uint64_t>(rows),
                                             static_cast<uint64_t>(columns), rows),
                  "cublasLtMatrixLayoutCreate");
  return made;
}

}  // namespace

std::string to_string(const Matmul& product) {
  const bool tf32 = compute_type(product) == CUBLAS_COMPUTE_32F_FAST_TF32;
  return std::string(name_of(product.in)) + (tf32 ? " as tf32" : "") + " to " +
         name_of(product.out) + ", " + std::to_string(product.m) + " x " +
         std::to_string(product.n) + " sums of " + std::to_string(product.k) + " (" +
         (product.transpose_a ? "T" : "N") + (product.transpose_b ? "T" : "N") + ")" +
         name_of(product.epilogue) + (product.add_c ? ", added" : "");
}

MatmulDescriptors::MatmulDescriptors(const Matmul& product, const MatmulMemory& memory) {
  try {
    make(product, memory);
  } catch (...) {
    destroy();
    throw;
  }
}

MatmulDescriptors::~MatmulDescriptors() { destroy(); }

void MatmulDescriptors::make(const Matmul& product, const MatmulMemory& memory) {
  require_success(cublasLtMatmulDescCreate(&operation_, compute_type(product), CUDA_R_32F),
                  "cublasLtMatmulDescCreate");
  const auto transposition = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set(operation_, CUBLASLT_MATMUL_DESC_TRANSA, transposition(product.transpose_a));
  set(operation_, CUBLASLT_MATMUL_DESC_TRANSB, transposition(product.transpose_b));
  set(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE, product.epilogue);
  if (memory.vector != nullptr) {
    set(operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, memory.vector);
  }
  if (has_auxiliary(product.epilogue)) {
    set(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, memory.auxiliary);
    set(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, product.m);
  }
  a_ = product.transpose_a ? layout(product.in, product.k, product.m)
                           : layout(product.in, product.m, product.k);
  b_ = product.transpose_b ? layout(product.in, product.n, product.k)
                           : layout(product.in, product.k, product.n);
  d_ = layout(product.out, product.m, product.n);
}

// What a destructor cannot report leaks a few hundred bytes at worst.
void MatmulDescriptors::destroy() {
  for (cublasLtMatrixLayout_t made : {a_, b_, d_}) {
    if (made != nullptr) static_cast<void>(cublasLtMatrixLayoutDestroy(made));
  }
  if (operation_ != nullptr) static_cast<void>(cublasLtMatmulDescDestroy(operation_));
}

}  // namespace dettax
