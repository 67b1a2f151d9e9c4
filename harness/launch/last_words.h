#pragma once

#include <array>
#include <cstddef>

#include "harness/launch/status_page.h"

namespace dettax {

// The line that decode_rank_message() reads as LastWords, made without allocating: from a signal
// handler.
class LastWordsLine {
 public:
  LastWordsLine(int signal, const RankStatus& rank);
  const char* data() const { return text_.data(); }
  size_t size() const { return size_; }

 private:
  void append(const char* text);
  void append_number(int64_t value);

  std::array<char, 384> text_{};
  size_t size_ = 0;
};

}  // namespace dettax
