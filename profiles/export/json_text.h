#pragma once

#include <string>
#include <string_view>

namespace dettax {

// The text as a JSON string with its quotes; what is no valid UTF-8 becomes U+FFFD.
std::string json_string(std::string_view text);

// Nanoseconds as microseconds with three decimals, as Kineto writes times: no digit is lost.
std::string microseconds_text(long long nanoseconds);

}  // namespace dettax
