#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace dettax {

// When an injected profiler records.
struct InjectionWindow {
  enum class Kind {
    profiler,  // from cudaProfilerStart to cudaProfilerStop
    range,     // from the first begin of the range `name` to its end
    steps,  // from the begin of step `first` to the end of the one behind `last`, which tells where that one ends
    always,
  };
  Kind kind = Kind::profiler;
  std::string name;
  int64_t first = 0, last = 0;
};

struct InjectionSettings {
  std::string folder;      // DETTAX_PROFILE_DIR
  InjectionWindow window;  // DETTAX_PROFILE_WINDOW
  std::string
      step_name;      // DETTAX_PROFILE_STEP; a range of just this name is a step too, and counted
  std::string cupti;  // DETTAX_CUPTI; empty: found
  int64_t period_ms = 1000;  // DETTAX_PROFILE_PERIOD_MS, between writes
  std::optional<int> rank;   // as the launcher tells
  int world_size = 0;
};

// "profiler", "always", "range:NAME", "steps:A-B". Nothing if it is none of them.
std::optional<InjectionWindow> parse_window(const std::string& text);

// From the environment. `fault`: a sentence, if something in it is missing or wrong.
InjectionSettings read_injection_settings(std::string& fault);

}  // namespace dettax
