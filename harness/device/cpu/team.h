#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace dettax {

// The compute threads of one rank. run() calls work(thread) once on each of size() threads, the
// caller being thread 0, and returns when all are done. Between calls the others poll for a moment
// (if `spin`) and then sleep, so that a rank that waits uses no core. An exception thrown by any
// thread is rethrown by run(), after all have ended.
class Team {
 public:
  // `cores`: the one each thread but the caller is bound to, by thread; empty: none.
  Team(int threads, bool spin, const std::vector<int>& cores = {});
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const;
  void run(const std::function<void(int thread)>& work);
  // Inside run(): waits until all threads of the team have called it. Does not return if one of
  // them has failed.
  void barrier();

  // Calls work(begin, end, thread) for chunks that cover [0, count). Static: one contiguous part a
  // thread, the cut rounded to `grain`; dynamic: chunks of `grain` handed out in order of demand.
  void parallel_for(int64_t count, int64_t grain, bool dynamic,
                    const std::function<void(int64_t begin, int64_t end, int thread)>& work);

  // From the next run() on threads start, leave barriers and take chunks after random delays drawn
  // from `seed`, so that what depends on who comes first really changes; a static part is then done
  // in a few calls, one after the other. 0: off. Not during run().
  void set_jitter(uint64_t seed);

 private:
  void stop();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dettax
