#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cublasLt.h>

#include "harness/device/cuda/runtime/matmul.h"
#include "harness/device/device.h"
#include "harness/plan/knobs.h"

namespace dettax {

// Of which number of rows a plan knows.
enum class PlanRows {
  exact,
  rounded_up,  // to a power of two: rows of experts are others in every call
  any,         // none, so that a row's result does not depend on the others
};

struct ProductCall {
  std::string_view operation;  // for people
  Matmul product;
  MatmulMemory memory;
  Order order = Order::invariant;
  bool timed = false;  // the fastest of several; for exact rows only
  PlanRows plan_rows = PlanRows::exact;
  int64_t Matmul::* rows = &Matmul::n;  // which of its extents is the number of rows
};

// Which of cuBLASLt's algorithms computes a product. Chosen at the first call of a kind and kept:
//  arrival    the heuristic's first, whatever it is: it may cut the sums (split-K) and have their parts meet as they come
//  ordered, invariant   the heuristic's first that computes each sum in one piece (no split-K, no reduction scheme). The heuristic is a
//             function of the library's version, the chip and the descriptors, so that the choice is the same in every process
// With `timed` the fastest of its first few, found before the first result by repeating the product (algorithm_trial.h), so that no
// later call holds a trial; two processes may then choose differently. A result that is added to in place is repeated into memory of
// its size, which is given back.
//
// Alignment is part of a kind, up to 16 bytes and no more than all rows of a matrix have. The most working memory that an algorithm may
// need is fixed.
//
// What NVIDIA promises: the same bits at every run of the same version of the library on a GPU of the same architecture with as many
// multiprocessors, one stream being active. Not promised, and taken to hold because one block computes a sum by a loop over k: that an
// algorithm's sum does not depend on the number of rows (invariant); one whose blocks shared a sum without saying so would break it.
// Other versions of the library or other chips may give other bits and other plans; describe() shows which.
class ProductPlans {
 public:
  ProductPlans(CUstream_st* stream, std::function<Buffer(size_t)> allocate);
  ~ProductPlans();
  ProductPlans(const ProductPlans&) = delete;
  ProductPlans& operator=(const ProductPlans&) = delete;

  // Enqueues the product; false, and nothing done, if the library has no algorithm for it.
  bool run(const ProductCall& call);
  // A line a plan, in a fixed order.
  std::string describe() const;

 private:
  static constexpr size_t kConfigurationNumbers = 9;
  static constexpr size_t kSplits = 7, kReduction = 8;  // where two of them are
  using Configuration = std::array<int64_t, kConfigurationNumbers>;
  struct Candidate {
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace_bytes;
    Configuration configuration;
  };
  struct Alignments {
    uint32_t a, b, c, d, vector, auxiliary;
    auto operator<=>(const Alignments&) const = default;
  };
  struct Kind {
    std::string_view operation;
    Matmul product;  // its rows as the plan knows them
    Order order;
    bool timed;
    Alignments alignments;
    auto operator<=>(const Kind&) const = default;
  };
  struct Plan {
    std::vector<Candidate> candidates;  // none: there is no algorithm; several: to be timed
    // Numbers of rows, other than the plan's, that it was found to support, and the workspace that it needs for them.
    std::map<int64_t, size_t> fits;
  };
  struct Chosen {
    Plan* plan;                       // null: the library has no algorithm
    size_t more_workspace_bytes = 0;  // than the plan's own rows need, maybe
  };
  class Preference;

  static Alignments alignments_of(const ProductCall& call);
  static MatmulMemory memory_aligned_as(const Alignments& alignments);
  static Configuration configuration_of(const cublasLtMatmulAlgo_t& algorithm);
  Chosen plan_for(const ProductCall& call);
  Plan& plan_of(const Kind& kind);
  std::vector<Candidate> candidates_for(const Kind& kind, size_t most);
  std::optional<size_t> workspace_for(const Candidate& candidate, const ProductCall& call,
                                      const Alignments& alignments);
  void keep_fastest(Plan& plan, const ProductCall& call);
  void enqueue(const ProductCall& call, const Candidate& candidate, size_t workspace_bytes);

  CUstream_st* stream_;
  std::function<Buffer(size_t)> allocate_;
  cublasLtHandle_t handle_ = nullptr;
  Buffer workspace_;
  std::map<Kind, Plan> plans_;
};

}  // namespace dettax
