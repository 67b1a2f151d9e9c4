#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "small_cases.h"

namespace dettax::testing_support {

// The same global batch on another layout.
Case on_layout(Case planned, const Layout& layout);

// What a step did, whatever the layout: whole tensors put together from the ranks that hold their parts.
struct WholeStep {
  std::vector<float> losses, norms;  // of every rank
  std::map<std::string, std::vector<float>> gradients, values;
};
// reset, then `steps` steps. `disturb` may change a rank's trainer before the first.
std::vector<WholeStep> whole_steps(const Case& planned, const Mode& mode, int steps,
                                   const std::function<void(RankRun&)>& disturb = {});

// Where two runs first differ by more than rounding, "" if nowhere: loss and norm by 1e-5, any gradient or weight by `tolerance`
// of its length.
std::string disagreement(const std::vector<WholeStep>& expected,
                         const std::vector<WholeStep>& found, double tolerance);

}  // namespace dettax::testing_support
