#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "results/analysis/acceptance/rules.h"
#include "results/record.h"

namespace dettax {

// One half of a row of a collective's table as nccl-tests prints it: out of place or in place.
struct CollectiveRow {
  double message_bytes = 0, seconds = 0, bus_bytes_per_second = 0;
  bool in_place = false;
  std::optional<int64_t> wrong;  // elements; nothing where it says N/A
};
struct CollectiveTable {
  std::string name;  // of the file
  std::vector<CollectiveRow> rows;
  std::string failure;  // the line that says that it failed, with its number; beats the rows
};

// Reads both halves of the rows of all sizes, and what says that the test failed: the footer's "Out of bounds values : N FAILED" and
// failures of NCCL or CUDA. All else that begins with no number is left out. Error{config} with file and line on a row that is none.
CollectiveTable parse_collective_table(const std::string& text, const std::string& name);

// Two questions: whether the ranks are connected and compute right, which any size shows, and how wide the way is, which only messages
// of rules.bandwidth_min_message_bytes and more do; of these the largest counts, and of its halves the
// slower; small ones are never averaged into it.
struct CollectiveVerdict {
  bool connected = false;
  std::optional<bool> wide_enough;  // nothing: not measured, or no limit
  std::string code;                 // of reason.h, if it fails
  std::string words;
};
CollectiveVerdict judge_collective(const CollectiveTable& table, const AcceptanceRules& rules);

}  // namespace dettax
