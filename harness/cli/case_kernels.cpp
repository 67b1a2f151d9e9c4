#include "harness/cli/case_kernels.h"

#include <filesystem>
#include <map>
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
  std::string text = fmt::format("--shape={}", kShape);
  // What is 0 is the program's default.
  const auto add = [&](const char* key, int64_t value) {
    if (value != 0) text += fmt::format(",{}={}", key, value);
  };
  add("samples", planned.batch.micro);
  add("tokens", planned.batch.sequence_length);
  add("width", model.width);
  add("heads", model.heads);
  add("layers", model.layers);
  add("vocabulary", model.padded_vocabulary());
  add("parameters", parameter_count(model));
  add("key_value_heads", model.key_value_heads);
  add("head_width", model.head_width);
  add("ffn_width", model.ffn_width);
  add("rms_norm", model.norm == NormKind::rms_norm ? 1 : 0);
  add("swiglu", model.activation == Activation::swiglu ? 1 : 0);
  add("rope", model.position == Position::rope ? 1 : 0);
  add("drops_out", model.dropout > 0 ? 1 : 0);
  add("recomputes_cheap", planned.layout.recompute == Recompute::selective ? 1 : 0);
  add("recomputes_all", planned.layout.recompute == Recompute::full ? 1 : 0);
  add("micro_batches", planned.micro_batches());
  if (!model.moe) return text;
  add("expert_layers", expert_layers(model));
  add("experts", model.moe->experts);
  add("choices", model.moe->top_k);
  add("expert_width", model.moe->expert_width);
  add("shared_width", model.moe->shared_experts * model.moe->expert_width);
  return text;
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
