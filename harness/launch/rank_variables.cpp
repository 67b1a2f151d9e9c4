#include "harness/launch/rank_variables.h"

#include <array>
#include <cstdlib>
#include <vector>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/parse_number.h"
#include "harness/base/text.h"

namespace dettax {
namespace {

struct VariableSet {
  const char* rank;
  const char* size;
  const char* local_rank;
};

constexpr std::array<VariableSet, 4> kSets = {{
    {"RANK", "WORLD_SIZE", "LOCAL_RANK"},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"PMIX_RANK", "PMIX_SIZE", "PMIX_LOCAL_RANK"},
}};

Error bad(const std::string& what) { return {ErrorKind::config, "rank variables: " + what}; }

int whole_number(const std::string& name, const std::string& text) {
  int value = 0;
  if (parse_number(text, value) && value >= 0) return value;
  throw bad(fmt::format("{}={} is no whole number from 0 up", name, text));
}

int needed(const VariableLookup& variable, const char* name, const VariableSet& set) {
  const auto text = variable(name);
  if (text) return whole_number(name, *text);
  throw bad(fmt::format("{} is set and {} is not; {}, {} and {} are needed together",
                        variable(set.rank) ? set.rank : set.local_rank, name, set.rank, set.size,
                        set.local_rank));
}

RankVariables read_set(const VariableLookup& variable, const VariableSet& set) {
  RankVariables found;
  found.source = set.rank;
  found.rank = needed(variable, set.rank, set);
  found.size = needed(variable, set.size, set);
  found.local_rank = needed(variable, set.local_rank, set);
  if (found.rank >= found.size) {
    throw bad(fmt::format("{}={} is not below {}={}", set.rank, found.rank, set.size, found.size));
  }
  if (found.local_rank > found.rank) {
    throw bad(fmt::format("{}={} is above {}={}", set.local_rank, found.local_rank, set.rank,
                          found.rank));
  }
  return found;
}

// LOCAL_RANK without RANK comes from a launcher that counts processes itself: Slurm's own number is
// then the same in several of them, and no other set may be believed.
void refuse_ambiguous(const VariableLookup& variable) {
  const bool local_alone = variable("LOCAL_RANK") && !variable("RANK");
  if (!local_alone) return;
  std::vector<std::string> others;
  for (size_t i = 1; i < kSets.size(); ++i) {
    if (const auto value = variable(kSets[i].rank)) {
      others.push_back(fmt::format("{}={}", kSets[i].rank, *value));
    }
  }
  throw bad(fmt::format(
      "LOCAL_RANK={} is set without RANK and WORLD_SIZE{}{}: which rank this is cannot be told",
      *variable("LOCAL_RANK"), others.empty() ? "" : ", beside ", join(others, ", ")));
}

// What other sets say must agree: rank 0 of 4 four times is worse than no rank.
void refuse_contradiction(const VariableLookup& variable, const RankVariables& chosen,
                          size_t from) {
  for (size_t i = from; i < kSets.size(); ++i) {
    const auto rank = variable(kSets[i].rank);
    const auto size = variable(kSets[i].size);
    const bool same = (!rank || whole_number(kSets[i].rank, *rank) == chosen.rank) &&
                      (!size || whole_number(kSets[i].size, *size) == chosen.size);
    if (same) continue;
    throw bad(fmt::format(
        "{} says rank {} of {}, {} says rank {} of {}; set RANK, WORLD_SIZE and LOCAL_RANK",
        chosen.source, chosen.rank, chosen.size, kSets[i].rank, rank.value_or("?"),
        size.value_or("?")));
  }
}

}  // namespace

VariableLookup process_variables() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value =
        std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): nobody sets any
    if (value == nullptr) return std::nullopt;
    return value;
  };
}

std::optional<RankVariables> find_rank_variables(const VariableLookup& variable) {
  refuse_ambiguous(variable);
  for (size_t i = 0; i < kSets.size(); ++i) {
    if (!variable(kSets[i].rank)) continue;
    RankVariables found = read_set(variable, kSets[i]);
    if (i > 0) refuse_contradiction(variable, found, i + 1);  // RANK was set on purpose: it wins
    return found;
  }
  return std::nullopt;
}

RankVariables read_rank_variables(const VariableLookup& variable, const std::string& source) {
  for (const VariableSet& set : kSets) {
    if (set.rank != source) continue;
    if (!variable(set.rank)) throw bad(source + " is not set");
    return read_set(variable, set);
  }
  throw Error(ErrorKind::internal, "rank variables: no set begins with " + source);
}

}  // namespace dettax
