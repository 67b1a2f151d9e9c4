#include "results/analysis/acceptance/cells.h"

#include <algorithm>
#include <set>

#include "harness/base/text.h"

namespace dettax {
namespace {

// A case's start, warm-up and evidence take about two fifths of its time (see run_suite).
constexpr double kMeasuringShare = 0.6;
constexpr double kLeastShare = 0.5;  // of the planned measuring time

std::set<std::string> shown_by(const Case& planned) {
  std::set<std::string> shown;
  for (const KnobInfo& knob : knob_table()) {
    if (knob_acts(knob.knob, planned)) shown.insert("knob " + std::string(knob.name));
  }
  const Layout& layout = planned.layout;
  const std::pair<const char*, bool> axes[] = {
      {"dp", layout.dp > 1}, {"tp", layout.tp > 1}, {"pp", layout.pp > 1},
      {"cp", layout.cp > 1}, {"ep", layout.ep > 1}, {"nodes", planned.topology.nodes > 1}};
  for (const auto& [name, there] : axes) {
    if (there) shown.insert(std::string("axis ") + name);
  }
  // A sum of two has one result in any order: such a case is blind to it.
  if (layout.dp > 2) shown.insert("order of sums over ranks");
  shown.insert(std::string("precision ") + to_string(planned.precision));
  shown.insert("model " + planned.model.name);
  return shown;
}

}  // namespace

CellChoice choose_cells(const Suite& suite, double budget_seconds) {
  const double least_seconds = kLeastShare * suite.measure.budget_seconds / kMeasuringShare;
  CellChoice choice;
  std::set<std::string> known;
  std::vector<size_t> open(suite.cases.size());
  for (size_t i = 0; i < open.size(); ++i) open[i] = i;
  double left = budget_seconds;
  while (!open.empty() && (choice.chosen.empty() || left >= least_seconds)) {
    const auto gain = [&](size_t i) {
      return std::ranges::count_if(shown_by(suite.cases[i]),
                                   [&](const std::string& what) { return !known.contains(what); });
    };
    const auto best = std::ranges::max_element(open, {}, gain);
    known.merge(shown_by(suite.cases[*best]));
    choice.chosen.push_back(*best);
    open.erase(best);
    left -= least_seconds;
  }
  choice.left_out = open;
  return choice;
}

Suite with_cells(const Suite& suite, const CellChoice& choice) {
  Suite some = suite;
  some.cases.clear();
  for (const size_t i : choice.chosen) some.cases.push_back(suite.cases[i]);
  some.hash = hash_text(dump_suite(some));
  return some;
}

}  // namespace dettax
