#include <cerrno>
#include <fstream>
#include <sstream>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include "harness/base/error.h"
#include "results/file_handle.h"
#include "results/run_folder.h"

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

namespace {

void sync_folder(const std::filesystem::path& folder) {
  FileHandle(folder.empty() ? "." : folder, O_RDONLY | O_DIRECTORY).sync();
}

}  // namespace

void write_file_atomically(const std::filesystem::path& asked, const std::string& text) {
  std::error_code error;
  // Through a link to the file it stands for; a device or a pipe is written, never replaced by a file.
  const bool link = std::filesystem::is_symlink(asked, error);
  const std::filesystem::path path = link ? std::filesystem::weakly_canonical(asked) : asked;
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error)) {
    FileHandle file(path, O_WRONLY);
    file.write(text);
    file.close();
    return;
  }
  const std::filesystem::path temporary = path.string() + ".tmp" + std::to_string(::getpid());
  try {
    FileHandle file(temporary, O_WRONLY | O_CREAT | O_TRUNC);
    file.write(text);
    file.sync();
    file.close();
    if (::rename(temporary.c_str(), path.c_str()) != 0)
      throw Error(ErrorKind::infrastructure, path.string() + ": cannot be replaced: " +
                                                 std::generic_category().message(errno));
    sync_folder(path.parent_path());
  } catch (const Error&) {
    ::unlink(temporary.c_str());
    throw;
  }
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (in && in.peek() == std::ifstream::traits_type::eof() && !in.bad())
    throw Error(ErrorKind::config, path.string() + ": is empty");
  std::ostringstream text;
  if (in) text << in.rdbuf();
  if (!in || !text)
    throw Error(ErrorKind::config,
                path.string() + ": cannot be read: " + std::generic_category().message(errno));
  return text.str();
}

}  // namespace dettax
