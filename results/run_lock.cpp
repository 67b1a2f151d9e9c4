#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "harness/base/error.h"
#include "harness/base/file_handle.h"
#include "results/run_folder.h"

namespace dettax {
namespace {

// The holder may not have written its number yet.
std::string holder(int descriptor) {
  std::string text(32, '\0');
  const ssize_t length = ::pread(descriptor, text.data(), text.size(), 0);
  text.resize(length > 0 ? static_cast<size_t>(length) : 0);
  return text.empty() ? "another process" : "process " + text;
}

// Errno of the last try, 0 if it is ours.
int lock(int descriptor, double patience_seconds) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + std::chrono::duration<double>(patience_seconds);
  while (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    const int reason = errno;
    if (reason != EWOULDBLOCK || Clock::now() >= until) return reason;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return 0;
}

}  // namespace

RunLock::RunLock(const std::filesystem::path& run_folder, double patience_seconds)
    : file_(std::make_unique<FileHandle>(run_folder / kRunLockName, O_RDWR | O_CREAT)) {
  const int descriptor = file_->descriptor();
  const int reason = lock(descriptor, patience_seconds);
  if (reason == EWOULDBLOCK)
    throw Error(ErrorKind::config, run_folder.string() + ": is being run by " + holder(descriptor));
  if (reason != 0)
    throw Error(ErrorKind::infrastructure,
                (run_folder / kRunLockName).string() +
                    ": cannot be locked: " + std::generic_category().message(reason));
  if (::ftruncate(descriptor, 0) != 0)
    throw Error(ErrorKind::infrastructure,
                (run_folder / kRunLockName).string() +
                    ": cannot be emptied: " + std::generic_category().message(errno));
  file_->write(std::to_string(::getpid()));
}

RunLock::~RunLock() = default;

}  // namespace dettax
