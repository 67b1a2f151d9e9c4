#include "harness/device/cuda/host/emulation.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include <boost/context/detail/fcontext.hpp>

#include "harness/base/error.h"
#if defined(__SANITIZE_ADDRESS__)
#include <pthread.h>
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace dettax {
namespace {

namespace context = boost::context::detail;

// An odd stride, so that the tops of stacks do not share a cache set.
constexpr size_t kStackBytes = (size_t{64} << 10) + 17 * 64;

uint64_t mixed(uint64_t n) {
  n = (n ^ (n >> 30U)) * 0xBF58476D1CE4E5B9U;
  n = (n ^ (n >> 27U)) * 0x94D049BB133111EBU;
  return n ^ (n >> 31U);
}

std::string line_of(const Here& here) {
  return std::string(here.file_name()) + ":" + std::to_string(here.line());
}

bool same_line(const Here& a, const Here& b) {
  return a.line() == b.line() && a.column() == b.column() &&
         std::strcmp(a.file_name(), b.file_name()) == 0;
}

}  // namespace

struct EmulatedDevice::Fibre {
  context::fcontext_t resumes = nullptr;
  bool ended = false;
  Here waits;
};

// A meeting point of 32 lanes. Two sets of values, so that a lane which is ahead does not overwrite what another has yet to read.
struct EmulatedDevice::Warp {
  uint32_t arrived = 0;
  int turn = 0;
  Here call;
  uint64_t values[2][32];
};

// The way between the scheduler and the fibre that runs.
struct EmulatedDevice::Switches {
  context::fcontext_t scheduler = nullptr;
  const std::function<void()>* body = nullptr;
  int current = 0;
#if defined(__SANITIZE_ADDRESS__)
  const void* main_bottom = nullptr;
  size_t main_bytes = 0;

  Switches() {
    pthread_attr_t attributes;
    void* bottom = nullptr;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &bottom, &main_bytes);
    pthread_attr_destroy(&attributes);
    main_bottom = bottom;
  }
#endif

  // From a fibre to the scheduler; returns when it is resumed, unless it is done.
  void leave(bool done) {
#if defined(__SANITIZE_ADDRESS__)
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(done ? nullptr : &fake, main_bottom, main_bytes);
#endif
    static_cast<void>(done);
    scheduler = context::jump_fcontext(scheduler, this).fctx;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
  }

  static void enter(context::transfer_t from) {
    auto& device = *static_cast<EmulatedDevice*>(from.data);
    Switches& s = *device.switches_;
    s.scheduler = from.fctx;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
    (*s.body)();
    device.fibres_[static_cast<size_t>(s.current)].ended = true;
    ++device.ended_;
    s.leave(true);
  }

  void resume(EmulatedDevice& device, Fibre& fibre, std::byte* stack) {
    if (fibre.resumes == nullptr) {
      fibre.resumes = context::make_fcontext(stack + kStackBytes, kStackBytes, &Switches::enter);
    }
#if defined(__SANITIZE_ADDRESS__)
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, stack, kStackBytes);
#endif
    fibre.resumes = context::jump_fcontext(fibre.resumes, &device).fctx;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
    static_cast<void>(stack);
  }
};

EmulatedDevice& EmulatedDevice::of_this_thread() {
  static thread_local EmulatedDevice device;
  return device;
}

EmulatedDevice::EmulatedDevice()
    : shared_(std::make_unique_for_overwrite<std::byte[]>(kMaxSharedBytes)),
      stacks_(std::make_unique_for_overwrite<std::byte[]>(kMaxThreads * kStackBytes)),
      switches_(std::make_unique<Switches>()) {}

EmulatedDevice::~EmulatedDevice() = default;

void EmulatedDevice::run(int64_t blocks, int threads, size_t shared_bytes,
                         const std::function<void()>& body) {
  if (blocks < 1 || blocks > INT32_MAX || threads < 32 || threads > kMaxThreads ||
      threads % 32 != 0 || shared_bytes > kMaxSharedBytes) {
    throw Error(ErrorKind::internal, "kernel launch: " + std::to_string(blocks) + " blocks of " +
                                         std::to_string(threads) + " threads with " +
                                         std::to_string(shared_bytes) +
                                         " bytes of shared memory are beyond a limit");
  }
  std::vector<int64_t> order(static_cast<size_t>(blocks));
  std::iota(order.begin(), order.end(), int64_t{0});
  drawn_ = schedule_ ^ disturbance_;
  in_turn_ = drawn_ == 0;
  if (!in_turn_) {
    for (size_t i = order.size(); i > 1; --i) {
      std::swap(order[i - 1], order[mixed(drawn_++) % i]);
    }
  }
  place_.threads = threads;
  place_.blocks = blocks;
  for (const int64_t block : order) {
    std::memset(shared_.get(), 0xFF, shared_bytes);
    run_block(block, threads, body);
  }
}

void EmulatedDevice::start_fibres(int threads) {
#if defined(__SANITIZE_ADDRESS__)
  if (abandoned_) __asan_unpoison_memory_region(stacks_.get(), kMaxThreads * kStackBytes);
#endif
  abandoned_ = true;
  fibres_.assign(static_cast<size_t>(threads), Fibre{});
  warps_.assign(static_cast<size_t>(threads / 32), Warp{});
  runnable_.resize(fibres_.size());
  std::iota(runnable_.begin(), runnable_.end(), 0);
  first_ = 0;
  ended_ = at_barrier_ = 0;
  fault_.clear();
}

int EmulatedDevice::next_runnable() {
  if (!in_turn_) {
    const size_t other = first_ + mixed(drawn_++) % (runnable_.size() - first_);
    std::swap(runnable_[first_], runnable_[other]);
  }
  const int next = runnable_[first_++];
  if (first_ == runnable_.size()) {
    runnable_.clear();
    first_ = 0;
  }
  return next;
}

void EmulatedDevice::run_block(int64_t block, int threads, const std::function<void()>& body) {
  start_fibres(threads);
  place_.block = block;
  switches_->body = &body;
  while (ended_ < threads) {
    if (runnable_.empty()) report_deadlock();
    const int next = next_runnable();
    switches_->current = place_.thread = next;
    switches_->resume(*this, fibres_[static_cast<size_t>(next)],
                      stacks_.get() + static_cast<size_t>(next) * kStackBytes);
    if (!fault_.empty()) throw Error(ErrorKind::internal, fault_);
  }
  abandoned_ = false;
}

void EmulatedDevice::wait(const Here& here) {
  fibres_[static_cast<size_t>(place_.thread)].waits = here;
  switches_->leave(false);
}

// Ends the kernel: the scheduler throws, since a fibre has no frame that would catch. The fibre is never resumed.
void EmulatedDevice::stop(const char* what, const Here& here) {
  fault_ = "kernel, block " + std::to_string(place_.block) + ", thread " +
           std::to_string(place_.thread) + ", " + line_of(here) + ": " + what;
  switches_->leave(false);
}

void EmulatedDevice::report_deadlock() {
  const auto waiting =
      std::find_if(fibres_.begin(), fibres_.end(), [](const Fibre& fibre) { return !fibre.ended; });
  throw Error(ErrorKind::internal, "kernel, block " + std::to_string(place_.block) + ", thread " +
                                       std::to_string(waiting - fibres_.begin()) + ", " +
                                       line_of(waiting->waits) +
                                       ": waits for threads that never come here");
}

void EmulatedDevice::barrier(const Here& here) {
  if (at_barrier_ > 0 && !same_line(barrier_, here)) {
    return stop("a barrier while others wait at another one", here);
  }
  barrier_ = here;
  if (++at_barrier_ < place_.threads) return wait(here);
  at_barrier_ = 0;
  for (int t = 0; t < place_.threads; ++t) {
    if (t != place_.thread) runnable_.push_back(t);
  }
}

const uint64_t* EmulatedDevice::exchange(uint64_t value, const Here& here) {
  const int warp_index = place_.thread / 32;
  const int lane = place_.thread % 32;
  Warp& warp = warps_[static_cast<size_t>(warp_index)];
  if (warp.arrived != 0 && !same_line(warp.call, here)) {
    stop("lanes of one warp exchange values at different lines", here);
  }
  warp.call = here;
  uint64_t* values = warp.values[warp.turn];
  values[lane] = value;
  warp.arrived |= 1U << static_cast<unsigned>(lane);
  if (warp.arrived != 0xFFFFFFFFU) {
    wait(here);
    return values;
  }
  warp.arrived = 0;
  warp.turn ^= 1;
  for (int other = 0; other < 32; ++other) {
    if (other != lane) runnable_.push_back(warp_index * 32 + other);
  }
  return values;
}

}  // namespace dettax
