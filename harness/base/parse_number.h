#pragma once

#include <charconv>
#include <string_view>
#include <system_error>

namespace dettax {

// Whether the text from end to end is a number that `value`'s type holds, which is then there.
template <typename Number>
bool parse_number(std::string_view text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace dettax
