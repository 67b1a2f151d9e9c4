#include "results/environment.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>

#include <git_commit.h>
#include <sched.h>
#include <sys/utsname.h>

#include "harness/base/text.h"
#include "results/journal.h"

namespace dettax {
namespace {

constexpr const char* kUnknown = "unknown";

// Value of the first line "key   : value".
std::optional<std::string> first_value(const std::filesystem::path& file, std::string_view key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const size_t colon = line.find(':');
    if (colon != std::string::npos && trim(std::string_view(line).substr(0, colon)) == key)
      return std::string(trim(std::string_view(line).substr(colon + 1)));
  }
  return std::nullopt;
}

int64_t memory_bytes(const std::filesystem::path& meminfo) {
  return std::strtoll(first_value(meminfo, "MemTotal").value_or("0").c_str(), nullptr, 10) *
         1024;  // in kB
}

// Cores this process may use, which a container or a batch system may have cut down.
int64_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

constexpr const char* kTopologyFile = "NCCL_TOPO_FILE";

std::string content_words(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return "cannot be read";
  return "hash " + hash_text(std::string(std::istreambuf_iterator<char>(in), {}));
}

}  // namespace

const std::vector<std::string>& recorded_variables() {
  static const std::vector<std::string> kNames = {"NCCL_ALGO",
                                                  "NCCL_PROTO",
                                                  "NCCL_NVLS_ENABLE",
                                                  "NCCL_COLLNET_ENABLE",
                                                  "NCCL_MIN_NCHANNELS",
                                                  "NCCL_MAX_NCHANNELS",
                                                  "NCCL_TOPO_FILE",
                                                  "NCCL_P2P_DISABLE",
                                                  "NCCL_P2P_LEVEL",
                                                  "NCCL_SHM_DISABLE",
                                                  "NCCL_IB_DISABLE",
                                                  "NCCL_IB_HCA",
                                                  "NCCL_NET",
                                                  "NCCL_NET_GDR_LEVEL",
                                                  "NCCL_SOCKET_IFNAME",
                                                  "NCCL_CROSS_NIC",
                                                  "NCCL_BUFFSIZE",
                                                  "NCCL_NTHREADS",
                                                  "NVTE_ALLOW_NONDETERMINISTIC_ALGO",
                                                  "NVTE_FUSED_ATTN",
                                                  "NVTE_FLASH_ATTN",
                                                  "CUBLAS_WORKSPACE_CONFIG",
                                                  "CUDA_DEVICE_MAX_CONNECTIONS",
                                                  "CUDNN_FRONTEND_ATTN_DP_WORKSPACE_LIMIT",
                                                  "MAMBA_DETERMINISTIC",
                                                  "CAUSAL_CONV1D_DETERMINISTIC",
                                                  "NVIDIA_TF32_OVERRIDE"};
  return kNames;
}

const std::vector<std::string>& job_variables() {
  static const std::vector<std::string> kNames = {"SLURM_JOB_ID", "NEMO_RUN_ID"};
  return kNames;
}

Environment collect_environment(const std::string& simd_target, const EnvironmentSources& sources) {
  Environment environment;
  environment.tool_version = DETTAX_VERSION;
  environment.git_commit = DETTAX_GIT_COMMIT;
  environment.compiler = DETTAX_COMPILER;
  environment.build_type = DETTAX_BUILD_TYPE;
  utsname system{};
  const bool known = uname(&system) == 0;
  environment.host = known ? system.nodename : kUnknown;
  environment.kernel = known ? std::string(system.sysname) + " " + system.release : kUnknown;
  environment.cpu_model = first_value(sources.proc / "cpuinfo", "model name").value_or(kUnknown);
  environment.simd_target = simd_target;
  environment.cores = usable_cores();
  environment.memory_bytes = memory_bytes(sources.proc / "meminfo");
  for (const auto* names : {&recorded_variables(), &job_variables()}) {
    for (const std::string& name : *names) {
      // Read before any thread of ours exists or writes the environment.
      const char* value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe)
      if (value != nullptr) environment.variables[name] = value;
    }
  }
  // Equal paths may hold unequal files.
  if (const auto file = environment.variables.find(kTopologyFile);
      file != environment.variables.end())
    environment.variables[std::string(kTopologyFile) + " (content)"] = content_words(file->second);
  environment.started_at = utc_now();
  return environment;
}

}  // namespace dettax
