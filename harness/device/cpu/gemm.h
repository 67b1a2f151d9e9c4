#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "harness/device/cpu/memory.h"
#include "harness/device/cpu/spin_lock.h"
#include "harness/device/cpu/team.h"
#include "harness/plan/knobs.h"

namespace dettax {

// One operand of C[rows, columns] = sum over k steps of A[row, k] * B[k, column]. A line is a row
// of A or a column of B. One of the two strides is 1.
struct GemmOperand {
  const float* data = nullptr;
  int64_t lines = 0;
  int64_t line_stride = 1;
  int64_t step_stride = 1;
};

// What is done to a finished sum before it is stored. Operands shaped like C have C's row stride.
// `residual` may be C itself.
struct GemmFinish {
  enum class Kind {
    none,
    bias,
    bias_gelu,
    bias_residual,
    residual,
    gelu_derivative,
    residual_gelu_derivative
  };
  Kind kind = Kind::none;
  const float* bias = nullptr;
  const float* residual = nullptr;
  float* pre_activation = nullptr;  // written by bias_gelu, read by the derivatives
};

// C whole, each element one chain over k: bits do not depend on the team, on `dynamic` or on the
// other rows.
struct GemmCall {
  GemmOperand a, b;
  int64_t steps = 0;
  float* c = nullptr;
  int64_t c_stride = 0;
  GemmFinish finish;
  bool dynamic = false;
};

// C (+)= A B summed over tokens; line_sums (+)= sum of each line of A over tokens, if given.
struct WeightGradientCall {
  GemmOperand a, b;
  int64_t tokens = 0;
  int64_t samples = 1;
  const int32_t* sample_begins =
      nullptr;  // samples + 1, less the first of them; null: samples are equally long
  float* c = nullptr;
  int64_t c_stride = 0;
  float* line_sums = nullptr;
  bool accumulate = false;
  Order order = Order::ordered;
  bool dynamic = false;

  int64_t sample_begin(int64_t sample) const {
    return sample_begins == nullptr ? sample * (tokens / samples)
                                    : sample_begins[sample] - sample_begins[0];
  }
};

// A part of a sum that contributions are added to in the order of their arrival.
struct ArrivalPlace {
  SpinLock lock;
  bool started = false;  // has had a contribution in this call
};

// Timed choice of a token chunk for one shape, made in the first calls and then kept.
struct ChunkTrial {
  int calls = 0;
  std::vector<double> best_seconds;  // of each candidate
};

// What the multiplications of one device keep between calls.
struct GemmState {
  explicit GemmState(int threads) : local(static_cast<size_t>(threads)) {}

  Scratch shared;              // the operand that all threads read, packed
  std::vector<Scratch> local;  // panels that one thread has packed for itself
  Scratch partial;             // sums over a part of K, where C cannot hold them
  std::vector<ArrivalPlace> places;
  std::map<std::tuple<int64_t, int64_t, int64_t>, ChunkTrial> trials;

  size_t bytes() const;
};

void gemm(Team& team, GemmState& state, const GemmCall& call);
void weight_gradient(Team& team, GemmState& state, const WeightGradientCall& call);

// The same with `chunk` tokens, at most all, as one contribution to the sum.
void weight_gradient_on_arrival(Team& team, GemmState& state, const WeightGradientCall& call,
                                int64_t chunk);
void weight_gradient_in_order(Team& team, GemmState& state, const WeightGradientCall& call,
                              int64_t chunk);

// Name of the instruction set that gemm and weight_gradient run on.
const char* gemm_target_name();

}  // namespace dettax
