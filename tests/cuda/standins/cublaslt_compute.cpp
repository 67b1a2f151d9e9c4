// What a product of the stand-in computes, and in which order.

#include "tests/cuda/standins/cublaslt_compute.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "harness/device/number_format.h"

namespace dettax::test {
namespace {

uint64_t mixed(uint64_t n) {
  n = (n ^ (n >> 30U)) * 0xBF58476D1CE4E5B9U;
  n = (n ^ (n >> 27U)) * 0x94D049BB133111EBU;
  return n ^ (n >> 31U);
}

float load(const void* from, cudaDataType type, int64_t at) {
  if (type == CUDA_R_32F) return static_cast<const float*>(from)[at];
  return decode(NumberFormat::bf16, static_cast<const uint16_t*>(from)[at]);
}
void store(void* to, cudaDataType type, int64_t at, float value) {
  if (type == CUDA_R_32F) {
    static_cast<float*>(to)[at] = value;
  } else {
    static_cast<uint16_t*>(to)[at] = static_cast<uint16_t>(encode(NumberFormat::bf16, value));
  }
}

constexpr float kRootOfTwoOverPi = 0.7978845608028654F;
constexpr float kCubic = 0.044715F;
float gelu(float x) {
  return 0.5F * x * (1 + std::tanh(kRootOfTwoOverPi * (x + kCubic * x * x * x)));
}
float gelu_slope(float x) {
  const float t = std::tanh(kRootOfTwoOverPi * (x + kCubic * x * x * x));
  return 0.5F * (1 + t) + 0.5F * x * (1 - t * t) * kRootOfTwoOverPi * (1 + 3 * kCubic * x * x);
}

class Computation {
 public:
  Computation(const LibraryProduct& product, const LibraryMemory& memory, const SumShape& shape,
              uint64_t schedule)
      : p_(product), at_(memory), shape_(shape), schedule_(schedule) {
    read(at_.a, p_.a, p_.transpose_a, a_);
    read(at_.b, p_.b, !p_.transpose_b, b_);
  }

  void run() {
    for (int64_t j = 0; j < p_.n(); ++j) {
      for (int64_t i = 0; i < p_.m(); ++i) finish(i, j, at_.alpha * sum(i, j));
    }
    if (p_.epilogue != CUBLASLT_EPILOGUE_BGRADB) return;
    for (int64_t j = 0; j < p_.n(); ++j) {
      float total = 0;
      for (int64_t l = 0; l < p_.k(); ++l) total += b_[static_cast<size_t>(j * p_.k() + l)];
      store(p_.vector, p_.d.type, j, total);
    }
  }

 private:
  // Lines of k numbers; `along` where k runs along the columns of memory.
  void read(const void* from, const LibraryProduct::Matrix& m, bool along,
            std::vector<float>& to) const {
    const int64_t lines = along ? m.columns : m.rows;
    to.resize(static_cast<size_t>(lines * p_.k()));
    for (int64_t line = 0; line < lines; ++line) {
      for (int64_t l = 0; l < p_.k(); ++l) {
        const float value = load(from, m.type, along ? line * m.stride + l : l * m.stride + line);
        const bool rounds = p_.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
        to[static_cast<size_t>(line * p_.k() + l)] =
            rounds ? round_to(NumberFormat::tf32, value) : value;
      }
    }
  }

  float piece(int64_t i, int64_t j, int64_t begin, int64_t end) const {
    const float* a = a_.data() + i * p_.k();
    const float* b = b_.data() + j * p_.k();
    float lanes[16] = {};
    for (int64_t l = begin; l < end; ++l) lanes[(l - begin) % shape_.lanes] += a[l] * b[l];
    return std::accumulate(lanes + 1, lanes + shape_.lanes, lanes[0]);
  }

  // Pieces meet in the order in which blocks of their tile finish.
  float sum(int64_t i, int64_t j) const {
    const int64_t splits = shape_.splits;
    std::vector<int64_t> order(static_cast<size_t>(splits));
    std::iota(order.begin(), order.end(), int64_t{0});
    if (schedule_ != 0) {
      auto drawn = schedule_ + static_cast<uint64_t>(i / shape_.tile_rows) * 131 +
                   static_cast<uint64_t>(j / shape_.tile_columns) * 7919;
      for (size_t left = order.size(); left > 1; --left) {
        std::swap(order[left - 1], order[mixed(drawn++) % left]);
      }
    }
    float total = 0;
    for (const int64_t s : order) {
      total += piece(i, j, p_.k() * s / splits, p_.k() * (s + 1) / splits);
    }
    return total;
  }

  void finish(int64_t i, int64_t j, float value) const {
    if (at_.beta != 0) value += at_.beta * load(at_.c, p_.c.type, j * p_.c.stride + i);
    const int64_t kept = j * p_.auxiliary_stride + i;
    if (p_.epilogue == CUBLASLT_EPILOGUE_BIAS || p_.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) {
      value += load(p_.vector, p_.d.type, i);
    }
    if (p_.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) {
      store(p_.auxiliary, p_.d.type, kept, value);
      value = gelu(value);
    }
    if (p_.epilogue == CUBLASLT_EPILOGUE_DGELU) {
      value *= gelu_slope(load(p_.auxiliary, p_.d.type, kept));
    }
    store(at_.d, p_.d.type, j * p_.d.stride + i, value);
  }

  LibraryProduct p_;
  LibraryMemory at_;
  SumShape shape_;
  uint64_t schedule_;
  std::vector<float> a_, b_;
};

}  // namespace

void compute_product(const LibraryProduct& product, const LibraryMemory& memory,
                     const SumShape& shape, uint64_t schedule) {
  Computation(product, memory, shape, schedule).run();
}

}  // namespace dettax::test
