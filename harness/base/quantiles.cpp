#include "harness/base/quantiles.h"

#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/students_t.hpp>

namespace dettax {

double student_t_quantile(double probability, double degrees_of_freedom) {
  return boost::math::quantile(boost::math::students_t(degrees_of_freedom), probability);
}

size_t median_interval_rank(size_t n, double confidence) {
  const boost::math::binomial below(static_cast<double>(n), 0.5);
  // The median lies under the r-th smallest with probability P(at most r - 1 values below it).
  size_t rank = 0;
  while (rank < n / 2 && 2 * boost::math::cdf(below, static_cast<double>(rank)) <= 1 - confidence) {
    ++rank;
  }
  return rank;
}

}  // namespace dettax
