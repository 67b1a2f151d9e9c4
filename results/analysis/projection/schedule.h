#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dettax {

// In which order the stages of a pipeline work, those that dettax runs itself and those it can only project.
//  zb_h1     1F1B with the weight gradient split off and moved into the bubble; memory as 1F1B
//  zbv       two chunks a stage, placed as a V, so that the last stage's forward meets its backward at once
//  dualpipe  micro-batches enter at both ends; forward of one and backward of another run as one overlapped pair
enum class ScheduleKind { gpipe, one_f_one_b, interleaved, zb_h1, zbv, dualpipe };
const char* to_string(ScheduleKind kind);
const std::vector<std::string>& schedule_kind_words();

//  forward, backward           whole passes
//  backward_input, _weight     halves of a backward pass whose weight gradient waits
//  both                        forward of `micro` through `chunk` beside the backward of `other_micro` through `other_chunk`
enum class Pass : uint8_t { forward, backward, backward_input, backward_weight, both };

struct PipelineTask {
  Pass pass = Pass::forward;
  uint8_t chunk = 0;
  uint8_t other_chunk = 0;
  int32_t micro = 0;
  int32_t other_micro = 0;
};

// Where chunk c of stage s lies in the model. looped: number c * stages + s. vee: down and up again. mirrored: chunk 0 is a whole model
// from stage 0 on, chunk 1 another from the last stage on (DualPipe's two directions).
enum class ChunkPlacement { looped, vee, mirrored };

struct Schedule {
  int stages = 1;
  int chunks = 1;
  int64_t micro_batches = 1;
  ChunkPlacement placement = ChunkPlacement::looped;
  std::vector<std::vector<PipelineTask>> order;  // of each stage

  int64_t tasks() const;
  // Chunks that micro-batch passes in sequence: (stage, chunk) after this one, going forward; stage -1 behind the last.
  struct Place {
    int stage = -1, chunk = 0;
  };
  Place next(int stage, int chunk) const;
  Place previous(int stage, int chunk) const;
};

struct ScheduleRequest {
  ScheduleKind kind = ScheduleKind::one_f_one_b;
  int stages = 1;
  int chunks = 1;  // of a stage; interleaved only
  int64_t micro_batches = 1;
};
// Throws Error{config} on numbers that the schedule has no order for, saying which would do.
Schedule make_schedule(const ScheduleRequest& request);

// Micro-batches x chunks whose activations a stage holds at most at a time.
int64_t peak_in_flight(const Schedule& schedule, int stage);

namespace schedules {
Schedule one_f_one_b(const ScheduleRequest& request);
Schedule interleaved(const ScheduleRequest& request);
Schedule zero_bubble(const ScheduleRequest& request, ChunkPlacement placement);
Schedule dualpipe(const ScheduleRequest& request);
}  // namespace schedules

}  // namespace dettax
