#include "exporters/html/assets.h"

// Made by cmake/embed.cmake: kD3, kReportScript, kReportStyle.
#include <report_assets.h>

namespace dettax {

const Asset& d3_script() {
  static const Asset kAsset(std::begin(kD3), std::end(kD3));
  return kAsset;
}
const Asset& report_script() {
  static const Asset kAsset(std::begin(kReportScript), std::end(kReportScript));
  return kAsset;
}
const Asset& report_style() {
  static const Asset kAsset(std::begin(kReportStyle), std::end(kReportStyle));
  return kAsset;
}

}  // namespace dettax
