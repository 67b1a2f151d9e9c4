#include "harness/cli/acceptance_text.h"

#include <algorithm>
#include <ostream>

#include <fmt/format.h>

#include "exporters/text_layout.h"
#include "exporters/words.h"
#include "harness/base/format.h"
#include "harness/base/text.h"
#include "results/reason.h"

namespace dettax {
namespace {

constexpr size_t kFindingsShown = 20, kNodesShown = 40;

const char* headline(ExitCode code) {
  switch (code) {
    case ExitCode::pass:
      return "ACCEPTED";
    case ExitCode::fail:
    case ExitCode::not_bit_exact:
      return "NOT ACCEPTED";
    case ExitCode::inconclusive:
      return "UNDECIDED";
    case ExitCode::skipped:
      return "NOTHING RAN";
    default:
      return "NOT COMPLETE";
  }
}

// "gpu05 (slow_node), gpu07 (odd_ratio)"
std::string names_of(const std::vector<NodeVerdict>& nodes) {
  std::vector<std::string> names;
  for (const NodeVerdict& node : nodes) {
    if (node.status != Status::pass && node.status != Status::skipped)
      names.push_back(fmt::format("{} ({})", node.node, node.code));
  }
  const size_t all = names.size();
  names.resize(std::min(all, kFindingsShown));
  return join(names, ", ") +
         (all > kFindingsShown ? fmt::format(" and {} more", all - kFindingsShown) : "");
}

void write_findings(std::ostream& out, const Acceptance& acceptance, const TableStyle& style) {
  size_t shown = 0;
  for (const AcceptanceFinding& finding : acceptance.findings) {
    if (++shown > kFindingsShown) {
      out << fmt::format("  and {} more\n", acceptance.findings.size() - kFindingsShown);
      break;
    }
    out << "  "
        << paint(fmt::format("{:<12}", upper(to_string(finding.status))),
                 colour_of(finding.exit_code), style.colour)
        << "  " << finding.rule << (finding.node.empty() ? "" : "  " + finding.node) << "\n";
    write_wrapped(out, finding.words, 16, columns(style));
  }
  if (!acceptance.findings.empty()) out << "\n";
}

std::string ratio(const std::optional<double>& value) {
  return value ? format_signed_percent(*value - 1) : "-";
}

void write_nodes(std::ostream& out, const Acceptance& acceptance, const TableStyle& style) {
  Grid grid(2);
  grid.add(
      {{"node"}, {"verdict"}, {"fast / fleet"}, {"det ratio / fleet"}, {"cases"}, {"attempts"}});
  const bool many = acceptance.nodes.size() > kNodesShown;
  size_t kept = 0;
  for (const NodeVerdict& node : acceptance.nodes) {
    if (many && node.status == Status::pass) {
      ++kept;
      continue;
    }
    grid.add({{node.node},
              {node.code, colour_of(node.exit_code)},
              {ratio(node.fast_ratio)},
              {ratio(node.odd_ratio)},
              {std::to_string(node.cases)},
              {std::to_string(node.attempts)}});
  }
  grid.write(out, kIndent, style.colour);
  if (kept > 0) out << fmt::format("  and {} accepted nodes\n", kept);
  out << "\n";
}

void write_rules(std::ostream& out, const Acceptance& acceptance, const TableStyle& style) {
  out << "  rules of " << acceptance.rules << "\n";
  for (const RuleSummary& one : acceptance.summaries) {
    const std::string words = one.judged == 0 ? "not judged: " + one.words
                                              : fmt::format("{} of {} kept", one.kept, one.judged);
    out << fmt::format("    {:<14} ", one.rule)
        << paint(words,
                 one.judged == 0          ? Colour::dim
                 : one.kept == one.judged ? Colour::green
                                          : Colour::red,
                 style.colour)
        << "\n";
  }
  out << "\n";
}

void write_drains(std::ostream& out, const Acceptance& acceptance) {
  bool any = false;
  for (const NodeVerdict& node : acceptance.nodes) {
    const std::vector<std::string> command = drain_command(node);
    if (command.empty()) continue;
    if (!any) out << "  to take out of Slurm (printed only; --drain runs it)\n";
    any = true;
    out << "    " << join(command, " ") << "\n";
  }
  if (any) out << "\n";
}

}  // namespace

void write_acceptance(std::ostream& out, const Acceptance& acceptance, const TableStyle& style) {
  const std::string names = names_of(acceptance.nodes);
  out << paint(headline(acceptance.exit_code), colour_of(acceptance.exit_code), style.colour)
      << fmt::format("  {}{}\n\n",
                     format_things(static_cast<int64_t>(acceptance.nodes.size()), "node"),
                     names.empty() ? "" : ": " + names);
  write_findings(out, acceptance, style);
  write_nodes(out, acceptance, style);
  write_rules(out, acceptance, style);
  for (const std::string& note : acceptance.notes)
    write_wrapped(out, "note: " + note, kIndent, columns(style));
  if (!acceptance.notes.empty()) out << "\n";
  write_drains(out, acceptance);
  write_exit_code(out, acceptance.exit_code, style);
}

void write_baseline_check(std::ostream& out, const BaselineCheck& check, const TableStyle& style) {
  if (!check.provenance_differences.empty()) {
    out << (check.rows.empty()
                ? "not compared, the baseline was made under other conditions:\n"
                : "compared although the baseline was made under other conditions:\n");
    for (const std::string& difference : check.provenance_differences)
      write_wrapped(out, difference, kIndent, columns(style));
  }
  for (const bool passed : {false, true}) {
    for (const BaselineCheckRow& row : check.rows) {
      if ((row.status == Status::pass) != passed) continue;
      out << paint(fmt::format("{:<12}", upper(to_string(row.status))),
                   colour_of(exit_code_of(row.status)), style.colour)
          << fmt::format("  {}  {}  {}\n", row.case_id, row.arm, row.quantity);
      write_wrapped(out, row.words, 14, columns(style));
    }
  }
  write_exit_code(out, static_cast<ExitCode>(check.exit_code), style);
}

}  // namespace dettax
