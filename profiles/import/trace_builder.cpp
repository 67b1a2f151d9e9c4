#include "profiles/import/trace_builder.h"

#include <array>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/text.h"
#include "profiles/classify.h"
#include "profiles/import/decimal.h"

namespace dettax {
namespace {

constexpr uint8_t kNotLookedUp = 255;

int64_t stream_number(const KinetoEvent& event) {
  constexpr std::string_view kPrefix = "stream ";
  std::string_view text = event.stream.text.empty() ? event.thread.text : event.stream.text;
  if (text.starts_with(kPrefix)) text.remove_prefix(kPrefix.size());
  return integer_of(text).value_or(-1);
}

Stream device_stream(const KinetoEvent& event) {
  const std::string_view device =
      event.device.text.empty() ? event.process.text : event.device.text;
  return {unescaped(event.process), unescaped(event.thread), true, integer_of(device).value_or(0),
          stream_number(event)};
}

Stream host_stream(const KinetoEvent& event) {
  return {unescaped(event.process), unescaped(event.thread), false, 0, 0};
}

Category cached(std::vector<uint8_t>& cache, uint32_t name, const std::string& text,
                Category (*look_up)(std::string_view)) {
  if (name >= cache.size()) cache.resize(name + 1, kNotLookedUp);
  if (cache[name] == kNotLookedUp) cache[name] = static_cast<uint8_t>(look_up(text));
  return static_cast<Category>(cache[name]);
}

}  // namespace

KinetoTraceBuilder::KinetoTraceBuilder(std::string source, const ImportOptions& options)
    : steps_(options.step_name) {
  trace_.source = std::move(source);
}

KinetoTraceBuilder::Kind KinetoTraceBuilder::kind_of(std::string_view category) const {
  struct Row {
    std::string_view category;
    Kind kind;
  };
  static constexpr std::array<Row, 13> kRows{{{"kernel", Kind::kernel},
                                              {"cpu_op", Kind::op},
                                              {"cuda_runtime", Kind::call},
                                              {"cuda_driver", Kind::call},
                                              {"user_annotation", Kind::annotation},
                                              {"gpu_memcpy", Kind::copy},
                                              {"gpu_memset", Kind::memset},
                                              {"gpu_op", Kind::kernel},
                                              {"overhead", Kind::profiler},
                                              {"Kernel", Kind::kernel},
                                              {"Memcpy", Kind::copy},
                                              {"Memset", Kind::memset},
                                              {"Runtime", Kind::call}}};
  for (const Row& row : kRows) {
    if (row.category == category) return row.kind;
  }
  if (category == "Operator" || category == "operator") return Kind::op;
  const bool call = category.ends_with("_runtime") || category.ends_with("_driver");
  return call ? Kind::call : Kind::unwanted;
}

uint32_t KinetoTraceBuilder::name_of(const JsonToken& token) {
  if (const auto known = token.escaped ? std::nullopt : trace_.names.find(token.text))
    return *known;
  return trace_.names.intern(valid_utf8(unescaped(token)));
}

Category KinetoTraceBuilder::category_of(const KinetoEvent& event, Kind kind, uint32_t name) {
  switch (kind) {
    case Kind::kernel:
      if (!event.collective.text.empty()) return Category::communication;
      return cached(kernel_categories_, name, trace_.names[name], category_of_kernel);
    case Kind::call:
      return cached(call_categories_, name, trace_.names[name], category_of_call);
    case Kind::copy:
      return Category::copy;
    case Kind::memset:
      return Category::memset;
    case Kind::annotation:
      return Category::annotation;
    case Kind::profiler:
      return Category::profiler;
    default:
      return Category::op;
  }
}

uint32_t KinetoTraceBuilder::stream_of(std::string_view key, Stream (*make)(const KinetoEvent&),
                                       const KinetoEvent& event) {
  key_.assign(key).append(event.process.text).append(1, '\0').append(event.thread.text);
  if (key == "d")
    key_.append(1, '\0').append(event.device.text).append(1, '\0').append(event.stream.text);
  const auto [at, fresh] = streams_.try_emplace(key_, static_cast<uint32_t>(trace_.streams.size()));
  if (fresh) trace_.streams.push_back(make(event));
  return at->second;
}

uint32_t KinetoTraceBuilder::collective_of(const KinetoEvent& event, uint32_t name) {
  if (event.group.text.empty() && event.sequence.text.empty() && event.collective.text.empty())
    return 0;
  Collective collective;
  const std::string told = unescaped(event.collective);
  const std::string_view kind = collective_kind(told.empty() ? trace_.names[name] : told);
  collective.name = trace_.names.intern(kind.empty() ? std::string_view(told) : kind);
  std::string group = unescaped(event.group);
  if (!event.group_ranks.text.empty()) group.append(" ").append(unescaped(event.group_ranks));
  collective.group = trace_.names.intern(group);
  collective.sequence = integer_of(event.sequence.text).value_or(-1);
  collective.group_size = integer_of(event.group_size.text).value_or(0);
  trace_.collectives.push_back(collective);
  return static_cast<uint32_t>(trace_.collectives.size() - 1);
}

std::optional<std::string> KinetoTraceBuilder::add_times(const KinetoEvent& event, Span& span) {
  const auto start = nanoseconds_of(event.start.text),
             duration = nanoseconds_of(event.duration.text);
  if (!start) return "has no number in \"ts\"";
  if (!duration) return "has no number in \"dur\"";
  if (*duration < 0) return "has a negative \"dur\"";
  if (!fractions_) {
    fractions_ = event.start.text.find('.') != std::string_view::npos ||
                 event.duration.text.find('.') != std::string_view::npos;
  }
  span.start_ns = *start;
  span.end_ns = *start + *duration;
  return std::nullopt;
}

void KinetoTraceBuilder::take_own_arguments(const KinetoEvent& event, Span& span) {
  if (!event.own_name.text.empty()) span.name = name_of(event.own_name);
  if (const auto category = category_named(event.own_category.text)) span.category = *category;
  if (event.path.text.empty()) return;
  span.path = trace_.paths.intern(unescaped(event.path));
  span.ordinal = static_cast<uint32_t>(integer_of(event.ordinal.text).value_or(0));
}

std::optional<std::string> KinetoTraceBuilder::add(const KinetoEvent& event) {
  ++trace_.events;
  const Kind kind = kind_of(event.category.text);
  if (kind == Kind::unwanted || event.phase.text == "M") return std::nullopt;
  if (event.phase.text == "B" || event.phase.text == "E")
    return "is half of a pair (ph B and E); only whole events (ph X) can be read";
  if (event.phase.text != "X") return std::nullopt;
  Span span;
  if (auto fault = add_times(event, span)) return fault;
  span.name = name_of(event.name);
  span.category = category_of(event, kind, span.name);
  if (is_work(span.category) && span.start_ns == 0 && span.end_ns == 0) {
    ++trace_.losses.untimed;
    return std::nullopt;
  }
  const bool device = is_work(span.category);
  span.stream = stream_of(device ? "d" : "h", device ? device_stream : host_stream, event);
  if (!event.correlation.text.empty())
    span.correlation = static_cast<uint64_t>(integer_of(event.correlation.text).value_or(0));
  span.bytes = integer_of(event.bytes.text).value_or(0);
  if (device) span.collective = collective_of(event, span.name);
  if (own_) take_own_arguments(event, span);
  if (kind == Kind::annotation) {
    if (const auto index = steps_.index_of(trace_.names[span.name])) {
      trace_.steps.push_back({*index, span.start_ns, span.end_ns});
      return std::nullopt;
    }
  }
  trace_.spans.push_back(span);
  return std::nullopt;
}

void KinetoTraceBuilder::add_member(std::string_view key, const JsonToken& value) {
  if (key == "baseTimeNanoseconds") {
    const auto base = integer_of(value.text);
    if (!base)
      throw Error(ErrorKind::config, trace_.source + ": baseTimeNanoseconds: must be a number");
    base_ns_ = *base;
  } else if (key == "distributedInfo") {
    const DistributedInfo info = read_distributed_info(value.text, trace_.source);
    trace_.rank = info.rank;
    trace_.world_size = info.world_size;
  } else if (key == kOwnMember) {
    own_ = read_own_members(value.text, trace_.source);
  }
}

// A trace of the host was written as if a device had done the work, so that other tools read it (chrome_export.h says how).
void KinetoTraceBuilder::undo_host_export(const OwnMembers& own) {
  std::vector<uint32_t> place(trace_.streams.size());
  for (size_t i = 0; i < place.size(); ++i) {
    const Stream& stream = trace_.streams[i];
    const int64_t index =
        stream.device ? stream.stream_id - kFirstStream : integer_of(stream.thread).value_or(-1);
    if (index < 0 || index >= static_cast<int64_t>(own.streams.size()))
      throw Error(ErrorKind::config, trace_.source + ": " + std::string(kOwnMember) +
                                         ".streams: has no stream " + std::to_string(index));
    place[i] = static_cast<uint32_t>(index);
  }
  std::erase_if(trace_.spans,
                [&](const Span& span) { return trace_.names[span.name] == kHostLaunch; });
  for (Span& span : trace_.spans) {
    span.stream = place[span.stream];
    span.correlation = 0;
  }
  trace_.streams = own.streams;
  if (!trace_.steps.empty()) trace_.steps.pop_back();  // the one that only closes the last step
}

Trace KinetoTraceBuilder::take() {
  steps_.require_found(trace_.source);
  for (Span& span : trace_.spans) {
    span.start_ns += base_ns_;
    span.end_ns += base_ns_;
  }
  for (StepMark& step : trace_.steps) {
    step.start_ns += base_ns_;
    step.end_ns += base_ns_;
  }
  trace_.whole_microseconds = !fractions_ && !trace_.spans.empty();
  sort_spans(trace_);
  if (own_) {
    trace_.kind = own_->kind;
    trace_.host = own_->host;
    trace_.losses.dropped += own_->dropped;
    trace_.losses.untimed += own_->untimed;
    trace_.losses.told = own_->told;
    if (own_->kind == TraceKind::host) undo_host_export(*own_);
  }
  return std::move(trace_);
}

}  // namespace dettax
