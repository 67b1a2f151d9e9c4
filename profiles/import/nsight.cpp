#include "profiles/import/nsight.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/text.h"
#include "profiles/classify.h"
#include "profiles/import/sqlite.h"
#include "profiles/keys.h"
#include "profiles/step_names.h"

namespace dettax {
namespace {

// nsys packs host, process and thread into one number: the lowest 24 bits are the thread's, the next 24 the process's.
constexpr int64_t kThreadMask = 0xFFFFFF;
int64_t process_key(int64_t global_id) { return global_id & ~kThreadMask; }
int64_t process_number(int64_t global_id) { return (global_id >> 24) & kThreadMask; }
int64_t thread_number(int64_t global_id) { return global_id & kThreadMask; }

const std::string kKernels = "CUPTI_ACTIVITY_KIND_KERNEL", kCopies = "CUPTI_ACTIVITY_KIND_MEMCPY",
                  kMemsets = "CUPTI_ACTIVITY_KIND_MEMSET",
                  kGraphs = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
                  kCalls = "CUPTI_ACTIVITY_KIND_RUNTIME", kOverhead = "PROFILER_OVERHEAD",
                  kRanges = "NVTX_EVENTS", kDiagnostics = "DIAGNOSTIC_EVENT",
                  kHostInfo = "TARGET_INFO_SYSTEM_ENV";

// One process's trace while it is filled.
struct Draft {
  Trace trace;
  std::map<std::pair<int64_t, int64_t>, uint32_t> device_streams;  // by device and stream
  std::map<int64_t, uint32_t> threads;
  int64_t device = INT64_MAX;  // the lowest it used
};

class Reader {
 public:
  Reader(const std::filesystem::path& path, const ImportOptions& options)
      : steps_(options.step_name), database_(path) {}

  std::vector<Trace> read() {
    if (!database_.has_table("StringIds") ||
        !(database_.has_table(kCalls) || database_.has_table(kKernels)))
      throw Error(
          ErrorKind::config,
          database_.name() +
              ": is no SQLite export of Nsight Systems with CUDA activity; make one with: " +
              "nsys profile --trace cuda,nvtx ..., then nsys export --type sqlite");
    read_strings();
    read_work(kKernels, kernel_name_column(), "0", Category::compute);
    read_work(kCopies, "NULL", "bytes", Category::copy);
    read_work(kMemsets, "NULL", "bytes", Category::memset);
    read_graphs();
    read_calls();
    read_overhead();
    read_ranges();
    return finish();
  }

 private:
  std::string kernel_name_column() {
    return database_.has_table(kKernels) && database_.has_column(kKernels, "demangledName")
               ? "demangledName"
               : "shortName";
  }

  void read_strings() {
    for (Query query(database_, "SELECT id, value FROM StringIds"); query.next();)
      strings_.emplace(query.integer(0), valid_utf8(query.text(1)));
  }

  const std::string& string(int64_t id) {
    const auto found = strings_.find(id);
    return found == strings_.end() ? empty_ : found->second;
  }

  Draft& draft(int64_t global_id) {
    const auto [at, fresh] = drafts_.try_emplace(process_key(global_id));
    if (fresh) at->second.trace.source = database_.name();
    return at->second;
  }

  static uint32_t device_stream(Draft& draft, int64_t device, int64_t stream) {
    draft.device = std::min(draft.device, device);
    const auto number = static_cast<uint32_t>(draft.trace.streams.size());
    const auto [at, fresh] = draft.device_streams.try_emplace({device, stream}, number);
    if (fresh)
      draft.trace.streams.push_back(
          {std::to_string(device), std::to_string(stream), true, device, stream});
    return at->second;
  }

  static uint32_t thread(Draft& draft, int64_t global_id) {
    const auto number = static_cast<uint32_t>(draft.trace.streams.size());
    const auto [at, fresh] = draft.threads.try_emplace(thread_number(global_id), number);
    if (fresh)
      draft.trace.streams.push_back({std::to_string(process_number(global_id)),
                                     std::to_string(thread_number(global_id)), false, 0, 0});
    return at->second;
  }

  static std::string_view default_name(Category category) {
    if (category == Category::copy) return "Memcpy";
    return category == Category::memset ? "Memset" : "kernel";
  }

  void read_work(const std::string& table, const std::string& name, const std::string& bytes,
                 Category category) {
    if (!database_.has_table(table)) return;
    Query query(database_, "SELECT start, end, deviceId, streamId, correlationId, globalPid, " +
                               name + ", " + bytes + " FROM " + table);
    while (query.next()) {
      Draft& into = draft(query.integer(5));
      Span span{
          .start_ns = query.integer(0), .end_ns = query.integer(1), .bytes = query.integer(7)};
      if (span.start_ns == 0 && span.end_ns == 0) {
        ++into.trace.losses.untimed;
        continue;
      }
      const std::string& told = query.null(6) ? empty_ : string(query.integer(6));
      span.name =
          into.trace.names.intern(told.empty() ? default_name(category) : std::string_view(told));
      span.category = category == Category::compute ? category_of_kernel(told) : category;
      span.correlation = static_cast<uint64_t>(query.integer(4));
      span.stream = device_stream(into, query.integer(2), query.integer(3));
      into.trace.spans.push_back(span);
    }
  }

  void read_graphs() {
    if (!database_.has_table(kGraphs)) return;
    const std::string stream = database_.has_column(kGraphs, "streamId") ? "streamId" : "0";
    Query query(database_, "SELECT start, end, deviceId, " + stream +
                               ", correlationId, globalPid, graphId FROM " + kGraphs);
    while (query.next()) {
      Draft& into = draft(query.integer(5));
      Span span{.start_ns = query.integer(0), .end_ns = query.integer(1)};
      span.name = into.trace.names.intern("graph " + std::to_string(query.integer(6)));
      span.correlation = static_cast<uint64_t>(query.integer(4));
      span.stream = device_stream(into, query.integer(2), query.integer(3));
      into.trace.spans.push_back(span);
      into.trace.notes.assign(1,
                              "CUDA graphs were traced as a whole: what computes and what "
                              "communicates in them cannot be told; "
                              "trace with --cuda-graph-trace=node");
    }
  }

  void read_host_spans(const std::string& table, Category (*category)(std::string_view)) {
    if (!database_.has_table(table)) return;
    Query query(database_, "SELECT start, end, globalTid, correlationId, nameId FROM " + table);
    while (query.next()) {
      Draft& into = draft(query.integer(2));
      Span span{.start_ns = query.integer(0), .end_ns = query.integer(1)};
      const std::string name = without_version(string(query.integer(4)));
      span.name = into.trace.names.intern(name);
      span.category = category(name);
      span.correlation = static_cast<uint64_t>(query.integer(3));
      span.stream = thread(into, query.integer(2));
      into.trace.spans.push_back(span);
    }
  }
  void read_calls() { read_host_spans(kCalls, category_of_call); }
  void read_overhead() {
    read_host_spans(kOverhead, [](std::string_view) { return Category::profiler; });
  }

  void read_ranges() {
    if (!database_.has_table(kRanges)) return;
    constexpr int64_t kPushPop = 59, kStartEnd = 60;
    Query query(database_, "SELECT start, end, globalTid, text, textId, eventType FROM " + kRanges +
                               " WHERE end IS NOT NULL");
    while (query.next()) {
      if (query.integer(5) != kPushPop && query.integer(5) != kStartEnd) continue;
      Draft& into = draft(query.integer(2));
      const std::string name = query.null(3) ? string(query.integer(4)) : valid_utf8(query.text(3));
      Span span{.start_ns = query.integer(0), .end_ns = query.integer(1)};
      if (const auto step = steps_.index_of(name)) {
        into.trace.steps.push_back({*step, span.start_ns, span.end_ns});
        continue;
      }
      if (query.integer(5) == kStartEnd)
        continue;  // need not nest, so that it cannot be part of a path
      span.name = into.trace.names.intern(name);
      span.category = Category::annotation;
      span.stream = thread(into, query.integer(2));
      into.trace.spans.push_back(span);
    }
  }

  // What nsys says of records that are missing.
  void add_losses(Losses& losses) {
    if (!database_.has_table(kDiagnostics)) return;
    for (Query query(database_, "SELECT text FROM " + kDiagnostics); query.next();) {
      const std::string text = valid_utf8(query.text(0));
      std::string lower;
      for (const char c : text)
        lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      static constexpr std::array<const char*, 4> kSigns{"dropped", "lost", "not all",
                                                         "incomplete"};
      const bool loss = std::any_of(kSigns.begin(), kSigns.end(), [&](const char* sign) {
        return lower.find(sign) != std::string::npos;
      });
      if (!loss) continue;
      ++losses.dropped;
      if (losses.told.empty()) losses.told = text;
    }
  }

  std::string host() {
    if (!database_.has_table(kHostInfo)) return {};
    Query query(database_,
                "SELECT value FROM " + kHostInfo + " WHERE name = 'Hostname' OR name = 'HostName'");
    return query.next() ? valid_utf8(query.text(0)) : std::string();
  }

  std::vector<Trace> finish() {
    steps_.require_found(database_.name());
    Losses losses;
    add_losses(losses);
    std::vector<std::tuple<int64_t, int64_t, Draft*>>
        used;  // of those without the device only if there is no other
    for (const bool device : {true, false}) {
      if (!used.empty()) break;
      for (auto& [process, draft] : drafts_) {
        if (!device || !draft.device_streams.empty())
          used.emplace_back(draft.device, process, &draft);
      }
    }
    std::sort(used.begin(), used.end());
    std::vector<Trace> traces;
    for (const auto& [device, process, draft] : used) {
      Trace& trace = draft->trace;
      trace.host = host();
      trace.losses.dropped = losses.dropped;
      trace.losses.told = losses.told;
      trace.events = static_cast<int64_t>(trace.spans.size() + trace.steps.size());
      sort_spans(trace);
      assign_paths(trace);
      traces.push_back(std::move(trace));
    }
    return traces;
  }

  StepFinder steps_;
  Database database_;
  std::unordered_map<int64_t, std::string> strings_;
  std::map<int64_t, Draft> drafts_;  // by process
  const std::string empty_;
};

}  // namespace

std::vector<Trace> read_nsight(const std::filesystem::path& path, const ImportOptions& options) {
  return Reader(path, options).read();
}

}  // namespace dettax
