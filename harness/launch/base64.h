#pragma once

#include <string>
#include <string_view>

namespace dettax {

// Bytes as text for a message in JSON (RFC 4648, section 4), and back; Error{internal} for what is none.
std::string to_base64(std::string_view bytes);
std::string from_base64(std::string_view text);

}  // namespace dettax
