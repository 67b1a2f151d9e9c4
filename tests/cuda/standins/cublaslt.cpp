// Link-time stand-in for the calls of cuBLASLt that runtime/ makes, against the library's own header: see cublaslt.h.

#include "tests/cuda/standins/cublaslt.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "harness/device/cuda/host/streams.h"
#include "tests/cuda/standins/cublaslt_compute.h"

namespace dettax::test {

CublasLtStandIn& cublaslt() {
  static thread_local CublasLtStandIn stand_in;
  return stand_in;
}

namespace {

// Attributes as the library keeps them: of a known size each.
struct Attributes {
  std::map<int, std::vector<std::byte>> values;

  cublasStatus_t set(int attribute, const void* from, size_t bytes, size_t right) {
    if (from == nullptr || bytes != right) return CUBLAS_STATUS_INVALID_VALUE;
    const auto* data = static_cast<const std::byte*>(from);
    values[attribute].assign(data, data + bytes);
    return CUBLAS_STATUS_SUCCESS;
  }
  template <class T>
  T get(int attribute, T otherwise) const {
    const auto at = values.find(attribute);
    if (at != values.end())
      std::memcpy(static_cast<void*>(&otherwise), at->second.data(), sizeof(T));
    return otherwise;
  }
};

struct Operation : Attributes {
  cublasComputeType_t compute;
  cudaDataType scale;
};
struct Preference : Attributes {};

// The library's descriptors are structs of words; ours begin with a pointer to what is meant.
template <class T, class Opaque>
T* inside(const Opaque* handle) {
  if (handle == nullptr) return nullptr;
  T* meant = nullptr;
  std::memcpy(static_cast<void*>(&meant), handle->data, sizeof(T*));
  return meant;
}
template <class Opaque, class T>
cublasStatus_t make(Opaque** handle, T value) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  auto opaque = std::make_unique<Opaque>();
  T* meant = std::make_unique<T>(std::move(value)).release();
  std::memcpy(opaque->data, static_cast<const void*>(&meant), sizeof(T*));
  *handle = opaque.release();
  ++cublaslt().live_objects;
  return CUBLAS_STATUS_SUCCESS;
}
template <class T, class Opaque>
cublasStatus_t destroy(Opaque* handle) {
  if (handle == nullptr) return CUBLAS_STATUS_SUCCESS;
  const std::unique_ptr<T> meant(inside<T>(handle));
  const std::unique_ptr<Opaque> opaque(handle);
  --cublaslt().live_objects;
  return CUBLAS_STATUS_SUCCESS;
}

bool fails_now() {
  int& left = cublaslt().fail_at;
  if (left == 0) return false;
  --left;
  return left == 0;
}

// The algorithms: what each of them can, and how it adds.
struct Algorithm {
  int id;
  cublasLtMatmulTile_t tile;
  int rows, columns;  // of the tile
  int lanes;
  uint32_t alignment;
  bool auxiliary;
};
constexpr Algorithm kAlgorithms[] = {
    {3, CUBLASLT_MATMUL_TILE_32x32, 32, 32, 1, 2, true},
    {6, CUBLASLT_MATMUL_TILE_64x32, 64, 32, 2, 2, false},
    {21, CUBLASLT_MATMUL_TILE_32x64, 32, 64, 3, 16, true},
    {24, CUBLASLT_MATMUL_TILE_64x64, 64, 64, 4, 16, true},
    {27, CUBLASLT_MATMUL_TILE_128x64, 128, 64, 5, 16, true},
    {66, CUBLASLT_MATMUL_TILE_128x128, 128, 128, 8, 16, false},
};
constexpr int kMultiprocessors = 4;

struct Configuration {
  int32_t id = 0;
  int32_t splits = 1;
  uint32_t tile = 0, scheme = 0, stages = 0, swizzle = 0, option = 0;
  uint16_t inner = 0, cluster = 0;
};
static_assert(sizeof(Configuration) <= sizeof(cublasLtMatmulAlgo_t));

Configuration configuration_of(const cublasLtMatmulAlgo_t& algorithm) {
  Configuration c;
  std::memcpy(&c, algorithm.data, sizeof c);
  return c;
}
const Algorithm* algorithm_of(const Configuration& c) {
  const auto* found = std::ranges::find(kAlgorithms, c.id, &Algorithm::id);
  return found == std::end(kAlgorithms) ? nullptr : found;
}

bool is_number(cudaDataType type) { return type == CUDA_R_32F || type == CUDA_R_16BF; }

// The rows of the documented table of types that concern f32 and bf16.
bool types_fit(const LibraryProduct& p) {
  if (p.scale != CUDA_R_32F || p.a.type != p.b.type || p.c.type != p.d.type ||
      !is_number(p.a.type) || !is_number(p.d.type)) {
    return false;
  }
  if (p.a.type == CUDA_R_32F && p.d.type != CUDA_R_32F) return false;
  if (p.compute == CUBLAS_COMPUTE_32F) return true;
  return p.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && p.a.type == CUDA_R_32F;
}

bool epilogue_fits(const LibraryProduct& p) {
  const bool vector = p.epilogue == CUBLASLT_EPILOGUE_BIAS ||
                      p.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS ||
                      p.epilogue == CUBLASLT_EPILOGUE_BGRADB;
  const bool auxiliary =
      p.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS || p.epilogue == CUBLASLT_EPILOGUE_DGELU;
  if (!vector && !auxiliary && p.epilogue != CUBLASLT_EPILOGUE_DEFAULT) return false;
  if (vector && (p.vector == nullptr || (p.vector_type != -1 && p.vector_type != p.d.type))) {
    return false;
  }
  return !auxiliary ||
         (p.auxiliary != nullptr && p.auxiliary_stride % 8 == 0 && p.auxiliary_stride >= p.d.rows);
}

bool matrices_fit(const LibraryProduct& p) {
  const auto whole = [](const LibraryProduct::Matrix& m) {
    return m.rows > 0 && m.columns > 0 && m.stride >= m.rows;
  };
  const int64_t a_rows = p.transpose_a ? p.a.columns : p.a.rows;
  const int64_t b_rows = p.transpose_b ? p.b.columns : p.b.rows;
  const int64_t b_columns = p.transpose_b ? p.b.rows : p.b.columns;
  return whole(p.a) && whole(p.b) && whole(p.c) && whole(p.d) && a_rows == p.m() &&
         b_rows == p.k() && b_columns == p.n() && p.c.rows == p.m() && p.c.columns == p.n();
}

std::optional<LibraryProduct> product_of(cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                                         cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                         cublasLtMatrixLayout_t d) {
  using Matrix = LibraryProduct::Matrix;
  const auto* on = inside<Operation>(operation);
  const Matrix* all[] = {inside<Matrix>(a), inside<Matrix>(b), inside<Matrix>(c),
                         inside<Matrix>(d)};
  if (on == nullptr || std::ranges::count(all, nullptr) > 0) return std::nullopt;
  return LibraryProduct{
      *all[0],
      *all[1],
      *all[2],
      *all[3],
      on->get<int32_t>(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_N) != CUBLAS_OP_N,
      on->get<int32_t>(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N) != CUBLAS_OP_N,
      on->compute,
      on->scale,
      on->get<cublasLtEpilogue_t>(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT),
      on->get<void*>(CUBLASLT_MATMUL_DESC_BIAS_POINTER, nullptr),
      on->get<int32_t>(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, -1),
      on->get<void*>(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, nullptr),
      on->get<int64_t>(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, 0)};
}

cublasStatus_t judge(const std::optional<LibraryProduct>& p) {
  if (!p || !matrices_fit(*p)) return CUBLAS_STATUS_INVALID_VALUE;
  if (!types_fit(*p)) return CUBLAS_STATUS_NOT_SUPPORTED;
  const bool refused = cublaslt().epilogues_are_invalid && p->epilogue != CUBLASLT_EPILOGUE_DEFAULT;
  return epilogue_fits(*p) && !refused ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

int64_t size_of(cudaDataType type) { return type == CUDA_R_32F ? 4 : 2; }
uint32_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  return address == 0 ? 256U : 1U << std::min(8, std::countr_zero(address));
}
// The least that the leading dimensions of the matrices allow.
uint32_t stride_alignment(const LibraryProduct& p) {
  uint32_t least = 256;
  for (const auto& m : {p.a, p.b, p.c, p.d}) {
    const auto bytes = static_cast<uint64_t>(m.stride * size_of(m.type));
    least = std::min(least, 1U << std::min(8, std::countr_zero(bytes)));
  }
  return least;
}

// Whether an algorithm can compute a product whose matrices are all aligned so.
cublasStatus_t judge(const LibraryProduct& p, const Configuration& c, uint32_t alignment) {
  const Algorithm* algorithm = algorithm_of(c);
  const CublasLtStandIn& s = cublaslt();
  if (algorithm == nullptr || c.splits < 1 || (c.splits > 1) != (c.scheme != 0)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool auxiliary =
      p.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS || p.epilogue == CUBLASLT_EPILOGUE_DGELU;
  const bool epilogue = p.epilogue != CUBLASLT_EPILOGUE_DEFAULT;
  const bool supported = s.has_algorithms && (!epilogue || s.has_epilogues) &&
                         (!auxiliary || algorithm->auxiliary) && p.n() >= s.fewest_columns &&
                         p.k() >= c.splits &&
                         std::min(alignment, stride_alignment(p)) >= algorithm->alignment;
  return supported ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

size_t workspace_bytes(const LibraryProduct& p, const Configuration& c) {
  if (c.scheme == CUBLASLT_REDUCTION_SCHEME_NONE) return 0;
  if (c.scheme == CUBLASLT_REDUCTION_SCHEME_INPLACE) return 1024;
  return static_cast<size_t>(p.m() * p.n() * c.splits * 4);
}

float waves(const LibraryProduct& p, const Configuration& c) {
  const Algorithm& a = *algorithm_of(c);
  const auto tiles = ((p.m() + a.rows - 1) / a.rows) * ((p.n() + a.columns - 1) / a.columns);
  return static_cast<float>(tiles * c.splits) / kMultiprocessors;
}
// As the heuristic sees it: whole waves of tiles, each as long as its sums.
double estimated_time(const LibraryProduct& p, const Configuration& c) {
  const Algorithm& a = *algorithm_of(c);
  const double tile = std::sqrt(static_cast<double>(a.rows) * a.columns);
  return std::ceil(static_cast<double>(waves(p, c))) * tile * static_cast<double>(p.k()) /
             c.splits +
         20 * c.splits;
}

std::vector<Configuration> all_configurations() {
  std::vector<Configuration> all;
  for (const Algorithm& a : kAlgorithms) {
    Configuration c;
    c.id = a.id;
    c.tile = a.tile;
    c.stages = CUBLASLT_MATMUL_STAGES_16x3;
    all.push_back(c);
    for (const int splits : {2, 4}) {
      c.splits = splits;
      c.scheme =
          splits == 2 ? CUBLASLT_REDUCTION_SCHEME_INPLACE : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
      all.push_back(c);
    }
  }
  return all;
}

std::vector<Configuration> heuristic(const LibraryProduct& p, const Preference& preference) {
  uint32_t alignment = 256;
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    alignment = std::min(alignment, preference.get<uint32_t>(attribute, 256));
  }
  const auto wished = preference.get<uint32_t>(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                               CUBLASLT_REDUCTION_SCHEME_MASK);
  const auto schemes = cublaslt().heeds_wishes ? wished : uint32_t{CUBLASLT_REDUCTION_SCHEME_MASK};
  const auto bytes = preference.get<uint64_t>(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 0);
  std::vector<Configuration> list = all_configurations();
  std::erase_if(list, [&](const Configuration& c) {
    return judge(p, c, alignment) != CUBLAS_STATUS_SUCCESS ||
           (c.scheme != 0 && (c.scheme & schemes) == 0) || workspace_bytes(p, c) > bytes;
  });
  std::ranges::stable_sort(list, {}, [&](const Configuration& c) { return estimated_time(p, c); });
  if (cublaslt().list_seed != 0) {
    std::mt19937_64 drawn(cublaslt().list_seed);
    for (size_t left = list.size(); left > 1; --left)
      std::swap(list[left - 1], list[drawn() % left]);
  }
  return list;
}

void describe(const LibraryProduct& p, const Configuration& c,
              cublasLtMatmulHeuristicResult_t& result) {
  result.workspaceSize = workspace_bytes(p, c);
  result.state = CUBLAS_STATUS_SUCCESS;
  result.wavesCount = waves(p, c);
}

struct Range {
  const std::byte* begin;
  const std::byte* end;
  bool overlaps(const Range& other) const { return begin < other.end && other.begin < end; }
};
Range range_of(const void* at, const LibraryProduct::Matrix& m) {
  const auto* begin = static_cast<const std::byte*>(at);
  return {begin, begin + ((m.columns - 1) * m.stride + m.rows) * size_of(m.type)};
}

bool memory_fits(const LibraryProduct& p, const LibraryMemory& at) {
  if (at.a == nullptr || at.b == nullptr || at.d == nullptr) return false;
  if (at.beta != 0 && at.c == nullptr) return false;
  const Range d = range_of(at.d, p.d);
  if (d.overlaps(range_of(at.a, p.a)) || d.overlaps(range_of(at.b, p.b))) return false;
  return at.beta == 0 || at.c == at.d || !d.overlaps(range_of(at.c, p.c));
}

// A word of 4, a pointer or a count of 8, and two flags.
size_t operation_attribute_bytes(cublasLtMatmulDescAttributes_t attribute) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
    case CUBLASLT_MATMUL_DESC_TRANSB:
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE:
      return 4;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return 8;
    default:
      return 0;  // not played: set() then refuses any
  }
}
size_t preference_attribute_bytes(cublasLtMatmulPreferenceAttributes_t attribute) {
  return attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ||
                 attribute == CUBLASLT_MATMUL_PREF_IMPL_MASK
             ? 8
             : 4;
}

template <class T>
cublasStatus_t give(T value, void* to, size_t bytes, size_t* written) {
  if (bytes == 0 && written == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (bytes != 0 && (to == nullptr || bytes != sizeof value)) return CUBLAS_STATUS_INVALID_VALUE;
  if (bytes != 0) std::memcpy(to, &value, sizeof value);
  if (written != nullptr) *written = sizeof value;
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace
}  // namespace dettax::test

using namespace dettax::test;  // NOLINT(google-build-using-namespace): the functions are C's

// NOLINTBEGIN(readability-function-size): as many parameters as the library's have
extern "C" {

const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS           ? "success"
         : status == CUBLAS_STATUS_INVALID_VALUE   ? "an unsupported value or parameter was passed"
         : status == CUBLAS_STATUS_NOT_SUPPORTED   ? "the functionality requested is not supported"
         : status == CUBLAS_STATUS_ALLOC_FAILED    ? "the resource allocation failed"
         : status == CUBLAS_STATUS_NOT_INITIALIZED ? "the library was not initialized"
                                                   : "the program failed to execute";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (fails_now()) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = reinterpret_cast<cublasLtHandle_t>(std::make_unique<int>(0).release());
  ++cublaslt().live_objects;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  const std::unique_ptr<int> owned(reinterpret_cast<int*>(handle));
  --cublaslt().live_objects;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* operation,
                                        cublasComputeType_t compute, cudaDataType_t scale) {
  if (fails_now()) return CUBLAS_STATUS_ALLOC_FAILED;
  Operation made;
  made.compute = compute;
  made.scale = scale;
  return make(operation, std::move(made));
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) {
  return destroy<Operation>(operation);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* from, size_t bytes) {
  if (fails_now()) return CUBLAS_STATUS_INVALID_VALUE;
  const size_t right = operation_attribute_bytes(attribute);
  if (right == 0) return CUBLAS_STATUS_INVALID_VALUE;
  return inside<Operation>(operation)->set(attribute, from, bytes, right);
}

// As in the library, a leading dimension that is too small shows only when the layout is used.
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t stride) {
  if (fails_now()) return CUBLAS_STATUS_ALLOC_FAILED;
  return make(layout, LibraryProduct::Matrix{type, static_cast<int64_t>(rows),
                                             static_cast<int64_t>(columns), stride});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return destroy<LibraryProduct::Matrix>(layout);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  if (fails_now()) return CUBLAS_STATUS_ALLOC_FAILED;
  return make(preference, Preference{});
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy<Preference>(preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* from, size_t bytes) {
  if (fails_now()) return CUBLAS_STATUS_INVALID_VALUE;
  return inside<Preference>(preference)
      ->set(attribute, from, bytes, preference_attribute_bytes(attribute));
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* found) {
  if (fails_now()) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (handle == nullptr || most <= 0) return CUBLAS_STATUS_INVALID_VALUE;
  const auto product = product_of(operation, a, b, c, d);
  const cublasStatus_t status = judge(product);
  *found = 0;
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  const Preference none;
  const auto* wishes = preference == nullptr ? &none : inside<Preference>(preference);
  for (const Configuration& configuration : heuristic(*product, *wishes)) {
    if (*found == most) break;
    auto& result = results[(*found)++];
    result = {};
    std::memcpy(result.algo.data, &configuration, sizeof configuration);
    describe(*product, configuration, result);
  }
  return *found == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  if (fails_now()) return CUBLAS_STATUS_NOT_INITIALIZED;
  const auto product = product_of(operation, a, b, c, d);
  if (handle == nullptr || algorithm == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  cublasStatus_t status = judge(product);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  const Configuration configuration = configuration_of(*algorithm);
  status = judge(*product, configuration, 256);
  if (status == CUBLAS_STATUS_SUCCESS) describe(*product, configuration, *result);
  return status;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void* to, size_t bytes, size_t* written) {
  if (fails_now()) return CUBLAS_STATUS_INVALID_VALUE;
  const Configuration c = configuration_of(*algorithm);
  switch (attribute) {
    case CUBLASLT_ALGO_CONFIG_ID:
      return give(c.id, to, bytes, written);
    case CUBLASLT_ALGO_CONFIG_TILE_ID:
      return give(c.tile, to, bytes, written);
    case CUBLASLT_ALGO_CONFIG_SPLITK_NUM:
      return give(c.splits, to, bytes, written);
    case CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME:
      return give(c.scheme, to, bytes, written);
    case CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING:
      return give(c.swizzle, to, bytes, written);
    case CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION:
      return give(c.option, to, bytes, written);
    case CUBLASLT_ALGO_CONFIG_STAGES_ID:
      return give(c.stages, to, bytes, written);
    case CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID:
      return give(c.inner, to, bytes, written);
    case CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID:
      return give(c.cluster, to, bytes, written);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              size_t workspace_size, cudaStream_t stream) {
  if (fails_now()) return CUBLAS_STATUS_EXECUTION_FAILED;
  const auto product = product_of(operation, a_layout, b_layout, c_layout, d_layout);
  if (handle == nullptr || alpha == nullptr || beta == nullptr || algorithm == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  cublasStatus_t status = judge(product);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  const Configuration configuration = configuration_of(*algorithm);
  const LibraryMemory memory{
      a, b, c, d, *static_cast<const float*>(alpha), *static_cast<const float*>(beta)};
  if (!memory_fits(*product, memory)) return CUBLAS_STATUS_INVALID_VALUE;
  uint32_t alignment = 256;
  for (const void* pointer : {a, b, c, static_cast<const void*>(d)}) {
    alignment = std::min(alignment, alignment_of(pointer));
  }
  status = judge(*product, configuration, alignment);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  const size_t needed = workspace_bytes(*product, configuration);
  if (needed > workspace_size || (needed > 0 && alignment_of(workspace) < 256)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const Algorithm& chosen = *algorithm_of(configuration);
  const SumShape shape{chosen.lanes, configuration.splits, chosen.rows, chosen.columns};
  dettax::enqueue_on(
      stream, [=, p = *product] { compute_product(p, memory, shape, schedule_of_this_thread()); });
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
// NOLINTEND(readability-function-size)
