#include "harness/device/op_contracts.h"

#include "harness/device/checks.h"

namespace dettax {
namespace {

void require_table(const Tensor& positions, const TokenPlaces& places, int64_t tokens,
                   int64_t width, const char* operation) {
  require(!positions || (positions.rows() >= places.end(tokens) && positions.columns() == width),
          operation);
}

void require_plan(const ExpertPlan& plan, int64_t tokens, const char* operation) {
  require(plan.slots && plan.sources && plan.slots.rows() == tokens &&
              plan.sources.count() == plan.slots.count(),
          operation);
}

}  // namespace

void require_shapes(const AddBiasResidual& call) {
  require((!call.bias || call.bias.count() == call.y.columns()) &&
              (!call.residual || call.residual.count() == call.y.count()),
          "add_bias_residual");
}

void require_shapes(const EmbeddingForward& call) {
  const int64_t rows = call.tokens.count();
  const int64_t width = call.table.columns();
  require(call.y.count() == rows * width && call.samples > 0 && rows % call.samples == 0,
          "embedding_forward");
  require_table(call.position_table, call.places, rows / call.samples, width, "embedding_forward");
}

void require_shapes(const EmbeddingBackward& call) {
  const int64_t rows = call.tokens.count();
  const int64_t width = call.dtable.columns();
  require(call.dy.count() == rows * width && call.samples > 0 && rows % call.samples == 0,
          "embedding_backward");
  require_table(call.dposition_table, call.places, rows / call.samples, width,
                "embedding_backward");
}

void require_shapes(const NormForward& call) {
  const int64_t rows = call.x.rows();
  const int64_t width = call.x.columns();
  const bool layer = call.kind == Norm::layer;
  require(call.y.count() == rows * width && call.gamma.count() == width &&
              call.rstd.count() == rows && (!layer || call.mean.count() == rows) &&
              (!call.beta || (layer && call.beta.count() == width)),
          "norm_forward");
}

void require_shapes(const NormBackward& call) {
  const int64_t rows = call.x.rows();
  const int64_t width = call.x.columns();
  const bool layer = call.kind == Norm::layer;
  require(call.dx.count() == rows * width && call.dy.count() == rows * width &&
              call.gamma.count() == width && call.dgamma.count() == width &&
              call.rstd.count() == rows && (!layer || call.mean.count() == rows) &&
              (!call.dbeta || call.dbeta.count() == width) && call.samples > 0 &&
              rows % call.samples == 0,
          "norm_backward");
}

void require_shapes(const SwigluBackward& call) {
  const int64_t width = call.x.columns() / 2;
  require(call.x.columns() == 2 * width && call.dx.count() == call.x.count() &&
              call.dy.count() == call.x.rows() * width,
          "swiglu_backward");
}

void require_shapes(const CopyColumns& call) {
  require(call.to.rows() == call.from.rows() && call.columns > 0 && call.to_column >= 0 &&
              call.from_column >= 0 && call.to_column + call.columns <= call.to.columns() &&
              call.from_column + call.columns <= call.from.columns(),
          "copy_columns");
}

void require_shapes(const CrossEntropy& call) {
  const int64_t rows = call.logits.rows();
  require(call.losses.count() == rows && call.targets.count() == rows && call.vocabulary > 0 &&
              call.vocabulary <= call.logits.columns(),
          "cross_entropy");
}

void require_shapes(const CrossEntropySums& call) {
  const int64_t rows = call.logits.rows();
  require(call.sums.count() == 2 * rows && call.maxima.count() % rows == 0 &&
              call.targets.count() == rows && call.vocabulary >= 0 &&
              call.vocabulary <= call.logits.columns(),
          "cross_entropy_sums");
}

void require_shapes(const CrossEntropyFromSums& call) {
  const int64_t rows = call.logits.rows();
  require(call.sums.count() == 2 * rows && call.losses.count() == rows &&
              call.targets.count() == rows && call.vocabulary >= 0 &&
              call.vocabulary <= call.logits.columns(),
          "cross_entropy_from_sums");
}

void require_shapes(const AdamW& call) {
  const int64_t count = call.weights.count();
  require(call.gradients.count() == count && call.first_moment.count() == count &&
              call.second_moment.count() == count && call.step >= 1,
          "adamw");
}

void require_shapes(const RouteTokens& call) {
  const int64_t rows = call.logits.rows();
  require(call.probabilities.count() == call.logits.count() && call.experts.rows() == rows &&
              call.weights.count() == call.experts.count() &&
              call.experts.columns() <= call.logits.columns() && call.samples > 0 &&
              rows % call.samples == 0,
          "route_tokens");
}

void require_shapes(const BalanceLoss& call) {
  const int64_t rows = call.probabilities.rows();
  require(call.losses.count() == rows && call.counts.columns() == call.probabilities.columns() &&
              rows % call.counts.rows() == 0,
          "balance_loss");
}

void require_shapes(const RouteTokensBackward& call) {
  const int64_t rows = call.probabilities.rows();
  const int64_t choices = call.experts.columns();
  require(call.dlogits.count() == call.probabilities.count() &&
              call.dweights.count() == rows * choices && call.experts.rows() == rows &&
              call.weights.count() == rows * choices &&
              call.counts.columns() == call.probabilities.columns() &&
              rows % call.counts.rows() == 0,
          "route_tokens_backward");
}

void require_shapes(const PlanExperts& call) {
  const ExpertPlan& plan = call.plan;
  const int64_t samples = plan.counts.rows();
  const int64_t experts = plan.counts.columns();
  const int64_t choices = call.experts.count();
  require(call.experts.rows() % samples == 0 && plan.slots.count() == choices &&
              plan.sources.count() == choices && plan.segments.rows() == experts &&
              plan.segments.columns() == samples + 1 &&
              (!call.before || call.before.count() == 2 * samples * experts),
          "plan_experts");
}

void require_shapes(const UnpermuteRows& call) {
  require_plan(call.plan, call.y.rows(), "unpermute_rows");
  require(call.rows.columns() == call.y.columns() &&
              (!call.weights || call.weights.count() == call.plan.slots.count()) &&
              (!call.residual || call.residual.count() == call.y.count()),
          "unpermute_rows");
}

void require_shapes(const UnpermuteRowsBackward& call) {
  const int64_t width = call.dy.columns();
  const int64_t choices = call.plan.slots.count();
  require_plan(call.plan, call.dy.rows(), "unpermute_rows_backward");
  require(call.drows.columns() == width && call.rows.columns() == width &&
              call.weights.count() == choices && call.dweights.count() == choices,
          "unpermute_rows_backward");
}

}  // namespace dettax
