#pragma once

#include <functional>
#include <optional>
#include <string>

namespace dettax {

// Who this process is among its like, as its launcher told it.
struct RankVariables {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  std::string source;  // "RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK" or "PMIX_RANK"
};

// Value of an environment variable, nothing if it is not set.
using VariableLookup = std::function<std::optional<std::string>(const std::string&)>;
VariableLookup process_variables();

// The first set of variables that is there: RANK, WORLD_SIZE, LOCAL_RANK; then SLURM_PROCID,
// SLURM_NTASKS, SLURM_LOCALID; then OMPI_COMM_WORLD_* and PMIX_RANK. A set is taken whole, never
// mixed with another: a Slurm task that starts four processes has SLURM_PROCID 0 in all of them.
// Nothing if no launcher said anything. Error{config} in one line for a set that is incomplete, that
// contradicts itself or another one, or that LOCAL_RANK alone makes ambiguous.
std::optional<RankVariables> find_rank_variables(const VariableLookup& variable);

// The set whose first variable is `source`, for a process that knows what started it: mpirun inside
// a Slurm job leaves Slurm's own variables of the batch step in all of its ranks. Error{config} if it
// is not there whole.
RankVariables read_rank_variables(const VariableLookup& variable, const std::string& source);

}  // namespace dettax
