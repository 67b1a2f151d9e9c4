#include "profiles/import/import.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "harness/base/error.h"
#include "profiles/capture/capture_file.h"
#include "profiles/capture/capture_reader.h"
#include "profiles/import/byte_source.h"
#include "profiles/import/kineto.h"
#include "profiles/import/nsight.h"

namespace dettax {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSqliteMagic = "SQLite format 3";

bool begins_with(const fs::path& path, std::string_view magic) {
  std::string begin(magic.size(), '\0');
  begin.resize(open_bytes(path)->read(begin.data(), begin.size()));
  return begin == magic;
}

bool looks_like_trace(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.ends_with(".json") || name.ends_with(".json.gz") || name.ends_with(".sqlite") ||
         name.ends_with(".capture");
}

std::vector<fs::path> files_of(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return {path};
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.is_regular_file() && looks_like_trace(entry.path())) files.push_back(entry.path());
  }
  if (files.empty())
    throw Error(ErrorKind::usage,
                path.string() +
                    ": has no trace in it; a trace ends in .json, .json.gz, .sqlite or .capture");
  std::sort(files.begin(), files.end());
  return files;
}

// The number behind "rank" in a file's name.
std::optional<int> rank_in_name(const std::string& name) {
  size_t at = name.rfind("rank");
  if (at == std::string::npos) return std::nullopt;
  at += 4;
  if (at < name.size() && (name[at] == '_' || name[at] == '-' || name[at] == '.')) ++at;
  int rank = 0;
  const auto [end, error] = std::from_chars(name.data() + at, name.data() + name.size(), rank);
  if (error != std::errc()) return std::nullopt;
  return rank;
}

std::vector<Trace> read_file_traces(const fs::path& file, const ImportOptions& options) {
  if (file.extension() == ".nsys-rep" || file.extension() == ".qdrep")
    throw Error(ErrorKind::usage,
                file.string() +
                    ": is a report of Nsight Systems; export it first: nsys export --type sqlite " +
                    file.filename().string());
  std::vector<Trace> traces;
  if (begins_with(file, kSqliteMagic)) {
    traces = read_nsight(file, options);
  } else if (begins_with(file, kCaptureMagic) || file.extension() == ".capture") {
    traces.push_back(read_capture_trace(file, options));
  } else {
    traces.push_back(read_kineto(file, options));
  }
  if (traces.size() == 1 && !traces[0].rank)
    traces[0].rank = rank_in_name(file.filename().string());
  // Several processes of one report: one a device, in its order.
  for (size_t i = 0; i < traces.size() && traces.size() > 1; ++i) {
    traces[i].rank = static_cast<int>(i);
    traces[i].notes.push_back("rank " + std::to_string(i) +
                              " is the process on the report's device number " + std::to_string(i));
  }
  return traces;
}

void order_by_rank(std::vector<Trace>& traces, const fs::path& path) {
  if (traces.size() < 2) return;
  for (const Trace& trace : traces) {
    if (!trace.rank)
      throw Error(ErrorKind::usage, trace.source +
                                        ": tells no rank, and its name has no \"rank<N>\" in it; "
                                        "with several files each needs one");
  }
  std::sort(traces.begin(), traces.end(),
            [](const Trace& a, const Trace& b) { return a.rank < b.rank; });
  const auto twice =
      std::adjacent_find(traces.begin(), traces.end(),
                         [](const Trace& a, const Trace& b) { return a.rank == b.rank; });
  if (twice != traces.end())
    throw Error(ErrorKind::usage, path.string() + ": " + twice->source + " and " +
                                      std::next(twice)->source + " are both of rank " +
                                      std::to_string(twice->rank.value_or(-1)) +
                                      "; one file a rank is expected");
}

}  // namespace

std::vector<Trace> read_traces(const fs::path& path, const ImportOptions& options) {
  std::vector<Trace> traces;
  for (const fs::path& file : files_of(path)) {
    for (Trace& trace : read_file_traces(file, options)) traces.push_back(std::move(trace));
  }
  order_by_rank(traces, path);
  return traces;
}

}  // namespace dettax
