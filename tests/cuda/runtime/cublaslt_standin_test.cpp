// The stand-in of cuBLASLt: it computes, and it refuses what the library refuses.

#include <memory>
#include <vector>

#include <cublasLt.h>
#include <gtest/gtest.h>

#include "tests/cuda/standins/cublaslt.h"

namespace dettax::test {
namespace {

template <class T>
using Owned = std::unique_ptr<T, cublasStatus_t (*)(T*)>;

using Layout = Owned<cublasLtMatrixLayoutOpaque_t>;
Layout layout(cudaDataType type, uint64_t rows, uint64_t columns, int64_t stride) {
  cublasLtMatrixLayout_t made = nullptr;
  EXPECT_EQ(cublasLtMatrixLayoutCreate(&made, type, rows, columns, stride), CUBLAS_STATUS_SUCCESS);
  return {made, cublasLtMatrixLayoutDestroy};
}

// D[8,4] = A[8,64] B[64,4], in order unless a test plants a mistake.
struct Product {
  Product() { cublasLtCreate(&handle); }
  ~Product() { cublasLtDestroy(handle); }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  template <class T>
  cublasStatus_t set(cublasLtMatmulDescAttributes_t attribute, T value) {
    return cublasLtMatmulDescSetAttribute(operation.get(), attribute,
                                          static_cast<const void*>(&value), sizeof value);
  }
  static Owned<cublasLtMatmulDescOpaque_t> described(cublasComputeType_t compute) {
    cublasLtMatmulDesc_t made = nullptr;
    cublasLtMatmulDescCreate(&made, compute, CUDA_R_32F);
    return {made, cublasLtMatmulDescDestroy};
  }

  // The heuristic's first choice, then the product.
  cublasStatus_t run() {
    int found = 0;
    cublasLtMatmulHeuristicResult_t result{};
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle, operation.get(), a.get(), b.get(), c.get(), d.get(), nullptr, 1, &result, &found);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    return run(result.algo);
  }
  cublasStatus_t run(const cublasLtMatmulAlgo_t& algorithm) {
    const float alpha = 1;
    return cublasLtMatmul(handle, operation.get(), &alpha, at_a, a.get(), at_b, b.get(), &beta,
                          at_d, c.get(), at_d, d.get(), &algorithm, at_workspace, workspace_bytes,
                          nullptr);
  }
  std::vector<cublasLtMatmulHeuristicResult_t> list(cublasLtMatmulPreference_t preference) {
    std::vector<cublasLtMatmulHeuristicResult_t> results(40);
    int found = 0;
    cublasLtMatmulAlgoGetHeuristic(handle, operation.get(), a.get(), b.get(), c.get(), d.get(),
                                   preference, 40, results.data(), &found);
    results.resize(static_cast<size_t>(found));
    return results;
  }

  cublasLtHandle_t handle = nullptr;
  Owned<cublasLtMatmulDescOpaque_t> operation = described(CUBLAS_COMPUTE_32F);
  Layout a = layout(CUDA_R_32F, 8, 64, 8);
  Layout b = layout(CUDA_R_32F, 64, 4, 64);
  Layout c = layout(CUDA_R_32F, 8, 4, 8);
  Layout d = layout(CUDA_R_32F, 8, 4, 8);
  alignas(256) float matrix_a[8 * 64 + 1];
  alignas(256) float matrix_b[64 * 4];
  alignas(256) float matrix_d[8 * 4];
  alignas(256) float other[64];
  alignas(256) std::byte workspace[4096];
  float beta = 0;
  const void* at_a = matrix_a;
  const void* at_b = matrix_b;
  void* at_d = matrix_d;
  void* at_workspace = workspace;
  size_t workspace_bytes = sizeof workspace;
};

constexpr auto kRefused = CUBLAS_STATUS_INVALID_VALUE;

TEST(CublasLtStandIn, Multiplies) {
  Product p;
  std::fill(std::begin(p.matrix_a), std::end(p.matrix_a), 2.0F);
  std::fill(std::begin(p.matrix_b), std::end(p.matrix_b), 3.0F);
  EXPECT_EQ(p.run(), CUBLAS_STATUS_SUCCESS);
  for (const float sum : p.matrix_d) EXPECT_EQ(sum, 6 * 64);
  p.beta = 1;
  EXPECT_EQ(p.run(), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(p.matrix_d[31], 2 * 6 * 64);
}

TEST(CublasLtStandIn, RefusesAWrongTransposition) {
  Product p;
  EXPECT_EQ(p.set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(p.run(), kRefused);
}

TEST(CublasLtStandIn, RefusesALeadingDimensionThatIsTooSmall) {
  Product p;
  p.b = layout(CUDA_R_32F, 64, 4, 63);
  EXPECT_EQ(p.run(), kRefused);
}

TEST(CublasLtStandIn, RefusesAResultOfAnotherShape) {
  Product p;
  p.d = layout(CUDA_R_32F, 4, 8, 4);
  EXPECT_EQ(p.run(), kRefused);
  p.d = layout(CUDA_R_32F, 8, 4, 8);
  p.c = layout(CUDA_R_32F, 8, 3, 8);
  EXPECT_EQ(p.run(), kRefused);
}

TEST(CublasLtStandIn, RefusesAttributesOfAWrongSize) {
  Product p;
  EXPECT_EQ(p.set(CUBLASLT_MATMUL_DESC_TRANSA, int64_t{0}), kRefused);
  EXPECT_EQ(p.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int32_t{8}), kRefused);
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtMatmulPreferenceCreate(&preference);
  const uint32_t bytes = 0;
  EXPECT_EQ(cublasLtMatmulPreferenceSetAttribute(
                preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes),
            kRefused);
  cublasLtMatmulPreferenceDestroy(preference);
}

TEST(CublasLtStandIn, RefusesTypesThatAreInNoTable) {
  Product p;
  p.c = layout(CUDA_R_16BF, 8, 4, 8);
  p.d = layout(CUDA_R_16BF, 8, 4, 8);
  EXPECT_EQ(p.run(), CUBLAS_STATUS_NOT_SUPPORTED);
  p.a = layout(CUDA_R_16BF, 8, 64, 8);
  EXPECT_EQ(p.run(), CUBLAS_STATUS_NOT_SUPPORTED);
  p.b = layout(CUDA_R_16BF, 64, 4, 64);
  EXPECT_EQ(p.run(), CUBLAS_STATUS_SUCCESS);
  p.operation = Product::described(CUBLAS_COMPUTE_32F_FAST_TF32);
  EXPECT_EQ(p.run(), CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST(CublasLtStandIn, RefusesEpiloguesWithoutTheirMemory) {
  Product p;
  EXPECT_EQ(p.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(p.run(), kRefused);
  p.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(p.other));
  EXPECT_EQ(p.run(), CUBLAS_STATUS_SUCCESS);
  p.set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, int32_t{CUDA_R_16BF});
  EXPECT_EQ(p.run(), kRefused);
  p.set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, int32_t{CUDA_R_32F});
  p.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
  p.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, static_cast<void*>(p.other));
  EXPECT_EQ(p.run(), kRefused);
  p.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int64_t{12});
  EXPECT_EQ(p.run(), kRefused);
  p.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int64_t{8});
  EXPECT_EQ(p.run(), CUBLAS_STATUS_SUCCESS);
}

TEST(CublasLtStandIn, RefusesMemoryThatIsLessAlignedThanTheAlgorithmNeeds) {
  Product p;
  p.at_a = p.matrix_a + 1;
  int refused = 0;
  for (const auto& result : p.list(nullptr)) {
    refused += p.run(result.algo) == CUBLAS_STATUS_NOT_SUPPORTED ? 1 : 0;
  }
  EXPECT_GT(refused, 0);
}

TEST(CublasLtStandIn, RefusesTooLittleWorkspace) {
  Product p;
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtMatmulPreferenceCreate(&preference);
  const uint64_t bytes = sizeof p.workspace;
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                       sizeof bytes);
  const auto results = p.list(preference);
  p.workspace_bytes = 512;
  int refused = 0;
  for (const auto& result : results) {
    if (result.workspaceSize <= 512) continue;
    EXPECT_EQ(p.run(result.algo), kRefused);
    ++refused;
  }
  EXPECT_GT(refused, 0);
  const uint32_t none = CUBLASLT_REDUCTION_SCHEME_NONE;
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                       &none, sizeof none);
  for (const auto& result : p.list(preference)) EXPECT_EQ(result.workspaceSize, 0U);
  EXPECT_LT(p.list(preference).size(), results.size());
  cublasLtMatmulPreferenceDestroy(preference);
}

TEST(CublasLtStandIn, RefusesAResultThatOverlapsItsOperands) {
  Product p;
  p.at_d = p.matrix_b + 60;
  EXPECT_EQ(p.run(), kRefused);
}

TEST(CublasLtStandIn, RefusesWithoutHandle) {
  Product p;
  cublasLtHandle_t none = nullptr;
  std::swap(p.handle, none);
  EXPECT_EQ(p.run(), kRefused);
  std::swap(p.handle, none);
}

TEST(CublasLtStandIn, CountsWhatIsAlive) {
  const int64_t before = cublaslt().live_objects;
  {
    const Product p;
    EXPECT_EQ(cublaslt().live_objects, before + 6);
  }
  EXPECT_EQ(cublaslt().live_objects, before);
}

}  // namespace
}  // namespace dettax::test
