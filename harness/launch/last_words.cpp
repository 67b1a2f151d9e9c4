#include "harness/launch/last_words.h"

#include "harness/launch/protocol.h"

namespace dettax {

void LastWordsLine::append(const char* text) {
  for (; *text != '\0' && size_ < text_.size(); ++text) text_[size_++] = *text;
}

void LastWordsLine::append_number(int64_t value) {
  std::array<char, 24> digits{};
  size_t count = 0;
  auto rest = value < 0 ? ~static_cast<uint64_t>(value) + 1 : static_cast<uint64_t>(value);
  do {
    digits[count++] = static_cast<char>('0' + rest % 10);
    rest /= 10;
  } while (rest > 0);
  if (value < 0) append("-");
  while (count > 0 && size_ < text_.size()) text_[size_++] = digits[--count];
}

// Begins with an end of line: another thread may have been in the middle of one.
LastWordsLine::LastWordsLine(int signal, const RankStatus& rank) {
  append("\n{\"message\":\"last_words\",\"protocol\":");
  append_number(kProtocolVersion);
  append(",\"signal\":");
  append_number(signal);
  append(",\"step\":");
  append_number(rank.step.load(std::memory_order_relaxed));
  append(",\"ops\":");
  append_number(rank.ops.load(std::memory_order_relaxed));
  append(",\"op\":\"");
  for (const std::atomic<char>& character : rank.op) {
    const char c = character.load(std::memory_order_relaxed);
    if (c == '\0' || size_ + 8 > text_.size()) break;
    const bool plain = c > ' ' && c < 127 && c != '"' && c != '\\';
    text_[size_++] = plain ? c : '?';
  }
  append("\"}\n");
}

}  // namespace dettax
