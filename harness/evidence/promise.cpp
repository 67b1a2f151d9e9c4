#include "harness/evidence/promise.h"

#include <filesystem>

namespace dettax {

LedgerPlace ledger_place(const std::string& path) {
  const std::filesystem::path whole = path;
  const std::string name = whole.stem().string();
  const size_t dot = name.rfind('.');
  return {whole.parent_path().string(), name.substr(0, dot),
          dot == std::string::npos ? "" : name.substr(dot + 1)};
}

std::optional<bool> promise_of(const LedgerPlace& place, std::span<const Record> records,
                               std::span<const LedgerHead> heads) {
  std::optional<bool> promised;
  const auto say = [&](bool claimed) { promised = promised.value_or(false) || claimed; };
  for (const Record& record : records) {
    if (record.case_id != place.case_id) continue;
    for (const ArmResult& arm : record.arms) {
      if (arm.arm == place.arm) say(arm.claims_reproducible);
    }
  }
  if (promised) return promised;
  for (const LedgerHead& head : heads) {
    if (head.claims_reproducible) say(*head.claims_reproducible);
  }
  return promised;
}

}  // namespace dettax
