#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "harness/comm/link_emulation.h"
#include "harness/comm/mpi/mpi_job.h"
#include "harness/comm/mpi/mpi_requests.h"
#include "harness/comm/transport.h"

namespace dettax {

enum MpiTag : int { kPart = 1, kSum, kMessage, kStamp, kMessageStamp };

inline constexpr auto kFloat = static_cast<int64_t>(sizeof(float));
// Vectors are summed in pieces, so that one is on its way while the other is added.
inline constexpr int64_t kPiece = 128 * 1024;  // floats
inline constexpr int64_t kDepth = 4;           // pieces on their way

// The ways of a group over MPI. Reductions are in mpi_reduce.cpp, messages in mpi_message.cpp.
class MpiTransport : public Transport {
 public:
  MpiTransport(MpiJob& job, LinkEmulation& links, MPI_Comm comm, bool spin);
  ~MpiTransport() override;
  MpiTransport(const MpiTransport&) = delete;
  MpiTransport& operator=(const MpiTransport&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  const std::vector<int>& node_of_rank() const override { return nodes_; }
  std::unique_ptr<Transport> split(int colour, int key) override;
  void reduce(const Reduction& reduction) override;
  void exchange(const Exchange& exchange) override;
  bool has_arrived(int from) override;
  void gather(const void* in, void* out, std::span<const Range> parts) override;
  void all_to_all(const void* in, std::span<const int64_t> send_bytes, void* out,
                  std::span<const int64_t> receive_bytes) override;
  void broadcast(void* data, int64_t bytes, int root) override;
  void barrier() override;
  void send(const void* data, int64_t bytes, int to) override;
  std::unique_ptr<Request::Operation> start_send(const void* data, int64_t bytes, int to) override;
  std::unique_ptr<Request::Operation> start_receive(void* data, int64_t bytes, int from) override;
  void abort(const std::string& reason) override { job_.abort(reason); }
  void abandon() override { abandoned_ = true; }
  void set_spin(bool spin) override { spin_ = spin && may_spin_; }

 private:
  class Message;
  class Summation;
  struct Kept {  // a message that was sent before anybody asked for it
    std::vector<char> content;
    int64_t due_ns = 0;
    Requests requests;
  };

  void wait(Requests& requests);
  void wait_for_message(Requests& requests);
  int wait_for_any(Requests& requests);
  int64_t due_ns(int to, int64_t bytes);
  void wait_for_links(std::span<const int64_t> send_bytes, std::span<const int> from);
  template <typename Bytes>
  void wait_for_links_to_all(const Bytes& bytes_to);
  void receive_and_add(const Exchange& exchange);
  void reduce_at_each(const Reduction& reduction);
  void make_room(int64_t floats);
  static void sum(std::span<const float* const> inputs, float* out, int64_t count, Order order);

  MpiJob& job_;
  LinkEmulation& links_;
  MPI_Comm comm_;
  int rank_ = 0;
  std::vector<int> members_, nodes_;  // ranks of the job, and their nodes
  const bool may_spin_;
  bool spin_;
  std::atomic<bool> abandoned_{false};
  std::vector<float> scratch_;
  // Of small reductions, kept because a new one costs as much as the message: after scratch_, which
  // they receive into.
  Requests small_;
  std::vector<const float*> small_inputs_;
  std::map<int, std::unique_ptr<Kept>> kept_;
};

template <typename Bytes>
void MpiTransport::wait_for_links_to_all(const Bytes& bytes_to) {
  if (!links_.active()) return;
  std::vector<int64_t> bytes(members_.size(), -1);
  std::vector<int> from;
  for (int r = 0; r < size(); ++r) {
    if (r == rank_) continue;
    bytes[static_cast<size_t>(r)] = bytes_to(r);
    from.push_back(r);
  }
  wait_for_links(bytes, from);
}

}  // namespace dettax
