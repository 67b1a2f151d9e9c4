#pragma once

#include <span>
#include <vector>

namespace dettax {

// A value among its like: a node's step time among those of its fleet. Values are logarithms, so that differences are ratios.
struct PeerValue {
  double value = 0;
  double standard_error = 0;  // of the measurement; 0 if unknown
};

struct PeerComparison {
  double center = 0;              // median
  double scale = 0;               // robust standard deviation of one value
  double usual_cut = 0;           // of a value that was measured as well as most
  std::vector<double> deviation;  // [i] from the center
  std::vector<double> cut;        // [i] what the size of a deviation must exceed to be odd
  bool odd(size_t i) const { return deviation[i] > cut[i] || deviation[i] < -cut[i]; }
};

// Which values do not belong to the others, when all others are normally spread. With probability `false_alarm` at most any value of
// a set without a stranger is called odd: per value and side false_alarm / (2 n) (Bonferroni). Center is the median, scale is Qn
// (Rousseeuw and Croux 1993), which bears up to half the values being strangers; the cut is Student's quantile with 0.6 (n - 1)
// degrees of freedom, since Qn has about 60 % of the standard deviation's efficiency in small samples (82 % in large ones), times
// sqrt(1 + 1.57 / n) for the median's own error. A value that was measured worse than the others gets its own wider cut.
// Needs at least four values, of which all are finite; Error{internal} otherwise.
PeerComparison compare_with_peers(std::span<const PeerValue> values, double false_alarm);

// Qn with its small-sample correction: a standard deviation for normal values. 0 for fewer than two.
double robust_scale(std::span<const double> values);

}  // namespace dettax
