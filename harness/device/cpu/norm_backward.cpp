// LayerNorm and RMSNorm, backward. dx is each row's own. dgamma and dbeta are sums over rows, and
// how the partial sums of groups of rows meet is the difference between the variants:
//   arrival    each chunk of rows adds its partial sums to the result under a lock as it is done
//   ordered    one partial sum a thread, merged in thread order
//   invariant  one partial sum a sample (a chain over its rows), merged by a tree over samples
// In all of them a chunk is one pass over x and dy; invariant takes a second pass, split by
// columns, only where there are too few samples to share out.

#include <algorithm>

#include "harness/device/cpu/cpu_ops.h"
#include "harness/device/cpu/fill_threads.h"
#include "harness/device/cpu/spin_lock.h"
#include "harness/device/cpu/targets.h"
#include "harness/device/cpu/tree_sum.h"
#include "harness/device/op_contracts.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "harness/device/cpu/norm_backward.cpp"
#include "hwy/foreach_target.h"
//
#include "harness/device/cpu/lanes-inl.h"
#include "hwy/cache_control.h"

#ifndef DETTAX_CPU_NORM_BACKWARD_TYPES
#define DETTAX_CPU_NORM_BACKWARD_TYPES
namespace dettax {
namespace {

struct NormRows {
  float* dx;
  const float* dy;
  const float* x;
  const float* mean;  // null: rms
  const float* rstd;
  const float* gamma;
  int64_t width;
  bool accumulate_dx;
};

// Where the sums over rows go: dgamma[width], dbeta[width] (null if there is none); null: nowhere.
struct ParameterSums {
  float* dgamma = nullptr;
  float* dbeta = nullptr;
};

}  // namespace
}  // namespace dettax
#endif

HWY_BEFORE_NAMESPACE();
namespace dettax {
namespace HWY_NAMESPACE {
namespace {

// Constants of one row: normal = (x - mean) rstd; dx = rstd (dy gamma - shift - normal slope).
struct RowFactors {
  float mean, rstd, shift, slope;
};

RowFactors row_factors(const NormRows& a, int64_t row) {
  const float* dy = a.dy + row * a.width;
  const float* x = a.x + row * a.width;
  const auto width = static_cast<size_t>(a.width);
  RowFactors f{a.mean == nullptr ? 0.0f : a.mean[row], a.rstd[row], 0, 0};
  const Lanes mean = set(f.mean);
  const float projection = row_sum(width, [&](auto access, size_t i, const Lanes& partial) {
    const Lanes g = mul(access.read(dy + i), access.read(a.gamma + i));
    return mul_add(g, sub(access.read(x + i), mean), partial);
  });
  f.slope = projection * f.rstd / static_cast<float>(a.width);
  if (a.mean != nullptr) {
    const float total = row_sum(width, [&](auto access, size_t i, const Lanes& partial) {
      return mul_add(access.read(dy + i), access.read(a.gamma + i), partial);
    });
    f.shift = total / static_cast<float>(a.width);
  }
  return f;
}

// The column pass over kRows rows at once, so that the sums over rows are loaded and stored once
// for all of them; the order is still that of one row after the other.
template <int kRows>
HWY_INLINE void norm_columns(const NormRows& a, int64_t row, const RowFactors* factors,
                             const ParameterSums& sums) {
  for_each_lanes(static_cast<size_t>(a.width), [&](auto access, size_t i) {
    const Lanes gamma = access.read(a.gamma + i);
    Lanes dgamma = sums.dgamma == nullptr ? gamma : access.read(sums.dgamma + i);
    Lanes dbeta = sums.dbeta == nullptr ? gamma : access.read(sums.dbeta + i);
    for (int k = 0; k < kRows; ++k) {
      const RowFactors& f = factors[k];
      const auto at = static_cast<size_t>((row + k) * a.width) + i;
      const size_t next = at + kRows * static_cast<size_t>(a.width);
      hwy::Prefetch(a.dy + next);
      hwy::Prefetch(a.x + next);
      const Lanes dy = access.read(a.dy + at);
      const Lanes normal = mul(sub(access.read(a.x + at), set(f.mean)), set(f.rstd));
      const Lanes inner = neg_mul_add(normal, set(f.slope), mul_add(dy, gamma, set(-f.shift)));
      const Lanes old = a.accumulate_dx ? access.read(a.dx + at) : set(0.0f);
      access.write(mul_add(inner, set(f.rstd), old), a.dx + at);
      dgamma = mul_add(dy, normal, dgamma);
      dbeta = add(dbeta, dy);
    }
    if (sums.dgamma != nullptr) access.write(dgamma, sums.dgamma + i);
    if (sums.dbeta != nullptr) access.write(dbeta, sums.dbeta + i);
  });
}

void norm_rows(const NormRows& a, int64_t begin, int64_t end, const ParameterSums& sums) {
  RowFactors factors[4];
  int64_t row = begin;
  for (; row + 4 <= end; row += 4) {
    for (int k = 0; k < 4; ++k) factors[k] = row_factors(a, row + k);
    norm_columns<4>(a, row, factors, sums);
  }
  for (; row < end; ++row) {
    factors[0] = row_factors(a, row);
    norm_columns<1>(a, row, factors, sums);
  }
}

// Only the sums over rows, in the same order as norm_rows, of columns [first, first + count).
void norm_sums(const NormRows& a, int64_t begin, int64_t end, const ParameterSums& sums,
               int64_t first, int64_t count) {
  for_each_lanes(static_cast<size_t>(count), [&](auto access, size_t i) {
    const size_t column = static_cast<size_t>(first) + i;
    Lanes dgamma = access.read(sums.dgamma + column);
    Lanes dbeta = sums.dbeta == nullptr ? dgamma : access.read(sums.dbeta + column);
    for (int64_t row = begin; row < end; ++row) {
      const size_t at = static_cast<size_t>(row * a.width) + column;
      const Lanes dy = access.read(a.dy + at);
      const Lanes mean = set(a.mean == nullptr ? 0.0f : a.mean[row]);
      const Lanes normal = mul(sub(access.read(a.x + at), mean), set(a.rstd[row]));
      dgamma = mul_add(dy, normal, dgamma);
      dbeta = add(dbeta, dy);
    }
    access.write(dgamma, sums.dgamma + column);
    if (sums.dbeta != nullptr) access.write(dbeta, sums.dbeta + column);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace dettax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dettax {
namespace {

HWY_EXPORT(norm_rows);
HWY_EXPORT(norm_sums);

// Small enough for several contributions at a few hundred rows, large enough that adding 2 x width
// numbers under the lock costs little beside the chunk.
int64_t arrival_chunk(int64_t rows) { return rows >= 1024 ? 64 : 32; }

struct Sums {
  ParameterSums result;
  int64_t width;
  bool accumulate;
  bool has_beta() const { return result.dbeta != nullptr; }
  int64_t partial_width() const { return has_beta() ? 2 * width : width; }
  ParameterSums partial(float* scratch, int64_t index) const {
    float* at = scratch + index * partial_width();
    return {at, has_beta() ? at + width : nullptr};
  }
};

void clear(const Sums& sums) {
  std::fill_n(sums.result.dgamma, sums.width, 0.0f);
  if (sums.has_beta()) std::fill_n(sums.result.dbeta, sums.width, 0.0f);
}

// result (+)= the first partial.
void take(const Sums& sums, const float* partial, int64_t begin, int64_t end) {
  for (int64_t c = begin; c < end; ++c) {
    float& to = c < sums.width ? sums.result.dgamma[c] : sums.result.dbeta[c - sums.width];
    to = sums.accumulate ? to + partial[c] : partial[c];
  }
}

void arrival(Team& team, Scratch& scratch, const NormRows& a, int64_t rows, bool dynamic,
             const Sums& sums) {
  if (!sums.accumulate) clear(sums);
  const int64_t width = sums.partial_width();
  float* partials = scratch.floats(static_cast<size_t>(team.size() * width));
  const int64_t chunk = arrival_chunk(rows);
  const auto kernel = HWY_DYNAMIC_DISPATCH(norm_rows);
  SpinLock lock;
  const Sums to{sums.result, sums.width, true};
  team.parallel_for(rows, chunk, dynamic, [&](int64_t begin, int64_t end, int thread) {
    float* partial = partials + thread * width;
    for (int64_t row = begin; row < end; row += chunk) {
      std::fill_n(partial, width, 0.0f);
      kernel(a, row, std::min(end, row + chunk), sums.partial(partial, 0));
      lock.lock();
      take(to, partial, 0, width);
      lock.unlock();
    }
  });
}

void ordered(Team& team, Scratch& scratch, const NormRows& a, int64_t rows, bool dynamic,
             const Sums& sums) {
  const int64_t width = sums.partial_width();
  float* partials = scratch.floats(static_cast<size_t>(team.size() * width));
  std::fill_n(partials, team.size() * width, 0.0f);
  const auto kernel = HWY_DYNAMIC_DISPATCH(norm_rows);
  team.parallel_for(rows, arrival_chunk(rows), dynamic,
                    [&](int64_t begin, int64_t end, int thread) {
                      kernel(a, begin, end, sums.partial(partials, thread));
                    });
  for (int t = 1; t < team.size(); ++t) {
    for (int64_t c = 0; c < width; ++c) partials[c] += partials[t * width + c];
  }
  take(sums, partials, 0, width);
}

void invariant(Team& team, Scratch& scratch, const NormRows& a, int64_t rows, int64_t samples,
               const Sums& sums) {
  const int64_t width = sums.partial_width();
  const int64_t tokens = rows / samples;
  float* partials = scratch.floats(static_cast<size_t>(samples * width));
  std::fill_n(partials, samples * width, 0.0f);
  const auto whole = HWY_DYNAMIC_DISPATCH(norm_rows);
  if (fill_threads(samples, team.size())) {
    team.parallel_for(samples, 1, false, [&](int64_t begin, int64_t end, int) {
      for (int64_t s = begin; s < end; ++s) {
        whole(a, s * tokens, (s + 1) * tokens, sums.partial(partials, s));
      }
    });
  } else {
    const auto only_sums = HWY_DYNAMIC_DISPATCH(norm_sums);
    team.parallel_for(rows, 4, false, [&](int64_t begin, int64_t end, int) {
      whole(a, begin, end, ParameterSums{});
    });
    team.parallel_for(sums.width, 64, false, [&](int64_t begin, int64_t end, int) {
      for (int64_t s = 0; s < samples; ++s) {
        only_sums(a, s * tokens, (s + 1) * tokens, sums.partial(partials, s), begin, end - begin);
      }
    });
  }
  tree_sum(partials, samples, width);
  take(sums, partials, 0, width);
}

}  // namespace

void CpuOps::norm_backward(const NormBackward& call) {
  const int64_t rows = call.x.rows();
  const int64_t width = call.x.columns();
  const bool layer = call.kind == Norm::layer;
  require_shapes(call);
  const NormRows a{
      call.dx.f32(),   call.dy.f32(),    call.x.f32(), layer ? call.mean.f32() : nullptr,
      call.rstd.f32(), call.gamma.f32(), width,        call.accumulate_dx};
  const Sums sums{{call.dgamma.f32(), call.dbeta ? call.dbeta.f32() : nullptr},
                  width,
                  call.accumulate_parameters};
  switch (call.sum.order) {
    case Order::arrival:
      return arrival(team_, scratch_, a, rows, call.sum.dynamic_schedule, sums);
    case Order::ordered:
      return ordered(team_, scratch_, a, rows, call.sum.dynamic_schedule, sums);
    case Order::invariant:
      return invariant(team_, scratch_, a, rows, call.samples, sums);
  }
}

}  // namespace dettax
#endif
