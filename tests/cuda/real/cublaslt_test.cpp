// The real cuBLASLt, as far as it goes without a device: descriptors are made and hold what they were told; a handle is none to have.

#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/device/cuda/runtime/product_plans.h"

namespace dettax {
namespace {

template <class T>
T attribute(const MatmulDescriptors& on, cublasLtMatmulDescAttributes_t which) {
  T value{};
  size_t written = 0;
  EXPECT_EQ(cublasLtMatmulDescGetAttribute(on.operation(), which, static_cast<void*>(&value),
                                           sizeof value, &written),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(written, sizeof value);
  return value;
}

template <class T>
T attribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t which) {
  T value{};
  size_t written = 0;
  EXPECT_EQ(cublasLtMatrixLayoutGetAttribute(layout, which, &value, sizeof value, &written),
            CUBLAS_STATUS_SUCCESS);
  return value;
}

void expect_layout(cublasLtMatrixLayout_t layout, cudaDataType type, uint64_t rows,
                   uint64_t columns) {
  EXPECT_EQ(attribute<int32_t>(layout, CUBLASLT_MATRIX_LAYOUT_TYPE), type);
  EXPECT_EQ(attribute<uint64_t>(layout, CUBLASLT_MATRIX_LAYOUT_ROWS), rows);
  EXPECT_EQ(attribute<uint64_t>(layout, CUBLASLT_MATRIX_LAYOUT_COLS), columns);
  EXPECT_EQ(attribute<int64_t>(layout, CUBLASLT_MATRIX_LAYOUT_LD), static_cast<int64_t>(rows));
  EXPECT_EQ(attribute<int32_t>(layout, CUBLASLT_MATRIX_LAYOUT_ORDER), CUBLASLT_ORDER_COL);
}

TEST(RealCublasLt, TakesTheDescriptorsOfEveryEpilogue) {
  float memory[64] = {};
  for (const auto epilogue :
       {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
        CUBLASLT_EPILOGUE_DGELU, CUBLASLT_EPILOGUE_BGRADB}) {
    const Matmul product{.m = 48,
                         .n = 5,
                         .k = 33,
                         .transpose_a = true,
                         .in = DType::bf16,
                         .out = DType::f32,
                         .epilogue = epilogue};
    const MatmulDescriptors on(product, {.vector = memory, .auxiliary = memory + 32});
    EXPECT_EQ(attribute<uint32_t>(on, CUBLASLT_MATMUL_DESC_EPILOGUE), epilogue);
    EXPECT_EQ(attribute<void*>(on, CUBLASLT_MATMUL_DESC_BIAS_POINTER), memory);
    const bool auxiliary =
        epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS || epilogue == CUBLASLT_EPILOGUE_DGELU;
    EXPECT_EQ(attribute<void*>(on, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER),
              auxiliary ? memory + 32 : nullptr);
    EXPECT_EQ(attribute<int64_t>(on, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD), auxiliary ? 48 : 0);
    EXPECT_EQ(attribute<int32_t>(on, CUBLASLT_MATMUL_DESC_TRANSA), CUBLAS_OP_T);
    EXPECT_EQ(attribute<int32_t>(on, CUBLASLT_MATMUL_DESC_TRANSB), CUBLAS_OP_N);
    EXPECT_EQ(attribute<int32_t>(on, CUBLASLT_MATMUL_DESC_SCALE_TYPE), CUDA_R_32F);
    expect_layout(on.a(), CUDA_R_16BF, 33, 48);
    expect_layout(on.b(), CUDA_R_16BF, 33, 5);
    expect_layout(on.d(), CUDA_R_32F, 48, 5);
  }
}

TEST(RealCublasLt, RoundsToTf32OnlyWhereNumbersAreF32AndMayBeRounded) {
  const auto compute = [](DType in, NumberFormat operands) {
    const MatmulDescriptors on(
        {.m = 8, .n = 8, .k = 8, .transpose_b = true, .in = in, .operands = operands}, {});
    expect_layout(on.b(), in == DType::f32 ? CUDA_R_32F : CUDA_R_16BF, 8, 8);
    return attribute<int32_t>(on, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE);
  };
  EXPECT_EQ(compute(DType::f32, NumberFormat::tf32), CUBLAS_COMPUTE_32F_FAST_TF32);
  EXPECT_EQ(compute(DType::f32, NumberFormat::f32), CUBLAS_COMPUTE_32F);
  EXPECT_EQ(compute(DType::f32, NumberFormat::e4m3), CUBLAS_COMPUTE_32F);
  EXPECT_EQ(compute(DType::bf16, NumberFormat::tf32), CUBLAS_COMPUTE_32F);
}

TEST(RealCublasLt, GivesNoHandleWithoutADeviceAndTheErrorSaysSo) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0) {
    GTEST_SKIP() << "there is a device";
  }
  try {
    const ProductPlans plans(nullptr, [](size_t) { return Buffer(); });
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::infrastructure);
    EXPECT_EQ(std::string(error.what()).find("CUDA: cublasLtCreate: "), 0U) << error.what();
  }
}

}  // namespace
}  // namespace dettax
