#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/comm/communicator.h"

namespace dettax {

// Why this build has no MPI; empty where it has.
std::string why_no_mpi();

// This process as a rank of an MPI job, from MPI_Init to MPI_Finalize: one object a process, which
// outlives its communicators. A rank that aborts tells its reason to all others, whose current or
// next call throws it, in whatever group; the session then ends the job with MPI_Abort once all
// have come to its end, or after some seconds, so that mpirun or srun sees a failure.
class MpiSession {
 public:
  MpiSession();  // throws Error{unsupported} in a build without MPI
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  int rank() const;
  int size() const;
  std::string library() const;                    // name and version
  const std::vector<std::string>& hosts() const;  // of each rank
  // Hosts numbered in the order of their first ranks.
  std::vector<int> node_of_rank() const;

  // All ranks as one group; called by all at once. No nodes in the settings: those of the hosts.
  // `spin`: poll while waiting, else sleep between looks; switch it off when ranks and their
  // compute threads outnumber cores. Links can be emulated on one machine only.
  std::unique_ptr<Communicator> communicator(bool spin, CollectiveSettings settings = {});

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dettax
