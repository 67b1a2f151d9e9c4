#pragma once

#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "harness/train/checkpoint.h"
#include "small_cases.h"

namespace dettax::testing_support {

// What a rank computed: loss and state of each step from the boundary that it began at.
Log train_on(RankRun& rank, int steps);
// Trains `steps` from a reset, saves and goes on for `more`.
struct SavedRun {
  std::filesystem::path checkpoint;
  std::vector<Log> after;  // of each rank, from the boundary on
};
SavedRun train_and_save(const Case& planned, const Mode& mode, int steps, int more,
                        const std::filesystem::path& folder,
                        const std::function<void(RankRun&)>& disturb = {});
// New training steps, loaded, then `more`.
std::vector<Log> resume(const Case& planned, const Mode& mode,
                        const std::filesystem::path& checkpoint, int more,
                        const std::set<std::string>& leave_out = {});

}  // namespace dettax::testing_support
