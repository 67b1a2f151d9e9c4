#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "harness/comm/request.h"
#include "harness/plan/knobs.h"

namespace dettax {

struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};

// A sum over ranks of f32 vectors of equal length, of which each rank makes one part.
struct Reduction {
  const float* in = nullptr;
  float* out = nullptr;  // to_all: the whole vector, else the place of this rank's part
  std::span<const Range> parts;
  Order order = Order::ordered;
  bool to_all = false;  // every rank gets every part
};

// One step between neighbours: something goes to one rank while something comes from another.
struct Exchange {
  const void* send = nullptr;
  int64_t send_count = 0;
  int to = -1;  // nobody
  void* receive = nullptr;
  int64_t receive_count = 0;
  int from = -1;
  // f32: what is received is added to this; it may be where it is received. None: it is only
  // copied.
  const float* addend = nullptr;
  int64_t element_bytes = sizeof(float);
};
inline Exchange bytes_exchange(const void* send, int64_t send_bytes, int to, void* receive,
                               int64_t receive_bytes, int from) {
  return {send, send_bytes, to, receive, receive_bytes, from, nullptr, 1};
}

// What a group of ranks is made of: the few operations that all collectives are built from. One
// thread at a time, except for the messages between two ranks, which go their own way.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const std::vector<int>& node_of_rank() const = 0;
  virtual std::unique_ptr<Transport> split(int colour, int key) = 0;

  virtual void reduce(const Reduction& reduction) = 0;
  virtual void exchange(const Exchange& exchange) = 0;
  virtual bool has_arrived(int from) = 0;  // an exchange would find its part already there
  // in[parts[rank].size()] of every rank to out + parts[rank].begin on all. Bytes.
  virtual void gather(const void* in, void* out, std::span<const Range> parts) = 0;
  virtual void all_to_all(const void* in, std::span<const int64_t> send_bytes, void* out,
                          std::span<const int64_t> receive_bytes) = 0;
  virtual void broadcast(void* data, int64_t bytes, int root) = 0;
  virtual void barrier() = 0;

  virtual void send(const void* data, int64_t bytes, int to) = 0;
  virtual std::unique_ptr<Request::Operation> start_send(const void* data, int64_t bytes,
                                                         int to) = 0;
  virtual std::unique_ptr<Request::Operation> start_receive(void* data, int64_t bytes,
                                                            int from) = 0;

  virtual void abort(const std::string& reason) = 0;
  // This rank leaves the collective it is in, for a reason that abort() will tell later: what waits
  // in it on another thread throws, and no other rank touches its memory any more.
  virtual void abandon() = 0;
  virtual void set_spin(bool spin) = 0;  // whether to poll before sleeping
};

}  // namespace dettax
