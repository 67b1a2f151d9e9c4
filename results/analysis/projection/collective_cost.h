#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "results/analysis/projection/hardware.h"

namespace dettax {

enum class CollectiveKind { all_reduce, all_gather, reduce_scatter, all_to_all, point_to_point };
// As tables of operations name them.
inline constexpr std::array<std::string_view, 5> kCollectiveWords = {
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "point_to_point"};
constexpr std::string_view to_string(CollectiveKind collective) {
  return kCollectiveWords[static_cast<size_t>(collective)];
}
enum class CollectiveAlgorithm { ring, tree, nvls, nvls_tree, collnet };
const char* to_string(CollectiveAlgorithm algorithm);

// Which algorithms may be chosen.
class AlgorithmSet {
 public:
  static AlgorithmSet all() { return AlgorithmSet(0x1F); }
  static AlgorithmSet only(CollectiveAlgorithm algorithm) {
    return AlgorithmSet(1U << static_cast<unsigned>(algorithm));
  }
  // As NCCL_ALGO says it: Ring,Tree or ^NVLS. Throws Error{config} on a word it does not know.
  static AlgorithmSet named(const std::string& nccl_algo);
  bool has(CollectiveAlgorithm algorithm) const {
    return ((bits_ >> static_cast<unsigned>(algorithm)) & 1U) != 0;
  }
  void remove(CollectiveAlgorithm algorithm) { bits_ &= ~(1U << static_cast<unsigned>(algorithm)); }

 private:
  explicit AlgorithmSet(unsigned bits) : bits_(bits) {}
  unsigned bits_;
};

// A group of ranks and how many of them share one fast link.
struct GroupShape {
  int64_t ranks = 1;
  int64_t per_domain = 1;
  int64_t domains() const { return (ranks + per_domain - 1) / per_domain; }
};
// Ranks that are `stride` apart among those of a machine.
GroupShape group_shape(const Hardware& machine, int64_t ranks, int64_t stride);

struct CollectiveChoice {
  double seconds = 0;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::ring;
};
// The fastest allowed algorithm and protocol by NCCL's own cost model, latency * steps + bytes / bandwidth. `bytes` is the whole buffer:
// what an all-gather leaves on each rank, what a reduce-scatter reads, an all-to-all sends and keeps.
CollectiveChoice choose_collective(const Hardware& machine, CollectiveKind collective, double bytes,
                                   const GroupShape& group, const AlgorithmSet& allowed);
// Of that choice, with what each collective takes besides (Efficiency::collective_seconds).
double collective_seconds(const Hardware& machine, CollectiveKind collective, double bytes,
                          const GroupShape& group, const AlgorithmSet& allowed);

}  // namespace dettax
