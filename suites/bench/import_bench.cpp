// How fast a trace of PyTorch's profiler is read: a synthetic file of the given size (plain and packed by gzip) into spans with paths,
// on one core, with the peak of memory; beside it Python's json module on the same file, which is how Holistic Trace Analysis begins.
// Exit code 1 if the plain file is read slower than --wanted says or memory passes --memory.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zlib.h>

#include "harness/base/error.h"
#include "harness/base/exit_code.h"
#include "profiles/import/kineto.h"
#include "suites/bench/bench_main.h"

namespace dettax {
namespace {

namespace fs = std::filesystem;

struct Settings {
  double megabytes = 250;
  int repetitions = 5;
  double wanted_megabytes_per_second = 200;
  double memory_megabytes = 1000;
  std::string python = "/usr/bin/python3";
};

// One layer's worth of events, laid out as PyTorch writes them: operations with shapes, their launches, kernels with long names.
class TraceText {
 public:
  std::string next() {
    std::string text;
    text += fmt::format(
        "  {{\n    \"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::linear\", \"pid\": 4242, "
        "\"tid\": 4242,\n    \"ts\": {}, \"dur\": "
        "{},\n    \"args\": {{\n      \"External id\": {},\"Record function id\": 0, \"Concrete "
        "Inputs\": [\"\", \"\", \"\"], \"Input type\": "
        "[\"c10::BFloat16\", \"c10::BFloat16\", \"\"], \"Input Strides\": [[2097152, 1024, 1], "
        "[1024, 1], []], \"Input Dims\": [[4, 2048, "
        "1024], [4096, 1024], []], \"Ev Idx\": {}\n    }}\n  }},\n",
        microseconds(time_ns_), "41.223", id_, id_);
    text += fmt::format(
        "  {{\n    \"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", "
        "\"pid\": 4242, \"tid\": 4242,\n    \"ts\": {}, "
        "\"dur\": 5.113,\n    \"args\": {{\n      \"External id\": {},\"cbid\": 211, "
        "\"correlation\": {}\n    }}\n  }},\n",
        microseconds(time_ns_ + 9'412), id_, id_);
    text += fmt::format(
        "  {{\n    \"ph\": \"s\", \"id\": {}, \"pid\": 4242, \"tid\": 4242, \"ts\": {},\n    "
        "\"cat\": \"ac2g\", \"name\": \"ac2g\"\n  }},\n",
        id_, microseconds(time_ns_ + 9'412));
    text += fmt::format(
        "  {{\n    \"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"void "
        "at::native::vectorized_elementwise_kernel<4, "
        "at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul> >(int, "
        "at::native::CUDAFunctor_add<c10::BFloat16>, "
        "std::array<char*, 3ul>)\", \"pid\": 0, \"tid\": 7,\n    \"ts\": {}, \"dur\": {},\n    "
        "\"args\": {{\n      \"External id\": {},\"queued\": "
        "0, \"device\": 0, \"context\": 1,\n      \"stream\": 7, \"correlation\": {},\n      "
        "\"registers per thread\": 32, \"shared memory\": 0, "
        "\"blocks per SM\": 31.030304, \"warps per SM\": 124.121216,\n      \"grid\": [4096, 1, "
        "1],\n      \"block\": [128, 1, 1],\n      \"est. "
        "achieved occupancy %\": 100\n    }}\n  }},\n",
        microseconds(time_ns_ + 90'118), "38.976", id_, id_);
    text += fmt::format(
        "  {{\n    \"ph\": \"f\", \"id\": {}, \"pid\": 0, \"tid\": 7, \"ts\": {},\n    \"cat\": "
        "\"ac2g\", \"name\": \"ac2g\", \"bp\": \"e\"\n  }},\n",
        id_, microseconds(time_ns_ + 90'118));
    ++id_;
    time_ns_ += 42'337;
    return text;
  }
  int64_t events() const { return 5 * (id_ - 1); }

  static std::string head() {
    return "{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [],\n  \"distributedInfo\": "
           "{\"backend\": \"nccl\", \"rank\": 0, "
           "\"world_size\": 1},\n  \"displayTimeUnit\": \"ms\",\n  \"baseTimeNanoseconds\": "
           "1786000000000000000,\n  \"traceEvents\": [\n";
  }
  static std::string tail() {
    return "  {\n    \"name\": \"end\", \"ph\": \"i\", \"s\": \"g\", \"pid\": \"\", \"tid\": "
           "\"Traces\", \"ts\": 1\n  }\n  ],\n  \"traceName\": \"synthetic\"\n}\n";
  }

 private:
  static std::string microseconds(int64_t ns) {
    return fmt::format("{}.{:03}", ns / 1000, ns % 1000);
  }
  int64_t id_ = 1;
  int64_t time_ns_ = 1'000'000;
};

int64_t write_trace(const fs::path& path, double megabytes) {
  std::ofstream file(path, std::ios::binary);
  TraceText text;
  file << TraceText::head();
  for (double written = 0; written < 1e6 * megabytes;) {
    const std::string part = text.next();
    written += static_cast<double>(part.size());
    file << part;
  }
  if (!(file << TraceText::tail()).flush())
    throw Error(ErrorKind::infrastructure, path.string() + ": cannot be written");
  return text.events() + 1;
}

void pack(const fs::path& from, const fs::path& to) {
  std::ifstream in(from, std::ios::binary);
  gzFile out = gzopen(to.c_str(), "wb6");
  std::vector<char> buffer(1 << 20);
  while (in.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || in.gcount() > 0)
    gzwrite(out, buffer.data(), static_cast<unsigned>(in.gcount()));
  if (gzclose(out) != Z_OK)
    throw Error(ErrorKind::infrastructure, to.string() + ": cannot be written");
}

double peak_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024 / 1e6;
}

// Seconds of the fastest and the median reading.
struct Times {
  double best, median;
};
Times time_reading(const fs::path& path, int64_t events, int repetitions) {
  std::vector<double> seconds;
  for (int i = 0; i < repetitions; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const Trace trace = read_kineto(path);
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    if (trace.events != events)
      throw Error(ErrorKind::internal,
                  fmt::format("{} of {} events were read", trace.events, events));
  }
  std::sort(seconds.begin(), seconds.end());
  return {seconds.front(), seconds[seconds.size() / 2]};
}

void compare_with_python(const Settings& settings, const fs::path& path, double megabytes) {
  const std::string code =
      "import json,time,resource; t=time.perf_counter(); d=json.load(open('" + path.string() +
      "')); s=time.perf_counter()-t; print(f'Python json.load alone {" + std::to_string(megabytes) +
      "/s:8.0f} MB/s, {s:.2f} s, peak "
      "{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss*1024/1e6:.0f} MB')";
  const std::string command = settings.python + " -c \"" + code + "\"";
  std::fflush(stdout);
  if (std::system(command.c_str()) != 0)
    fmt::print("Python json: not compared, {} did not run\n", settings.python);
}

int run(const Settings& settings) {
  const fs::path folder =
      fs::temp_directory_path() / fmt::format("dettax_import_bench_{}", getpid());
  fs::create_directories(folder);
  struct Cleaner {
    const fs::path& folder;
    ~Cleaner() { fs::remove_all(folder); }
  } const cleaner{folder};
  const fs::path plain = folder / "trace.json", packed = folder / "trace.json.gz";
  const int64_t events = write_trace(plain, settings.megabytes);
  const double megabytes = static_cast<double>(fs::file_size(plain)) / 1e6;
  const double peak_before = peak_megabytes();
  const Times times = time_reading(plain, events, settings.repetitions);
  const double peak = peak_megabytes();
  fmt::print("{:.0f} MB, {} events, {} readings\n", megabytes, events, settings.repetitions);
  fmt::print("plain  {:8.0f} MB/s median, {:.0f} best; peak {:.0f} MB of memory ({:.0f} before)\n",
             megabytes / times.median, megabytes / times.best, peak, peak_before);
  pack(plain, packed);
  const Times packed_times = time_reading(packed, events, settings.repetitions);
  fmt::print("gzip   {:8.0f} MB/s of unpacked text median, {:.0f} best; {:.0f} MB packed\n",
             megabytes / packed_times.median, megabytes / packed_times.best,
             static_cast<double>(fs::file_size(packed)) / 1e6);
  compare_with_python(settings, plain, megabytes);
  const bool fast = megabytes / times.median >= settings.wanted_megabytes_per_second,
             small = peak <= settings.memory_megabytes;
  return static_cast<int>(fast && small ? ExitCode::pass : ExitCode::fail);
}

int run_command_line(int argc, char** argv) {
  Settings settings;
  CLI::App app("Speed and memory of reading a trace of PyTorch's profiler.");
  app.add_option("--megabytes", settings.megabytes, "size of the trace")
      ->check(CLI::PositiveNumber);
  app.add_option("--repetitions", settings.repetitions)->check(CLI::PositiveNumber);
  app.add_option("--wanted", settings.wanted_megabytes_per_second,
                 "least MB/s of the plain file, median");
  app.add_option("--memory", settings.memory_megabytes, "most memory at the peak, MB");
  app.add_option("--python", settings.python, "interpreter to compare with");
  CLI11_PARSE(app, argc, argv);
  return run(settings);
}

}  // namespace
}  // namespace dettax

int main(int argc, char** argv) {
  return dettax::bench_main("import_bench", [&] { return dettax::run_command_line(argc, argv); });
}
