#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "harness/comm/collective_settings.h"
#include "harness/comm/communication_listener.h"
#include "harness/comm/operation_kind.h"
#include "harness/comm/request.h"
#include "harness/plan/knobs.h"

namespace dettax {

// What went over a communicator since it was made. Evidence that a layout does what it says.
struct OperationStats {
  int64_t calls = 0;
  int64_t bytes = 0;       // payload of this rank
  int64_t time_ns = 0;     // spent in the operation, other ranks waited for included
  int64_t exposed_ns = 0;  // that its caller waited for: less than time_ns where overlapped
};
struct CommunicationStats : OperationStats {  // barriers are not in the sums
  bool links_emulated = false;                // times are those of links that do not exist
  std::array<OperationStats, kOperationKinds> kinds{};
  const OperationStats& of(OperationKind kind) const { return kinds[static_cast<size_t>(kind)]; }
};

// A group of ranks. Every rank calls the same collectives in the same order, started ones among
// them: they are done one after the other in that order, those of another communicator, also of one
// made by split(), independently of them. Messages from one rank to another are received in the
// order in which they were sent, and do not wait for collectives. Sums are over f32; `order` says
// how:
//  arrival    each rank's part is added when it gets there
//  ordered    in the order of the algorithm, ((r0 + r1) + r2) + ... for the direct one
//  invariant  binary tree over ranks aligned at rank 0, (r0+r1)+(r2+r3), whatever the algorithm:
//             with a power of two of ranks it continues the tree over samples of Ops, so that bits
//             do not depend on how samples are spread over ranks
// A rank that fails calls abort(); every other rank's current or next call, wait() included, then
// throws Error{infrastructure} with that reason.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Ranks with the same colour form a group, ordered by key, then by rank here.
  virtual std::unique_ptr<Communicator> split(int colour, int key) = 0;

  virtual void all_reduce(float* data, int64_t count, Order order) = 0;
  // out[count] = this rank's part (rank * count ...) of the sum over in[count * size]; it may be
  // that part of `in`.
  virtual void reduce_scatter(const float* in, float* out, int64_t count, Order order) = 0;
  // `in` may be this rank's place in `out`.
  virtual void all_gather(const void* in, void* out, int64_t bytes) = 0;
  virtual void broadcast(void* data, int64_t bytes, int root) = 0;
  // Part p of in (bytes each) goes to rank p; part p of out came from rank p.
  virtual void all_to_all(const void* in, void* out, int64_t bytes) = 0;
  // The same with parts of any size, one behind the other in the order of ranks.
  virtual void all_to_all_v(const void* in, std::span<const int64_t> send_bytes, void* out,
                            std::span<const int64_t> receive_bytes) = 0;
  // One message is taken even if nobody receives it yet; the next waits until that one is received.
  virtual void send(const void* data, int64_t bytes, int to) = 0;
  virtual void receive(void* data, int64_t bytes, int from) = 0;
  virtual void barrier() = 0;
  virtual void abort(const std::string& reason) = 0;

  // The same operations, going on while the caller computes: results are there, and buffers may be
  // touched, after wait().
  virtual Request start_all_reduce(float* data, int64_t count, Order order) = 0;
  virtual Request start_reduce_scatter(const float* in, float* out, int64_t count, Order order) = 0;
  virtual Request start_all_gather(const void* in, void* out, int64_t bytes) = 0;
  virtual Request start_all_to_all(const void* in, void* out, int64_t bytes) = 0;
  virtual Request start_all_to_all_v(const void* in, std::span<const int64_t> send_bytes, void* out,
                                     std::span<const int64_t> receive_bytes) = 0;
  virtual Request start_send(const void* data, int64_t bytes, int to) = 0;
  virtual Request start_receive(void* data, int64_t bytes, int from) = 0;

  // Tells `listener` of every operation that is waited for from now on, under this name, which is the
  // same on every rank of the group and no other group's; null: nobody. It must outlive its use.
  virtual void listen(CommunicationListener* listener, const std::string& group_name) = 0;

  virtual const CollectiveSettings& settings() const = 0;
  virtual CommunicationStats stats() const = 0;
};

// `ranks` communicators of one group over threads of this process, index = rank. Each is used by
// one thread at a time. `spin`: poll before sleeping; switch it off when ranks and their compute
// threads outnumber cores.
std::vector<std::unique_ptr<Communicator>> make_thread_communicators(
    int ranks, bool spin, const CollectiveSettings& settings = {});

// Runs body(communicator) for each rank in a thread of its own and waits for all. The first
// exception aborts the group and is rethrown here, prefixed with its rank.
void run_ranks(int ranks, bool spin, const std::function<void(Communicator&)>& body);
void run_ranks(int ranks, bool spin, const CollectiveSettings& settings,
               const std::function<void(Communicator&)>& body);

}  // namespace dettax
