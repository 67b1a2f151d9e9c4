#include "harness/evidence/restart_check.h"

#include <algorithm>
#include <map>
#include <ostream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"
#include "harness/evidence/ledger_span.h"

namespace dettax {
namespace {

using nlohmann::json;

// By name, of one rank and one item.
using ItemState = std::map<std::string, StateEntry>;

ItemState state_of(const StateTables& tables, size_t rank, const std::string& item) {
  ItemState state;
  if (rank >= tables.size()) return state;
  for (const StateEntry& entry : tables[rank]) {
    if (entry.item == item) state.emplace(entry.name, entry);
  }
  return state;
}

// In the order in which they come up.
std::vector<std::string> items_of(const StateTables& saved, const StateTables& restored) {
  std::vector<std::string> items;
  for (const StateTables* tables : {&saved, &restored}) {
    for (const auto& rank : *tables) {
      for (const StateEntry& entry : rank) {
        if (std::ranges::find(items, entry.item) == items.end()) items.push_back(entry.item);
      }
    }
  }
  return items;
}

std::string first_difference(const ItemState& saved, const ItemState& restored) {
  if (restored.empty()) return "missing";
  for (const auto& [name, entry] : saved) {
    const auto found = restored.find(name);
    if (found == restored.end()) return name + " missing";
    if (found->second == entry) continue;
    if (entry.value.empty()) return name + " differs";
    return fmt::format("{} against {}", found->second.value, entry.value);
  }
  return restored.size() > saved.size() ? "more than was saved" : "";
}

std::string rank_words(const std::vector<int>& ranks, size_t all) {
  if (ranks.size() == all) return all == 1 ? "" : fmt::format(", on all {} ranks", all);
  std::vector<std::string> numbers;
  for (const int rank : ranks) numbers.push_back(std::to_string(rank));
  return fmt::format(", on rank{} {}", ranks.size() == 1 ? "" : "s", join(numbers, ", "));
}

class ItemJudge {
 public:
  ItemJudge(const StateTables& saved, const StateTables& restored, const StateTables& fresh)
      : saved_(saved),
        restored_(restored),
        fresh_(fresh),
        ranks_(std::max(saved.size(), restored.size())) {}

  RestartItem judge(const std::string& name) const {
    RestartItem item;
    item.item = name;
    for (size_t rank = 0; rank < ranks_; ++rank) {
      const std::string difference =
          first_difference(state_of(saved_, rank, name), state_of(restored_, rank, name));
      if (difference.empty()) continue;
      if (item.words.empty()) item.words = difference;
      item.ranks.push_back(static_cast<int>(rank));
    }
    item.same = item.ranks.empty();
    if (item.same) {
      item.blind =
          std::ranges::all_of(all_ranks(), [&](int rank) { return fresh_is(saved_, rank, name); });
    } else {
      item.words += rank_words(item.ranks, ranks_) + pattern(item);
    }
    return item;
  }

 private:
  std::vector<int> all_ranks() const {
    std::vector<int> all;
    for (size_t rank = 0; rank < ranks_; ++rank) all.push_back(static_cast<int>(rank));
    return all;
  }
  bool fresh_is(const StateTables& tables, int rank, const std::string& name) const {
    const auto place = static_cast<size_t>(rank);
    const ItemState fresh = state_of(fresh_, place, name);
    return !fresh.empty() && fresh == state_of(tables, place, name);
  }
  // What the wrong state is, where that shows.
  std::string pattern(const RestartItem& item) const {
    const auto everywhere = [&](const auto& holds) {
      return std::ranges::all_of(item.ranks, holds);
    };
    if (everywhere([&](int rank) { return fresh_is(restored_, rank, item.item); }))
      return ": as a fresh start leaves it, it is missing from the checkpoint";
    const ItemState of_rank_0 = state_of(saved_, 0, item.item);
    if (everywhere([&](int rank) {
          return rank > 0 && state_of(restored_, static_cast<size_t>(rank), item.item) == of_rank_0;
        }))
      return ": equals rank 0's saved state";
    return "";
  }

  const StateTables& saved_;
  const StateTables& restored_;
  const StateTables& fresh_;
  const size_t ranks_;
};

// The value that a ledger has of an entry, and an earlier step of another ledger that has it too.
std::string replayed_words(LedgerSource& straight, LedgerSource& resumed,
                           const LedgerComparison& found) {
  if (!found.first || !found.first->path.ends_with("/data")) return "";
  const auto value_at = [&](LedgerSource& ledger, int64_t step) -> std::optional<Fingerprint> {
    LedgerColumns columns;
    ledger.load(static_cast<size_t>(found.first_rank), step, columns);
    for (size_t i = 0; i < columns.size(); ++i) {
      const LedgerName& name = ledger.names().at(columns.names[i]);
      if (name.path == found.first->path && name.tensor == found.first->tensor)
        return columns.values[i];
    }
    return std::nullopt;
  };
  const auto now = value_at(resumed, found.first->step);
  if (!now) return "";
  for (const int64_t step : straight.steps()) {
    if (step < found.first->step && value_at(straight, step) == now)
      return fmt::format("equals step {}'s batch", step);
  }
  return "";
}

template <typename Which>
std::string names_where(const std::vector<RestartItem>& items, const Which& which) {
  std::vector<std::string> names;
  for (const RestartItem& item : items) {
    if (which(item)) names.push_back(item.item);
  }
  return join(names, ", ");
}

bool came_through(const RestartItem& item) { return item.same && !item.left_out; }
bool is_loss_not_shown(const RestartItem& item) { return item.same && item.left_out; }

const char* verdict_word(ExitCode code) {
  if (code == ExitCode::pass) return "pass";
  if (code == ExitCode::skipped) return "skipped";
  if (code == ExitCode::inconclusive) return "not shown";
  return code == ExitCode::not_bit_exact ? "FAIL" : "not compared";
}

json comparison_json(const LedgerComparison& comparison) {
  return {{"comparable", comparison.comparable},
          {"equal", comparison.equal},
          {"compared", comparison.compared},
          {"differing", comparison.differing},
          {"description", comparison.description}};
}

}  // namespace

std::vector<RestartItem> judge_items(const StateTables& saved, const StateTables& restored,
                                     const StateTables& fresh) {
  const ItemJudge judge(saved, restored, fresh);
  std::vector<RestartItem> items;
  for (const std::string& name : items_of(saved, restored)) items.push_back(judge.judge(name));
  return items;
}

ExitCode RestartVerdict::code() const {
  if (!skipped.empty()) return ExitCode::skipped;
  if (!error.empty()) return ExitCode::infrastructure;
  if (!std::ranges::all_of(items, &RestartItem::same)) return ExitCode::not_bit_exact;
  if (!before.comparable || !after.comparable || items.empty()) return ExitCode::infrastructure;
  if (!before.equal || !after.equal) return ExitCode::not_bit_exact;
  return std::ranges::any_of(items, is_loss_not_shown) ? ExitCode::inconclusive : ExitCode::pass;
}

RestartVerdict judge_restart(LedgerSource& straight, LedgerSource& saved, LedgerSource& resumed,
                             int save_at) {
  RestartVerdict verdict;
  const LedgerHead& head = straight.head();
  verdict.case_id = head.case_id;
  verdict.mode = head.mode;
  verdict.steps = static_cast<int>(head.steps);
  verdict.save_at = save_at;
  const auto compare = [&](LedgerSource& other, int64_t from, int64_t end) {
    return compare_ledgers(*span_of_ledger(straight, from, end), *span_of_ledger(other, from, end));
  };
  verdict.before = compare(saved, -1, save_at);
  verdict.after = compare(resumed, save_at, head.steps);
  verdict.replayed = replayed_words(straight, resumed, verdict.after);
  return verdict;
}

void write_restart(std::ostream& out, const RestartVerdict& verdict) {
  out << fmt::format("{}  {}  {}: ", verdict_word(verdict.code()), verdict.case_id, verdict.mode);
  if (!verdict.skipped.empty() || !verdict.error.empty()) {
    out << verdict.skipped << verdict.error << '\n';
    return;
  }
  out << fmt::format("saved after {} of {} steps, {} fingerprints behind it compared\n",
                     verdict.save_at, verdict.steps, verdict.after.compared);
  out << "  came through: " << names_where(verdict.items, came_through) << '\n';
  const std::string lost = names_where(verdict.items, is_loss_not_shown);
  if (!lost.empty())
    out << "  left out, which does not show, for a fresh start has it too: " << lost << '\n';
  const std::string blind = names_where(
      verdict.items, [](const RestartItem& item) { return item.blind && came_through(item); });
  if (!blind.empty())
    out << "  of these as a fresh start has them, so that their loss would not have shown: "
        << blind << '\n';
  for (const RestartItem& item : verdict.items) {
    if (!item.same) out << fmt::format("  did not: {}: {}\n", item.item, item.words);
  }
  for (const std::string& fault : verdict.faults)
    out << "  the case injects what makes steps differ: " << fault << '\n';
  if (!verdict.before.equal)
    out << "  differs already before the save, so that it is not the restart: "
        << verdict.before.description << '\n';
  if (verdict.after.equal) return;
  out << "  first difference behind it: " << verdict.after.description;
  out << (verdict.replayed.empty() ? "" : "; " + verdict.replayed) << '\n';
}

std::string restart_json(const std::vector<RestartVerdict>& verdicts, ExitCode code) {
  json restarts = json::array();
  for (const RestartVerdict& verdict : verdicts) {
    json items = json::array();
    for (const RestartItem& item : verdict.items)
      items.push_back({{"item", item.item},
                       {"same", item.same},
                       {"blind", item.blind},
                       {"left_out", item.left_out},
                       {"ranks", item.ranks},
                       {"words", item.words}});
    json one = {{"case", verdict.case_id},
                {"mode", verdict.mode},
                {"exit_code", static_cast<int>(verdict.code())},
                {"steps", verdict.steps},
                {"save_at", verdict.save_at},
                {"items", items},
                {"before", comparison_json(verdict.before)},
                {"after", comparison_json(verdict.after)},
                {"replayed", verdict.replayed},
                {"faults", verdict.faults}};
    if (!verdict.skipped.empty()) one["skipped"] = verdict.skipped;
    if (!verdict.error.empty()) one["error"] = verdict.error;
    restarts.push_back(std::move(one));
  }
  const json whole = {
      {"schema_version", 1}, {"exit_code", static_cast<int>(code)}, {"restarts", restarts}};
  // Names and what an operating system says may hold bytes that are no UTF-8.
  return whole.dump(2, ' ', false, json::error_handler_t::replace) + '\n';
}

}  // namespace dettax
