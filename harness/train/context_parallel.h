#pragma once

#include "harness/train/step_context.h"

namespace dettax {

// Sequences cut over the ranks of mesh.context(). Rank r of R has two of the 2R equal pieces of each, r and 2R - 1 - r: one from each
// end, so that causal attention is the same work for all. Everything but attention works on a rank's own tokens.
//
// In attention the queries of a rank meet its own keys first, then those of the other ranks as a ring brings them: keys and values are
// sent to the rank behind and come from the rank in front, R - 1 times; on the way back the sums of their gradients follow one rank
// later, and come home at the end. So the order of merging is r, r - 1, ..., 0, R - 1, ..., r + 1 in every mode, the layout's and never
// one of arrival. The order of the keys in the sequence would need those of all ranks at once, for no bit more of a promise: the sums
// over a sample's tokens that weights' gradients are belong to the layout, as they do with tensor ranks, and so do all bits. What
// stays invariant is what the mode names: threads, micro-batches, data-parallel ranks.
bool context_parallel(const StepContext& c);

// Which tokens of a sequence a rank has.
TokenPlaces places_of(const Layout& layout, const MeshPosition& position, int64_t sequence_length);

// Rows of a micro-batch that are neighbours here and in the global batch: the longest run that begins with row `row`.
struct TokenRun {
  int64_t whole = 0;  // row in the global batch
  int64_t count = 0;
};
TokenRun token_run(const StepContext& c, int64_t row);

// The calls are those of attention among this rank's tokens.
void ring_attention_forward(StepContext& c, AttentionForward call);
void ring_attention_backward(StepContext& c, AttentionBackward call);

}  // namespace dettax
