#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include <semaphore.h>
#include <sys/types.h>

#include "profiles/capture/capture_writer.h"
#include "profiles/cupti/cupti_collector.h"
#include "profiles/inject/range_recorder.h"
#include "profiles/inject/settings.h"

namespace dettax {

inline constexpr const char* kTerminated = "SIGTERM";

// Profiles the process that it was loaded into: one window, into one capture file, written by a thread of its own every period. It lives
// until the process ends. Whatever is missing is said in one line on stderr; from then on it does nothing, and the program goes on.
class InjectedSession {
 public:
  InjectedSession();

  void attach_cupti();               // once the driver is there
  RangeRecorder* ranges();           // null where nothing is recorded (any more)
  void act(RangeRecorder::Cue cue);  // on what a range said
  void profiler_called(bool start);  // cudaProfilerStart or Stop
  // Without a grace; safe in a signal handler. False: nothing is left to be written.
  bool end_now(const char* reason);
  bool wait_until_done(int64_t limit_ms);
  void disable_in_child();

 private:
  enum class State { armed, beginning, capturing, closing, done };

  void begin();
  void end();
  void write_loop();
  void write_new();
  void close_window();
  void say(const std::string& why);
  void give_up(const std::string& why);

  InjectionSettings settings_;
  const pid_t process_;
  std::unique_ptr<RangeRecorder> ranges_;
  std::unique_ptr<CuptiCollector> collector_;
  std::unique_ptr<CaptureWriter> writer_;
  std::atomic<State> state_{State::armed};
  std::atomic<bool> enabled_{false}, said_{false}, disabled_{false}, writing_{false},
      attached_{false};
  std::atomic<int64_t> end_ns_{0};
  std::atomic<const char*> ended_by_{nullptr};  // what ended it in front of its window's end
  sem_t wake_{}, done_{};
};

}  // namespace dettax
