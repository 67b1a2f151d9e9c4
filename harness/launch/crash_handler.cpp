#include "harness/launch/crash_handler.h"

#include <csignal>

#include <sys/socket.h>

#include "harness/launch/last_words.h"
#include "harness/launch/rank_pool.h"

namespace dettax {
namespace {

// A signal handler sees nothing but globals.
// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables)
std::atomic<StatusPage::Layout*> crash_page{nullptr};
std::atomic<const RankPool*> crash_pool{nullptr};
std::atomic<int> crash_socket{-1};
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

void on_fatal_signal(int number) {
  StatusPage::Layout* page = crash_page.load();
  if (page != nullptr) page->crashed_rank.store(RankPool::rank_of_this_thread());
  const RankPool* pool = crash_pool.load();
  if (pool != nullptr) pool->copy_positions();
  const int socket = crash_socket.load();
  if (page != nullptr && socket >= 0) {
    const LastWordsLine line(number, page->ranks.front());
    // If it does not go out the launcher sees the connection end.
    [[maybe_unused]] const ssize_t n =
        ::send(socket, line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  // The handler was taken away by SA_RESETHAND: this ends the process with the same signal.
  ::raise(number);
}

}  // namespace

void note_crashes_in(StatusPage& page) {
  crash_page.store(&page.layout());
  struct sigaction action{};
  action.sa_handler = on_fatal_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_NODEFER;
  for (const int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    ::sigaction(number, &action, nullptr);
  }
}

void tell_crashes_to(int socket) { crash_socket.store(socket); }

void note_crash_positions(const RankPool* pool) { crash_pool.store(pool); }

}  // namespace dettax
