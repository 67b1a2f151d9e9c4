#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "harness/comm/mpi/mpi_job.h"

namespace dettax {

inline constexpr int64_t kLargest = int64_t{1} << 30U;  // bytes of one MPI message: counts are ints

// Requests that are waited for together. Those left over, when something was thrown meanwhile, are
// cancelled; a send that has gone out already gets a moment to end.
class Requests {
 public:
  Requests() = default;
  ~Requests() { let_go(); }
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  void send(const void* data, int64_t bytes, int to, int tag, MPI_Comm comm) {
    const char* at = static_cast<const char*>(data);
    do {
      const int64_t part = std::min(bytes, kLargest);
      check_mpi(MPI_Isend(at, static_cast<int>(part), MPI_BYTE, to, tag, comm, &added(0)),
                "MPI_Isend");
      at += part;
      bytes -= part;
    } while (bytes > 0);
  }
  void receive(void* data, int64_t bytes, int from, int tag, MPI_Comm comm) {
    char* at = static_cast<char*>(data);
    do {
      const int64_t part = std::min(bytes, kLargest);
      check_mpi(MPI_Irecv(at, static_cast<int>(part), MPI_BYTE, from, tag, comm, &added(part)),
                "MPI_Irecv");
      at += part;
      bytes -= part;
    } while (bytes > 0);
  }
  MPI_Request& added(int64_t expected_bytes) {
    expected_bytes_.push_back(expected_bytes);
    return requests_.emplace_back(MPI_REQUEST_NULL);
  }

  bool empty() const { return requests_.empty(); }
  bool done() {
    int all = 0;
    statuses_.resize(requests_.size());
    const int code =
        MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &all, statuses_.data());
    if (code == MPI_ERR_IN_STATUS) {
      for (const MPI_Status& status : statuses_) check_mpi(status.MPI_ERROR, "MPI_Testall");
    }
    check_mpi(code, "MPI_Testall");
    return all != 0;
  }
  // The index of one that is done, if any.
  int any_done() {
    int index = MPI_UNDEFINED;
    int found = 0;
    check_mpi(MPI_Testany(static_cast<int>(requests_.size()), requests_.data(), &index, &found,
                          MPI_STATUS_IGNORE),
              "MPI_Testany");
    return found != 0 && index != MPI_UNDEFINED ? index : -1;
  }
  // Bytes that came less than asked for, after done().
  int64_t missing_bytes() const {
    int64_t missing = 0;
    for (size_t i = 0; i < statuses_.size(); ++i) {
      int bytes = 0;
      MPI_Get_count(&statuses_[i], MPI_BYTE, &bytes);
      if (expected_bytes_[i] > 0) missing += expected_bytes_[i] - bytes;
    }
    return missing;
  }
  void clear() {
    requests_.clear();
    expected_bytes_.clear();
  }

  // Cancels what is left; what has been waited for leaves nothing.
  void let_go() {
    if (requests_.empty()) return;
    std::erase(requests_, MPI_REQUEST_NULL);
    for (MPI_Request& request : requests_) MPI_Cancel(&request);
    int all = requests_.empty() ? 1 : 0;
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
    while (all == 0 && std::chrono::steady_clock::now() < until) {
      MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &all, MPI_STATUSES_IGNORE);
      std::this_thread::yield();
    }
    for (MPI_Request& request : requests_) {
      if (all == 0 && request != MPI_REQUEST_NULL) MPI_Request_free(&request);
    }
    clear();
  }

 private:
  std::vector<MPI_Request> requests_;
  std::vector<int64_t> expected_bytes_;  // 0: of a send
  std::vector<MPI_Status> statuses_;
};

}  // namespace dettax
