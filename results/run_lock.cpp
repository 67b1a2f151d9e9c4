#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "harness/base/error.h"
#include "results/file_handle.h"
#include "results/run_folder.h"

namespace dettax {
namespace {

constexpr const char* kLock = "run.lock";

// The holder may not have written its number yet.
std::string holder(int descriptor) {
  std::string text(32, '\0');
  const ssize_t length = ::pread(descriptor, text.data(), text.size(), 0);
  text.resize(length > 0 ? static_cast<size_t>(length) : 0);
  return text.empty() ? "another process" : "process " + text;
}

}  // namespace

RunLock::RunLock(const std::filesystem::path& run_folder)
    : file_(std::make_unique<FileHandle>(run_folder / kLock, O_RDWR | O_CREAT)) {
  const int descriptor = file_->descriptor();
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    const int reason = errno;
    if (reason == EWOULDBLOCK)
      throw Error(ErrorKind::config,
                  run_folder.string() + ": is being run by " + holder(descriptor));
    throw Error(ErrorKind::infrastructure, (run_folder / kLock).string() + ": cannot be locked: " +
                                               std::generic_category().message(reason));
  }
  if (::ftruncate(descriptor, 0) != 0)
    throw Error(ErrorKind::infrastructure, (run_folder / kLock).string() + ": cannot be emptied: " +
                                               std::generic_category().message(errno));
  file_->write(std::to_string(::getpid()));
}

RunLock::~RunLock() = default;

}  // namespace dettax
