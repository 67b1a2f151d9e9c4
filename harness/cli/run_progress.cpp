#include "harness/cli/run_progress.h"

#include <fmt/format.h>

#include "harness/base/format.h"

namespace dettax {
namespace {

// Share of a run from which its pace tells the rest.
constexpr double kJudgedFrom = 0.05;

// "measuring, round 4, interval ..." -> "measuring": what is worth a line of a log.
std::string headline(const std::string& words) {
  return words.starts_with("measuring") ? "measuring" : words;
}

}  // namespace

void RunProgress::show(size_t done, size_t total, const CaseProgress& progress) {
  if (settings_.quiet) return;
  if (!settings_.terminal) {
    const std::string words = headline(progress.words);
    if (words == last_words_) return;
    last_words_ = words;
    err_ << fmt::format("[{}/{}] {}: {}\n", done + 1, total, progress.case_id, words) << std::flush;
    return;
  }
  const std::string label =
      fmt::format("[{}/{}] {}: {}", done + 1, total, progress.case_id, progress.words);
  Progress bar;
  bar.label = label;
  bar.fraction = (static_cast<double>(done) + progress.fraction) / static_cast<double>(total);
  bar.seconds_left = seconds_left(bar.fraction);
  err_ << '\r' << progress_bar(bar, settings_.width - 1) << std::flush;
  drawn_ = true;
}

std::optional<double> RunProgress::seconds_left(double fraction) {
  if (!first_fraction_) first_fraction_ = fraction;
  const double done = fraction - *first_fraction_;
  if (done < kJudgedFrom * (1 - *first_fraction_)) return std::nullopt;
  const auto elapsed = std::chrono::steady_clock::now() - start_;
  return std::chrono::duration<double>(elapsed).count() * (1 - fraction) / done;
}

void RunProgress::finished(size_t done, size_t total, const Record& record) {
  if (settings_.quiet) return;
  clear();
  last_words_.clear();
  err_ << fmt::format("[{}/{}] {}: {} ({})\n", done, total, record.case_id,
                      to_string(record.verdict.status), record.verdict.reason_code)
       << std::flush;
}

void RunProgress::clear() {
  if (drawn_) err_ << "\r\033[K" << std::flush;
  drawn_ = false;
}

}  // namespace dettax
