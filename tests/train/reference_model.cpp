#include "reference_model.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "harness/base/random.h"
#include "tape.h"

namespace dettax::reference {
namespace {

using Row = std::vector<Var>;
using Rows = std::vector<Row>;

class Forward {
 public:
  Forward(const Case& planned, const Values& weights, uint64_t seed, uint64_t step)
      : model_(planned.model), length_(planned.batch.sequence_length), seed_(seed), step_(step) {
    for (const auto& [name, values] : weights) {
      for (const double value : values) weights_[name].emplace_back(value, &tape_, tape_.leaf());
    }
  }

  // Sum of the losses of one sample's tokens.
  Var sample_loss(const std::vector<int32_t>& tokens, int64_t sample);
  Values gradients_of(const Var& loss) const;

 private:
  Rows linear(const std::string& name, const Rows& x, int64_t out) const;
  Rows norm(const std::string& name, const Rows& x) const;
  Rows attention(const Rows& qkv) const;
  void rotate(Row& qkv, int64_t position) const;
  Rows mlp(const std::string& name, const Rows& x) const;
  void dropout(Rows& x, uint32_t place, int64_t sample) const;
  const Row& weight(const std::string& name) const { return weights_.at(name); }

  const Model& model_;
  const int64_t length_;
  const uint64_t seed_, step_;
  Tape tape_;
  std::map<std::string, Row> weights_;
};

void add(Rows& to, const Rows& from) {
  for (size_t t = 0; t < to.size(); ++t) {
    for (size_t i = 0; i < to[t].size(); ++i) to[t][i] = to[t][i] + from[t][i];
  }
}

Rows Forward::linear(const std::string& name, const Rows& x, int64_t out) const {
  const Row& w = weight(name + ".weight");
  const auto bias = weights_.find(name + ".bias");
  Rows y(x.size(), Row(static_cast<size_t>(out)));
  for (size_t t = 0; t < x.size(); ++t) {
    for (size_t o = 0; o < y[t].size(); ++o) {
      if (bias != weights_.end()) y[t][o] = bias->second[o];
      for (size_t i = 0; i < x[t].size(); ++i) y[t][o] = y[t][o] + x[t][i] * w[o * x[t].size() + i];
    }
  }
  return y;
}

Rows Forward::norm(const std::string& name, const Rows& x) const {
  const Row& gamma = weight(name + ".weight");
  const auto beta = weights_.find(name + ".bias");
  Rows y = x;
  for (Row& row : y) {
    const double width = static_cast<double>(row.size());
    if (model_.norm == NormKind::layer_norm) {
      Var mean;
      for (const Var& v : row) mean = mean + v / width;
      for (Var& v : row) v = v - mean;
    }
    Var square;
    for (const Var& v : row) square = square + v * v / width;
    const Var rstd = Var(1) / sqrt(square + model_.norm_epsilon);
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] = row[i] * rstd * gamma[i];
      if (beta != weights_.end()) row[i] = row[i] + beta->second[i];
    }
  }
  return y;
}

void Forward::rotate(Row& qkv, int64_t position) const {
  const int64_t half = model_.head_width / 2;
  for (int64_t head = 0; head < model_.heads + model_.key_value_heads; ++head) {
    for (int64_t i = 0; i < half; ++i) {
      const double frequency =
          std::pow(model_.rope_theta,
                   -2.0 * static_cast<double>(i) / static_cast<double>(model_.head_width));
      const double angle = static_cast<double>(position) * frequency;
      Var& a = qkv[static_cast<size_t>(head * model_.head_width + i)];
      Var& b = qkv[static_cast<size_t>(head * model_.head_width + i + half)];
      const Var rotated_a = a * std::cos(angle) - b * std::sin(angle);
      b = a * std::sin(angle) + b * std::cos(angle);
      a = rotated_a;
    }
  }
}

Rows Forward::attention(const Rows& qkv) const {
  const int64_t d = model_.head_width;
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  Rows out(qkv.size(), Row(static_cast<size_t>(model_.heads * d)));
  for (int64_t h = 0; h < model_.heads; ++h) {
    const int64_t kv = h / (model_.heads / model_.key_value_heads);
    const int64_t key = (model_.heads + kv) * d;
    const int64_t value = (model_.heads + model_.key_value_heads + kv) * d;
    for (size_t t = 0; t < qkv.size(); ++t) {
      Row p;
      Var sum;
      for (size_t s = 0; s <= t; ++s) {
        Var dot;
        for (int64_t i = 0; i < d; ++i)
          dot = dot + qkv[t][static_cast<size_t>(h * d + i)] * qkv[s][static_cast<size_t>(key + i)];
        p.push_back(exp(dot * scale));
        sum = sum + p.back();
      }
      for (int64_t i = 0; i < d; ++i) {
        Var& y = out[t][static_cast<size_t>(h * d + i)];
        for (size_t s = 0; s <= t; ++s) y = y + p[s] / sum * qkv[s][static_cast<size_t>(value + i)];
      }
    }
  }
  return out;
}

Rows Forward::mlp(const std::string& name, const Rows& x) const {
  const bool gated = model_.activation == Activation::swiglu;
  const auto f = static_cast<size_t>(model_.ffn_width);
  Rows up = linear(name + ".up", x, model_.ffn_width * (gated ? 2 : 1));
  for (Row& row : up) {
    for (size_t i = 0; i < f; ++i) {
      const Var v = row[i];
      if (gated) {
        row[i] = v / (Var(1) + exp(Var(0) - v)) * row[f + i];
      } else {
        row[i] =
            v * 0.5 * (Var(1) + tanh((v + v * v * v * 0.044715) * std::sqrt(2 / std::numbers::pi)));
      }
    }
    row.resize(f);
  }
  return linear(name + ".down", up, model_.width);
}

void Forward::dropout(Rows& x, uint32_t place, int64_t sample) const {
  if (model_.dropout == 0) return;
  const RandomKey key{seed_, RandomPurpose::dropout, place};
  for (size_t t = 0; t < x.size(); ++t) {
    for (size_t i = 0; i < x[t].size(); ++i) {
      const uint64_t element = (static_cast<uint64_t>(sample * length_) + t) * x[t].size() + i;
      const uint32_t word = random_words(key, step_, element / 4)[element % 4];
      const bool kept = static_cast<double>(word) >= model_.dropout * 0x1p32;
      x[t][i] = kept ? x[t][i] / (1 - model_.dropout) : Var(0);
    }
  }
}

Var Forward::sample_loss(const std::vector<int32_t>& tokens, int64_t sample) {
  const auto width = static_cast<size_t>(model_.width);
  Rows x(static_cast<size_t>(length_), Row(width));
  for (size_t t = 0; t < x.size(); ++t) {
    for (size_t i = 0; i < width; ++i) {
      x[t][i] = weight("embedding.weight")[static_cast<size_t>(tokens[t]) * width + i];
      if (model_.position == Position::learned)
        x[t][i] = x[t][i] + weight("position.weight")[t * width + i];
    }
  }
  dropout(x, 0, sample);
  for (int64_t l = 0; l < model_.layers; ++l) {
    const std::string name = "layer" + std::to_string(l);
    Rows qkv = linear(name + ".attention.qkv", norm(name + ".norm1", x),
                      (model_.heads + 2 * model_.key_value_heads) * model_.head_width);
    for (size_t t = 0; t < qkv.size() && model_.position == Position::rope; ++t)
      rotate(qkv[t], static_cast<int64_t>(t));
    Rows branch = linear(name + ".attention.projection", attention(qkv), model_.width);
    dropout(branch, static_cast<uint32_t>(2 * l + 1), sample);
    add(x, branch);
    branch = mlp(name + ".mlp", norm(name + ".norm2", x));
    dropout(branch, static_cast<uint32_t>(2 * l + 2), sample);
    add(x, branch);
  }
  const Rows y = norm("final_norm", x);
  const Rows logits = linear(model_.tied_head ? "embedding" : "head", y, model_.vocabulary);
  Var loss;
  for (size_t t = 0; t < logits.size(); ++t) {
    Var sum;
    for (const Var& logit : logits[t]) sum = sum + exp(logit);
    loss = loss + log(sum) - logits[t][static_cast<size_t>(tokens[t + 1])];
  }
  return loss;
}

Values Forward::gradients_of(const Var& loss) const {
  const std::vector<double> all = tape_.gradients_of(loss.id);
  Values gradients;
  for (const auto& [name, row] : weights_) {
    for (const Var& v : row) gradients[name].push_back(all[static_cast<size_t>(v.id)]);
  }
  return gradients;
}

}  // namespace

Result loss_and_gradients(const Case& planned, const Values& weights,
                          const std::vector<std::vector<int32_t>>& sequences, uint64_t seed,
                          uint64_t step) {
  Result result;
  const double tokens = static_cast<double>(planned.tokens_per_step());
  for (size_t s = 0; s < sequences.size(); ++s) {
    Forward forward(planned, weights, seed, step);
    const Var loss = forward.sample_loss(sequences[s], static_cast<int64_t>(s)) / tokens;
    result.loss += loss.value;
    for (const auto& [name, values] : forward.gradients_of(loss)) {
      std::vector<double>& sum = result.gradients[name];
      sum.resize(values.size());
      for (size_t i = 0; i < values.size(); ++i) sum[i] += values[i];
    }
  }
  return result;
}

}  // namespace dettax::reference
