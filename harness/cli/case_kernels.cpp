#include "harness/cli/case_kernels.h"

#include <filesystem>
#include <map>
#include <numeric>
#include <system_error>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/launch/process.h"

namespace dettax {
namespace {

constexpr const char* kKernelBench = "kernel_bench";
constexpr const char* kCollectiveBench = "collective_bench";
constexpr const char* kShape = "case";     // its name in names of kernels
constexpr double kLimitSeconds = 30 * 60;  // of one program

std::filesystem::path program_path(const std::string& name) {
  std::error_code fault;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", fault).parent_path();
  for (const auto& path : {folder / "suites" / name, folder / name}) {
    if (std::filesystem::is_regular_file(path, fault)) return path;
  }
  throw Error(ErrorKind::config,
              fmt::format("--kernels: there is no {} beside dettax in {}: ./dev build makes it, "
                          "and needs libbenchmark-dev",
                          name, folder.string()));
}

bool ran(const Record& record) {
  return record.planned.backend == Backend::cpu && !record.arms.empty() &&
         record.verdict.status != Status::error && record.verdict.status != Status::skipped;
}

// One program's JSON, by its arguments; empty if interrupted.
class KernelPrograms {
 public:
  KernelPrograms(std::filesystem::path logs, const KernelRunSettings& settings)
      : logs_(std::move(logs)), settings_(settings) {}

  const std::string& run(const std::string& name, const std::string& argument) {
    std::string& json = answers_[name + " " + argument];
    if (json.empty()) json = answer(name, argument);
    return json;
  }

 private:
  std::string answer(const std::string& name, const std::string& argument) const {
    settings_.say(name + " " + argument);
    const std::filesystem::path out = logs_ / (name + ".json"), log = logs_ / (name + ".log");
    std::error_code ignored;
    std::filesystem::remove(out, ignored);
    ProcessSpec spec;
    spec.program = program_path(name);
    spec.arguments = {argument, "--benchmark_min_time=0.02", "--benchmark_out=" + out.string(),
                      "--benchmark_out_format=json"};
    spec.output = log;
    Process process = Process::start(spec);
    std::optional<int> status;
    constexpr double kLook = 0.2;
    for (double waited = 0; !status && waited < kLimitSeconds; waited += kLook) {
      status = process.wait(kLook);
      if (settings_.interrupted()) return "";  // it ends with this object
    }
    if (!status || *status != 0)
      throw Error(ErrorKind::infrastructure,
                  fmt::format("{}: {}{}", name,
                              status ? describe_exit(*status) : "did not end within half an hour",
                              output_tail(log)));
    return read_file(out);
  }

  std::filesystem::path logs_;
  const KernelRunSettings& settings_;
  std::map<std::string, std::string> answers_;
};

}  // namespace

void require_kernel_programs() {
  program_path(kKernelBench);
  program_path(kCollectiveBench);
}

std::string shape_argument(const Case& planned) {
  const Model& model = planned.model;
  const int64_t keys = model.key_value_heads * model.head_width;
  const int64_t up = model.ffn_width * (model.activation == Activation::swiglu ? 2 : 1);
  return fmt::format("--shape={},{},{},{},{},{},{},{},{},{},{}", kShape, planned.batch.micro,
                     planned.batch.sequence_length, model.width, std::gcd(model.heads, model.width),
                     model.layers, model.padded_vocabulary(), parameter_count(model),
                     model.heads * model.head_width + 2 * keys, model.ffn_width, up);
}

std::string collective_filter(const Case& planned) {
  const int ranks = planned.layout.ranks();
  if (ranks != 2 && ranks != 4) return "";
  return fmt::format("--benchmark_filter=/ranks:{}/bytes:(1048576|16777216)/", ranks);
}

void measure_kernels(std::vector<Record>& records, RunFolder& folder,
                     const KernelRunSettings& settings) {
  KernelPrograms programs(folder.path() / "logs", settings);
  for (Record& record : records) {
    if (!ran(record) || record.kernels) continue;
    KernelSuite suite;
    const std::string kernels = programs.run(kKernelBench, shape_argument(record.planned));
    if (settings.interrupted()) return;
    add_kernels(suite, kernels, kKernelBench, kShape);
    if (const std::string filter = collective_filter(record.planned); !filter.empty()) {
      const std::string collectives = programs.run(kCollectiveBench, filter);
      if (settings.interrupted()) return;
      add_kernels(suite, collectives, kCollectiveBench, "");
    }
    record.kernels = std::move(suite);
    folder.write_record(record);
  }
}

}  // namespace dettax
