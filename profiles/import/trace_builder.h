#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "profiles/import/import_options.h"
#include "profiles/import/kineto_event.h"
#include "profiles/own_members.h"
#include "profiles/step_names.h"
#include "profiles/trace.h"

namespace dettax {

// Makes a Trace out of the events of one file in Kineto's dialect of Chrome's format, or in this project's export of it.
class KinetoTraceBuilder {
 public:
  KinetoTraceBuilder(std::string source, const ImportOptions& options);

  // Nothing if it was taken (or is of no concern), else what is wrong with the event.
  std::optional<std::string> add(const KinetoEvent& event);
  // A top-level member other than the events. Throws Error if it is not what it has to be.
  void add_member(std::string_view key, const JsonToken& value);
  void note_cut_off() { trace_.losses.cut_off = true; }
  void count_damaged(int64_t events) { trace_.losses.damaged += events; }

  // Throws Error{usage} if it holds no step of the name that was asked for.
  Trace take();

 private:
  enum class Kind : uint8_t { unwanted, kernel, copy, memset, call, annotation, op, profiler };
  Kind kind_of(std::string_view category) const;
  std::optional<std::string> add_times(const KinetoEvent& event, Span& span);
  uint32_t name_of(const JsonToken& token);
  Category category_of(const KinetoEvent& event, Kind kind, uint32_t name);
  uint32_t device_stream_of(const KinetoEvent& event);
  uint32_t host_stream_of(const KinetoEvent& event);
  uint32_t stream_of(std::string_view key, Stream (*make)(const KinetoEvent&),
                     const KinetoEvent& event);
  uint32_t collective_of(const KinetoEvent& event, uint32_t name);
  void take_own_arguments(const KinetoEvent& event, Span& span);
  void undo_host_export(const OwnMembers& own);

  StepFinder steps_;
  Trace trace_;
  std::string key_;  // scratch
  std::unordered_map<std::string, uint32_t> streams_;
  std::vector<uint8_t> kernel_categories_, call_categories_;  // by name; 255: not looked up yet
  int64_t base_ns_ = 0;
  bool fractions_ = false;
  std::optional<OwnMembers> own_;  // written by this project: paths stand in the events
};

}  // namespace dettax
