#define OMPI_SKIP_MPICXX 1
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

#include <hwy/cache_control.h>
#include <mpi.h>

#include "harness/base/error.h"
#include "harness/base/exit_code.h"
#include "harness/comm/group_communicator.h"
#include "harness/comm/link_emulation.h"
#include "harness/comm/mpi_session.h"
#include "harness/comm/reduce.h"
#include "harness/comm/transport.h"

namespace dettax {
namespace {

enum Tag : int { kPart = 1, kSum, kMessage, kStamp, kMessageStamp };

constexpr auto kFloat = static_cast<int64_t>(sizeof(float));
constexpr int64_t kLargest = int64_t{1} << 30U;  // bytes of one MPI message: counts are ints
// Vectors are summed in pieces, so that one is on its way while the other is added.
constexpr int64_t kPiece = 64 * 1024;  // floats
constexpr int64_t kDepth = 4;          // pieces on their way
constexpr int64_t kSmall = 16 * 1024;  // bytes to one rank that cost less than one more way
constexpr auto kGrace = std::chrono::seconds(3);

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw Error(ErrorKind::infrastructure,
              std::string(call) + ": " + std::string(text.data(), static_cast<size_t>(length)));
}

// Between two looks at whether something has happened.
class Backoff {
 public:
  explicit Backoff(bool spin) : spin_(spin) {}
  void operator()() {
    ++looks_;
    if (spin_) {
      looks_ % 1024 == 0 ? std::this_thread::yield() : hwy::Pause();
    } else if (looks_ < 32) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(looks_ < 128 ? 20 : 200));
    }
  }
  bool now_and_then() const { return looks_ % 16 == 0; }

 private:
  const bool spin_;
  unsigned looks_ = 0;
};

// Open MPI moves large messages only inside its calls. While messages are under way behind the
// caller's back, this makes some, the fewer the longer they take.
class Mover {
 public:
  explicit Mover(MPI_Comm comm) : comm_(comm), thread_([this] { loop(); }) {}
  ~Mover() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  Mover(const Mover&) = delete;
  Mover& operator=(const Mover&) = delete;

  void add(int messages) {
    {
      const std::lock_guard lock(mutex_);
      under_way_ += messages;
      pause_ = kShortest;
    }
    if (messages > 0) changed_.notify_one();
  }

 private:
  static constexpr auto kShortest = std::chrono::microseconds(50);

  void loop() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stopping_ || under_way_ > 0; });
      if (stopping_) return;
      const auto pause = pause_;
      lock.unlock();
      int found = 0;
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &found, MPI_STATUS_IGNORE);
      std::this_thread::sleep_for(pause);
      lock.lock();
      pause_ = std::min(2 * pause, std::chrono::microseconds(1000));
    }
  }

  const MPI_Comm comm_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int under_way_ = 0;
  std::chrono::microseconds pause_ = kShortest;
  bool stopping_ = false;
  std::thread thread_;  // last: it uses what stands above
};

// What all groups of a process share: the reason to stop, if any rank has one.
class Job {
 public:
  Job();
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  Mover& mover() { return *mover_; }
  void abort(const std::string& reason);
  bool aborted();  // looks for what others have sent
  void throw_if_aborted();

 private:
  using Text = std::array<char, 1024>;
  void listen();
  void end();

  int rank_ = 0;
  int size_ = 0;
  MPI_Comm control_ = MPI_COMM_NULL;
  std::mutex mutex_;
  Text outgoing_{}, incoming_{};
  MPI_Request incoming_request_ = MPI_REQUEST_NULL;
  std::vector<MPI_Request> outgoing_requests_;
  std::atomic<bool> aborted_{false};
  std::string reason_;
  std::unique_ptr<Mover> mover_;
};

Job::Job() {
  int already = 0;
  check(MPI_Initialized(&already), "MPI_Initialized");
  if (already != 0) throw Error(ErrorKind::internal, "MPI is initialised already");
  int provided = 0;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
  if (provided < MPI_THREAD_MULTIPLE) {
    MPI_Finalize();
    throw Error(ErrorKind::unsupported, "this MPI library does not allow calls from many threads");
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  check(MPI_Comm_dup(MPI_COMM_WORLD, &control_), "MPI_Comm_dup");
  mover_ = std::make_unique<Mover>(control_);
  listen();
}

void Job::listen() {
  check(MPI_Irecv(incoming_.data(), static_cast<int>(incoming_.size()), MPI_CHAR, MPI_ANY_SOURCE, 0,
                  control_, &incoming_request_),
        "MPI_Irecv");
}

void Job::abort(const std::string& reason) {
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

bool Job::aborted() {
  if (aborted_) return true;
  const std::lock_guard lock(mutex_);
  int arrived = 0;
  if (!aborted_ && incoming_request_ != MPI_REQUEST_NULL)
    check(MPI_Test(&incoming_request_, &arrived, MPI_STATUS_IGNORE), "MPI_Test");
  if (arrived != 0) {
    reason_ = incoming_.data();
    aborted_ = true;
  }
  return aborted_;
}

void Job::throw_if_aborted() {
  if (!aborted()) return;
  const std::lock_guard lock(mutex_);
  throw Error(ErrorKind::infrastructure, reason_);
}

Job::~Job() {
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
void Job::end() {
  MPI_Request all = MPI_REQUEST_NULL;
  MPI_Ibarrier(control_, &all);
  int done = 0;
  Backoff backoff(false);
  for (const auto until = std::chrono::steady_clock::now() + kGrace;
       done == 0 && std::chrono::steady_clock::now() < until; backoff())
    MPI_Test(&all, &done, MPI_STATUS_IGNORE);
  MPI_Abort(MPI_COMM_WORLD, static_cast<int>(ExitCode::infrastructure));
}

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
      check(MPI_Isend(at, static_cast<int>(part), MPI_BYTE, to, tag, comm, &added(0)), "MPI_Isend");
      at += part;
      bytes -= part;
    } while (bytes > 0);
  }
  void receive(void* data, int64_t bytes, int from, int tag, MPI_Comm comm) {
    char* at = static_cast<char*>(data);
    do {
      const int64_t part = std::min(bytes, kLargest);
      check(MPI_Irecv(at, static_cast<int>(part), MPI_BYTE, from, tag, comm, &added(part)),
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
      for (const MPI_Status& status : statuses_) check(status.MPI_ERROR, "MPI_Testall");
    }
    check(code, "MPI_Testall");
    return all != 0;
  }
  // The index of one that is done, if any.
  int any_done() {
    int index = MPI_UNDEFINED;
    int found = 0;
    check(MPI_Testany(static_cast<int>(requests_.size()), requests_.data(), &index, &found,
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

 private:
  void let_go() {
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
  }

  std::vector<MPI_Request> requests_;
  std::vector<int64_t> expected_bytes_;  // 0: of a send
  std::vector<MPI_Status> statuses_;
};

void sleep_until(int64_t due_ns, Job& job) {
  constexpr int64_t kSlice_ns = 5'000'000;
  for (int64_t now = 0; due_ns > 0 && (now = steady_now_ns()) < due_ns;) {
    job.throw_if_aborted();
    std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(kSlice_ns, due_ns - now)));
  }
}

class MpiTransport : public Transport {
 public:
  MpiTransport(Job& job, LinkEmulation& links, MPI_Comm comm, bool spin);
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

  Job& job_;
  LinkEmulation& links_;
  MPI_Comm comm_;
  int rank_ = 0;
  std::vector<int> members_, nodes_;  // ranks of the job, and their nodes
  const bool may_spin_;
  bool spin_;
  std::atomic<bool> abandoned_{false};
  std::vector<float> scratch_;
  std::map<int, std::unique_ptr<Kept>> kept_;
};

MpiTransport::MpiTransport(Job& job, LinkEmulation& links, MPI_Comm comm, bool spin)
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
  check(MPI_Group_translate_ranks(mine, size, here.data(), world, members_.data()),
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

// One reduction. All pieces of the others' parts are sent at once; those of this rank's part are added
// as they come, some on their way meanwhile. Where all want the whole, the parts are then handed out.
class MpiTransport::Summation {
 public:
  Summation(MpiTransport& transport, const Reduction& reduction)
      : t_(transport),
        r_(reduction),
        own_(r_.parts[static_cast<size_t>(t_.rank_)]),
        pieces_((own_.size() + kPiece - 1) / kPiece),
        room_(std::min(kPiece, own_.size())),
        own_out_(r_.out + (r_.to_all ? own_.begin : 0)) {
    t_.make_room(kDepth * t_.size() * room_);
  }

  void run() {
    for (int64_t k = 0; k < kDepth; ++k) ask_for(k);
    for_others([this](int other, const Range& part) {
      for (int64_t at = part.begin; at < part.end; at += kPiece)
        sends_.send(r_.in + at, std::min(kPiece, part.end - at) * kFloat, other, kPart, t_.comm_);
    });
    t_.wait_for_links_to_all(
        [this](int r) { return r_.parts[static_cast<size_t>(r)].size() * kFloat; });
    for (int64_t k = 0; k < pieces_; ++k) {
      add(k);
      ask_for(k + kDepth);
    }
    t_.wait(sends_);
    if (r_.to_all) hand_out();
  }

 private:
  // What comes of one piece of this rank's part.
  struct Coming {
    Requests requests;
    std::vector<int> senders;
  };
  Coming& coming(int64_t k) { return coming_[static_cast<size_t>(k % kDepth)]; }
  float* room(int from, int64_t k) const {
    return t_.scratch_.data() + (k % kDepth * t_.size() + from) * room_;
  }
  int64_t size_of(int64_t k) const { return std::min(kPiece, own_.size() - k * kPiece); }

  template <typename Do>
  void for_others(const Do& act) const {
    for (int i = 1; i < t_.size(); ++i) {
      const int other = (t_.rank_ + i) % t_.size();
      act(other, r_.parts[static_cast<size_t>(other)]);
    }
  }

  void ask_for(int64_t k) {
    if (k >= pieces_) return;
    coming(k).senders.clear();
    for_others([&](int other, const Range&) {
      coming(k).requests.receive(room(other, k), size_of(k) * kFloat, other, kPart, t_.comm_);
      coming(k).senders.push_back(other);
    });
  }

  void add(int64_t k) {
    if (r_.order == Order::arrival) {
      add_as_they_arrive(k);
      return;
    }
    t_.wait(coming(k).requests);
    std::vector<const float*> inputs;
    for (int r = 0; r < t_.size(); ++r) inputs.push_back(r == t_.rank_ ? own_in(k) : room(r, k));
    t_.sum(inputs, own_out_ + k * kPiece, size_of(k), r_.order);
  }

  void add_as_they_arrive(int64_t k) {
    float* out = own_out_ + k * kPiece;
    const float* sum = own_in(k);
    for (int left = t_.size() - 1; left > 0; --left) {
      const auto index = static_cast<size_t>(t_.wait_for_any(coming(k).requests));
      const std::array inputs{sum, static_cast<const float*>(room(coming(k).senders[index], k))};
      t_.sum(inputs, out, size_of(k), r_.order);
      sum = out;
    }
    coming(k).requests.clear();
  }
  const float* own_in(int64_t k) const { return r_.in + own_.begin + k * kPiece; }

  // What comes here lies where parts were sent from before; they have gone.
  void hand_out() {
    Requests requests;
    for_others([&](int other, const Range& part) {
      if (part.size() > 0)
        requests.receive(r_.out + part.begin, part.size() * kFloat, other, kSum, t_.comm_);
    });
    for_others([&](int other, const Range&) {
      if (own_.size() > 0) requests.send(own_out_, own_.size() * kFloat, other, kSum, t_.comm_);
    });
    t_.wait_for_links_to_all([this](int) { return own_.size() * kFloat; });
    t_.wait(requests);
  }

  MpiTransport& t_;
  const Reduction& r_;
  const Range own_;
  const int64_t pieces_, room_;
  float* const own_out_;
  std::array<Coming, kDepth> coming_;
  Requests sends_;
};

void MpiTransport::make_room(int64_t floats) {
  scratch_.resize(std::max(scratch_.size(), static_cast<size_t>(floats)));
}

void MpiTransport::sum(std::span<const float* const> inputs, float* out, int64_t count,
                       Order order) {
  const std::array outputs{out};
  if (order == Order::invariant) {
    sum_as_tree(inputs, outputs, count);
  } else {
    sum_in_sequence(inputs, outputs, count);
  }
}

// One way instead of there and back: every rank gets all and adds all, in the one order that is
// fixed.
void MpiTransport::reduce_at_each(const Reduction& reduction) {
  const int64_t count = reduction.parts.back().end;
  make_room(count * size());
  Requests requests;
  std::vector<const float*> inputs;
  for (int r = 0; r < size(); ++r) {
    float* room = scratch_.data() + r * count;
    inputs.push_back(r == rank_ ? reduction.in : room);
    if (r != rank_) requests.receive(room, count * kFloat, r, kPart, comm_);
  }
  for (int i = 1; i < size(); ++i)
    requests.send(reduction.in, count * kFloat, (rank_ + i) % size(), kPart, comm_);
  wait_for_links_to_all([&](int) { return count * kFloat; });
  wait(requests);
  sum(inputs, reduction.out, count, reduction.order);
}

void MpiTransport::reduce(const Reduction& reduction) {
  const int64_t bytes = reduction.parts.back().end * kFloat * (size() - 1);
  const bool fixed = reduction.order != Order::arrival || size() == 2;
  if (reduction.to_all && fixed && bytes <= kSmall) {
    reduce_at_each(reduction);
  } else {
    Summation(*this, reduction).run();
  }
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

void MpiTransport::receive_and_add(const Exchange& exchange) {
  std::array<Requests, kDepth> coming;
  const int64_t count = exchange.receive_count;
  const int64_t pieces = std::max(int64_t{1}, (count + kPiece - 1) / kPiece);
  make_room(kDepth * std::min(kPiece, count));
  const auto room = [&](int64_t k) { return scratch_.data() + k % kDepth * kPiece; };
  const auto size_of = [&](int64_t k) { return std::min(kPiece, count - k * kPiece); };
  const auto ask_for = [&](int64_t k) {
    if (k < pieces)
      coming[static_cast<size_t>(k % kDepth)].receive(room(k), size_of(k) * kFloat, exchange.from,
                                                      kPart, comm_);
  };
  for (int64_t k = 0; k < kDepth; ++k) ask_for(k);
  for (int64_t k = 0; k < pieces; ++k) {
    wait(coming[static_cast<size_t>(k % kDepth)]);
    const std::array inputs{exchange.addend + k * kPiece, static_cast<const float*>(room(k))};
    sum(inputs, static_cast<float*>(exchange.receive) + k * kPiece, size_of(k), Order::ordered);
    ask_for(k + kDepth);
  }
}

bool MpiTransport::has_arrived(int from) {
  int found = 0;
  check(MPI_Iprobe(from, kPart, comm_, &found, MPI_STATUS_IGNORE), "MPI_Iprobe");
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
    check(MPI_Ibcast(at + done, static_cast<int>(std::min(kLargest, bytes - done)), MPI_BYTE, root,
                     comm_, &requests.added(0)),
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
  check(MPI_Ibarrier(comm_, &requests.added(0)), "MPI_Ibarrier");
  wait(requests);
}

// A message from start_send or start_receive.
class MpiTransport::Message : public Request::Operation {
 public:
  Message(MpiTransport& transport, const void* data, int64_t bytes, int to)
      : transport_(transport), bytes_(bytes), mover_(transport.job_.mover()) {
    transport.job_.throw_if_aborted();
    requests_.send(data, bytes, to, kMessage, transport.comm_);
    if (transport.links_.active()) {
      due_ns_ = transport.due_ns(to, bytes);
      requests_.send(&due_ns_, sizeof(due_ns_), to, kMessageStamp, transport.comm_);
    }
    mover_.add(1);
  }
  Message(MpiTransport& transport, void* data, int64_t bytes, int from, std::string who)
      : transport_(transport), bytes_(bytes), mover_(transport.job_.mover()), who_(std::move(who)) {
    transport.job_.throw_if_aborted();
    requests_.receive(data, bytes, from, kMessage, transport.comm_);
    if (transport.links_.active())
      requests_.receive(&due_ns_, sizeof(due_ns_), from, kMessageStamp, transport.comm_);
    mover_.add(1);
  }
  ~Message() override { mover_.add(-1); }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  void wait() override {
    transport_.wait_for_message(requests_);
    if (const int64_t missing = requests_.missing_bytes(); missing != 0)
      throw Error(ErrorKind::internal, who_ + std::to_string(bytes_) + " bytes asked for, " +
                                           std::to_string(bytes_ - missing) + " sent");
    sleep_until(due_ns_, transport_.job_);
  }
  bool done() override {
    return (requests_.done() && steady_now_ns() >= due_ns_) || transport_.job_.aborted();
  }

 private:
  MpiTransport& transport_;
  const int64_t bytes_;
  Mover& mover_;
  const std::string who_;
  int64_t due_ns_ = 0;
  Requests requests_;
};

std::unique_ptr<Request::Operation> MpiTransport::start_send(const void* data, int64_t bytes,
                                                             int to) {
  return std::make_unique<Message>(*this, data, bytes, to);
}

std::unique_ptr<Request::Operation> MpiTransport::start_receive(void* data, int64_t bytes,
                                                                int from) {
  return std::make_unique<Message>(
      *this, data, bytes, from,
      "rank " + std::to_string(rank_) + " receives from rank " + std::to_string(from) + ": ");
}

void MpiTransport::send(const void* data, int64_t bytes, int to) {
  job_.throw_if_aborted();
  auto& kept = kept_[to];
  if (kept) wait_for_message(kept->requests);
  kept = std::make_unique<Kept>();
  const char* begin = static_cast<const char*>(data);
  kept->content.assign(begin, begin + bytes);
  kept->requests.send(kept->content.data(), bytes, to, kMessage, comm_);
  if (!links_.active()) return;
  kept->due_ns = due_ns(to, bytes);
  kept->requests.send(&kept->due_ns, sizeof(kept->due_ns), to, kMessageStamp, comm_);
}

std::unique_ptr<Transport> MpiTransport::split(int colour, int key) {
  barrier();  // where an abort is heard; the call below then meets everybody
  MPI_Comm made = MPI_COMM_NULL;
  check(MPI_Comm_split(comm_, colour, key, &made), "MPI_Comm_split");
  return std::make_unique<MpiTransport>(job_, links_, made, may_spin_);
}

std::vector<std::string> gather_hosts(int size) {
  std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
  int length = 0;
  check(MPI_Get_processor_name(name.data(), &length), "MPI_Get_processor_name");
  std::vector<char> all(name.size() * static_cast<size_t>(size));
  check(MPI_Allgather(name.data(), static_cast<int>(name.size()), MPI_CHAR, all.data(),
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
  Job job;
  std::vector<std::string> hosts = gather_hosts(job.size());
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
  check(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version");
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
  const std::vector<int> nodes = node_of_rank();
  if (settings.emulates_links() && *std::ranges::max_element(nodes) != 0)
    throw Error(
        ErrorKind::config,
        "links are emulated on one host, but this job runs on several; leave out the links");
  if (settings.node_of_rank.empty()) settings.node_of_rank = nodes;
  impl_->links.push_back(std::make_unique<LinkEmulation>(settings, size(), true));
  MPI_Comm all = MPI_COMM_NULL;
  check(MPI_Comm_dup(MPI_COMM_WORLD, &all), "MPI_Comm_dup");
  return make_group_communicator(
      std::make_unique<MpiTransport>(impl_->job, *impl_->links.back(), all, spin), settings);
}

}  // namespace dettax
