#include "profiles/inject/settings.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>

namespace dettax {
namespace {

// Read once, while the program starts.
std::string variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? std::string() : std::string(value);
}

template <typename Number>
bool number(std::string_view text, Number& to) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), to);
  return error == std::errc() && end == text.data() + text.size() && to >= 0;
}

std::optional<int> first_number(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    int value = 0;
    if (number(variable(name), value)) return value;
  }
  return std::nullopt;
}

}  // namespace

std::optional<InjectionWindow> parse_window(const std::string& text) {
  InjectionWindow window;
  if (text.empty() || text == "profiler") return window;
  if (text == "always") {
    window.kind = InjectionWindow::Kind::always;
    return window;
  }
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return std::nullopt;
  const std::string kind = text.substr(0, colon), rest = text.substr(colon + 1);
  if (kind == "range" && !rest.empty()) {
    window.kind = InjectionWindow::Kind::range;
    window.name = rest;
    return window;
  }
  const size_t dash = rest.find('-');
  if (kind != "steps" || dash == std::string::npos) return std::nullopt;
  window.kind = InjectionWindow::Kind::steps;
  const std::string_view view = rest;
  if (!number(view.substr(0, dash), window.first) || !number(view.substr(dash + 1), window.last) ||
      window.last < window.first)
    return std::nullopt;
  return window;
}

InjectionSettings read_injection_settings(std::string& fault) {
  InjectionSettings settings;
  settings.folder = variable("DETTAX_PROFILE_DIR");
  if (settings.folder.empty()) fault = "DETTAX_PROFILE_DIR names no folder for its traces";
  const std::string window = variable("DETTAX_PROFILE_WINDOW");
  if (const auto parsed = parse_window(window)) {
    settings.window = *parsed;
  } else {
    fault = "DETTAX_PROFILE_WINDOW=" + window +
            ": profiler, always, range:NAME or steps:FIRST-LAST is expected";
  }
  settings.step_name = variable("DETTAX_PROFILE_STEP");
  settings.cupti = variable("DETTAX_CUPTI");
  const std::string period = variable("DETTAX_PROFILE_PERIOD_MS");
  if (!period.empty() && (!number(period, settings.period_ms) || settings.period_ms == 0))
    fault = "DETTAX_PROFILE_PERIOD_MS=" + period + ": a number of milliseconds is expected";
  settings.rank = first_number({"RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMIX_RANK"});
  settings.world_size =
      first_number({"WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE"}).value_or(0);
  return settings;
}

}  // namespace dettax
