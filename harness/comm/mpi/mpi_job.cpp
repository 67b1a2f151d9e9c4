#include "harness/comm/mpi/mpi_job.h"

#include <algorithm>
#include <cstring>
#include <exception>

#include <hwy/cache_control.h>

#include "harness/base/error.h"
#include "harness/base/exit_code.h"
#include "harness/comm/link_emulation.h"

namespace dettax {
namespace {

constexpr auto kGrace = std::chrono::seconds(3);

}  // namespace

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw Error(ErrorKind::infrastructure,
              std::string(call) + ": " + std::string(text.data(), static_cast<size_t>(length)));
}

void Backoff::operator()() {
  ++looks_;
  if (spin_) {
    looks_ % 1024 == 0 ? std::this_thread::yield() : hwy::Pause();
  } else if (looks_ < 32) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(looks_ < 128 ? 20 : 200));
  }
}

MpiJob::MpiJob() {
  int already = 0;
  check_mpi(MPI_Initialized(&already), "MPI_Initialized");
  if (already != 0) throw Error(ErrorKind::internal, "MPI is initialised already");
  int provided = 0;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
  if (provided < MPI_THREAD_MULTIPLE) {
    MPI_Finalize();
    throw Error(ErrorKind::unsupported, "this MPI library does not allow calls from many threads");
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &control_), "MPI_Comm_dup");
  mover_ = std::make_unique<Mover>(control_);
  listen();
}

void MpiJob::listen() {
  check_mpi(MPI_Irecv(incoming_.data(), static_cast<int>(incoming_.size()), MPI_CHAR,
                      MPI_ANY_SOURCE, 0, control_, &incoming_request_),
            "MPI_Irecv");
}

void MpiJob::abort(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (aborted_) return;
  reason_ = reason;
  const size_t length = std::min(reason.size(), outgoing_.size() - 1);
  std::memcpy(outgoing_.data(), reason.data(), length);
  outgoing_requests_.assign(static_cast<size_t>(size_), MPI_REQUEST_NULL);
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) continue;
    MPI_Isend(outgoing_.data(), static_cast<int>(length + 1), MPI_CHAR, r, 0, control_,
              &outgoing_requests_[static_cast<size_t>(r)]);
  }
  aborted_ = true;
}

bool MpiJob::aborted() {
  if (aborted_) return true;
  const std::lock_guard lock(mutex_);
  int arrived = 0;
  if (!aborted_ && incoming_request_ != MPI_REQUEST_NULL)
    check_mpi(MPI_Test(&incoming_request_, &arrived, MPI_STATUS_IGNORE), "MPI_Test");
  if (arrived != 0) {
    reason_ = incoming_.data();
    aborted_ = true;
  }
  return aborted_;
}

void MpiJob::throw_if_aborted() {
  if (!aborted()) return;
  const std::lock_guard lock(mutex_);
  throw Error(ErrorKind::infrastructure, reason_);
}

MpiJob::~MpiJob() {
  // A rank that is being unwound and has told nobody would leave the others waiting.
  if (std::uncaught_exceptions() > 0)
    abort("rank " + std::to_string(rank_) + " ended in the middle of the job");
  mover_.reset();
  if (aborted()) end();
  MPI_Cancel(&incoming_request_);
  MPI_Wait(&incoming_request_, MPI_STATUS_IGNORE);
  MPI_Comm_free(&control_);
  MPI_Finalize();
}

// Gives the others the time to hear the reason and to do their last things.
void MpiJob::end() {
  MPI_Request all = MPI_REQUEST_NULL;
  MPI_Ibarrier(control_, &all);
  int done = 0;
  Backoff backoff(false);
  for (const auto until = std::chrono::steady_clock::now() + kGrace;
       done == 0 && std::chrono::steady_clock::now() < until; backoff())
    MPI_Test(&all, &done, MPI_STATUS_IGNORE);
  MPI_Abort(MPI_COMM_WORLD, static_cast<int>(ExitCode::infrastructure));
}

void sleep_until(int64_t due_ns, MpiJob& job) {
  constexpr int64_t kSliceNs = 5'000'000;
  for (int64_t now = 0; due_ns > 0 && (now = steady_now_ns()) < due_ns;) {
    job.throw_if_aborted();
    std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(kSliceNs, due_ns - now)));
  }
}

}  // namespace dettax
