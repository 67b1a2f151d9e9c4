#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <random>
#include <vector>

// NOLINTBEGIN(readability-identifier-naming): CUDA's own names for what a cudaStream_t and a cudaEvent_t point to
struct CUstream_st;
struct CUevent_st;
// NOLINTEND(readability-identifier-naming)

namespace dettax {

using CudaStream = CUstream_st*;
using CudaEvent = CUevent_st*;

// When the work of emulated streams runs.
enum class StreamOrder {
  eager,   // when it is enqueued
  lazy,    // when the host waits for it: nothing that need not run does
  random,  // when the host waits: of all streams that could go on, one drawn by the seed, until what is waited for is done
};

// The streams of this thread of the host. A stream is a queue; work of one stream runs in order, and between streams only events
// promise anything. The null stream is none: its work runs at once.
//
// Work that throws ends all that is queued, as a fault ends a device's context; the next wait of the host throws it.
class EmulatedStreams {
 public:
  static EmulatedStreams& of_this_thread();

  void set_order(StreamOrder order, uint64_t seed = 0);
  // Called with true before work runs, of several queues together, and with false after it; null: nothing is called. Protects the memory of a device.
  void set_access(void (*access)(bool)) { access_ = access; }
  // Called where work is enqueued, and may throw in its place.
  void set_gate(void (*gate)()) { gate_ = gate; }

  CudaStream create();
  void destroy(CudaStream stream);  // after its work, which may throw no more
  void enqueue(CudaStream stream, std::function<void()> work);
  void wait_for(CudaStream stream);
  void wait_for_all();
  // The same where nothing may be thrown: what was is kept for the next wait.
  void drain() noexcept;
  bool idle(CudaStream stream) const;

  CudaEvent create_event();
  void destroy_event(CudaEvent event);  // allowed while work refers to it
  void record(CudaEvent event, CudaStream stream);
  // Waits for the record at the time of this call, as in CUDA; an event never recorded is none to wait for.
  void wait_on(CudaStream stream, CudaEvent event);
  bool happened(CudaEvent event) const;  // its last record, or none was asked for
  void wait_for(CudaEvent event);

  size_t streams() const { return streams_.size(); }
  size_t events() const { return events_; }

 private:
  class Running;  // device memory may be touched while one lives
  void run_until(const std::function<bool()>& done);
  void run_until_unless_fault(const std::function<bool()>& done);
  void run_first_of(CudaStream stream);
  void rethrow();

  StreamOrder order_ = StreamOrder::eager;
  std::mt19937_64 drawn_;
  void (*access_)(bool) = nullptr;
  void (*gate_)() = nullptr;
  int running_ = 0;  // depth of work that runs now
  std::vector<std::unique_ptr<CUstream_st>> streams_;
  size_t events_ = 0;
  std::exception_ptr fault_;
};

// To the stream of whatever thread made it; those of one thread are used by one thread at a time.
EmulatedStreams& streams_of(CudaStream stream);
inline void enqueue_on(CudaStream stream, std::function<void()> work) {
  streams_of(stream).enqueue(stream, std::move(work));
}

// Streams of this thread run their work in that order while it lives.
class StreamsInOrder {
 public:
  explicit StreamsInOrder(StreamOrder order, uint64_t seed = 0) {
    EmulatedStreams::of_this_thread().set_order(order, seed);
  }
  ~StreamsInOrder() {
    EmulatedStreams::of_this_thread().drain();
    EmulatedStreams::of_this_thread().set_order(StreamOrder::eager);
  }
  StreamsInOrder(const StreamsInOrder&) = delete;
  StreamsInOrder& operator=(const StreamsInOrder&) = delete;
};

}  // namespace dettax
