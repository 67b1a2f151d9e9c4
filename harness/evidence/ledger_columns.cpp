#include "harness/evidence/ledger_columns.h"

namespace dettax {

uint32_t LedgerNames::number_of(std::string_view path, std::string_view tensor) {
  key_.assign(path).append(1, '\t').append(tensor);
  const auto [place, is_new] = numbers_.try_emplace(key_, size());
  if (is_new) names_.push_back({std::string(path), std::string(tensor)});
  return place->second;
}

}  // namespace dettax
