#include "harness/device/cuda/host/streams.h"

#include <algorithm>
#include <utility>

#include "harness/base/error.h"

namespace {

// Work of a stream, a record of an event (`sets`) or a wait for one (`needs`). A record is shared by its event and by those that
// wait, so that the event may be recorded anew or destroyed meanwhile.
struct Entry {
  std::function<void()> work;
  std::shared_ptr<bool> sets, needs;
};

}  // namespace

struct CUstream_st {
  explicit CUstream_st(dettax::EmulatedStreams& its_owner) : owner(its_owner) {}
  dettax::EmulatedStreams& owner;
  std::deque<Entry> queue;
  bool can_go_on() const {
    return !queue.empty() && (queue.front().needs == nullptr || *queue.front().needs);
  }
};

struct CUevent_st {
  std::shared_ptr<bool> happened;
};

namespace dettax {

class EmulatedStreams::Running {
 public:
  explicit Running(EmulatedStreams& streams) : streams_(streams) {
    if (streams_.running_++ == 0 && streams_.access_ != nullptr) streams_.access_(true);
  }
  ~Running() {
    if (--streams_.running_ == 0 && streams_.access_ != nullptr) streams_.access_(false);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  EmulatedStreams& streams_;
};

EmulatedStreams& EmulatedStreams::of_this_thread() {
  static thread_local EmulatedStreams streams;
  return streams;
}

EmulatedStreams& streams_of(CudaStream stream) {
  return stream == nullptr ? EmulatedStreams::of_this_thread() : stream->owner;
}

void EmulatedStreams::set_order(StreamOrder order, uint64_t seed) {
  order_ = order;
  drawn_.seed(seed);
}

CudaStream EmulatedStreams::create() {
  streams_.push_back(std::make_unique<CUstream_st>(*this));
  return streams_.back().get();
}

void EmulatedStreams::destroy(CudaStream stream) {
  run_until_unless_fault([stream] { return stream->queue.empty(); });
  std::erase_if(streams_, [stream](const auto& each) { return each.get() == stream; });
}

void EmulatedStreams::enqueue(CudaStream stream, std::function<void()> work) {
  if (gate_ != nullptr) gate_();
  if (stream == nullptr) {
    const Running running(*this);
    return work();
  }
  stream->queue.push_back({std::move(work), nullptr, nullptr});
  if (order_ == StreamOrder::eager) wait_for(stream);
}

void EmulatedStreams::wait_for(CudaStream stream) {
  run_until_unless_fault([stream] { return stream == nullptr || stream->queue.empty(); });
  rethrow();
}

void EmulatedStreams::wait_for_all() {
  drain();
  rethrow();
}

void EmulatedStreams::drain() noexcept {
  run_until_unless_fault([this] {
    return std::all_of(streams_.begin(), streams_.end(),
                       [](const auto& each) { return each->queue.empty(); });
  });
}

bool EmulatedStreams::idle(CudaStream stream) const {
  return stream == nullptr || stream->queue.empty();
}

CudaEvent EmulatedStreams::create_event() {
  ++events_;
  return std::make_unique<CUevent_st>().release();
}

void EmulatedStreams::destroy_event(CudaEvent event) {
  --events_;
  const std::unique_ptr<CUevent_st> owned(event);
}

void EmulatedStreams::record(CudaEvent event, CudaStream stream) {
  event->happened = std::make_shared<bool>(stream == nullptr);
  if (stream == nullptr) return;
  stream->queue.push_back({nullptr, event->happened, nullptr});
  if (order_ == StreamOrder::eager) wait_for(stream);
}

void EmulatedStreams::wait_on(CudaStream stream, CudaEvent event) {
  if (event->happened == nullptr) return;
  if (stream == nullptr) return wait_for(event);
  stream->queue.push_back({nullptr, nullptr, event->happened});
  if (order_ == StreamOrder::eager) wait_for(stream);
}

bool EmulatedStreams::happened(CudaEvent event) const {
  return event->happened == nullptr || *event->happened;
}

void EmulatedStreams::wait_for(CudaEvent event) {
  run_until_unless_fault([this, event] { return happened(event); });
  rethrow();
}

void EmulatedStreams::run_until_unless_fault(const std::function<bool()>& done) {
  try {
    run_until(done);
  } catch (...) {
    if (fault_ == nullptr) fault_ = std::current_exception();
    for (const auto& stream : streams_) {
      for (const Entry& entry : stream->queue) {
        if (entry.sets != nullptr) *entry.sets = true;
      }
      stream->queue.clear();
    }
  }
}

void EmulatedStreams::run_until(const std::function<bool()>& done) {
  if (done()) return;
  const Running running(*this);
  std::vector<CudaStream> ready;
  while (!done()) {
    ready.clear();
    for (const auto& stream : streams_) {
      if (stream->can_go_on()) ready.push_back(stream.get());
    }
    if (ready.empty()) {
      throw Error(ErrorKind::internal, "streams wait for events that never happen");
    }
    run_first_of(ready[order_ == StreamOrder::random ? drawn_() % ready.size() : 0]);
  }
}

void EmulatedStreams::run_first_of(CudaStream stream) {
  const Entry entry = std::move(stream->queue.front());
  stream->queue.pop_front();
  if (entry.work != nullptr) entry.work();
  if (entry.sets != nullptr) *entry.sets = true;
}

void EmulatedStreams::rethrow() {
  if (fault_ != nullptr) std::rethrow_exception(std::exchange(fault_, nullptr));
}

}  // namespace dettax
