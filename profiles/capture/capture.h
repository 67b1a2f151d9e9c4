#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "profiles/name_table.h"

namespace dettax {

// What a device profiler told, as plain numbers: what CUPTI's collector decodes into, what capture files hold, and what
// trace_of_capture() makes a Trace of. Nothing here knows CUPTI, so that all of it is tested without.

enum class RecordKind : uint8_t {
  kernel,
  copy,
  memset,
  call,         // of the runtime
  driver_call,  // of the driver; may lie within one of the runtime
  synchronize,
  event,
  overhead,
  external,  // of our own trainer: this correlation belongs to a path
  range,     // that the host named; `detail` 1: it need not nest within others
  step,      // `id` is its index
};
inline constexpr uint8_t kRecordKinds = static_cast<uint8_t>(RecordKind::step) + 1;

// DeviceRecord::detail of what synchronized, as CUPTI numbers it.
enum class SyncKind : uint8_t { unknown, event, stream_wait, stream, context };

// One record. Its bytes are what a capture file holds: plain, without holes, only ever appended to.
struct DeviceRecord {
  int64_t start_ns = 0, end_ns = 0;  // CLOCK_REALTIME
  uint64_t bytes = 0;
  uint64_t id =
      0;  // external: path and ordinal (external_id); step: index; event, synchronize: what joins the two
  uint32_t correlation = 0;
  uint32_t name = 0;    // Capture::names
  uint32_t domain = 0;  // Capture::names; of a range
  uint32_t device = 0, context = 0, stream = 0;
  uint32_t thread = 0;  // as gettid gives it
  uint32_t graph = 0;
  RecordKind kind = RecordKind::kernel;
  uint8_t detail = 0;
  uint16_t reserved0 = 0;
  uint32_t reserved1 = 0;
  friend bool operator==(const DeviceRecord&, const DeviceRecord&) = default;
};
static_assert(sizeof(DeviceRecord) == 72 && std::is_trivially_copyable_v<DeviceRecord>);

// The id that work under an occurrence of a path is launched with.
constexpr uint64_t external_id(uint32_t path, uint32_t ordinal) {
  return (uint64_t{ordinal} << 32U) | path;
}
constexpr uint32_t path_of_external(uint64_t id) { return static_cast<uint32_t>(id); }
constexpr uint32_t ordinal_of_external(uint64_t id) { return static_cast<uint32_t>(id >> 32U); }

// What is missing, as the profiler and its collector counted it. Sums only grow while a capture lasts.
struct CaptureLosses {
  int64_t dropped = 0;          // that the profiler says it lost
  int64_t refused_buffers = 0;  // that it asked for when the pool was empty
  int64_t broken_buffers = 0;   // whose rest could not be decoded
  int64_t lost_ranges = 0;      // for which there was no room
  int64_t unknown = 0;  // records of kinds that were not asked for; nothing is missing by them
  std::string faults;   // of calls that fetch records, in words
  friend bool operator==(const CaptureLosses&, const CaptureLosses&) = default;
};

struct Capture {
  std::string host;
  std::optional<int> rank;
  int world_size = 0;
  int64_t process = 0;
  int64_t start_ns = 0, end_ns = 0;  // the window; 0: not begun, not ended
  int64_t flushed_ns = 0;            // when the last record was fetched
  NameTable names;
  std::vector<DeviceRecord> records;
  CaptureLosses losses;
  std::vector<std::string> notes;
  std::string unfinished;  // why it does not end as it should; empty if it does
};

}  // namespace dettax
