#include "profiles/export/json_text.h"

#include <fmt/format.h>

#include "harness/base/text.h"

namespace dettax {

std::string json_string(std::string_view text) {
  std::string json = "\"";
  for (const char c : valid_utf8(text)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      json += '\\';
      json += c;
    } else if (byte < 0x20) {
      json += fmt::format("\\u{:04x}", byte);
    } else {
      json += c;
    }
  }
  return json += '"';
}

std::string microseconds_text(long long nanoseconds) {
  const long long size = nanoseconds < 0 ? -nanoseconds : nanoseconds;
  return fmt::format("{}{}.{:03}", nanoseconds < 0 ? "-" : "", size / 1000, size % 1000);
}

}  // namespace dettax
