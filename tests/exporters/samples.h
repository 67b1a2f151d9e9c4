#pragma once

// Records of every kind of verdict, and what tests of exporters share. Golden files: DETTAX_APPROVE=1 writes them anew; the difference
// is for a reviewer to read.

#include <string>
#include <vector>

#include "exporters/exporter.h"
#include "tests/results/sample_record.h"

namespace dettax {

void expect_golden(const std::string& text, const std::string& name);
std::string exported(const std::string& format, const std::vector<Record>& records,
                     const ExportSettings& settings = {});

Record not_reproducible();
Record inconclusive();
Record crashed();
Record skipped();
Record incomplete();
Record over_limit();
Record emulated();
Record control_differs();
std::vector<Record> every_verdict();  // all of these behind one that passed

// Names and reasons made to break formats: mark-up, quotes, line breaks, control characters, UTF-8, bytes that are none.
Record hostile();

// Many records of usual size, no two with the same case.
std::vector<Record> many_records(int count);

}  // namespace dettax
