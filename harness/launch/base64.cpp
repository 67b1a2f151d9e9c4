#include "harness/launch/base64.h"

#include <cstdint>

#include "harness/base/error.h"

namespace dettax {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t three = 0;
    for (size_t j = i; j < i + 3; ++j)
      three = three << 8U | (j < bytes.size() ? static_cast<unsigned char>(bytes[j]) : 0U);
    for (size_t digit = 0; digit < 4; ++digit) {
      const bool padding = i + digit > bytes.size();
      text += padding ? '=' : kDigits[three >> (18 - 6 * digit) & 63U];
    }
  }
  return text;
}

std::string from_base64(std::string_view text) {
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 2);
  uint32_t held = 0;
  unsigned bits = 0;
  for (const char digit : text) {
    const size_t value = kDigits.find(digit);
    if (value == kDigits.npos)
      throw Error(ErrorKind::internal, "base64: a character of another kind");
    held = held << 6U | static_cast<uint32_t>(value);
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes += static_cast<char>(held >> bits & 255U);
  }
  return bytes;
}

}  // namespace dettax
