#pragma once

#include <string>

namespace dettax {

// Serves one rank in a process of its own, which mpirun or srun has started: connects to the
// launcher at `addresses`, takes its rank from the variables that begin with `rank_variable`, and
// answers requests until the launcher says exit. Between requests every thread sleeps, and no MPI
// call is pending. When the launcher is gone it ends the process, whatever that is doing: nobody
// would hear of it any more.
void run_rank_worker(const std::string& addresses, const std::string& rank_variable);

}  // namespace dettax
