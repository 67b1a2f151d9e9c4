#include "harness/evidence/trainer_log.h"

#include <algorithm>
#include <charconv>
#include <istream>
#include <string_view>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/text.h"
#include "results/reason.h"

namespace dettax {
namespace {

constexpr std::string_view kNoVersion = " does not have a deterministic implementation";
constexpr std::string_view kCublas = "not deterministic because it uses CuBLAS";

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

struct Number {
  int64_t value = 0;
  std::string_view rest;
};

// The whole number that follows `key` and blanks.
std::optional<Number> number_after(std::string_view line, std::string_view key) {
  for (size_t at = line.find(key); at != std::string_view::npos; at = line.find(key, at + 1)) {
    std::string_view rest = line.substr(at + key.size());
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    Number number;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number.value);
    if (error != std::errc()) continue;
    number.rest = rest.substr(static_cast<size_t>(end - rest.data()));
    return number;
  }
  return std::nullopt;
}

// The step that a line of progress reports: "iteration  120/ 2000 |", "step: 120  loss: ...".
std::optional<int64_t> reported_step(std::string_view line) {
  if (const auto number = number_after(line, "iteration")) {
    const std::string_view rest = trim(number->rest);
    if (rest.starts_with("/")) return number->value;
  }
  if (const auto number = number_after(line, "step:")) return number->value;
  return std::nullopt;
}

std::string_view until_blank(std::string_view text) {
  return text.substr(0, text.find_first_of(" ,;:()'\""));
}

// "... in layer moe.combine ..."
std::string named_layer(std::string_view line) {
  const size_t at = line.find(" layer ");
  return at == std::string_view::npos ? "" : std::string(until_blank(line.substr(at + 7)));
}

// A frame of a Python traceback, File "/x/moe/combine.py", line 88, in forward, as moe/combine.py:88 forward; of the framework's own
// frames nothing.
std::string frame(std::string_view line) {
  const size_t at = line.find("File \"");
  if (at == std::string_view::npos || contains(line, "/torch/")) return "";
  std::string_view path = line.substr(at + 6);
  const auto number = number_after(path, "\", line ");
  if (!number) return "";
  path = path.substr(0, path.find('"'));
  const size_t name = path.rfind('/');
  const size_t folder = name == std::string_view::npos || name == 0 ? std::string_view::npos
                                                                    : path.rfind('/', name - 1);
  if (folder != std::string_view::npos) path.remove_prefix(folder + 1);
  const std::string_view function = number->rest.starts_with(", in ") ? number->rest.substr(5) : "";
  return fmt::format("{}:{} {}", path, number->value, trim(function));
}

std::string in_lower_case(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : static_cast<char>(c);
  });
  return out;
}

// The step of a checkpoint that a line says is loaded: " loading checkpoint from /x at iteration 120", ".../global_step120/...",
// "outputs/checkpoint/step-120.", "checkpoint-120".
std::optional<int64_t> loaded_step(std::string_view line) {
  const std::string words = in_lower_case(line);
  const bool loads = contains(words, "loading") || contains(words, "loaded") ||
                     contains(words, "restored") || contains(words, "resuming");
  if (!loads || !contains(words, "checkpoint")) return std::nullopt;
  for (const std::string_view key : {"at iteration", "at step", "global_step", "step=", "step-",
                                     "step_", "iter_", "checkpoint-"}) {
    if (const auto number = number_after(words, key)) return number->value;
  }
  return std::nullopt;
}

// A number as C and Python print it that is none: nan, inf, infinity, nan(0x...), with a sign or without; not the beginning of a word.
bool starts_with_no_number(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  for (const std::string_view word : {"infinity", "inf", "nan"}) {
    if (!text.starts_with(word)) continue;
    text.remove_prefix(word.size());
    return text.find_first_of("abcdefghijklmnopqrstuvwxyz0123456789_") != 0;
  }
  return false;
}

// Whether a line of progress tells a loss or a gradient norm that is no number, or counts such steps.
bool reports_nan(std::string_view line) {
  const std::string words = in_lower_case(line);
  for (const std::string_view key : {"loss", "grad norm", "grad_norm", "gradient norm"}) {
    for (size_t at = words.find(key); at != std::string::npos; at = words.find(key, at + 1)) {
      std::string_view rest = std::string_view(words).substr(at + key.size());
      rest.remove_prefix(std::min(rest.find_first_not_of(" :="), rest.size()));
      if (starts_with_no_number(rest)) return true;
    }
  }
  const auto counted = number_after(words, "number of nan iterations:");
  return counted && counted->value > 0;
}

std::string op_before(std::string_view line, size_t end) {
  const std::string_view before = line.substr(0, end);
  const size_t begin = before.find_last_of(" '`\"");
  return std::string(begin == std::string_view::npos ? before : before.substr(begin + 1));
}

bool is_warning(std::string_view line) {
  return contains(line, "Warning") || contains(line, "(True, warn_only=True)");
}

class Reader {
 public:
  void take(std::string_view line) {
    ++log_.lines;
    if (contains(line, "Traceback (most recent call last)")) frame_.clear();
    if (std::string found = frame(line); !found.empty()) frame_ = std::move(found);
    if (const auto step = loaded_step(line)) {
      note_load(*step);
    } else if (const auto done = reported_step(line)) {
      note_step(*done);
      if (reports_nan(line)) note_nan(*done);
    }
    if (const size_t at = line.find(kNoVersion); at != std::string_view::npos) {
      note_op(line, op_before(line, at));
    } else if (contains(line, kCublas) && !is_warning(line)) {
      refuse(line, "matrix multiplication (cuBLAS)",
             "CUBLAS_WORKSPACE_CONFIG was not :4096:8 or :16:8 before the first one");
    }
  }
  TrainerLog finish() { return std::move(log_); }

 private:
  // Each rank says it, some both before and after.
  void note_load(int64_t step) {
    const bool again = log_.loads.empty() || stepped_ || log_.loads.back().step != step;
    if (again) log_.loads.push_back({step, std::nullopt, std::nullopt});
    stepped_ = false;
  }
  void note_nan(int64_t step) {
    if (log_.loads.empty() || log_.loads.back().nan_step) return;
    log_.loads.back().nan_step = step;
  }
  void note_step(int64_t step) {
    stepped_ = true;
    if (!log_.first_step) log_.first_step = step;
    log_.last_step = std::max(step, log_.last_step.value_or(step));
    if (log_.loads.empty()) return;
    std::optional<int64_t>& reached = log_.loads.back().last_step;
    reached = std::max(step, reached.value_or(step));
  }

  std::string place(std::string_view line) const {
    const std::string layer = named_layer(line);
    return layer.empty() ? frame_ : layer;
  }

  void refuse(std::string_view line, const std::string& op, const std::string& reason) {
    if (log_.refused) return;
    RefusedOp refused{op, std::nullopt, place(line), reason};
    const auto named = number_after(line, " step ");
    if (named) {
      refused.step = named->value;
    } else if (log_.last_step) {
      refused.step = *log_.last_step + 1;
    }
    log_.refused = std::move(refused);
  }

  void note_op(std::string_view line, const std::string& op) {
    if (!is_warning(line)) return refuse(line, op, "it has no deterministic version");
    auto known = std::find_if(log_.unprotected.begin(), log_.unprotected.end(),
                              [&](const UnprotectedOp& one) { return one.op == op; });
    if (known == log_.unprotected.end()) {
      log_.unprotected.push_back({op, 0, place(line)});
      known = log_.unprotected.end() - 1;
    }
    ++known->warnings;
  }

  TrainerLog log_;
  std::string frame_;
  bool stepped_ = false;  // since the last load
};

std::string at(const std::string& place) { return place.empty() ? "" : ", at " + place; }

std::string refusal_words(const RefusedOp& refused) {
  return fmt::format("{}: {}{}{}.", refused.op, refused.reason,
                     refused.step ? fmt::format("; it ended step {}", *refused.step) : "",
                     at(refused.place));
}

std::string warning_words(const UnprotectedOp& op, int64_t steps) {
  const bool each_step = steps > 0 && op.warnings % steps == 0;
  const int64_t warnings = each_step ? op.warnings / steps : op.warnings;
  return fmt::format("{} (warned of {}{}{})", op.op,
                     warnings == 1 ? "once" : fmt::format("{} times", warnings),
                     each_step ? " a step" : "", at(op.place));
}

// Starts from one checkpoint, one after the other, each of which came to a NaN.
struct Loop {
  std::vector<LoggedLoad> starts;
  std::vector<LoggedLoad> later;  // of any checkpoint
};

bool goes_past(const LoggedLoad& load, const std::vector<LoggedLoad>& starts) {
  return load.step == starts.front().step && !load.nan_step &&
         load.last_step >= starts.back().nan_step;
}

// The last one that is long enough and that no later start from the same checkpoint got past.
std::optional<Loop> find_loop(const std::vector<LoggedLoad>& loads) {
  std::optional<Loop> found;
  std::vector<LoggedLoad> starts;
  for (const LoggedLoad& load : loads) {
    if (found && goes_past(load, found->starts)) found.reset();
    if (!starts.empty() && load.step != starts.front().step) starts.clear();
    if (load.nan_step) {
      starts.push_back(load);
    } else {
      starts.clear();
    }
    if (static_cast<int64_t>(starts.size()) >= kStartsThatEndAlike) {
      found = Loop{starts, {}};
    } else if (found) {
      found->later.push_back(load);
    }
  }
  return found;
}

// What became of the starts after it.
std::string later_words(const Loop& loop) {
  if (loop.later.empty()) return "";
  const LoggedLoad& last = loop.later.back();
  if (last.nan_step)
    return fmt::format(" The last start, from {}, came to a NaN in step {}.", last.step,
                       *last.nan_step);
  if (!last.last_step) return fmt::format(" The last start, from {}, tells no step.", last.step);
  return fmt::format(" A later start, from {}, went on to step {} without one.", last.step,
                     *last.last_step);
}

std::string loop_words(const std::vector<LoggedLoad>& loads) {
  const std::optional<Loop> loop = find_loop(loads);
  if (!loop) return "";
  const size_t starts = loop->starts.size();
  const int64_t step = loop->starts.front().step;
  const std::optional<int64_t> nan_step = loop->starts.front().nan_step;
  const bool alike = std::ranges::all_of(
      loop->starts, [&](const LoggedLoad& one) { return one.nan_step == nan_step; });
  if (!alike)
    return fmt::format(
        "NaN after each of {} loads of {}, but not at the same step: a race, memory that was not "
        "written or the hardware rather than the checkpoint.{}",
        starts, step, later_words(*loop));
  return fmt::format(
      "same NaN at +{} after each of {} loads of {}: deterministic, suspect the checkpoint; stop "
      "starting from it after {}, and go back to one before {}.{}",
      *nan_step - step, starts, step, kStartsThatEndAlike, step, later_words(*loop));
}

}  // namespace

TrainerLog read_trainer_log(std::istream& in, const std::string& name) {
  Reader reader;
  for (std::string line; std::getline(in, line);) reader.take(line);
  TrainerLog log = reader.finish();
  if (log.lines == 0) throw Error(ErrorKind::config, name + ": is empty");
  return log;
}

Verdict judge_trainer_log(const TrainerLog& log) {
  if (log.refused)
    return make_verdict("not_runnable_deterministically", refusal_words(*log.refused));
  if (const std::string words = loop_words(log.loads); !words.empty())
    return make_verdict("restart_loop", words);
  if (log.unprotected.empty()) return make_verdict("no_evidence_in_log", "");
  std::vector<std::string> words;
  for (const UnprotectedOp& op : log.unprotected) words.push_back(warning_words(op, log.steps()));
  return make_verdict("unprotected_op",
                      fmt::format("It ran, but {} op{} unprotected: {}.", words.size(),
                                  words.size() == 1 ? " is" : "s are", join(words, "; ")));
}

}  // namespace dettax
