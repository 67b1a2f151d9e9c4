#pragma once

#include <string>
#include <string_view>

namespace dettax {

// The text with every byte that is no part of valid UTF-8 replaced by U+FFFD.
std::string repaired_utf8(std::string_view text);

}  // namespace dettax
