#include "exporters/html/kernels_section.h"

#include <ostream>
#include <string>

#include <fmt/format.h>

#include "exporters/html/markup.h"
#include "harness/base/format.h"

namespace dettax {
namespace {

std::string rate(double per_second, const char* unit) {
  return per_second > 0 ? fmt::format("{:.3g} G{}/s", per_second / 1e9, unit) : "";
}

}  // namespace

void write_kernels(std::ostream& out, const Record& record) {
  if (!record.kernels) return;
  const KernelSuite& suite = *record.kernels;
  write_element(out, "h3", "Kernels alone");
  write_element(out, "p",
                fmt::format("Beside the roofline measured in the same run: {}, {} of memory. They "
                            "are no part of the timed steps.",
                            rate(suite.peak_flops_per_second, "FLOP"),
                            rate(suite.memory_bytes_per_second, "B")),
                "dim");
  HtmlTable table({"kernel", " time", " calls a step", " bytes", " operations", " of roofline"});
  for (const KernelTime& kernel : suite.kernels) {
    table.add({{kernel.name, ""},
               {format_seconds(kernel.seconds), ""},
               {kernel.calls_per_step > 0 ? fmt::format("{:.0f}", kernel.calls_per_step) : "", ""},
               {rate(kernel.bytes_per_second, "B"), ""},
               {rate(kernel.flops_per_second, "FLOP"), ""},
               {fmt::format("{:.2f}", kernel.of_roofline_ratio), ""}});
  }
  table.write(out);
}

}  // namespace dettax
