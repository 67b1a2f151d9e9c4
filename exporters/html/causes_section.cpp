#include "exporters/html/causes_section.h"

#include <ostream>
#include <string>

#include <fmt/format.h>

#include "exporters/cause_tables.h"
#include "exporters/html/cause_data.h"
#include "exporters/html/markup.h"

namespace dettax {
namespace {

void write_chart(std::ostream& out, const char* chart, size_t place, size_t number = 0) {
  out << "<div class=\"chart\" data-chart=\"" << chart << "\" data-case=\"" << place
      << "\" data-number=\"" << number << "\"></div>\n";
}

void write_profile(std::ostream& out, const ArmProfile& profile, size_t place, size_t number) {
  write_element(out, "h3", "Causes: " + profile.arm + " by mechanism");
  if (has_mechanisms(profile)) {
    write_element(out, "p",
                  "Recorded steps of the arm less those of fast, by what took the time. Steps that "
                  "are recorded are none of those that were timed.",
                  "dim");
    write_chart(out, "mechanisms", place, number);
    write_grid(out, mechanism_grid(profile));
    write_grid(out, path_grid(profile));
  }
  write_items(out, profile_words(profile), profile.refusal.empty() ? "dim" : "warning");
}

void write_ablation(std::ostream& out, const Record& record, const Ablation& ablation,
                    size_t place) {
  write_element(out, "h3", "Causes: knobs of " + ablation.arm);
  if (has_matrix(ablation)) {
    const double fast = fast_seconds(record);
    if (fast > 0) {
      write_element(out, "p",
                    "From a fast step to one of the mode, knob by knob; whiskers are intervals of "
                    "what the knob adds.",
                    "dim");
      write_chart(out, "waterfall", place);
    }
    write_element(out, "p", "Seconds a step: knobs in rows, mechanisms in columns.", "dim");
    write_chart(out, "heat", place);
    write_grid(out, ablation_grid(ablation));
  }
  write_items(out, ablation_words(ablation), ablation.refusal.empty() ? "" : "warning");
  write_items(out, ablation.notes, "dim");
}

}  // namespace

void write_causes(std::ostream& out, const Record& record, size_t place) {
  for (size_t i = 0; i < record.profiles.size(); ++i)
    write_profile(out, record.profiles[i], place, i);
  if (record.ablation) write_ablation(out, record, *record.ablation, place);
}

}  // namespace dettax
