#include "harness/evidence/ledger_columns.h"

namespace dettax {

uint32_t LedgerNames::number_of(std::string_view path, std::string_view tensor) {
  key_.assign(path).append(1, '\t').append(tensor);
  const auto [place, is_new] = numbers_.try_emplace(key_, size());
  if (is_new) names_.push_back({std::string(path), std::string(tensor)});
  return place->second;
}

void LedgerColumns::renumber(const std::vector<uint32_t>& to) {
  size_t kept = 0;
  for (size_t i = 0; i < size(); ++i) {
    const uint32_t name = to[names[i]];
    if (name == kLeftOut) continue;
    names[kept] = name;
    values[kept++] = values[i];
  }
  names.resize(kept);
  values.resize(kept);
}

}  // namespace dettax
