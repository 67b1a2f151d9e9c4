#include "profiles/inject/session.h"

#include <cerrno>
#include <csignal>
#include <ctime>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include <pthread.h>
#include <unistd.h>

#include "harness/base/error.h"

namespace dettax {
namespace {

timespec in_ms(int64_t ms) {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  const int64_t ns = int64_t{time.tv_nsec} + ms % 1000 * 1'000'000;
  time.tv_sec += ms / 1000 + ns / 1'000'000'000;
  time.tv_nsec = ns % 1'000'000'000;
  return time;
}

// False: the time was over.
bool wait_for(sem_t& semaphore, int64_t ms) {
  const timespec until = in_ms(ms);
  for (;;) {
    if (sem_timedwait(&semaphore, &until) == 0) return true;
    if (errno != EINTR) return false;
  }
}

// Of the driver's and the runtime's calls only these two are called back for.
void on_call(void* session, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {
  const auto& call = *static_cast<const CUpti_CallbackData*>(data);
  const bool driver = domain == CUPTI_CB_DOMAIN_DRIVER_API;
  const bool start = driver ? id == CUPTI_DRIVER_TRACE_CBID_cuProfilerStart
                            : id == CUPTI_RUNTIME_TRACE_CBID_cudaProfilerStart_v4000;
  // From behind the start to in front of the stop.
  const bool now =
      start ? call.callbackSite == CUPTI_API_EXIT : call.callbackSite == CUPTI_API_ENTER;
  if (now) static_cast<InjectedSession*>(session)->profiler_called(start);
}

// Signals are for the program's own threads.
void block_signals(sigset_t* before) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, before);
}

}  // namespace

InjectedSession::InjectedSession() : process_(getpid()) {
  sem_init(&wake_, 0, 0);
  sem_init(&done_, 0, 0);
  std::string fault;
  settings_ = read_injection_settings(fault);
  if (!fault.empty()) {
    give_up(fault);
    return;
  }
  ranges_ = std::make_unique<RangeRecorder>(settings_.window, settings_.step_name, realtime_ns);
}

void InjectedSession::say(const std::string& why) {
  if (said_.exchange(true)) return;
  const std::string line = "dettax: not profiled: " + why + "\n";
  // There is nobody to tell that this failed.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

void InjectedSession::give_up(const std::string& why) {
  say(why);
  state_ = State::done;
  sem_post(&done_);
}

RangeRecorder* InjectedSession::ranges() {
  return disabled_ || state_ == State::done ? nullptr : ranges_.get();
}

void InjectedSession::attach_cupti() {
  if (state_ != State::armed || collector_ != nullptr) return;  // cuInit lets one in at a time
  try {
    const CuptiTable cupti = settings_.cupti.empty() ? load_cupti() : load_cupti(settings_.cupti);
    collector_ = std::make_unique<CuptiCollector>(
        cupti, CuptiCollector::Settings{.callback = on_call, .callback_data = this});
    collector_->attach();
    Capture& capture = collector_->capture();
    capture.rank = settings_.rank;
    capture.world_size = settings_.world_size;
    writer_ = std::make_unique<CaptureWriter>(
        settings_.folder, capture,
        std::map<std::string, std::string>{{"cupti", std::to_string(cupti.version)}});
    if (settings_.window.kind == InjectionWindow::Kind::profiler) {
      collector_->enable_callback(CUPTI_CB_DOMAIN_DRIVER_API,
                                  CUPTI_DRIVER_TRACE_CBID_cuProfilerStart);
      collector_->enable_callback(CUPTI_CB_DOMAIN_DRIVER_API,
                                  CUPTI_DRIVER_TRACE_CBID_cuProfilerStop);
    }
    attached_ = true;
    sigset_t before;
    block_signals(&before);
    writing_ = true;
    std::thread([this] { write_loop(); }).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  } catch (const std::exception& error) {
    give_up(error.what());
    return;
  }
  if (settings_.window.kind == InjectionWindow::Kind::always) begin();
}

void InjectedSession::begin() {
  State armed = State::armed;
  if (!attached_ || !state_.compare_exchange_strong(armed, State::beginning)) return;
  try {
    ranges_->record(true);
    collector_->start();
  } catch (const std::exception& error) {
    give_up(error.what());
    return;
  }
  state_ = State::capturing;
}

void InjectedSession::end() {
  int64_t none = 0;
  end_ns_.compare_exchange_strong(none, realtime_ns());
  State capturing = State::capturing;
  if (!state_.compare_exchange_strong(capturing, State::closing)) return;
  ranges_->close_open(end_ns_);
  sem_post(&wake_);
}

void InjectedSession::act(RangeRecorder::Cue cue) {
  if (cue == RangeRecorder::Cue::none || !attached_ || disabled_) return;
  if (cue == RangeRecorder::Cue::begin) return begin();
  if (cue == RangeRecorder::Cue::end) return end();
  if (state_ != State::armed || enabled_.exchange(true)) return;
  try {
    collector_->enable();
  } catch (const std::exception& error) {
    give_up(error.what());
  }
}

void InjectedSession::profiler_called(bool start) {
  if (disabled_) return;
  if (start) {
    begin();
  } else {
    end();
  }
}

bool InjectedSession::end_now(const char* reason) {
  const char* none = nullptr;
  ended_by_.compare_exchange_strong(none, reason);
  sem_post(&wake_);
  return writing_ && !disabled_;
}

bool InjectedSession::wait_until_done(int64_t limit_ms) {
  if (disabled_ || !writing_ || getpid() != process_) return true;
  return state_ == State::done || wait_for(done_, limit_ms);
}

void InjectedSession::disable_in_child() {
  disabled_ = true;
  if (writer_ != nullptr) writer_->abandon();
}

// --- The thread that writes ----------------------------------------------------------------------

void InjectedSession::write_new() {
  collector_->drain();
  Capture& capture = collector_->capture();
  std::vector<DeviceRecord> records = std::exchange(capture.records, {});
  const std::vector<DeviceRecord> ranges = ranges_->take(capture);
  records.insert(records.end(), ranges.begin(), ranges.end());
  if (records.empty() && !writer_->begun()) return;  // no file of a process without work
  writer_->append(capture, records);
  if (!writer_->fault().empty()) say(writer_->fault());
}

void InjectedSession::close_window() {
  const char* reason = ended_by_;
  Capture& capture = collector_->capture();
  capture.end_ns = end_ns_ != 0 ? end_ns_.load() : realtime_ns();
  ranges_->close_open(capture.end_ns);
  // Work that never ends is told as such; asked for only where nothing comes behind.
  collector_->stop(reason != nullptr);
  write_new();
  writer_->finish(end_ns_ != 0 || reason == nullptr ? "window" : reason);
}

void InjectedSession::write_loop() {
  try {
    bool graced = false;
    for (;;) {
      wait_for(wake_, settings_.period_ms);
      const State state = state_;
      const bool ends = ended_by_ != nullptr;
      if (state == State::capturing && !ends && writer_->fault().empty()) {
        collector_->flush();
        write_new();
        continue;
      }
      if (state == State::beginning && !ends) continue;
      if (state == State::armed && !ends) continue;
      // What was launched within the window may run a while longer.
      if (state == State::closing && !ends && !std::exchange(graced, true)) continue;
      if (state == State::capturing || state == State::closing) {
        close_window();
      } else {
        collector_->stop();
      }
      break;
    }
  } catch (const std::exception& error) {
    say(error.what());
  }
  state_ = State::done;
  writing_ = false;
  sem_post(&done_);
  if (ended_by_ == kTerminated) kill(process_, SIGTERM);
}

}  // namespace dettax
