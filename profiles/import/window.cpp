#include "profiles/import/window.h"

#include <cstring>
#include <utility>

#include "harness/base/error.h"

namespace dettax {

Window::Window(ByteSource& source, std::string name)
    : source_(source), name_(std::move(name)), bytes_(kBytes + kPadding) {}

void Window::discard(const char* at) {
  const auto count = static_cast<size_t>(at - begin());
  begin_ += count;
  offset_ += static_cast<int64_t>(count);
}

bool Window::extend() {
  if (ended_) return false;
  const size_t held = end_ - begin_;
  std::memmove(bytes_.data(), bytes_.data() + begin_, held);
  begin_ = 0;
  end_ = held;
  if (held + kPadding == bytes_.size()) {
    if (bytes_.size() > kBytesMax)
      throw Error(ErrorKind::config, name_ + ": is damaged: the value at byte " +
                                         std::to_string(offset_) + " does not end within " +
                                         std::to_string(kBytesMax / 1024 / 1024) + " MiB");
    bytes_.resize((bytes_.size() - kPadding) * 2 + kPadding);
  }
  const size_t got = source_.read(bytes_.data() + end_, bytes_.size() - kPadding - end_);
  end_ += got;
  std::memset(bytes_.data() + end_, 0, kPadding);
  ended_ = got == 0;
  return got > 0;
}

}  // namespace dettax
