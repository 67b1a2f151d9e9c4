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
  Rows mlp(const std::string& name, const Rows& x, int64_t width) const;
  Rows activated(Rows up, int64_t width) const;
  Rows expert(const std::string& name, size_t index, const Rows& x) const;
  Rows experts(const std::string& name, const Rows& x, Var& balance) const;
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

Rows Forward::activated(Rows up, int64_t width) const {
  const bool gated = model_.activation == Activation::swiglu;
  const auto f = static_cast<size_t>(width);
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
  return up;
}

Rows Forward::mlp(const std::string& name, const Rows& x, int64_t width) const {
  const bool gated = model_.activation == Activation::swiglu;
  return linear(name + ".down", activated(linear(name + ".up", x, width * (gated ? 2 : 1)), width),
                model_.width);
}

// y = x w^T with the weights of one expert out of those of all.
Rows expert_linear(const Row& weights, size_t index, const Rows& x, size_t out) {
  Rows y(x.size(), Row(out));
  for (size_t t = 0; t < x.size(); ++t) {
    const size_t in = x[t].size();
    for (size_t o = 0; o < out; ++o) {
      for (size_t i = 0; i < in; ++i)
        y[t][o] = y[t][o] + x[t][i] * weights[(index * out + o) * in + i];
    }
  }
  return y;
}

Rows Forward::expert(const std::string& name, size_t index, const Rows& x) const {
  const int64_t width = model_.moe->expert_width;
  const Rows up =
      expert_linear(weight(name + ".up.weight"), index, x, static_cast<size_t>(2 * width));
  return expert_linear(weight(name + ".down.weight"), index, activated(up, width),
                       static_cast<size_t>(model_.width));
}

struct Choice {
  size_t expert = 0;
  Var weight;
};
using Choices = std::vector<Choice>;  // of a token

Choices chosen(const Moe& moe, const Row& p, size_t token) {
  const auto count = static_cast<size_t>(moe.top_k);
  std::vector<size_t> order(p.size());
  for (size_t e = 0; e < order.size(); ++e) order[e] = e;
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return p[a].value > p[b].value; });
  Choices choices(count);
  Var total;
  for (size_t k = 0; k < count; ++k) {
    const bool balanced = moe.routing == Routing::balanced;
    choices[k].expert = balanced ? (token * count + k) % p.size() : order[k];
    choices[k].weight = p[choices[k].expert];
    total = total + choices[k].weight;
  }
  for (Choice& choice : choices) {
    if (moe.normalised) choice.weight = choice.weight / total;
  }
  return choices;
}

// Adds the sample's load-balance loss, times its tokens as losses are sums over tokens.
Rows Forward::experts(const std::string& name, const Rows& x, Var& balance) const {
  const Moe& moe = *model_.moe;
  const double even = static_cast<double>(x.size()) * static_cast<double>(moe.top_k) /
                      static_cast<double>(moe.experts);
  Rows p = linear(name + ".router", x, moe.experts);
  std::vector<Choices> choices;
  std::vector<double> load(p[0].size());
  for (size_t t = 0; t < x.size(); ++t) {
    Var total;
    for (Var& v : p[t]) total = total + (v = exp(v));
    for (Var& v : p[t]) v = v / total;
    choices.push_back(chosen(moe, p[t], t));
    for (const Choice& choice : choices.back()) load[choice.expert] += 1;
  }
  for (const Row& row : p) {
    for (size_t e = 0; e < row.size(); ++e)
      balance = balance + row[e] * (moe.balance_weight * load[e] / even);
  }
  const double capacity = std::ceil(moe.capacity_factor * even);
  std::vector<double> taken(load.size());
  Rows y(x.size(), Row(x[0].size()));
  for (size_t t = 0; t < x.size(); ++t) {
    for (const Choice& choice : choices[t]) {
      if (moe.capacity_factor > 0 && ++taken[choice.expert] > capacity) continue;
      const Rows row = expert(name + ".experts", choice.expert, {x[t]});
      for (size_t i = 0; i < y[t].size(); ++i) y[t][i] = y[t][i] + row[0][i] * choice.weight;
    }
  }
  if (moe.shared_experts > 0)
    add(y, mlp(name + ".shared", x, moe.shared_experts * moe.expert_width));
  return y;
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
  Var balance;
  for (int64_t l = 0; l < model_.layers; ++l) {
    const std::string name = "layer" + std::to_string(l);
    Rows qkv = linear(name + ".attention.qkv", norm(name + ".norm1", x),
                      (model_.heads + 2 * model_.key_value_heads) * model_.head_width);
    for (size_t t = 0; t < qkv.size() && model_.position == Position::rope; ++t)
      rotate(qkv[t], static_cast<int64_t>(t));
    Rows branch = linear(name + ".attention.projection", attention(qkv), model_.width);
    dropout(branch, static_cast<uint32_t>(2 * l + 1), sample);
    add(x, branch);
    const Rows y = norm(name + ".norm2", x);
    branch = has_experts(model_, l) ? experts(name + ".moe", y, balance)
                                    : mlp(name + ".mlp", y, model_.ffn_width);
    dropout(branch, static_cast<uint32_t>(2 * l + 2), sample);
    add(x, branch);
  }
  const Rows y = norm("final_norm", x);
  const Rows logits = linear(model_.tied_head ? "embedding" : "head", y, model_.vocabulary);
  Var loss = balance;
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
