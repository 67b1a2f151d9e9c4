#pragma once

namespace dettax {

// What this machine's units and memory allow, measured once when it is first asked for: the best of several tries on all its cores,
// since whatever disturbs a try only slows it.
struct Roofline {
  double flops_per_second = 0;
  double bytes_per_second = 0;  // read and written, of arrays that fit no cache
};
const Roofline& roofline();

// The least time that so many operations and so many bytes from memory can take.
double least_seconds(double flops, double bytes);

}  // namespace dettax
