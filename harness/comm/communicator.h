#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/plan/knobs.h"

namespace dettax {

// What went over a communicator since it was made, per kind of collective. Evidence that a layout
// does what it says.
struct CommunicationStats {
  int64_t calls = 0;
  int64_t bytes = 0;  // payload of this rank
  int64_t time_ns = 0;
};

// A group of ranks. Every rank calls the same operations in the same order. Sums are over f32;
// `order` says how:
//  arrival    each rank's part is added when it gets there
//  ordered    ((r0 + r1) + r2) + ... in rank order
//  invariant  binary tree over ranks aligned at rank 0, (r0+r1)+(r2+r3): with a power of two of
//  ranks it continues the tree over
//             samples of Ops, so that bits do not depend on how samples are spread over ranks
// A rank that fails calls abort(); every other rank's current or next call then throws
// Error{infrastructure} with that reason.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Ranks with the same colour form a group, ordered by key, then by rank here.
  virtual std::unique_ptr<Communicator> split(int colour, int key) = 0;

  virtual void all_reduce(float* data, int64_t count, Order order) = 0;
  // out[count] = this rank's part (rank * count ...) of the sum over in[count * size].
  virtual void reduce_scatter(const float* in, float* out, int64_t count, Order order) = 0;
  virtual void all_gather(const void* in, void* out, int64_t bytes) = 0;
  virtual void broadcast(void* data, int64_t bytes, int root) = 0;
  // Part p of in (bytes each) goes to rank p; part p of out came from rank p.
  virtual void all_to_all(const void* in, void* out, int64_t bytes) = 0;
  virtual void send(const void* data, int64_t bytes, int to) = 0;
  virtual void receive(void* data, int64_t bytes, int from) = 0;
  virtual void barrier() = 0;
  virtual void abort(const std::string& reason) = 0;

  virtual CommunicationStats stats() const = 0;
};

// `ranks` communicators of one group over threads of this process, index = rank. Each is used by
// one thread at a time. `spin`: poll before sleeping; switch it off when ranks and their compute
// threads outnumber cores.
std::vector<std::unique_ptr<Communicator>> make_thread_communicators(int ranks, bool spin);

// Runs body(communicator) for each rank in a thread of its own and waits for all. The first
// exception aborts the group and is rethrown here, prefixed with its rank.
void run_ranks(int ranks, bool spin, const std::function<void(Communicator&)>& body);

}  // namespace dettax
