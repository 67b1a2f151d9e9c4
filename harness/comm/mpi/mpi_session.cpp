#include "harness/comm/mpi_session.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <map>

#include "harness/base/error.h"
#include "harness/comm/group_communicator.h"
#include "harness/comm/mpi/mpi_transport.h"

namespace dettax {
namespace {

using Name = std::array<char, MPI_MAX_PROCESSOR_NAME>;

Name processor_name() {
  Name name{};
  int length = 0;
  check_mpi(MPI_Get_processor_name(name.data(), &length), "MPI_Get_processor_name");
  return name;
}

// Alike for all hosts that share a clock: namespaces and containers of one machine.
Name boot_name() {
  Name name{};
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  if (!file.getline(name.data(), static_cast<std::streamsize>(name.size())))
    return processor_name();
  return name;
}

std::vector<std::string> gather(Name name, int size) {
  std::vector<char> all(name.size() * static_cast<size_t>(size));
  check_mpi(MPI_Allgather(name.data(), static_cast<int>(name.size()), MPI_CHAR, all.data(),
                          static_cast<int>(name.size()), MPI_CHAR, MPI_COMM_WORLD),
            "MPI_Allgather");
  std::vector<std::string> hosts;
  for (size_t at = 0; at < all.size(); at += name.size()) hosts.emplace_back(all.data() + at);
  return hosts;
}

}  // namespace

std::string why_no_mpi() { return ""; }

class MpiSession::Impl {
 public:
  MpiJob job;
  std::vector<std::string> hosts = gather(processor_name(), job.size());
  std::vector<std::string> machines = gather(boot_name(), job.size());
  std::vector<std::unique_ptr<LinkEmulation>> links;  // one a communicator of all ranks
};

MpiSession::MpiSession() : impl_(std::make_unique<Impl>()) {}
MpiSession::~MpiSession() = default;
int MpiSession::rank() const { return impl_->job.rank(); }
int MpiSession::size() const { return impl_->job.size(); }
const std::vector<std::string>& MpiSession::hosts() const { return impl_->hosts; }

std::string MpiSession::library() const {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  check_mpi(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version");
  const std::string all(text.data(), static_cast<size_t>(length));
  return all.substr(0, all.find(','));
}

std::vector<int> MpiSession::node_of_rank() const {
  std::map<std::string, int> number;
  std::vector<int> nodes;
  for (const std::string& host : impl_->hosts)
    nodes.push_back(number.emplace(host, static_cast<int>(number.size())).first->second);
  return nodes;
}

std::unique_ptr<Communicator> MpiSession::communicator(bool spin, CollectiveSettings settings) {
  require_valid(settings, size());
  const bool several = std::ranges::any_of(impl_->machines, [&](const std::string& machine) {
    return machine != impl_->machines.front();
  });
  if (settings.emulates_links() && several)
    throw Error(
        ErrorKind::config,
        "links are emulated on one machine, but this job runs on several; leave out the links");
  if (settings.node_of_rank.empty()) settings.node_of_rank = node_of_rank();
  impl_->links.push_back(std::make_unique<LinkEmulation>(settings, size(), true));
  MPI_Comm all = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &all), "MPI_Comm_dup");
  return make_group_communicator(
      std::make_unique<MpiTransport>(impl_->job, *impl_->links.back(), all, spin), settings);
}

}  // namespace dettax
