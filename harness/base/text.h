#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dettax {

// The candidate nearest to `word` by edit distance (a swap of neighbours counts as one), if it is
// near enough to be a misspelling of it.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates);

// `; did you mean "x"?`, or `; known: a, b, c` when nothing is near, or nothing without candidates.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

std::string join(std::span<const std::string> parts, std::string_view separator);
std::vector<std::string> split(std::string_view text, char separator);
std::string_view trim(std::string_view text);

// Whether a shell's pattern (*, ?, [a-c]) takes the whole text.
bool matches_glob(const std::string& pattern, const std::string& text);

// Where the first byte stands that is no part of valid UTF-8 (RFC 3629: no overlong forms, no surrogates); nullopt if all of it is.
std::optional<size_t> first_bad_utf8(std::string_view text);

// Bytes that are no UTF-8 become U+FFFD; everything else stays.
std::string valid_utf8(std::string_view text);
// Appends it as a JSON string with its quotes, whatever its bytes. `<` is escaped too, so that it may stand in a script of a page.
void append_json_string(std::string& out, std::string_view text);

// 16 lower-case hexadecimal digits that depend on every byte and on the order; for naming equal
// configurations, not against an adversary.
std::string hash_text(std::string_view text);

}  // namespace dettax
