#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace dettax {

// The number of the step that a range of this name marks; nothing if it marks none. `step_name` as in ImportOptions.
std::optional<int64_t> step_index_of(std::string_view range_name, std::string_view step_name);

// Finds the steps of one file by the names of its ranges, and remembers what else could have marked them.
class StepFinder {
 public:
  explicit StepFinder(std::string step_name) : step_name_(std::move(step_name)) {}
  std::optional<int64_t> index_of(std::string_view range_name);
  // Throws Error{usage} naming the file, and the names that are there, if steps of one name were asked for and no range has it.
  void require_found(const std::string& source) const;

 private:
  const std::string step_name_;
  bool found_ = false;
  std::set<std::string, std::less<>> others_;  // in front of the numbers of other ranges
};

}  // namespace dettax
