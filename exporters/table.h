#pragma once

#include <iosfwd>
#include <vector>

#include "results/record.h"
#include "results/run_folder.h"

namespace dettax {

struct TableStyle {
  bool colour = false;
  int width = 100;  // columns of the terminal
};

// What `dettax run` and `dettax report` print: one block a case (verdict, tax with interval and count, minimum detectable tax, evidence
// per arm, step time and throughput, memory against its estimate, warnings), then one line for the whole run. A function of the
// records alone.
void write_table(std::ostream& out, const std::vector<Record>& records, const TableStyle& style);
void write_comparison(std::ostream& out, const Comparison& comparison, const TableStyle& style);

}  // namespace dettax
