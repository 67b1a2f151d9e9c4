// Files that are never seen half written.
#include <array>
#include <cerrno>
#include <memory>
#include <ostream>
#include <streambuf>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/base/error.h"
#include "harness/base/file_handle.h"
#include "results/run_folder.h"

namespace dettax {
namespace {

constexpr const char* kTemporary = ".tmp";  // between the file's name and the writer's number

// The stream's text goes to the file in large pieces. What the file does not take is thrown through the stream.
class FileBuffer : public std::streambuf {
 public:
  explicit FileBuffer(FileHandle& file) : file_(file) { reset(); }
  void finish() { send(); }

 protected:
  int_type overflow(int_type c) override {
    send();
    if (!traits_type::eq_int_type(c, traits_type::eof())) {
      *pptr() = traits_type::to_char_type(c);
      pbump(1);
    }
    return traits_type::not_eof(c);
  }
  int sync() override {
    send();
    return 0;
  }

 private:
  void reset() { setp(buffer_.data(), buffer_.data() + buffer_.size()); }
  void send() {
    file_.write({pbase(), static_cast<size_t>(pptr() - pbase())});
    reset();
  }
  FileHandle& file_;
  std::array<char, 1U << 16U> buffer_{};
};

void write_through(FileHandle& file, const std::function<void(std::ostream&)>& write) {
  FileBuffer buffer(file);
  std::ostream out(&buffer);
  out.exceptions(std::ios::badbit | std::ios::failbit);  // else a stream swallows what is thrown
  write(out);
  buffer.finish();
}

void sync_folder(const std::filesystem::path& folder) {
  FileHandle(folder.empty() ? "." : folder, O_RDONLY | O_DIRECTORY).sync();
}

// A writer holds a lock on its temporary file. One that nobody holds was left by a writer that died; it goes while it is locked, so
// that a writer that has just made it, and waits for the lock, sees that it is gone.
void remove_if_abandoned(const std::filesystem::path& temporary) {
  const int descriptor = ::open(temporary.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (descriptor < 0) return;
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) ::unlink(temporary.c_str());
  ::close(descriptor);
}

bool digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Removes what dead writers of this very file left. That they cannot be removed is no reason not to write.
void remove_leftovers(const std::filesystem::path& path) {
  const std::string start = path.filename().string() + kTemporary;
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(start) && digits(std::string_view(name).substr(start.size())))
      remove_if_abandoned(entry->path());
  }
}

// Locked by this process.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::filesystem::path& path)
      : path_(path.string() + kTemporary + std::to_string(::getpid())) {
    do {
      file_ = std::make_unique<FileHandle>(path_, O_WRONLY | O_CREAT | O_TRUNC);
      ::flock(file_->descriptor(), LOCK_EX);  // where there are no locks, nothing is ever abandoned
    } while (!std::filesystem::exists(path_));
  }
  ~TemporaryFile() {
    if (!renamed_) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  FileHandle& file() { return *file_; }
  void rename_to(const std::filesystem::path& path) {
    file_->sync();
    if (::rename(path_.c_str(), path.c_str()) != 0)
      throw Error(ErrorKind::infrastructure, path.string() + ": cannot be replaced: " +
                                                 std::generic_category().message(errno));
    renamed_ = true;
    file_->close();
  }

 private:
  std::filesystem::path path_;
  std::unique_ptr<FileHandle> file_;
  bool renamed_ = false;
};

}  // namespace

void write_file_atomically(const std::filesystem::path& asked,
                           const std::function<void(std::ostream&)>& write) {
  std::error_code error;
  // Through a link to the file it stands for; a device or a pipe is written, never replaced by a file.
  const bool link = std::filesystem::is_symlink(asked, error);
  const std::filesystem::path path = link ? std::filesystem::weakly_canonical(asked) : asked;
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error)) {
    FileHandle file(path, O_WRONLY);
    write_through(file, write);
    file.close();
    return;
  }
  remove_leftovers(path);
  TemporaryFile temporary(path);
  write_through(temporary.file(), write);
  temporary.rename_to(path);
  sync_folder(path.parent_path());
}

void write_file_atomically(const std::filesystem::path& path, const std::string& text) {
  write_file_atomically(path, [&](std::ostream& out) {
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
  });
}

}  // namespace dettax
