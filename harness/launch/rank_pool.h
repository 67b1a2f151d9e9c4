#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "harness/comm/communicator.h"
#include "harness/device/device.h"
#include "harness/launch/fault.h"
#include "harness/launch/machine.h"
#include "harness/launch/protocol.h"
#include "harness/launch/status_page.h"
#include "harness/launch/step_recorder.h"
#include "harness/train/train_step.h"

namespace dettax {

// What one rank owns and works with. Only its own thread touches it while run() is going on.
struct RankContext {
  RankContext(int its_rank, size_t its_index, RankStatus& its_status)
      : rank(its_rank), index(its_index), status(its_status) {}

  int rank;
  size_t index;  // among the ranks of this process
  RankStatus& status;
  std::unique_ptr<Communicator> communicator;
  std::unique_ptr<Device> device;
  std::unique_ptr<TrainStep> train;
  std::unique_ptr<FaultInjector> faults;
  std::unique_ptr<OpDelays> delays;
  std::unique_ptr<StepRecorder> recorder;           // once steps were profiled
  std::atomic<const TrainStep*> visible = nullptr;  // `train` once it is built, for other threads
};

// The one rank of a group that this process has, where ranks are processes.
struct LoneRank {
  bool spin = false;       // there is a core for each thread of the ranks on this machine
  std::vector<int> cores;  // of each compute thread; empty: not bound
  // To the others, over the links of the topology; called once, by all.
  std::function<std::unique_ptr<Communicator>(const Topology&)> connect;
};

struct PoolSettings {
  Binding binding = Binding::none;  // where all ranks are here
  std::optional<LoneRank> lone;     // none: all ranks are threads of this process
};

// The ranks of a group that are in this process, as threads of it. They sleep between calls of
// run().
class RankPool {
 public:
  // Builds every rank's device and training step in the rank's own thread, so that memory lies
  // where it is used.
  RankPool(const ArmSpec& spec, StatusPage& page, const PoolSettings& settings = {});
  ~RankPool();
  RankPool(const RankPool&) = delete;
  RankPool& operator=(const RankPool&) = delete;

  // Every rank's training step anew under another mode; the old one goes first, so that weights are
  // held once.
  void rebuild(const Mode& mode);

  int size() const;
  int first_rank() const;  // of those that are here
  bool spins() const;      // idle threads poll for a moment: only where there is a core for each
  // work(context) on every rank at once. The first exception aborts the group's communicators and
  // is rethrown when all have ended.
  void run(const std::function<void(RankContext&)>& work);

  // Copies every rank's current op to its status. Async-signal-safe, from any thread.
  void copy_positions() const;

  // Rank this thread works for, -1 if none. Async-signal-safe; compute threads of a rank know it
  // too.
  static int rank_of_this_thread();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Cores this process may run on.
int available_cores();

}  // namespace dettax
