#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace dettax {

// Texts by number: each distinct text once. Number 0 is the empty text. A text's address never changes while the table lives.
class NameTable {
 public:
  NameTable() { intern(""); }
  NameTable(const NameTable& other) { *this = other; }
  NameTable& operator=(const NameTable& other);
  // NOLINTNEXTLINE(performance-noexcept-move-constructor): std::deque's may allocate
  NameTable(NameTable&&) = default;
  NameTable& operator=(NameTable&&) = default;

  uint32_t intern(std::string_view text);
  std::optional<uint32_t> find(std::string_view text) const;
  const std::string& operator[](uint32_t number) const { return texts_[number]; }
  size_t size() const { return texts_.size(); }

 private:
  std::deque<std::string> texts_;
  std::unordered_map<std::string_view, uint32_t> numbers_;
};

}  // namespace dettax
