#include "harness/plan/toggles.h"

#include "harness/base/text.h"

namespace dettax {
namespace {

constexpr const char* kEnvironment = "environment";

void copy_knob(Mode& to, const Mode& from, const std::string& knob) {
  if (knob == kEnvironment) {
    to.environment = from.environment;
  } else {
    set_knob(to.knobs, knob, knob_value(from.knobs, knob_named(knob)));
  }
}

Mode derived(const Mode& base, const Mode& source, const std::vector<std::string>& knobs,
             const std::string& joint) {
  Mode mode = base;
  for (const std::string& knob : knobs) copy_knob(mode, source, knob);
  mode.name = base.name + joint + join(knobs, joint);
  mode.hash = base.hash + "." + join(knobs, ".");
  mode.claims_reproducible = mode.claims_invariant = false;
  return mode;
}

}  // namespace

std::vector<Toggle> toggles(const Case& planned, const Mode& fast, const Mode& mode) {
  std::vector<Toggle> all;
  const auto add = [&](const std::string& knob, TaxPart part) {
    all.push_back({knob, part, derived(fast, mode, {knob}, "+"), derived(mode, fast, {knob}, "-")});
  };
  for (const KnobInfo& info : knob_table()) {
    const bool differs = knob_value(fast.knobs, info.knob) != knob_value(mode.knobs, info.knob);
    if (differs && knob_acts(info.knob, planned)) add(std::string(info.name), info.part);
  }
  if (fast.environment != mode.environment) add(kEnvironment, TaxPart::ordering);
  return all;
}

Mode with_toggles(const Mode& fast, const Mode& mode, const std::vector<std::string>& knobs) {
  return derived(fast, mode, knobs, "+");
}

}  // namespace dettax
