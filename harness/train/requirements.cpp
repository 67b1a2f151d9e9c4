#include "harness/train/requirements.h"

#include <string>

#include "harness/base/error.h"
#include "harness/plan/suite.h"

namespace dettax {
namespace {

void require(bool met, ErrorKind kind, const std::string& message) {
  if (!met) throw Error(kind, message);
}

void require_layout(const Case& planned, int ranks) {
  const auto reason = layout_refusal(planned);
  require(!reason, ErrorKind::unsupported, reason.value_or(""));
  require(
      planned.layout.ranks() == ranks, ErrorKind::internal,
      "layout " + to_string(planned.layout) + " in a group of " + std::to_string(ranks) + " ranks");
}

void require_model(const Model& m) {
  require(!m.latent_attention, ErrorKind::unsupported,
          "model " + m.name + ": latent attention is not implemented");
  require(!m.moe || (m.activation == Activation::swiglu && !m.bias && m.dropout == 0),
          ErrorKind::unsupported,
          "model " + m.name + ": experts with gelu, biases or dropout are not implemented");
  require(m.activation != Activation::gelu || m.bias, ErrorKind::unsupported,
          "model " + m.name + ": gelu without biases is not implemented");
  require(m.key_value_heads > 0 && m.heads % m.key_value_heads == 0, ErrorKind::config,
          "model " + m.name + ": heads must be a multiple of key_value_heads");
}

void require_batch(const Case& planned) {
  const Batch& b = planned.batch;
  require(b.micro > 0 && b.global > 0 && b.global % (b.micro * planned.layout.dp) == 0,
          ErrorKind::config,
          "batch: global " + std::to_string(b.global) + " must be a multiple of micro " +
              std::to_string(b.micro) + " times dp " + std::to_string(planned.layout.dp));
  require(planned.model.position != Position::learned || b.sequence_length <= planned.model.context,
          ErrorKind::config,
          "batch: sequence_length " + std::to_string(b.sequence_length) + " exceeds the " +
              std::to_string(planned.model.context) + " positions of model " + planned.model.name);
}

}  // namespace

void require_trainable(const Case& planned, int ranks) {
  require_layout(planned, ranks);
  require_model(planned.model);
  require_batch(planned);
}

}  // namespace dettax
