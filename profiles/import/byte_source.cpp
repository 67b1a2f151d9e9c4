#include "profiles/import/byte_source.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include <zlib.h>

#include "harness/base/error.h"

namespace dettax {
namespace {

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, FileCloser>;

// Reads without stdio's buffer: callers ask for large pieces.
size_t read_file(std::FILE* file, const std::string& name, char* to, size_t capacity) {
  const size_t got = std::fread(to, 1, capacity, file);
  if (got < capacity && std::ferror(file) != 0)
    throw Error(ErrorKind::infrastructure,
                name + ": cannot be read: " + std::generic_category().message(errno));
  return got;
}

class PlainFile : public ByteSource {
 public:
  PlainFile(File file, std::string name) : file_(std::move(file)), name_(std::move(name)) {}
  size_t read(char* to, size_t capacity) override {
    return read_file(file_.get(), name_, to, capacity);
  }

 private:
  File file_;
  std::string name_;
};

class GzipFile : public ByteSource {
 public:
  GzipFile(File file, std::string name) : file_(std::move(file)), name_(std::move(name)) {
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    if (inflateInit2(&stream_, kGzipOnly) != Z_OK)
      throw Error(ErrorKind::infrastructure, name_ + ": no memory to unpack it");
  }
  GzipFile(const GzipFile&) = delete;
  ~GzipFile() override { inflateEnd(&stream_); }

  size_t read(char* to, size_t capacity) override {
    stream_.next_out = reinterpret_cast<Bytef*>(to);
    stream_.avail_out = static_cast<uInt>(capacity);
    while (stream_.avail_out > 0 && !ended_) inflate_some();
    return capacity - stream_.avail_out;
  }
  bool cut_off() const override { return cut_off_; }

 private:
  void inflate_some() {
    if (stream_.avail_in == 0) {
      stream_.avail_in = static_cast<uInt>(read_file(file_.get(), name_, in_.data(), in_.size()));
      stream_.next_in = reinterpret_cast<Bytef*>(in_.data());
      if (stream_.avail_in == 0) {
        ended_ = true;
        cut_off_ = !between_members_;
        return;
      }
    }
    const int status = inflate(&stream_, Z_NO_FLUSH);
    between_members_ = status == Z_STREAM_END;
    if (status == Z_STREAM_END) {
      inflateReset(&stream_);  // a file may hold several packed pieces
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      throw Error(ErrorKind::config, name_ + ": is damaged: its gzip data are not valid after " +
                                         std::to_string(stream_.total_out) + " unpacked bytes");
    }
  }

  File file_;
  std::string name_;
  z_stream stream_{};
  std::array<char, 256 * 1024> in_{};
  bool ended_ = false, cut_off_ = false, between_members_ = false;
};

}  // namespace

std::unique_ptr<ByteSource> open_bytes(const std::filesystem::path& path) {
  File file(std::fopen(path.c_str(), "rb"));
  if (!file)
    throw Error(ErrorKind::usage,
                path.string() + ": cannot be read: " + std::generic_category().message(errno));
  std::setvbuf(file.get(), nullptr, _IONBF, 0);
  std::array<unsigned char, 2> magic{};
  const size_t got = std::fread(magic.data(), 1, magic.size(), file.get());
  std::rewind(file.get());
  const bool gzip = got == 2 && magic[0] == 0x1f && magic[1] == 0x8b;
  if (gzip) return std::make_unique<GzipFile>(std::move(file), path.string());
  return std::make_unique<PlainFile>(std::move(file), path.string());
}

}  // namespace dettax
