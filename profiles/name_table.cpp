#include "profiles/name_table.h"

namespace dettax {

NameTable& NameTable::operator=(const NameTable& other) {
  if (this == &other) return *this;
  texts_.clear();
  numbers_.clear();
  for (const std::string& text : other.texts_) intern(text);
  return *this;
}

std::optional<uint32_t> NameTable::find(std::string_view text) const {
  const auto found = numbers_.find(text);
  if (found == numbers_.end()) return std::nullopt;
  return found->second;
}

uint32_t NameTable::intern(std::string_view text) {
  if (const auto known = find(text)) return *known;
  const auto number = static_cast<uint32_t>(texts_.size());
  texts_.emplace_back(text);
  numbers_.emplace(texts_.back(), number);
  return number;
}

}  // namespace dettax
