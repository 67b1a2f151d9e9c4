#include "harness/comm/mpi/mpi_transport.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "harness/base/error.h"

namespace dettax {

MpiTransport::MpiTransport(MpiJob& job, LinkEmulation& links, MPI_Comm comm, bool spin)
    : job_(job), links_(links), comm_(comm), may_spin_(spin), spin_(spin) {
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  int size = 0;
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &size);
  std::vector<int> here(static_cast<size_t>(size));
  std::iota(here.begin(), here.end(), 0);
  members_.resize(here.size());
  MPI_Group mine = MPI_GROUP_NULL;
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Comm_group(comm_, &mine);
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  check_mpi(MPI_Group_translate_ranks(mine, size, here.data(), world, members_.data()),
            "MPI_Group_translate_ranks");
  MPI_Group_free(&mine);
  MPI_Group_free(&world);
  for (const int member : members_)
    nodes_.push_back(links_.node_of_rank()[static_cast<size_t>(member)]);
}

MpiTransport::~MpiTransport() {
  kept_.clear();
  // Freeing waits for nobody, but after an abort what is under way may still name it.
  if (!job_.aborted()) MPI_Comm_free(&comm_);
}

void MpiTransport::wait(Requests& requests) {
  for (Backoff backoff(spin_); !requests.done(); backoff()) {
    if (!backoff.now_and_then()) continue;
    job_.throw_if_aborted();
    if (abandoned_) throw Error(ErrorKind::infrastructure, "left in the middle of a collective");
  }
  requests.clear();
}

int MpiTransport::wait_for_any(Requests& requests) {
  for (Backoff backoff(spin_);; backoff()) {
    const int index = requests.any_done();
    if (index >= 0) return index;
    if (!backoff.now_and_then()) continue;
    job_.throw_if_aborted();
    if (abandoned_) throw Error(ErrorKind::infrastructure, "left in the middle of a collective");
  }
}

// On the thread of the caller, beside whatever collective is under way.
void MpiTransport::wait_for_message(Requests& requests) {
  for (Backoff backoff(may_spin_); !requests.done(); backoff()) {
    if (backoff.now_and_then()) job_.throw_if_aborted();
  }
}

int64_t MpiTransport::due_ns(int to, int64_t bytes) {
  return links_.arrival_ns(members_[static_cast<size_t>(rank_)], members_[static_cast<size_t>(to)],
                           bytes, steady_now_ns());
}

// Over emulated links the sender says when what it has sent would be there; all ranks read one
// clock, since they are on one machine. Less than no bytes: nothing is sent there.
void MpiTransport::wait_for_links(std::span<const int64_t> send_bytes, std::span<const int> from) {
  if (!links_.active()) return;
  std::vector<int64_t> sent(send_bytes.size());
  std::vector<int64_t> due(from.size());
  Requests requests;
  for (size_t to = 0; to < send_bytes.size(); ++to) {
    if (send_bytes[to] < 0) continue;
    sent[to] = due_ns(static_cast<int>(to), send_bytes[to]);
    requests.send(&sent[to], sizeof(int64_t), static_cast<int>(to), kStamp, comm_);
  }
  for (size_t i = 0; i < from.size(); ++i)
    requests.receive(&due[i], sizeof(int64_t), from[i], kStamp, comm_);
  wait(requests);
  if (!due.empty()) sleep_until(*std::ranges::max_element(due), job_);
}

void MpiTransport::exchange(const Exchange& exchange) {
  Requests sends;
  Requests receives;
  const int64_t send_bytes = exchange.send_count * exchange.element_bytes;
  const int64_t receive_bytes = exchange.receive_count * exchange.element_bytes;
  const bool sums = exchange.from >= 0 && exchange.addend != nullptr;
  // f32 in the pieces in which they are added, where they are.
  const int64_t piece = exchange.element_bytes == kFloat ? kPiece * kFloat : kLargest;
  char* target = static_cast<char*>(exchange.receive);
  const char* source = static_cast<const char*>(exchange.send);
  if (exchange.from >= 0 && !sums) {
    for (int64_t at = 0; at == 0 || at < receive_bytes; at += piece)
      receives.receive(target + at, std::min(piece, receive_bytes - at), exchange.from, kPart,
                       comm_);
  }
  if (exchange.to >= 0) {
    for (int64_t at = 0; at == 0 || at < send_bytes; at += piece)
      sends.send(source + at, std::min(piece, send_bytes - at), exchange.to, kPart, comm_);
  }
  if (links_.active()) {
    std::vector<int64_t> bytes(members_.size(), -1);
    if (exchange.to >= 0) bytes[static_cast<size_t>(exchange.to)] = send_bytes;
    const std::array from{exchange.from};
    wait_for_links(bytes, std::span(from).first(exchange.from >= 0 ? 1 : 0));
  }
  if (sums) receive_and_add(exchange);
  wait(receives);
  wait(sends);
}

bool MpiTransport::has_arrived(int from) {
  int found = 0;
  check_mpi(MPI_Iprobe(from, kPart, comm_, &found, MPI_STATUS_IGNORE), "MPI_Iprobe");
  return found != 0;
}

void MpiTransport::gather(const void* in, void* out, std::span<const Range> parts) {
  const int64_t own = parts[static_cast<size_t>(rank_)].size();
  char* to = static_cast<char*>(out);
  Requests requests;
  for (int i = 1; i < size(); ++i) {
    const int from = (rank_ + size() - i) % size();
    const Range& part = parts[static_cast<size_t>(from)];
    if (part.size() > 0) requests.receive(to + part.begin, part.size(), from, kPart, comm_);
  }
  for (int i = 1; i < size() && own > 0; ++i)
    requests.send(in, own, (rank_ + i) % size(), kPart, comm_);
  char* mine = to + parts[static_cast<size_t>(rank_)].begin;
  if (own > 0 && mine != in) std::memcpy(mine, in, static_cast<size_t>(own));
  wait_for_links_to_all([&](int) { return own; });
  wait(requests);
}

void MpiTransport::all_to_all(const void* in, std::span<const int64_t> send_bytes, void* out,
                              std::span<const int64_t> receive_bytes) {
  const char* from = static_cast<const char*>(in);
  char* to = static_cast<char*>(out);
  Requests requests;
  for (int r = 0; r < size(); ++r) {
    const int64_t sent = send_bytes[static_cast<size_t>(r)];
    const int64_t received = receive_bytes[static_cast<size_t>(r)];
    if (r == rank_ && received > 0) std::memcpy(to, from, static_cast<size_t>(received));
    if (r != rank_ && received > 0) requests.receive(to, received, r, kPart, comm_);
    if (r != rank_ && sent > 0) requests.send(from, sent, r, kPart, comm_);
    from += sent;
    to += received;
  }
  wait_for_links_to_all([&](int r) { return send_bytes[static_cast<size_t>(r)]; });
  wait(requests);
}

void MpiTransport::broadcast(void* data, int64_t bytes, int root) {
  Requests requests;
  char* at = static_cast<char*>(data);
  for (int64_t done = 0; done < bytes; done += kLargest)
    check_mpi(MPI_Ibcast(at + done, static_cast<int>(std::min(kLargest, bytes - done)), MPI_BYTE,
                         root, comm_, &requests.added(0)),
              "MPI_Ibcast");
  if (links_.active()) {
    std::vector<int64_t> sent(members_.size(), rank_ == root ? bytes : -1);
    sent[static_cast<size_t>(rank_)] = -1;
    const std::array from{root};
    wait_for_links(sent, std::span(from).first(rank_ == root ? 0 : 1));
  }
  wait(requests);
}

void MpiTransport::barrier() {
  Requests requests;
  check_mpi(MPI_Ibarrier(comm_, &requests.added(0)), "MPI_Ibarrier");
  wait(requests);
}

std::unique_ptr<Transport> MpiTransport::split(int colour, int key) {
  barrier();  // where an abort is heard; the call below then meets everybody
  MPI_Comm made = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(comm_, colour, key, &made), "MPI_Comm_split");
  return std::make_unique<MpiTransport>(job_, links_, made, may_spin_);
}

}  // namespace dettax
