#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/plan/case.h"

namespace dettax {

// Families that share kernels and therefore the share of the peak that these reach.
enum class Generation { ampere, hopper, blackwell, cpu };
const char* to_string(Generation generation);
const std::vector<std::string>& generation_words();

// What a training step reaches of the hardware's peaks. Fitted once on the rows that validate.h lists as calibration, or measured.
struct Efficiency {
  double gemm_ratio = 0.75;         // of the peak, by an endless matrix product
  double gemm_half_seconds = 5e-6;  // a product that takes this long at the peak reaches half of it
  double fp8_gemm_ratio = 0.65;     // the same share for 8 bits
  double fp4_gemm_ratio = 0.5;      // and for 4
  double expert_ratio = 1;  // of a plain product's rate, by one that runs many small ones at once
  double all_to_all_ratio = 1;  // of the rate of the other collectives
  double attention_forward_ratio = 0.6;
  double attention_backward_ratio = 0.5;
  double memory_ratio = 0.85;      // of the memory's bandwidth, by element-wise passes
  double memory_passes_ratio = 1;  // what is really moved, beside the fused minimum
  double link_ratio = 0.8;         // bus bandwidth of a ring, of the link's one-way peak
  double network_ratio = 0.95;
  double kernel_seconds = 2e-6;  // between two kernels, nothing waiting
  double launch_seconds =
      6e-6;  // of the host for one kernel: a layer takes at least its kernels times this
  double tensor_overlap_ratio =
      0.6;  // of the products beside it, what hides tensor-parallel traffic
  double interference_ratio = 0.02;  // what hidden traffic slows the products it hides behind
  double collective_seconds = 0;     // of each collective, beside its protocol's own latency
  double step_seconds = 0.02;        // host work of a step that nothing hides
  double rank_cv =
      0.01;  // how much devices of one kind differ, for as long as they run: standard deviation of their speed
};

// A kind of accelerator, how many share a fast link, and the network between such groups: a cluster's file with the key `hardware`.
struct Hardware {
  std::string name;    // of the cluster
  std::string device;  // H100-SXM
  Generation generation = Generation::hopper;
  double bf16_flops = 0, fp8_flops = 0, fp4_flops = 0, tf32_flops = 0,
         fp32_flops = 0;  // a second, dense
  double gemm_reached_ratio =
      0.8;  // largest matrix product ever timed on it, of the bf16 peak (MAMF)
  double memory_bytes = 0;
  double memory_bytes_per_second = 0;
  double link_bytes_per_second = 0;     // one way, of one device
  int link_domain = 1;                  // devices that reach each other by it
  bool multicast = false;               // the link's switch adds (NVLS)
  double network_bytes_per_second = 0;  // of one device's share, one way
  bool network_adds = false;            // the network's switches add (SHARP)
  Efficiency efficiency;
  std::vector<std::string> sources;

  double peak_flops(Precision precision) const;
};

// Throws Error{config} where the cluster's file has no hardware, or wrong values.
Hardware load_hardware(const std::string& cluster_name_or_path);
// Clusters of the catalog that describe their hardware.
std::vector<std::string> list_hardware();

// A copy of the efficiencies that were fitted, by generation and key; machine files lie over them.
using Calibration = std::map<std::string, std::map<std::string, double>>;
Calibration load_calibration();
void apply_calibration(const Calibration& calibration, Hardware& machine);

}  // namespace dettax
