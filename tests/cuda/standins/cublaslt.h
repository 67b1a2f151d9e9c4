#pragma once

#include <cstdint>

namespace dettax::test {

// How the stand-in of cuBLASLt behaves on this thread.
//
// It computes in f32 on the emulated stream. Each of its algorithms adds along k in an order of its own, so that another choice shows in
// the bits. The parts of a split sum meet in the order that the schedule of blocks (ScheduleOf) draws. It refuses what the library
// refuses, and beyond that what the library leaves undefined: a result that overlaps what it is made of.
struct CublasLtStandIn {
  uint64_t list_seed = 0;              // not 0: the heuristic's list is shuffled by it
  bool has_epilogues = true;           // false: no algorithm supports any
  bool epilogues_are_invalid = false;  // true: any is an invalid value to the heuristic
  bool heeds_wishes = true;            // false: a wish for unsplit sums is passed over
  bool has_algorithms = true;
  int64_t fewest_columns = 0;  // of a result that algorithms support
  int fail_at =
      0;  // this call from now on fails with what a device that went away would give; 1 is the next
  int64_t live_objects =
      0;  // handles, descriptors, layouts and preferences that nobody destroyed yet
};
CublasLtStandIn& cublaslt();

// Restores the thread's stand-in to what it was, but for what is alive.
class CublasLtAs {
 public:
  CublasLtAs() : before_(cublaslt()) {}
  ~CublasLtAs() {
    before_.live_objects = cublaslt().live_objects;
    cublaslt() = before_;
  }
  CublasLtAs(const CublasLtAs&) = delete;
  CublasLtAs& operator=(const CublasLtAs&) = delete;
  CublasLtStandIn* operator->() { return &cublaslt(); }

 private:
  CublasLtStandIn before_;
};

// The seed of ScheduleOf on this thread. (Headers of CUDA and the emulation's cannot be read together.)
uint64_t schedule_of_this_thread();

}  // namespace dettax::test
