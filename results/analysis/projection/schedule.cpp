#include "results/analysis/projection/schedule.h"

#include <algorithm>

#include <fmt/format.h>

#include "harness/base/error.h"

namespace dettax {
namespace {

Error refusal(const ScheduleRequest& request, const std::string& what) {
  return {ErrorKind::config, fmt::format("schedule {}: {}", to_string(request.kind), what)};
}

void check(const ScheduleRequest& r) {
  constexpr int kMostChunks = 200;
  if (r.stages < 1 || r.chunks < 1 || r.chunks > kMostChunks || r.micro_batches < 1)
    throw refusal(
        r, fmt::format("needs at least 1 stage, 1 to {} chunks and 1 micro-batch", kMostChunks));
  const bool pairs = r.kind == ScheduleKind::zbv || r.kind == ScheduleKind::dualpipe;
  if (r.chunks > 1 && r.kind != ScheduleKind::interleaved && !pairs)
    throw refusal(
        r, fmt::format("has one chunk a stage, not vp {}; interleaved has several", r.chunks));
  if (r.kind == ScheduleKind::interleaved && r.stages > 1 && r.micro_batches % r.stages != 0) {
    throw refusal(
        r, fmt::format("{} micro-batches are not divisible by pp {}", r.micro_batches, r.stages));
  }
  if (r.kind == ScheduleKind::dualpipe &&
      (r.stages % 2 != 0 || r.micro_batches % 2 != 0 || r.micro_batches < 2 * r.stages)) {
    throw refusal(r,
                  fmt::format("needs an even pp and an even number of micro-batches, at least 2 * "
                              "pp; pp is {} and micro-batches are {}",
                              r.stages, r.micro_batches));
  }
}

}  // namespace

const std::vector<std::string>& schedule_kind_words() {
  static const std::vector<std::string> words = {"gpipe", "one_f_one_b", "interleaved",
                                                 "zb_h1", "zbv",         "dualpipe"};
  return words;
}
const char* to_string(ScheduleKind kind) {
  return schedule_kind_words()[static_cast<size_t>(kind)].c_str();
}

int64_t Schedule::tasks() const {
  int64_t total = 0;
  for (const auto& stage : order) total += static_cast<int64_t>(stage.size());
  return total;
}

Schedule::Place Schedule::next(int stage, int chunk) const {
  const bool down = placement == ChunkPlacement::looped || chunk == 0;
  const int to = stage + (down ? 1 : -1);
  if (to >= 0 && to < stages) return {to, chunk};
  if (placement == ChunkPlacement::mirrored || chunk + 1 == chunks) return {};
  return placement == ChunkPlacement::looped ? Place{0, chunk + 1} : Place{stage, chunk + 1};
}

Schedule::Place Schedule::previous(int stage, int chunk) const {
  const bool down = placement == ChunkPlacement::looped || chunk == 0;
  const int from = stage - (down ? 1 : -1);
  if (from >= 0 && from < stages) return {from, chunk};
  if (placement == ChunkPlacement::mirrored || chunk == 0) return {};
  return placement == ChunkPlacement::looped ? Place{stages - 1, chunk - 1}
                                             : Place{stage, chunk - 1};
}

Schedule make_schedule(const ScheduleRequest& request) {
  check(request);
  switch (request.kind) {
    case ScheduleKind::gpipe:
    case ScheduleKind::one_f_one_b:
      return schedules::one_f_one_b(request);
    case ScheduleKind::interleaved:
      return schedules::interleaved(request);
    case ScheduleKind::zb_h1:
      return schedules::zero_bubble(request, ChunkPlacement::looped);
    case ScheduleKind::zbv:
      return schedules::zero_bubble(request, ChunkPlacement::vee);
    case ScheduleKind::dualpipe:
      return schedules::dualpipe(request);
  }
  throw Error(ErrorKind::internal, "a schedule without a maker");
}

int64_t peak_in_flight(const Schedule& schedule, int stage) {
  int64_t alive = 0;
  int64_t most = 0;
  for (const PipelineTask& task : schedule.order[static_cast<size_t>(stage)]) {
    if (task.pass == Pass::forward || task.pass == Pass::both) ++alive;
    most = std::max(most, alive);
    // A pass that leaves the weight gradient for later keeps what that needs.
    if (task.pass != Pass::forward && task.pass != Pass::backward_input) --alive;
  }
  return most;
}

namespace schedules {

Schedule one_f_one_b(const ScheduleRequest& r) {
  Schedule schedule{r.stages, 1, r.micro_batches, ChunkPlacement::looped, {}};
  for (int stage = 0; stage < r.stages; ++stage) {
    auto& order = schedule.order.emplace_back();
    order.reserve(static_cast<size_t>(2 * r.micro_batches));
    const int64_t ahead = r.kind == ScheduleKind::gpipe
                              ? r.micro_batches
                              : std::min<int64_t>(r.stages - 1 - stage, r.micro_batches);
    const auto add = [&order](Pass pass, int64_t micro) {
      order.push_back({pass, 0, 0, static_cast<int32_t>(micro), 0});
    };
    for (int64_t k = 0; k < ahead; ++k) add(Pass::forward, k);
    for (int64_t k = 0; k < r.micro_batches; ++k) {
      if (ahead + k < r.micro_batches) add(Pass::forward, ahead + k);
      add(Pass::backward, k);
    }
  }
  return schedule;
}

// Megatron's order: groups of `stages` micro-batches go through one chunk after the other.
Schedule interleaved(const ScheduleRequest& r) {
  Schedule schedule{r.stages, r.chunks, r.micro_batches, ChunkPlacement::looped, {}};
  const int64_t passes = r.micro_batches * r.chunks;
  const int64_t group = int64_t{r.stages} * r.chunks;
  for (int stage = 0; stage < r.stages; ++stage) {
    auto& order = schedule.order.emplace_back();
    order.reserve(static_cast<size_t>(2 * passes));
    const auto add = [&](Pass pass, int64_t k) {
      const auto chunk = k % group / r.stages;
      const auto of = pass == Pass::forward ? chunk : r.chunks - 1 - chunk;
      const int64_t micro = k / group * r.stages + k % r.stages;
      order.push_back({pass, static_cast<uint8_t>(of), 0, static_cast<int32_t>(micro), 0});
    };
    const int64_t distance = r.stages - 1 - stage;
    const int64_t wanted =
        r.chunks == 1 ? distance : 2 * distance + int64_t{r.chunks - 1} * r.stages;
    const int64_t ahead = std::min(wanted, passes);
    for (int64_t k = 0; k < ahead; ++k) add(Pass::forward, k);
    for (int64_t k = 0; k < passes; ++k) {
      if (ahead + k < passes) add(Pass::forward, ahead + k);
      add(Pass::backward, k);
    }
  }
  return schedule;
}

}  // namespace schedules
}  // namespace dettax
