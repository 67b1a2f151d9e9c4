#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include <cupti.h>

#include "profiles/capture/capture.h"
#include "profiles/cupti/buffer_pool.h"
#include "profiles/cupti/cupti_table.h"
#include "profiles/cupti/record_decoder.h"
#include "profiles/host_recorder.h"

namespace dettax {

// Collects what CUPTI records of this process from start() to stop(), into a Capture. CUPTI has one user a process, and so one collector
// may be attached at a time.
//
//   CuptiCollector collector(load_cupti(), {});
//   collector.attach();                     // before the first context is made
//   collector.enable();                     // a step or more in front of the window: CUPTI's first records are slow
//   collector.start();  ...steps...  collector.stop();      // after the device has finished
//   Trace trace = trace_of_capture(collector.take(), "rank 3");
//
// Records are fetched by CUPTI's own threads into a pool; they are decoded in drain(), stop() and take(), never where they are fetched.
// Whatever is lost is counted in Capture::losses; a profile that lost records is refused by attribution.
class CuptiCollector {
 public:
  struct Settings {
    size_t buffer_bytes = size_t{4} << 20U, buffers = 32;
    // Buffers on the device, of 100,000 kernels each, that are there before the first is needed; 0: CUPTI's own number. More are made on
    // the thread that launches.
    size_t device_buffers = 0;
    bool external = false;                  // for push() and pop()
    CUpti_CallbackFunc callback = nullptr;  // of those that enable_callback() asks for
    void* callback_data = nullptr;
    int64_t (*now_ns)() = realtime_ns;
  };
  CuptiCollector(const CuptiTable& cupti, const Settings& settings);
  ~CuptiCollector();
  CuptiCollector(const CuptiCollector&) = delete;
  CuptiCollector& operator=(const CuptiCollector&) = delete;

  // Throws Error{infrastructure} if another profiler has CUPTI, named where CUPTI names it, or if CUPTI does not answer.
  void attach();
  void enable();
  void start();
  // Fetches what is left, asks what was lost, and lets go of CUPTI. With `forced`, also work that still runs (without an end).
  void stop(bool forced = false);
  void enable_callback(CUpti_CallbackDomain domain, CUpti_CallbackId id);
  bool attached() const { return subscriber_ != nullptr; }

  // Asks CUPTI for what is complete. For captures that are written while they last.
  void flush();
  // Decodes what has been fetched. By one thread at a time.
  void drain();
  // Everything up to here: drained, and the collector empty.
  Capture take();
  // drain() into this; the records may be moved out, names have to stay.
  Capture& capture() { return capture_; }

  // For our own trainer. Launches of the calling thread belong to this occurrence of the path, until pop().
  uint32_t path(std::string_view text) {
    return capture_.names.intern(text);
  }  // in front of start()
  void push(uint32_t path, uint32_t ordinal);
  void pop();
  void begin_step(int64_t index);
  void end_step();

 private:
  void subscribe();
  void set_up();
  bool check(CUptiResult result, const std::string& what, std::string& told) const;
  void note_fault(CUptiResult result, const std::string& what);
  void enable_kinds();
  void count_dropped();
  void release();

  static void on_request(uint8_t** buffer, size_t* bytes, size_t* records_max);
  static void on_complete(CUcontext context, uint32_t stream, uint8_t* buffer, size_t bytes,
                          size_t valid_bytes);

  const CuptiTable cupti_;
  const Settings settings_;
  BufferPool pool_;
  RecordDecoder decoder_;
  Capture capture_;
  CUpti_SubscriberHandle subscriber_ = nullptr;
  bool enabled_ = false, in_step_ = false;
  int64_t step_index_ = 0, step_start_ns_ = 0;
  std::mutex drain_mutex_;
};

}  // namespace dettax
