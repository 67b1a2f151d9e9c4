#include "harness/base/error.h"
#include "harness/comm/mpi_session.h"

namespace dettax {

std::string why_no_mpi() {
  return "this build has no MPI: install libopenmpi-dev and openmpi-bin, and configure again";
}

class MpiSession::Impl {};

MpiSession::MpiSession() { throw Error(ErrorKind::unsupported, why_no_mpi()); }
MpiSession::~MpiSession() = default;
int MpiSession::rank() const { throw Error(ErrorKind::unsupported, why_no_mpi()); }
int MpiSession::size() const { throw Error(ErrorKind::unsupported, why_no_mpi()); }
std::string MpiSession::library() const { throw Error(ErrorKind::unsupported, why_no_mpi()); }
const std::vector<std::string>& MpiSession::hosts() const {
  throw Error(ErrorKind::unsupported, why_no_mpi());
}
std::vector<int> MpiSession::node_of_rank() const {
  throw Error(ErrorKind::unsupported, why_no_mpi());
}
std::unique_ptr<Communicator> MpiSession::communicator(bool, CollectiveSettings) {
  throw Error(ErrorKind::unsupported, why_no_mpi());
}

}  // namespace dettax
