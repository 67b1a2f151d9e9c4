#include "harness/device/cuda/runtime/product_plans.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "harness/base/error.h"
#include "harness/device/cuda/runtime/algorithm_trial.h"
#include "harness/device/cuda/runtime/check.h"

namespace dettax {
namespace {

// What NVIDIA advises for chips of compute capability 9.0: the most that an algorithm may need.
constexpr uint64_t kWorkspaceBytes = uint64_t{32} << 20;
constexpr size_t kTimedOf = 4;
// How many are asked for to find that many that do not split sums: a preference against those is a wish.
constexpr size_t kAsked = 32;
// For which plans are made that must not know the number of rows: one that fills a device.
constexpr int64_t kAnyRows = 4096;
constexpr uint32_t kMostAlignment = 16;

uint32_t alignment_of(const void* pointer, int64_t row_bytes) {
  const auto bits = reinterpret_cast<uintptr_t>(pointer) | static_cast<uintptr_t>(row_bytes);
  return bits == 0 ? kMostAlignment
                   : static_cast<uint32_t>(std::min<uintptr_t>(
                         kMostAlignment, uintptr_t{1} << std::countr_zero(bits)));
}

template <class T>
int64_t number(const cublasLtMatmulAlgo_t& algorithm,
               cublasLtMatmulAlgoConfigAttributes_t attribute) {
  T value = 0;
  size_t written = 0;
  require_success(
      cublasLtMatmulAlgoConfigGetAttribute(&algorithm, attribute, &value, sizeof value, &written),
      "cublasLtMatmulAlgoConfigGetAttribute");
  return int64_t{value};
}

const char* name_of(Order order) {
  return order == Order::arrival ? "arrival" : order == Order::ordered ? "ordered" : "invariant";
}

}  // namespace

// Fails with nothing to clean up, since it is made first.
class ProductPlans::Preference {
 public:
  Preference(const Alignments& alignments, bool may_split) {
    require_success(cublasLtMatmulPreferenceCreate(&preference_), "cublasLtMatmulPreferenceCreate");
    try {
      set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
      const uint32_t schemes =
          may_split ? CUBLASLT_REDUCTION_SCHEME_MASK : CUBLASLT_REDUCTION_SCHEME_NONE;
      set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes);
      set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignments.a);
      set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignments.b);
      set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignments.c);
      set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignments.d);
    } catch (...) {
      destroy();
      throw;
    }
  }
  ~Preference() { destroy(); }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;
  cublasLtMatmulPreference_t get() const { return preference_; }

 private:
  template <class T>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, T value) {
    require_success(
        cublasLtMatmulPreferenceSetAttribute(preference_, attribute, &value, sizeof value),
        "cublasLtMatmulPreferenceSetAttribute");
  }
  void destroy() { static_cast<void>(cublasLtMatmulPreferenceDestroy(preference_)); }

  cublasLtMatmulPreference_t preference_ = nullptr;
};

ProductPlans::ProductPlans(CUstream_st* stream, std::function<Buffer(size_t)> allocate)
    : stream_(stream), allocate_(std::move(allocate)) {
  require_success(cublasLtCreate(&handle_), "cublasLtCreate");
}

ProductPlans::~ProductPlans() { static_cast<void>(cublasLtDestroy(handle_)); }

bool ProductPlans::run(const ProductCall& call) {
  const auto [plan, more_bytes] = plan_for(call);
  if (plan == nullptr) return false;
  if (plan->candidates.size() > 1) keep_fastest(*plan, call);
  const Candidate& candidate = plan->candidates.front();
  enqueue(call, candidate, std::max(candidate.workspace_bytes, more_bytes));
  return true;
}

// What a product writes it may write again, unless it also reads it.
void ProductPlans::keep_fastest(Plan& plan, const ProductCall& call) {
  ProductCall repeated = call;
  Buffer scratch;
  if (call.product.add_c && call.memory.c == call.memory.d) {
    const Matmul& p = call.product;
    scratch = allocate_(static_cast<size_t>(p.m * p.n) * size_of(p.out));
    repeated.memory.d = scratch.data();
  }
  const size_t fastest = fastest_of(plan.candidates.size(), stream_, [&](size_t i) {
    enqueue(repeated, plan.candidates[i], plan.candidates[i].workspace_bytes);
  });
  plan.candidates = {plan.candidates[fastest]};
}

std::string ProductPlans::describe() const {
  std::string text;
  for (const auto& [kind, plan] : plans_) {
    const Alignments& at = kind.alignments;
    text += std::string(kind.operation) + ", " + name_of(kind.order) +
            (kind.timed ? ", timed" : "") + ": " + to_string(kind.product) + ", aligned";
    for (const uint32_t bytes : {at.a, at.b, at.c, at.d, at.vector, at.auxiliary}) {
      text += " " + std::to_string(bytes);
    }
    text += ":";
    if (plan.candidates.empty()) text += " no algorithm";
    if (plan.candidates.size() > 1) text += " to be timed";
    if (plan.candidates.size() == 1) {
      constexpr const char* kNames[] = {"algorithm", "tile",   "stages", "inner shape", "cluster",
                                        "swizzle",   "option", "split",  "reduction"};
      const Candidate& chosen = plan.candidates.front();
      for (size_t i = 0; i < kConfigurationNumbers; ++i) {
        text += std::string(i == 0 ? " " : ", ") + kNames[i] + " " +
                std::to_string(chosen.configuration[i]);
      }
      text += ", workspace " + std::to_string(chosen.workspace_bytes) + " bytes";
    }
    text += "\n";
  }
  return text;
}

ProductPlans::Alignments ProductPlans::alignments_of(const ProductCall& call) {
  const Matmul& p = call.product;
  const auto in = static_cast<int64_t>(size_of(p.in));
  const auto out = static_cast<int64_t>(size_of(p.out));
  const MatmulMemory& at = call.memory;
  return {alignment_of(at.a, (p.transpose_a ? p.k : p.m) * in),
          alignment_of(at.b, (p.transpose_b ? p.n : p.k) * in),
          alignment_of(p.add_c ? at.c : at.d, p.m * out),
          alignment_of(at.d, p.m * out),
          at.vector == nullptr ? 0 : alignment_of(at.vector, 0),
          at.auxiliary == nullptr ? 0 : alignment_of(at.auxiliary, p.m * out)};
}

// Planning sees no address but only what it is a multiple of, which is all that plans may depend on.
MatmulMemory ProductPlans::memory_aligned_as(const Alignments& alignments) {
  const auto at = [](uint32_t bytes) {
    return reinterpret_cast<void*>(uintptr_t{bytes});  // NOLINT(performance-no-int-to-ptr)
  };
  MatmulMemory memory;
  memory.vector = at(alignments.vector);
  memory.auxiliary = at(alignments.auxiliary);
  return memory;
}

ProductPlans::Configuration ProductPlans::configuration_of(const cublasLtMatmulAlgo_t& algorithm) {
  return {number<int32_t>(algorithm, CUBLASLT_ALGO_CONFIG_ID),
          number<uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID),
          number<uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_STAGES_ID),
          number<uint16_t>(algorithm, CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID),
          number<uint16_t>(algorithm, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID),
          number<uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING),
          number<uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION),
          number<int32_t>(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
          number<uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME)};
}

ProductPlans::Chosen ProductPlans::plan_for(const ProductCall& call) {
  const Alignments alignments = alignments_of(call);
  Kind kind{call.operation, call.product, call.order, call.timed, alignments};
  const int64_t rows = call.product.*call.rows;
  if (call.plan_rows == PlanRows::any) kind.product.*call.rows = kAnyRows;
  if (call.plan_rows == PlanRows::rounded_up) {
    kind.product.*call.rows = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows)));
  }
  Plan& plan = plan_of(kind);
  if (!plan.candidates.empty()) {
    if (kind.product == call.product) return {&plan};
    const auto known = plan.fits.find(rows);
    if (known != plan.fits.end()) return {&plan, known->second};
    if (const auto bytes = workspace_for(plan.candidates.front(), call, alignments)) {
      plan.fits.emplace(rows, *bytes);
      return {&plan, *bytes};
    }
    if (call.plan_rows == PlanRows::any) {
      throw Error(ErrorKind::unsupported,
                  std::string(call.operation) + ": the algorithm of cuBLASLt that is pinned for " +
                      to_string(kind.product) + " cannot compute " + to_string(call.product));
    }
  }
  if (call.plan_rows != PlanRows::rounded_up) return {nullptr};
  kind.product = call.product;
  Plan& exact = plan_of(kind);
  return {exact.candidates.empty() ? nullptr : &exact};
}

ProductPlans::Plan& ProductPlans::plan_of(const Kind& kind) {
  const auto known = plans_.find(kind);
  if (known != plans_.end()) return known->second;
  Plan plan;
  plan.candidates = candidates_for(kind, kind.timed ? kTimedOf : 1);
  return plans_.emplace(kind, std::move(plan)).first->second;
}

// What the heuristic names, less what may not be used.
std::vector<ProductPlans::Candidate> ProductPlans::candidates_for(const Kind& kind, size_t most) {
  const bool may_split = kind.order == Order::arrival;
  const Preference preference(kind.alignments, may_split);
  const MatmulDescriptors on(kind.product, memory_aligned_as(kind.alignments));
  std::vector<cublasLtMatmulHeuristicResult_t> results(may_split ? most : kAsked);
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle_, on.operation(), on.a(), on.b(), on.d(), on.d(), preference.get(),
      static_cast<int>(results.size()), results.data(), &found);
  // An epilogue that a version or chip does not know, or not for these shapes, is also told as an invalid value.
  const bool refused =
      status == CUBLAS_STATUS_INVALID_VALUE && kind.product.epilogue != CUBLASLT_EPILOGUE_DEFAULT;
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || refused) return {};
  require_success(status, "cublasLtMatmulAlgoGetHeuristic");
  results.resize(static_cast<size_t>(found));
  std::vector<Candidate> candidates;
  for (const auto& result : results) {
    if (candidates.size() == most) break;
    if (result.state != CUBLAS_STATUS_SUCCESS || result.workspaceSize > kWorkspaceBytes) continue;
    const Candidate candidate{result.algo, result.workspaceSize, configuration_of(result.algo)};
    const bool whole = candidate.configuration[kSplits] <= 1 &&
                       candidate.configuration[kReduction] == CUBLASLT_REDUCTION_SCHEME_NONE;
    if (may_split || whole) candidates.push_back(candidate);
  }
  return candidates;
}

// Of an algorithm that was chosen for another number of rows; nothing if it does not support this one.
std::optional<size_t> ProductPlans::workspace_for(const Candidate& candidate,
                                                  const ProductCall& call,
                                                  const Alignments& alignments) {
  const MatmulDescriptors on(call.product, memory_aligned_as(alignments));
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status = cublasLtMatmulAlgoCheck(
      handle_, on.operation(), on.a(), on.b(), on.d(), on.d(), &candidate.algorithm, &result);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return {};
  require_success(status, "cublasLtMatmulAlgoCheck");
  if (result.workspaceSize > kWorkspaceBytes) return {};
  return result.workspaceSize;
}

void ProductPlans::enqueue(const ProductCall& call, const Candidate& candidate,
                           size_t workspace_bytes) {
  const MatmulDescriptors on(call.product, call.memory);
  const MatmulMemory& at = call.memory;
  if (workspace_.bytes() < workspace_bytes) {
    workspace_ = Buffer();
    workspace_ = allocate_(workspace_bytes);
  }
  const float alpha = 1;
  const float beta = call.product.add_c ? 1 : 0;
  require_success(cublasLtMatmul(handle_, on.operation(), &alpha, at.a, on.a(), at.b, on.b(), &beta,
                                 call.product.add_c ? at.c : at.d, on.d(), at.d, on.d(),
                                 &candidate.algorithm, workspace_.data(), workspace_bytes, stream_),
                  "cublasLtMatmul");
}

}  // namespace dettax
