// Gradient of the token and position tables: rows of dy added up by token id, and by position. Real
// text repeats few ids very often, so the rows of those are where the variants differ:
//   arrival    chunks of tokens go to threads; each adds its sum for an id to the table under a lock
//   ordered    positions sorted by id; each row of the table is one chain in order of position
//   invariant  as ordered, but a chain in each sample, then the tree over samples
//   generic    (embedding_generic.cpp) the sort-and-accumulate of a framework's index_put
// ordered and invariant have no locks: they share out columns first and ids second, so that even one
// id repeated in every place keeps all threads busy.

#include <algorithm>
#include <bit>
#include <numeric>
#include <vector>

#include "harness/device/cpu/checks.h"
#include "harness/device/cpu/cpu_ops.h"
#include "harness/device/cpu/embedding_generic.h"
#include "harness/device/cpu/embedding_sort.h"
#include "harness/device/cpu/spin_lock.h"
#include "harness/device/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "harness/device/cpu/embedding_backward.cpp"
#include "hwy/foreach_target.h"
//
#include "harness/device/cpu/lanes-inl.h"
#include "hwy/cache_control.h"

#ifndef DETTAX_CPU_EMBEDDING_TYPES
#define DETTAX_CPU_EMBEDDING_TYPES
namespace dettax {
namespace {

// The contributions to one row: rows positions[0..count) of dy, columns [begin, end).
struct RowSum {
  float* to;
  const float* dy;
  int64_t width;
  const int32_t* positions;
  int64_t count;
  int64_t tokens_per_sample;
  size_t begin, end;
};

// More than the levels of a tree over 2^31 samples.
constexpr int kTreeDepth = 33;

}  // namespace
}  // namespace dettax
#endif

HWY_BEFORE_NAMESPACE();
namespace dettax {
namespace HWY_NAMESPACE {
namespace {

constexpr size_t kGroups = 4;  // of 16 lanes, held in registers while rows are added

// Calls f(groups, access, column) over the columns, 64 at a time and then 16.
template <class F>
HWY_INLINE void for_each_columns(const RowSum& r, F f) {
  size_t c = r.begin;
  for (; c + kGroups * kLanes <= r.end; c += kGroups * kLanes) {
    f(std::integral_constant<size_t, kGroups>(), Whole(), c);
  }
  for (; c + kLanes <= r.end; c += kLanes) f(std::integral_constant<size_t, 1>(), Whole(), c);
  if (c < r.end) f(std::integral_constant<size_t, 1>(), Rest{r.end - c}, c);
}

HWY_INLINE const float* row_at(const RowSum& r, int64_t k) {
  return r.dy + static_cast<int64_t>(r.positions[k]) * r.width;
}

// One chain over the positions, then added to the row.
void add_chain(const RowSum& r) {
  for_each_columns(r, [&](auto groups, auto access, size_t column) {
    constexpr size_t kCount = decltype(groups)::value;
    Lanes total[kCount];
    for (size_t g = 0; g < kCount; ++g) total[g] = set(0.0f);
    for (int64_t k = 0; k < r.count; ++k) {
      const float* from = row_at(r, k) + column;
      for (size_t g = 0; g < kCount; ++g) {
        total[g] = add(total[g], access.read(from + g * kLanes));
      }
    }
    for (size_t g = 0; g < kCount; ++g) {
      float* to = r.to + column + g * kLanes;
      access.write(add(access.read(to), total[g]), to);
    }
  });
}

// Partial sums of the tree over samples, as a stack: entry d and d - 1 meet at level meet[d], and
// levels fall from the bottom to the top. Samples without this token are skipped: they would add
// +0, which changes nothing, since a chain that begins with +0 never gives -0.
template <size_t kCount>
struct TreeStack {
  Lanes sum[kTreeDepth][kCount];
  int meet[kTreeDepth];
  int64_t last_sample = 0;
  int depth = 0;

  HWY_INLINE void merge_top() {
    --depth;
    for (size_t g = 0; g < kCount; ++g) {
      sum[depth - 1][g] = add(sum[depth - 1][g], sum[depth][g]);
    }
  }
  // Makes room for the next sample with tokens and returns its entry.
  HWY_INLINE Lanes* push(int64_t sample) {
    const auto apart = static_cast<uint64_t>(sample ^ last_sample);
    const int level = static_cast<int>(std::bit_width(apart));
    while (depth >= 2 && meet[depth - 1] < level) merge_top();
    meet[depth] = level;
    last_sample = sample;
    return sum[depth++];
  }
};

void add_tree(const RowSum& r) {
  for_each_columns(r, [&](auto groups, auto access, size_t column) {
    constexpr size_t kCount = decltype(groups)::value;
    TreeStack<kCount> stack;
    for (int64_t k = 0; k < r.count;) {
      const int64_t sample = r.positions[k] / r.tokens_per_sample;
      const int64_t sample_end = (sample + 1) * r.tokens_per_sample;
      Lanes total[kCount];
      for (size_t g = 0; g < kCount; ++g) total[g] = set(0.0f);
      for (; k < r.count && r.positions[k] < sample_end; ++k) {
        const float* from = row_at(r, k) + column;
        for (size_t g = 0; g < kCount; ++g) {
          total[g] = add(total[g], access.read(from + g * kLanes));
        }
      }
      std::copy_n(total, kCount, stack.push(sample));
    }
    while (stack.depth >= 2) stack.merge_top();
    for (size_t g = 0; g < kCount; ++g) {
      float* to = r.to + column + g * kLanes;
      access.write(add(access.read(to), stack.sum[0][g]), to);
    }
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace dettax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dettax {
namespace {

HWY_EXPORT(add_chain);
HWY_EXPORT(add_tree);

using RowKernel = void (*)(const RowSum&);

// What all variants need to know.
struct Gradient {
  float* table;
  float* position_table;  // or null
  const float* dy;
  const int32_t* tokens;
  int64_t rows, width, vocabulary, samples;
  int64_t tokens_per_sample() const { return rows / samples; }
  RowSum row_sum(float* to, const int32_t* positions, int64_t count) const {
    return {to, dy, width, positions, count, tokens_per_sample(), 0, static_cast<size_t>(width)};
  }
};

// --- arrival ---

constexpr int64_t kChunkTokens = 32;
constexpr size_t kLocks = 256;

struct Locks {
  std::vector<SpinLock> table{kLocks};
  std::vector<SpinLock> positions{kLocks};
};

// Adds tokens [begin, end): one contribution for each different id among them.
void add_chunk(const Gradient& g, Locks& locks, RowKernel kernel, int64_t begin, int64_t end) {
  int32_t positions[kChunkTokens];
  bool done[kChunkTokens] = {};
  for (int64_t i = begin; i < end; ++i) {
    if (done[i - begin]) continue;
    int64_t count = 0;
    for (int64_t j = i; j < end; ++j) {
      if (g.tokens[j] != g.tokens[i]) continue;
      done[j - begin] = true;
      positions[count++] = static_cast<int32_t>(j);
    }
    const auto id = static_cast<size_t>(g.tokens[i]);
    require(g.tokens[i] >= 0 && g.tokens[i] < g.vocabulary, "embedding_backward (token)");
    SpinLock& lock = locks.table[id % kLocks];
    lock.lock();
    kernel(g.row_sum(g.table + g.tokens[i] * g.width, positions, count));
    lock.unlock();
  }
  for (int64_t i = begin; g.position_table != nullptr && i < end; ++i) {
    const int64_t at = i % g.tokens_per_sample();
    const auto position = static_cast<int32_t>(i);
    SpinLock& lock = locks.positions[static_cast<size_t>(at) % kLocks];
    lock.lock();
    kernel(g.row_sum(g.position_table + at * g.width, &position, 1));
    lock.unlock();
  }
}

void arrival(Team& team, const Gradient& g, bool dynamic) {
  Locks locks;
  const RowKernel kernel = HWY_DYNAMIC_DISPATCH(add_chain);
  team.parallel_for(g.rows, kChunkTokens, dynamic, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; i += kChunkTokens) {
      add_chunk(g, locks, kernel, i, std::min(end, i + kChunkTokens));
    }
  });
}

// --- ordered and invariant ---

// Shares out columns, at least 64 to a thread, and what threads are left over by segments.
struct Shares {
  int64_t column_shares, segment_shares, columns;

  Shares(int threads, int64_t width) {
    column_shares = std::clamp<int64_t>(width / 64, 1, threads);
    segment_shares = threads / column_shares;
    columns = (width / column_shares + 63) / 64 * 64;
  }
  bool used(int thread) const { return thread < column_shares * segment_shares; }
  void set_columns(RowSum& r, int thread, int64_t width) const {
    const int64_t share = thread % column_shares;
    r.begin = static_cast<size_t>(std::min(width, share * columns));
    r.end = static_cast<size_t>(
        share + 1 == column_shares ? width : std::min(width, (share + 1) * columns));
  }
  // First of `count` things that belongs to this thread's share, or the one behind its last.
  int64_t first(int thread, int64_t count) const {
    return thread / column_shares * count / segment_shares;
  }
  int64_t last(int thread, int64_t count) const {
    return (thread / column_shares + 1) * count / segment_shares;
  }
};

// Sorted positions jump about in dy and in the table, which no hardware prefetcher follows.
void prefetch_row(const float* row, const RowSum& columns) {
  for (size_t c = columns.begin; c < columns.end; c += 16) hwy::Prefetch(row + c);
}

void add_table_rows(const Gradient& g, const TokenSegments& sorted, RowKernel kernel,
                    const Shares& shares, int thread) {
  // Cut where positions, not segments, are even; a segment belongs to whom its first position does.
  const int64_t first = shares.first(thread, g.rows);
  const int64_t last = shares.last(thread, g.rows);
  const auto& begins = sorted.segment_begin;
  auto at = std::lower_bound(begins.begin(), begins.end() - 1, first);
  for (; at != begins.end() - 1 && *at < last; ++at) {
    const int32_t* positions = sorted.positions.data() + *at;
    RowSum r = g.row_sum(g.table + g.tokens[*positions] * g.width, positions, *(at + 1) - *at);
    shares.set_columns(r, thread, g.width);
    if (const int64_t next = *(at + 1); next < g.rows) {
      const int32_t position = sorted.positions[static_cast<size_t>(next)];
      prefetch_row(g.dy + position * g.width, r);
      prefetch_row(g.table + g.tokens[position] * g.width, r);
    }
    kernel(r);
  }
}

void add_position_rows(const Gradient& g, RowKernel kernel, const Shares& shares, int thread) {
  const int64_t tokens = g.tokens_per_sample();
  std::vector<int32_t> positions(static_cast<size_t>(g.samples));
  for (int64_t t = shares.first(thread, tokens); t < shares.last(thread, tokens); ++t) {
    for (int64_t s = 0; s < g.samples; ++s) {
      positions[static_cast<size_t>(s)] = static_cast<int32_t>(s * tokens + t);
    }
    RowSum r = g.row_sum(g.position_table + t * g.width, positions.data(), g.samples);
    shares.set_columns(r, thread, g.width);
    kernel(r);
  }
}

void owned_rows(Team& team, const Gradient& g, RowKernel kernel) {
  const TokenSegments sorted = sort_tokens(g.tokens, g.rows, g.vocabulary);
  const Shares shares(team.size(), g.width);
  team.run([&](int thread) {
    if (!shares.used(thread)) return;
    add_table_rows(g, sorted, kernel, shares, thread);
    if (g.position_table != nullptr) add_position_rows(g, kernel, shares, thread);
  });
}

void generic(Team& team, Scratch& scratch, const Gradient& g) {
  add_rows_as_index_put(team, scratch, g.table, g.dy, g.tokens, g.rows, g.width, g.vocabulary);
  if (g.position_table == nullptr) return;
  const Shares shares(team.size(), g.width);
  const RowKernel kernel = HWY_DYNAMIC_DISPATCH(add_chain);
  team.run([&](int thread) {
    if (shares.used(thread)) add_position_rows(g, kernel, shares, thread);
  });
}

}  // namespace

void CpuOps::embedding_backward(const EmbeddingBackward& call) {
  const int64_t rows = call.tokens.count();
  const int64_t width = call.dtable.columns();
  require(call.dy.count() == rows * width && call.samples > 0 && rows % call.samples == 0,
          "embedding_backward");
  require(!call.dposition_table || (call.dposition_table.rows() >= rows / call.samples &&
                                    call.dposition_table.columns() == width),
          "embedding_backward");
  const Gradient g{call.dtable.f32(),
                   call.dposition_table ? call.dposition_table.f32() : nullptr,
                   call.dy.f32(),
                   call.tokens.i32(),
                   rows,
                   width,
                   call.dtable.rows(),
                   call.samples};
  if (call.generic) return generic(team_, scratch_, g);
  switch (call.sum.order) {
    case Order::arrival:
      return arrival(team_, g, call.sum.dynamic_schedule);
    case Order::ordered:
      return owned_rows(team_, g, HWY_DYNAMIC_DISPATCH(add_chain));
    case Order::invariant:
      return owned_rows(team_, g, HWY_DYNAMIC_DISPATCH(add_tree));
  }
}

}  // namespace dettax
#endif
