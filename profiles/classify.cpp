#include "profiles/classify.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

namespace dettax {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

template <size_t n>
bool contains_any(std::string_view text, const std::array<std::string_view, n>& parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return contains(text, part); });
}

// Lower case, without what separates words: "ncclDevKernel_All_Reduce" -> "nccldevkernelallreduce".
std::string plain(std::string_view name) {
  std::string text;
  text.reserve(name.size());
  for (const char c : name) {
    if (c == '_' || c == ' ' || c == '-') continue;
    text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return text;
}

}  // namespace

Category category_of_kernel(std::string_view name) {
  static constexpr std::array<std::string_view, 11> kCommunication{"nccl",
                                                                   "rccl",
                                                                   "msccl",
                                                                   "nvshmem",
                                                                   "deepep",
                                                                   "crossdevicereduce",
                                                                   "userbuffers",
                                                                   "symmmem",
                                                                   "multimemallreduce",
                                                                   "oneshotallreduce",
                                                                   "twoshotallreduce"};
  static constexpr std::array<std::string_view, 3> kFill{"fillfunctor", "fillkernel",
                                                         "memsetkernel"};
  const std::string text = plain(name);
  if (contains_any(text, kCommunication)) return Category::communication;
  if (contains_any(text, kFill)) return Category::fill;
  return Category::compute;
}

Category category_of_call(std::string_view name) {
  static constexpr std::array<std::string_view, 3> kLaunch{"Launch", "Memcpy", "Memset"};
  static constexpr std::array<std::string_view, 9> kAllocate{
      "Malloc",   "Free",       "MemAlloc",  "MemCreate",   "MemMap",
      "MemUnmap", "MemRelease", "HostAlloc", "HostRegister"};
  if (contains(name, "HostFunc"))
    return Category::api;  // runs on the host: no record of the device answers it
  if (contains(name, "Synchronize")) return Category::synchronize;
  if (contains_any(name, kLaunch)) return Category::launch;
  if (contains_any(name, kAllocate)) return Category::allocate;
  return Category::api;
}

std::string without_version(const std::string& call) {
  const size_t at = call.rfind("_v");
  const bool versioned = at != std::string::npos && at + 2 < call.size() &&
                         std::all_of(call.begin() + static_cast<std::ptrdiff_t>(at) + 2, call.end(),
                                     [](unsigned char c) { return std::isdigit(c) != 0; });
  return versioned ? call.substr(0, at) : call;
}

bool is_communication_op(std::string_view name) {
  static constexpr std::array<std::string_view, 6> kPrefixes{
      "c10d::", "nccl:", "_c10d_functional::", "c10d_functional::", "record_param_comms", "nccl"};
  return std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

std::string_view collective_kind(std::string_view name) {
  static constexpr std::array<std::string_view, 9> kKinds{"allreduce", "allgather", "reducescatter",
                                                          "alltoall",  "broadcast", "sendrecv",
                                                          "send",      "recv",      "reduce"};
  const std::string text = plain(name);
  for (const std::string_view kind : kKinds) {
    if (contains(text, kind)) return kind;
  }
  return {};
}

}  // namespace dettax
