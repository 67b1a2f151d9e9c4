// What the two ways to sum a weight gradient share, once per instruction set because the loops must
// inline the kernels.

#if defined(DETTAX_WEIGHT_GRADIENT_CHUNKS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef DETTAX_WEIGHT_GRADIENT_CHUNKS_INL_H
#undef DETTAX_WEIGHT_GRADIENT_CHUNKS_INL_H
#else
#define DETTAX_WEIGHT_GRADIENT_CHUNKS_INL_H
#endif

#include "harness/device/cpu/gemm_schedule-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dettax {
namespace HWY_NAMESPACE {

constexpr int kTreeLevels = 40;

// Sums of kLanes columns of a packed panel over its steps, as a chain from zero.
HWY_INLINE Vf sum_steps(F32 d, const float* panel, int64_t steps) {
  Vf sum = hn::Zero(d);
  for (int64_t k = 0; k < steps; ++k) sum = hn::Add(sum, hn::LoadU(d, panel + k * kMr));
  return sum;
}

// Sum over samples as the binary tree that `samples` ones make in a binary counter: complete pairs
// are merged at once, what is left at the end from the smallest on. `leaf(s, merges)` makes sample
// s and merges it with that many pending sums.
template <class Leaf, class Merge>
HWY_INLINE void sum_as_tree(int64_t samples, const Leaf& leaf, const Merge& merge) {
  int pending = 0;
  for (int64_t s = 0; s < samples; ++s) {
    int merges = 0;
    for (int64_t carry = s; carry & 1; carry >>= 1) ++merges;
    leaf(s, pending, merges);
    pending += 1 - merges;
  }
  for (; pending > 1; --pending) merge(pending - 1, pending - 2);
}

// C[rows of dy^T, columns of x] in chunks of tokens: x is packed once for all threads, panel_block panels
// of packed_tokens at a time; dy by the thread that uses it.
struct Chunks {
  Team& team;
  const WeightGradientCall& call;
  int64_t chunk;  // tokens
  int64_t count;
  int64_t panel_block;
  float* shared;

  Chunks(Team& its_team, GemmState& state, const WeightGradientCall& its_call, int64_t tokens,
         int64_t packed_tokens)
      : team(its_team), call(its_call), chunk(tokens), count(divide_up(call.tokens, chunk)) {
    panel_block = std::clamp<int64_t>(kSharedFloats / (packed_tokens * kNr), 1, panels());
    panel_block = divide_up(panels(), divide_up(panels(), panel_block));
    shared = state.shared.floats(static_cast<size_t>(panel_block * packed_tokens * kNr));
  }

  int64_t panels() const { return divide_up(call.b.lines, kNr); }
  int64_t a_panels() const { return divide_up(call.a.lines, kMr); }
  int64_t tokens_of(int64_t index) const { return std::min(chunk, call.tokens - index * chunk); }
  int rows_from(int64_t row) const {
    return static_cast<int>(std::min<int64_t>(kMr, call.a.lines - row));
  }
  // A panels that fit a thread's own memory.
  int64_t largest_group(int64_t limit) const {
    return std::clamp<int64_t>(kLocalFloats / (chunk * kMr), 1, limit);
  }

  // The thread's part of panels [panel, last) of a chunk.
  void pack_shared(int thread, int64_t panel, int64_t last, int64_t index, float* to) const {
    const int64_t width = last - panel;
    const int threads = team.size();
    const int64_t first = width * thread / threads;
    pack_panels<kNr>(call.b, panel + first, panel + width * (thread + 1) / threads, index * chunk,
                     tokens_of(index), to + first * tokens_of(index) * kNr);
  }

  HWY_INLINE void store_tile(const float* sums, int64_t row, int64_t column, int rows,
                             bool add) const {
    GemmFinish finish;
    if (add) {
      finish.kind = GemmFinish::Kind::residual;
      finish.residual = call.c;
    }
    finish_tile(finish, sums, call.c, call.c_stride, row, column, rows,
                std::min<int64_t>(kNr, call.b.lines - column));
  }

  void add_line_sums(const float* panel, int64_t steps, int64_t row, bool add) const {
    const F32 d;
    for (int lane = 0; lane < kMr; lane += kLanes) {
      HWY_ALIGN float sums[kTreeLevels][kLanes];
      if (call.order == Order::invariant) {
        sum_as_tree(
            call.samples,
            [&](int64_t s, int pending, int merges) {
              const int64_t begin = call.sample_begin(s);
              Vf sum = sum_steps(d, panel + begin * kMr + lane, call.sample_begin(s + 1) - begin);
              for (int m = 1; m <= merges; ++m) sum = hn::Add(hn::Load(d, sums[pending - m]), sum);
              hn::Store(sum, d, sums[pending - merges]);
            },
            [&](int from, int into) {
              hn::Store(hn::Add(hn::Load(d, sums[into]), hn::Load(d, sums[from])), d, sums[into]);
            });
      } else {
        hn::Store(sum_steps(d, panel + lane, steps), d, sums[0]);
      }
      const int64_t lanes =
          std::min<int64_t>(std::min(kMr - lane, kLanes), call.a.lines - row - lane);
      float* to = call.line_sums + row + lane;
      for (int64_t i = 0; i < lanes; ++i) to[i] = add ? to[i] + sums[0][i] : sums[0][i];
    }
  }

  // The sums of the lines of packed A panels, added by whoever computes the first columns.
  void add_group_sums(const float* local, int64_t steps, int64_t first, int64_t panels_packed,
                      bool add) const {
    for (int64_t a = 0; a < panels_packed; ++a) {
      add_line_sums(local + a * steps * kMr, steps, (first + a) * kMr, add);
    }
  }
};

// Working memory of each thread for `group` packed A panels.
inline void grow_local(GemmState& state, int64_t group, int64_t chunk) {
  for (Scratch& local : state.local) {
    local.floats(static_cast<size_t>(group * chunk * kMr + kSlackFloats));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace dettax
HWY_AFTER_NAMESPACE();

#endif
