#pragma once

#include <functional>
#include <vector>

namespace dettax {

struct FitRange {
  double low = 0, high = 0;
};
struct FitResult {
  std::vector<double> values;
  double objective = 0;
};

// Lowers `objective` from `start` on, one value after the other by a factor that shrinks from 1.3 to 1.002, each within its range; at most
// 100 rounds over all of them. The same input gives the same bits. Finds a minimum near by, not the least of all.
FitResult pattern_search(std::vector<double> start, const std::vector<FitRange>& ranges,
                         const std::function<double(const std::vector<double>&)>& objective);

}  // namespace dettax
