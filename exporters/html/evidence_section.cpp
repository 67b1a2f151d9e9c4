#include "exporters/html/evidence_section.h"

#include <algorithm>
#include <array>
#include <ostream>
#include <string>

#include "exporters/html/markup.h"

namespace dettax {
namespace {

constexpr std::array kScopes{"same_process",   "relaunch",      "other_allocation",
                             "restart_replay", "other_threads", "other_ranks"};

// Of several comparisons over one scope, one that differs counts.
HtmlCell bits_over(const ArmEvidence& arm, const std::string& name) {
  HtmlCell cell{"\xe2\x80\x93", "dim"};
  for (const ScopeEvidence& scope : arm.scopes) {
    if (scope.scope != name || !scope.tested) continue;
    if (!scope.equal) return {"differ", "differ"};
    cell = {"equal", ""};
  }
  return cell;
}

std::string first_difference(const ArmEvidence& arm) {
  for (const ScopeEvidence& scope : arm.scopes) {
    if (scope.tested && !scope.equal) return scope.scope + ": " + scope.first_difference;
  }
  return arm.ranks.tested && !arm.ranks.equal ? "ranks of one run: " + arm.ranks.first_difference
                                              : "";
}

}  // namespace

void write_evidence_section(std::ostream& out, const std::vector<const Record*>& records) {
  out << "<section id=\"evidence\">\n<h2>Evidence by scope</h2>\n";
  std::vector<std::string> header{"case", "arm"};
  header.insert(header.end(), kScopes.begin(), kScopes.end());
  header.emplace_back("first difference");
  HtmlTable table(std::move(header));
  for (const Record* record : records) {
    for (const ArmEvidence& arm : record->evidence.arms) {
      if (!claims(*record, arm.arm)) continue;
      std::vector<HtmlCell> row{{record->case_id, ""}, {arm.arm, ""}};
      for (const char* scope : kScopes) row.push_back(bits_over(arm, scope));
      row.push_back({first_difference(arm), ""});
      table.add(std::move(row));
    }
  }
  if (table.empty()) {
    write_element(out, "p", "No arm that claims to reproduce its bits was compared.");
  } else {
    write_element(
        out, "p",
        "Whether the bits of arms that claim to reproduce them were equal; a dash was not "
        "tested, and is no evidence.",
        "dim");
    table.write(out);
  }
  out << "</section>\n";
}

}  // namespace dettax
