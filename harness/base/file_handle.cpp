#include "harness/base/file_handle.h"

#include <cerrno>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include "harness/base/error.h"

namespace dettax {

FileHandle::FileHandle(const std::filesystem::path& path, int flags)
    : path_(path), descriptor_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {
  if (descriptor_ < 0) fail("cannot be opened");
}

FileHandle::~FileHandle() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void FileHandle::write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot be written");
    text.remove_prefix(static_cast<size_t>(written));
  }
}

void FileHandle::sync() {
  // Some file systems (a pipe, a special file) cannot sync and say EINVAL; what they hold is as
  // safe as it gets.
  if (::fsync(descriptor_) != 0 && errno != EINVAL) fail("cannot be synced to the disk");
}

void FileHandle::close() {
  const int descriptor = descriptor_;
  descriptor_ = -1;
  if (::close(descriptor) != 0) fail("cannot be closed");
}

void FileHandle::fail(const char* what) const {
  throw Error(ErrorKind::infrastructure,
              path_.string() + ": " + what + ": " + std::generic_category().message(errno));
}

}  // namespace dettax
