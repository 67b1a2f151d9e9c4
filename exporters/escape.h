#pragma once

#include <string>
#include <string_view>

namespace dettax {

// Any bytes as text of a format. What the format cannot hold is replaced by something that shows.

// For XML 1.0, as text and inside double quotes alike; what XML forbids becomes \x1b or \ufffe.
std::string xml_text(std::string_view text);
// For HTML, as text and inside double quotes alike.
std::string html_text(std::string_view text);
// Plain text within a line or a table cell of GitHub's Markdown.
std::string markdown_text(std::string_view text);
// In quotes, RFC 4180.
std::string csv_text(std::string_view text);
// A label's value. One longer than kLongestLabel is cut, and ends in a hash of the whole.
inline constexpr size_t kLongestLabel = 160;
std::string label_value(std::string_view text);
// The same with its quotes, as text.
std::string metric_label(std::string_view text);

// Up to the first line break and at most `bytes` long, not cut inside a character.
std::string_view first_line(std::string_view text, size_t bytes);

}  // namespace dettax
