#include "harness/device/cpu/team.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include <pthread.h>

#include "harness/base/error.h"
#include "harness/device/cpu/jitter.h"

namespace dettax {
namespace {

constexpr std::chrono::microseconds kSpinTime(80);

// Where a thread is delayed; each has delays of its own.
constexpr uint32_t kAtStart = 0;
constexpr uint32_t kAfterBarrier = 1;
constexpr uint32_t kBeforeChunk = 2;
constexpr uint32_t kBetweenPieces = 3;
constexpr uint32_t kPieceLength = 4;
constexpr uint64_t kPieces = 3;  // of a static part, at most

// Thrown out of barrier() when another thread of the team has failed and will never arrive.
struct Abandoned {};

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Returns once `value` is no longer `old`: polls for kSpinTime if asked to, then sleeps.
void wait_while(const std::atomic<uint32_t>& value, uint32_t old, bool spin) {
  if (spin) {
    const auto limit = std::chrono::steady_clock::now() + kSpinTime;
    do {
      for (int i = 0; i < 64; ++i) {
        if (value.load(std::memory_order_acquire) != old) return;
        relax();
      }
    } while (std::chrono::steady_clock::now() < limit);
  }
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

void bind(std::thread& thread, int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(core), &set);
  const int fault = pthread_setaffinity_np(thread.native_handle(), sizeof set, &set);
  if (fault == 0) return;
  throw Error(ErrorKind::infrastructure,
              "cannot bind a compute thread to core " + std::to_string(core) + ": " +
                  std::error_code(fault, std::generic_category()).message());
}

}  // namespace

// Fields that different threads write stand on cache lines of their own.
struct Team::State {
  explicit State(int threads, bool polls)
      : size(threads), spin(polls), failures(static_cast<size_t>(threads)) {}

  const int size;
  const bool spin;
  const std::function<void(int)>* work = nullptr;
  Jitter jitter;  // changes only while no thread works
  std::vector<std::exception_ptr> failures;
  std::vector<std::thread> workers;
  alignas(64) std::atomic<uint32_t> call{
      0};  // number of the current run(); a change starts the workers
  std::atomic<bool> stop{false};
  alignas(64) std::atomic<uint32_t> running{0};
  alignas(64) std::atomic<uint32_t> arrived{0};
  alignas(64) std::atomic<uint32_t> phase{0};
  std::atomic<bool> abandoned{false};

  void execute(int thread) noexcept;
  void serve(int thread) noexcept;
  void rethrow_failure();
  void work_in_pieces(int64_t begin, int64_t end, int64_t grain, int thread,
                      const std::function<void(int64_t, int64_t, int)>& part) const;
  uint64_t number_of_run() const { return call.load(std::memory_order_relaxed); }
};

void Team::State::execute(int thread) noexcept {
  try {
    if (jitter.on()) jitter.delay(kAtStart, number_of_run(), static_cast<uint64_t>(thread));
    (*work)(thread);
  } catch (const Abandoned&) {
    return;  // the cause is kept by the thread that failed
  } catch (...) {
    failures[static_cast<size_t>(thread)] = std::current_exception();
    abandoned.store(true, std::memory_order_release);
    phase.fetch_add(1, std::memory_order_acq_rel);
    phase.notify_all();
  }
}

void Team::State::work_in_pieces(int64_t begin, int64_t end, int64_t grain, int thread,
                                 const std::function<void(int64_t, int64_t, int)>& part) const {
  uint64_t place = kPieces * static_cast<uint64_t>(thread);
  const uint64_t last = place + kPieces - 1;
  for (int64_t next = begin; begin < end; begin = next, ++place) {
    const int64_t grains = (end - begin + grain - 1) / grain;
    const int64_t taken =
        place == last ? grains : jitter.up_to(grains, kPieceLength, number_of_run(), place);
    next = std::min(end, begin + taken * grain);
    part(begin, next, thread);
    if (next < end) jitter.delay(kBetweenPieces, number_of_run(), place);
  }
}

void Team::State::serve(int thread) noexcept {
  pthread_setname_np(pthread_self(), ("compute-" + std::to_string(thread)).c_str());
  for (uint32_t seen = 0;; ++seen) {
    wait_while(call, seen, spin);
    if (stop.load(std::memory_order_acquire)) return;
    execute(thread);
    if (running.fetch_sub(1, std::memory_order_acq_rel) == 1) running.notify_one();
  }
}

void Team::State::rethrow_failure() {
  if (!abandoned.load(std::memory_order_acquire)) return;
  abandoned.store(false, std::memory_order_relaxed);
  arrived.store(0, std::memory_order_relaxed);
  std::exception_ptr first;
  for (std::exception_ptr& failure : failures) {
    if (failure && !first) first = failure;
    failure = nullptr;
  }
  std::rethrow_exception(first);
}

Team::Team(int threads, bool spin, const std::vector<int>& cores) {
  if (threads < 1) {
    throw Error(ErrorKind::usage,
                "threads is " + std::to_string(threads) + ", it must be at least 1");
  }
  state_ = std::make_unique<State>(threads, spin);
  try {
    for (int t = 1; t < threads; ++t) {
      state_->workers.emplace_back([state = state_.get(), t] { state->serve(t); });
      if (!cores.empty()) bind(state_->workers.back(), cores.at(static_cast<size_t>(t)));
    }
  } catch (const Error&) {
    stop();
    throw;
  } catch (const std::system_error& error) {
    stop();
    throw Error(ErrorKind::infrastructure, "cannot start compute thread " +
                                               std::to_string(state_->workers.size() + 1) + " of " +
                                               std::to_string(threads) + ": " + error.what());
  }
}

Team::~Team() { stop(); }

void Team::stop() {
  state_->stop.store(true, std::memory_order_release);
  state_->call.fetch_add(1, std::memory_order_acq_rel);
  state_->call.notify_all();
  for (std::thread& worker : state_->workers) worker.join();
}

int Team::size() const { return state_->size; }
void Team::set_jitter(uint64_t seed) { state_->jitter = Jitter(size() > 1 ? seed : 0); }

void Team::run(const std::function<void(int thread)>& work) {
  State& state = *state_;
  if (state.size == 1) return work(0);
  state.work = &work;
  state.running.store(static_cast<uint32_t>(state.size - 1), std::memory_order_relaxed);
  state.call.fetch_add(1, std::memory_order_acq_rel);
  state.call.notify_all();
  state.execute(0);
  for (uint32_t left; (left = state.running.load(std::memory_order_acquire)) != 0;) {
    wait_while(state.running, left, state.spin);
  }
  state.rethrow_failure();
}

void Team::barrier() {
  State& state = *state_;
  if (state.size == 1) return;
  const uint32_t phase = state.phase.load(std::memory_order_acquire);
  if (state.abandoned.load(std::memory_order_acquire)) throw Abandoned{};
  const uint32_t place = state.arrived.fetch_add(1, std::memory_order_acq_rel);
  if (place + 1 == static_cast<uint32_t>(state.size)) {
    state.arrived.store(0, std::memory_order_relaxed);
    state.phase.fetch_add(1, std::memory_order_acq_rel);
    state.phase.notify_all();
  } else {
    wait_while(state.phase, phase, state.spin);
  }
  if (state.abandoned.load(std::memory_order_acquire)) throw Abandoned{};
  if (state.jitter.on()) state.jitter.delay(kAfterBarrier, phase, place);
}

void Team::parallel_for(int64_t count, int64_t grain, bool dynamic,
                        const std::function<void(int64_t, int64_t, int)>& work) {
  if (count <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  const int64_t grains = (count + grain - 1) / grain;
  if (dynamic) {
    const Jitter& jitter = state_->jitter;
    std::atomic<int64_t> next{0};
    run([&](int thread) {
      for (int64_t g; (g = next.fetch_add(1, std::memory_order_relaxed)) < grains;) {
        if (jitter.on())
          jitter.delay(kBeforeChunk, state_->number_of_run(), static_cast<uint64_t>(g));
        work(g * grain, std::min(count, (g + 1) * grain), thread);
      }
    });
    return;
  }
  if (grains == 1) return work(0, count, 0);
  const int64_t threads = size();
  run([&](int thread) {
    const int64_t begin = grains * thread / threads * grain;
    const int64_t end = std::min(count, grains * (thread + 1) / threads * grain);
    if (begin >= end) return;
    if (state_->jitter.on()) return state_->work_in_pieces(begin, end, grain, thread, work);
    work(begin, end, thread);
  });
}

}  // namespace dettax
