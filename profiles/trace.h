#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "profiles/name_table.h"

namespace dettax {

// What a span is, as far as attribution cares.
enum class Category : uint8_t {
  // Work on the device; in a trace of the host, work on the threads of the rank. Only these own time.
  compute,
  fill,           // a kernel, or a loop on the host, that only writes a constant
  communication,  // a collective or a message
  copy,
  memset,  // a fill by the copy engine or the driver
  // Calls that the host makes.
  launch,       // hands work to the device
  synchronize,  // waits for the device
  allocate,
  api,       // any other
  profiler,  // what profiling itself took
  // Ranges that the host named.
  annotation,
  op,
};
inline constexpr int kCategoryCount = static_cast<int>(Category::op) + 1;

const char* to_string(Category category);
std::optional<Category> category_named(std::string_view name);
constexpr bool is_work(Category category) { return category <= Category::memset; }
constexpr bool is_range(Category category) { return category >= Category::annotation; }

// A stretch of time on one stream. Nanoseconds since the epoch of its clock; [start_ns, end_ns).
struct Span {
  int64_t start_ns = 0, end_ns = 0;
  int64_t bytes = 0;         // moved or filled; 0 if not told
  uint64_t correlation = 0;  // joins a launch with the work it started; 0: none
  uint32_t name = 0;         // Trace::names
  uint32_t path =
      0;  // Trace::paths: phase/layer/op, from ranges and never from `name`; 0: not known
  uint32_t ordinal = 0;     // which occurrence of the path within its step
  uint32_t stream = 0;      // Trace::streams
  uint32_t collective = 0;  // Trace::collectives; 0: none
  Category category = Category::compute;
  friend bool operator==(const Span&, const Span&) = default;
};

// A row that spans lie on: a stream of a device, or a thread of the host.
struct Stream {
  std::string process, thread;  // as the trace names them
  bool device = false;
  int64_t device_id = 0, stream_id = 0;  // where `device`
  friend bool operator==(const Stream&, const Stream&) = default;
};

// Name of a collective that is a message from one rank to another.
inline constexpr std::string_view kMessage = "message";

// Which collective a span took part in, told alike on every rank of its group. Fields that the trace does not tell are 0, -1 or empty.
struct Collective {
  uint32_t name = 0;   // Trace::names: what it does, e.g. "allreduce"
  uint32_t group = 0;  // Trace::names: the group's name on every member
  int64_t sequence = -1;
  int64_t group_size = 0;
  friend bool operator==(const Collective&, const Collective&) = default;
};

// A training step as the host marked it. Marks lie one after another.
struct StepMark {
  int64_t index = 0;
  int64_t start_ns = 0, end_ns = 0;
  friend bool operator==(const StepMark&, const StepMark&) = default;
};

// What the trace should hold and does not.
struct Losses {
  int64_t dropped = 0;   // records that the profiler says it lost
  int64_t untimed = 0;   // work that has no times
  int64_t damaged = 0;   // events that could not be read (only where a damaged file was salvaged)
  std::string told;      // in the profiler's own words; empty if it said nothing
  bool cut_off = false;  // nothing behind some event could be read
  friend bool operator==(const Losses&, const Losses&) = default;
};

// Where the work was done decides what a step is and what its idle time can be called.
enum class TraceKind {
  device,  // launched by the host, run by a device: steps run from first work to first work
  host,    // run by the threads that the spans lie on: steps run from mark to mark
};

// All that one rank did in one capture.
struct Trace {
  std::string source;  // the file, for messages
  std::string host;    // empty if not told
  std::optional<int> rank;
  int world_size = 0;  // 0: not told
  TraceKind kind = TraceKind::device;
  bool whole_microseconds =
      false;  // times were rounded down to them: a duration of 0 is one under a microsecond
  NameTable names, paths;
  std::vector<Stream> streams;
  std::vector<Collective> collectives{Collective{}};
  std::vector<Span> spans;  // in order of (start, longest first)
  std::vector<StepMark> steps;
  Losses losses;
  std::vector<std::string> notes;  // what the importer met that limits what can be said
  int64_t events = 0;              // that the file held and could be read, of whatever kind
};

// Puts spans and marks into the order that Trace promises.
void sort_spans(Trace& trace);

}  // namespace dettax
