#include "profiles/inject/injection.h"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>

#include <pthread.h>
#include <unistd.h>

namespace dettax {
namespace {

// Whatever calls in here has no place for data of ours: the driver, NVTX, signals, the end of the process. It is never destroyed, since
// threads of the program may still call when static objects are.
std::atomic<InjectedSession*> session{nullptr};  // NOLINT(*-avoid-non-const-global-variables)
std::once_flag made;                             // NOLINT(*-avoid-non-const-global-variables)

constexpr int64_t kExitLimitMs = 5000;

void on_exit() {
  InjectedSession* own = injected_session();
  own->end_now("exit");
  own->wait_until_done(kExitLimitMs);
}

void on_terminate(int signal) {
  // A second one does not wait. The first is sent again once everything is written.
  ::signal(signal, SIG_DFL);
  if (!injected_session()->end_now(kTerminated)) raise(signal);
}

void in_child() {
  injected_session()->disable_in_child();
  struct sigaction now{};
  if (sigaction(SIGTERM, nullptr, &now) == 0 && now.sa_handler == on_terminate)
    ::signal(SIGTERM, SIG_DFL);
}

void watch_ends() {
  std::atexit(on_exit);
  pthread_atfork(nullptr, nullptr, in_child);
  // A program that handles SIGTERM itself ends by exit, or has its reasons.
  struct sigaction now{};
  if (sigaction(SIGTERM, nullptr, &now) != 0 || now.sa_handler != SIG_DFL) return;
  struct sigaction own{};
  own.sa_handler = on_terminate;
  own.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &own, nullptr);
}

}  // namespace

InjectedSession* injected_session() { return session.load(std::memory_order_acquire); }

void begin_injection(bool driver) noexcept {
  try {
    std::call_once(made, [] {
      session = std::make_unique<InjectedSession>().release();
      watch_ends();
    });
    if (driver) injected_session()->attach_cupti();
  } catch (const std::exception&) {
    return;  // no memory, no profile
  }
}

}  // namespace dettax

// Called by the driver in cuInit, where CUDA_INJECTION64_PATH names this library.
// NOLINTNEXTLINE(readability-identifier-naming): the driver's name
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  dettax::begin_injection(true);
  return 1;
}
