#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "harness/base/fingerprint.h"

namespace dettax {

// What an entry of a ledger is of.
struct LedgerName {
  std::string path, tensor;
  friend bool operator==(const LedgerName&, const LedgerName&) = default;
};

// Names by number, in the order they came. Every step says the same ones again.
class LedgerNames {
 public:
  uint32_t number_of(std::string_view path, std::string_view tensor);
  const LedgerName& at(uint32_t number) const { return names_[number]; }
  uint32_t size() const { return static_cast<uint32_t>(names_.size()); }

 private:
  std::vector<LedgerName> names_;
  std::unordered_map<std::string, uint32_t> numbers_;
  std::string key_;
};

// One step of one rank in program order; both columns are equally long.
struct LedgerColumns {
  std::vector<uint32_t> names;
  std::vector<Fingerprint> values;

  void add(uint32_t name, const Fingerprint& value) {
    names.push_back(name);
    values.push_back(value);
  }
  // Names by other numbers: to[n] for n. Entries whose number is kLeftOut go.
  static constexpr uint32_t kLeftOut = ~uint32_t{0};
  void renumber(const std::vector<uint32_t>& to);
  size_t size() const { return names.size(); }
  void clear() {
    names.clear();
    values.clear();
  }
};

}  // namespace dettax
