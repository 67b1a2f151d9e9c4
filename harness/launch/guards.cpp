#include "harness/launch/guards.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

namespace dettax {
namespace {

// First line of /proc/stat: "cpu user nice system idle iowait irq softirq steal ...", in ticks
// since boot, all cores together.
void read_cpu_time(MachineSample& sample) {
  std::ifstream file("/proc/stat");
  std::string label;
  std::array<double, 8> ticks{};
  file >> label;
  for (double& value : ticks) file >> value;
  if (!file || label != "cpu") return;
  const auto per_second = static_cast<double>(::sysconf(_SC_CLK_TCK));
  sample.busy_core_seconds = (ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6]) / per_second;
  sample.steal_core_seconds = ticks[7] / per_second;
}

// "some avg10=0.00 avg60=0.00 avg300=0.00 total=123", total in microseconds.
double read_pressure_seconds() {
  std::ifstream file("/proc/pressure/cpu");
  std::string word;
  while (file >> word && word != "full") {
    if (word.starts_with("total=")) return 1e-6 * std::stod(word.substr(6));
  }
  return 0;
}

double mean_scaling_frequency_hz() {
  double sum_khz = 0;
  int count = 0;
  for (int cpu = 0;; ++cpu, ++count) {
    std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                       "/cpufreq/scaling_cur_freq");
    double khz = 0;
    if (!(file >> khz)) break;
    sum_khz += khz;
  }
  return count == 0 ? 0 : 1e3 * sum_khz / count;
}

// Where the kernel has no scaling driver (virtual machines), the nominal clock of /proc/cpuinfo.
double mean_cpuinfo_frequency_hz() {
  std::ifstream file("/proc/cpuinfo");
  double sum_mhz = 0;
  int count = 0;
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (!line.starts_with("cpu MHz") || colon == std::string::npos) continue;
    sum_mhz += std::stod(line.substr(colon + 1));
    ++count;
  }
  return count == 0 ? 0 : 1e6 * sum_mhz / count;
}

}  // namespace

MachineSample sample_machine() {
  MachineSample sample;
  sample.time_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  sample.cores = std::max(1, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)));
  read_cpu_time(sample);
  sample.pressure_seconds = read_pressure_seconds();
  sample.frequency_hz = mean_scaling_frequency_hz();
  if (sample.frequency_hz <= 0) sample.frequency_hz = mean_cpuinfo_frequency_hz();
  return sample;
}

void fill_guards(Block& block, const MachineSample& before, const MachineSample& after,
                 double own_cpu_seconds) {
  const double wall = after.time_seconds - before.time_seconds;
  if (wall <= 0) return;
  const double core_seconds = wall * after.cores;
  const double busy = after.busy_core_seconds - before.busy_core_seconds;
  const double steal = after.steal_core_seconds - before.steal_core_seconds;
  const double pressure = after.pressure_seconds - before.pressure_seconds;
  block.steal_ratio = std::max(0.0, steal / core_seconds);
  block.other_load_ratio = std::max(0.0, (busy - own_cpu_seconds) / core_seconds);
  block.pressure_ratio = std::clamp(pressure / wall, 0.0, 1.0);
  block.frequency_hz = 0.5 * (before.frequency_hz + after.frequency_hz);
}

}  // namespace dettax
