// The deterministic twin of embedding_backward_arrival.cpp: positions are sorted by id, and each row of
// the tables is summed by its owner in order of position (ordered: one chain; invariant: a chain in each
// sample, then the tree over samples). No locks: columns are shared out first and ids second, so that
// even one id repeated in every place keeps all threads busy.

#include <algorithm>
#include <vector>

#include "harness/device/cpu/embedding_backward.h"
#include "harness/device/cpu/embedding_sort.h"
#include "hwy/cache_control.h"

namespace dettax {
namespace {

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

void add_table_rows(const EmbeddingGradient& g, const TokenSegments& sorted, RowKernel kernel,
                    const Shares& shares, int thread) {
  // Cut where positions, not segments, are even; a segment belongs to whom its first position does.
  const auto count = static_cast<int64_t>(sorted.positions.size());
  const int64_t first = shares.first(thread, count);
  const int64_t last = shares.last(thread, count);
  const auto& begins = sorted.segment_begin;
  auto at = std::lower_bound(begins.begin(), begins.end() - 1, first);
  for (; at != begins.end() - 1 && *at < last; ++at) {
    const int32_t* positions = sorted.positions.data() + *at;
    RowSum r = g.row_sum(g.table_row(g.tokens[*positions]), positions, *(at + 1) - *at);
    shares.set_columns(r, thread, g.width);
    if (const int64_t next = *(at + 1); next < count) {
      const int32_t position = sorted.positions[static_cast<size_t>(next)];
      prefetch_row(g.dy + position * g.width, r);
      prefetch_row(g.table_row(g.tokens[position]), r);
    }
    kernel(r);
  }
}

void add_position_rows(const EmbeddingGradient& g, RowKernel kernel, const Shares& shares,
                       int thread) {
  const int64_t tokens = g.tokens_per_sample();
  std::vector<int32_t> positions(static_cast<size_t>(g.samples));
  for (int64_t t = shares.first(thread, tokens); t < shares.last(thread, tokens); ++t) {
    for (int64_t s = 0; s < g.samples; ++s) {
      positions[static_cast<size_t>(s)] = static_cast<int32_t>(s * tokens + t);
    }
    RowSum r = g.row_sum(g.position_row(t), positions.data(), g.samples);
    shares.set_columns(r, thread, g.width);
    kernel(r);
  }
}

}  // namespace

void embedding_backward_in_order(Team& team, const EmbeddingGradient& g, RowKernel kernel) {
  const TokenSegments sorted = sort_tokens(g.tokens, g.rows, g.ids);
  const Shares shares(team.size(), g.width);
  team.run([&](int thread) {
    if (!shares.used(thread)) return;
    add_table_rows(g, sorted, kernel, shares, thread);
    if (g.position_table != nullptr) add_position_rows(g, kernel, shares, thread);
  });
}

void position_rows_in_order(Team& team, const EmbeddingGradient& g, RowKernel kernel) {
  const Shares shares(team.size(), g.width);
  team.run([&](int thread) {
    if (shares.used(thread)) add_position_rows(g, kernel, shares, thread);
  });
}

}  // namespace dettax
