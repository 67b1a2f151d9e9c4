#include "harness/launch/rank_pool.h"

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <random>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>

#include "harness/device/cuda_presence.h"

namespace dettax {
namespace {

constexpr const char* kThreadPrefix = "rank";
// How old a rank's position may be that is found after the process was killed outright; the cost is
// five wake-ups a second of a thread that otherwise waits.
constexpr std::chrono::milliseconds kSampleInterval{200};

// A thread's name is inherited by the threads it starts, and can be read inside a signal handler.
// It shows in top and gdb as well.
void name_this_thread(int rank) {
  const std::string name = fmt::format("{}{}", kThreadPrefix, rank);
  ::prctl(PR_SET_NAME, name.c_str());
}

}  // namespace

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return CPU_COUNT(&set);
}

struct RankPool::State {
  Case planned;
  std::mutex mutex;
  std::condition_variable wake, done;
  const std::function<void(RankContext&)>* work = nullptr;
  int64_t generation = 0;
  int busy = 0;
  bool stop = false;
  std::exception_ptr first_error;
  bool spin = false;
  std::vector<std::unique_ptr<RankContext>> contexts;
  std::vector<std::thread> threads;

  void start_threads();
  void loop(RankContext& context);
  void note_error(RankContext& context);
  void end();
};

void RankPool::State::note_error(RankContext& context) {
  std::string reason = "unknown exception";
  {
    const std::lock_guard lock(mutex);
    if (!first_error) first_error = std::current_exception();
    try {
      throw;
    } catch (const std::exception& error) {
      reason = error.what();
    } catch (...) {  // the words above stand
    }
  }
  context.communicator->abort(fmt::format("rank {}: {}", context.rank, reason));
}

void RankPool::State::loop(RankContext& context) {
  name_this_thread(context.rank);
  int64_t seen = 0;
  for (;;) {
    const std::function<void(RankContext&)>* todo = nullptr;
    {
      std::unique_lock lock(mutex);
      wake.wait(lock, [&] { return stop || generation != seen; });
      if (stop) break;
      seen = generation;
      todo = work;
    }
    try {
      (*todo)(context);
    } catch (...) {
      note_error(context);
    }
    const std::lock_guard lock(mutex);
    if (--busy == 0) done.notify_all();
  }
  // In the thread that made them.
  context.visible = nullptr;
  context.faults.reset();
  context.train.reset();
  context.device.reset();
}

void RankPool::State::end() {
  {
    const std::lock_guard lock(mutex);
    stop = true;
  }
  wake.notify_all();
  for (std::thread& thread : threads) thread.join();
}

void RankPool::State::start_threads() {
  for (auto& context : contexts) {
    try {
      threads.emplace_back([this, one = context.get()] { loop(*one); });
    } catch (const std::system_error& error) {
      throw Error(ErrorKind::infrastructure,
                  fmt::format("cannot start the thread of rank {} of {}: {}; is there a limit on "
                              "processes (ulimit -u)?",
                              context->rank, contexts.size(), error.code().message()));
    }
  }
}

namespace {

// Cores of each rank's threads. Looked up before anything is bound.
std::vector<std::vector<int>> cores_of_ranks(const PoolSettings& settings, RankPlacement placement,
                                             int ranks, int threads) {
  if (settings.lone) return {settings.lone->cores};
  std::vector<std::vector<int>> cores(static_cast<size_t>(ranks));
  if (settings.binding == Binding::none && placement == RankPlacement::planned) return cores;
  const Machine machine = find_machine();
  for (int rank = 0; rank < ranks; ++rank) {
    cores[static_cast<size_t>(rank)] =
        placed_cores(placement, settings.binding, machine.cores, rank, ranks, threads);
  }
  return cores;
}

// Of the rank of that number in this process.
std::unique_ptr<Device> make_device(const Case& planned, size_t index, bool spin,
                                    const std::vector<int>& cores) {
  if (planned.backend == Backend::cuda) return load_cuda_device(static_cast<int>(index));
  return make_cpu_device(planned.topology.threads_per_rank, spin, cores);
}

std::vector<std::unique_ptr<Communicator>> connect_ranks(const PoolSettings& settings,
                                                         const Topology& topology,
                                                         RankPlacement placement, int ranks,
                                                         bool spin) {
  if (!settings.lone) {
    CollectiveSettings collectives;
    collectives.node_of_rank = emulated_nodes(topology, placement);
    collectives.intra_node = topology.intra_node;
    collectives.inter_node = topology.inter_node;
    return make_thread_communicators(ranks, spin, collectives);
  }
  std::vector<std::unique_ptr<Communicator>> alone;
  alone.push_back(settings.lone->connect(topology));
  return alone;
}

}  // namespace

RankPool::RankPool(const ArmSpec& spec, StatusPage& page, const PoolSettings& settings)
    : state_(std::make_unique<State>()) {
  const int ranks = settings.lone ? 1 : spec.planned.layout.ranks();
  const int threads = spec.planned.topology.threads_per_rank;
  const uint64_t group_seed = std::random_device{}();
  if (ranks < 1 || ranks > StatusPage::kMaxRanks) {
    throw Error(ErrorKind::unsupported, fmt::format("{} ranks in one process; 1 to {} are possible",
                                                    ranks, StatusPage::kMaxRanks));
  }
  state_->planned = spec.planned;
  state_->spin = settings.lone ? settings.lone->spin : ranks * threads <= available_cores();
  const auto cores = cores_of_ranks(settings, spec.placement, ranks, threads);
  auto communicators =
      connect_ranks(settings, spec.planned.topology, spec.placement, ranks, state_->spin);
  for (size_t i = 0; i < communicators.size(); ++i) {
    const int rank = communicators[i]->rank();
    auto& context = state_->contexts.emplace_back(
        std::make_unique<RankContext>(rank, i, page.layout().ranks[i]));
    context->communicator = std::move(communicators[i]);
  }
  try {
    state_->start_threads();
    run([&](RankContext& context) {
      const auto& own = cores[context.index];
      if (!own.empty()) bind_this_thread({own.front()});
      // All ranks alike, also those that are processes.
      uint64_t common_seed = group_seed;
      context.communicator->broadcast(&common_seed, sizeof common_seed, 0);
      context.device = make_device(spec.planned, context.index, state_->spin, own);
      context.train = std::make_unique<TrainStep>(spec.planned, spec.mode, *context.device,
                                                  *context.communicator);
      context.visible = context.train.get();
      context.faults =
          std::make_unique<FaultInjector>(spec, context.rank, *context.device, common_seed);
      context.delays = std::make_unique<OpDelays>(spec, context.rank);
      context.delays->listen(*context.train, nullptr);
    });
  } catch (...) {
    state_->end();
    throw;
  }
}

RankPool::~RankPool() {
  if (state_ && !state_->threads.empty()) state_->end();
}

void RankPool::rebuild(const Mode& mode) {
  for (const auto& context : state_->contexts) context->visible = nullptr;
  run([&](RankContext& context) {
    context.recorder.reset();  // knows places of the old step
    context.train.reset();
    context.train =
        std::make_unique<TrainStep>(state_->planned, mode, *context.device, *context.communicator);
    context.delays->listen(*context.train, nullptr);
    context.visible = context.train.get();
  });
}

int RankPool::size() const { return static_cast<int>(state_->contexts.size()); }
int RankPool::first_rank() const { return state_->contexts.front()->rank; }
bool RankPool::spins() const { return state_->spin; }

void RankPool::run(const std::function<void(RankContext&)>& work) {
  std::unique_lock lock(state_->mutex);
  state_->work = &work;
  state_->first_error = nullptr;
  state_->busy = static_cast<int>(state_->contexts.size());
  ++state_->generation;
  state_->wake.notify_all();
  const auto finished = [&] { return state_->busy == 0; };
  while (!state_->done.wait_for(lock, kSampleInterval, finished)) copy_positions();
  copy_positions();  // where they stand while they wait for the next
  if (state_->first_error) std::rethrow_exception(state_->first_error);
}

void RankPool::copy_positions() const {
  for (const auto& context : state_->contexts) {
    const TrainStep* train = context->visible.load();
    if (train == nullptr) continue;
    context->status.set_op(train->current_op());
    context->status.ops.store(train->ops_issued());
  }
}

int RankPool::rank_of_this_thread() {
  std::array<char, 16> name{};
  if (::prctl(PR_GET_NAME, name.data()) != 0) return -1;
  const size_t prefix = std::strlen(kThreadPrefix);
  if (std::strncmp(name.data(), kThreadPrefix, prefix) != 0) return -1;
  int rank = 0;
  size_t i = prefix;
  for (; name[i] >= '0' && name[i] <= '9'; ++i) rank = rank * 10 + (name[i] - '0');
  return i == prefix ? -1 : rank;
}

}  // namespace dettax
