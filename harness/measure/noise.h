#pragma once

#include <string>
#include <vector>

#include "results/record.h"

namespace dettax {

// Change of an arm's block medians with time.
struct Trend {
  double ratio_per_second = 0;  // Theil-Sen slope over the median
  double ratio_over_case = 0;   // slope times the time from first to last block
  bool clear = false;           // Mann-Kendall, two-sided, 1 %
};
Trend trend(const std::vector<Block>& blocks);

// A step far off its arm's median: further than 5 % and five times the scatter. It is listed, not
// taken out.
struct OutlyingStep {
  int round = 0, position = 0, step = 0;
  double seconds = 0;
  double ratio = 1;  // to the arm's median
};
std::vector<OutlyingStep> outlying_steps(const std::vector<Block>& blocks);

// Rounds whose ratio lies further from the median of all than 2 % and five times the scatter.
struct OutlyingRound {
  int round = 0;
  double ratio = 1;
  double others_ratio = 1;
};
std::vector<OutlyingRound> outlying_rounds(const std::vector<Block>& arm,
                                           const std::vector<Block>& fast);

// True if the guards of a block are over their limits.
bool disturbed(const Block& block);

// What a reader must know about the number: trends inside each arm, arms that did not alternate,
// outlying rounds and steps, rounds that were repeated and rounds that were disturbed and counted.
std::vector<std::string> noise_warnings(const std::string& arm_name, const std::vector<Block>& arm,
                                        const std::vector<Block>& fast);

}  // namespace dettax
