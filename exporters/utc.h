#pragma once

#include <optional>
#include <string>

namespace dettax {

// Seconds since 1970 of "2026-03-01T12:00:00Z"; nullopt for anything else.
std::optional<double> seconds_of_utc(const std::string& text);

}  // namespace dettax
