#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace dettax::reference {

// Reverse-mode differentiation of scalars in double precision: every operation notes its partial derivatives, one sweep backwards
// gives the gradient of the last value. Slow, short, and independent of the kernels' own gradients.
class Tape {
 public:
  int leaf() { return note(-1, 0, -1, 0); }
  int note(int a, double da, int b, double db) {
    nodes_.push_back({a, b, da, db});
    return static_cast<int>(nodes_.size()) - 1;
  }
  // d value / d node for every node.
  std::vector<double> gradients_of(int value) const {
    std::vector<double> gradients(nodes_.size(), 0.0);
    gradients[static_cast<size_t>(value)] = 1;
    for (size_t i = nodes_.size(); i-- > 0;) {
      const Node& node = nodes_[i];
      if (node.a >= 0) gradients[static_cast<size_t>(node.a)] += node.da * gradients[i];
      if (node.b >= 0) gradients[static_cast<size_t>(node.b)] += node.db * gradients[i];
    }
    return gradients;
  }

 private:
  struct Node {
    int a, b;
    double da, db;
  };
  std::vector<Node> nodes_;
};

// A value on a tape; a constant if it has no tape.
struct Var {
  double value = 0;
  Tape* tape = nullptr;
  int id = -1;
  Var(double v = 0)
      : value(v) {}  // NOLINT(google-explicit-constructor): constants mix with variables
  Var(double v, Tape* on, int node) : value(v), tape(on), id(node) {}
};

inline Var unary(const Var& a, double value, double derivative) {
  return a.tape == nullptr ? Var(value) : Var(value, a.tape, a.tape->note(a.id, derivative, -1, 0));
}
inline Var binary(const Var& a, const Var& b, double value, double da, double db) {
  Tape* tape = a.tape != nullptr ? a.tape : b.tape;
  return tape == nullptr ? Var(value) : Var(value, tape, tape->note(a.id, da, b.id, db));
}
inline Var operator+(const Var& a, const Var& b) { return binary(a, b, a.value + b.value, 1, 1); }
inline Var operator-(const Var& a, const Var& b) { return binary(a, b, a.value - b.value, 1, -1); }
inline Var operator*(const Var& a, const Var& b) {
  return binary(a, b, a.value * b.value, b.value, a.value);
}
inline Var operator/(const Var& a, const Var& b) {
  return binary(a, b, a.value / b.value, 1 / b.value, -a.value / (b.value * b.value));
}
inline Var exp(const Var& a) { return unary(a, std::exp(a.value), std::exp(a.value)); }
inline Var log(const Var& a) { return unary(a, std::log(a.value), 1 / a.value); }
inline Var sqrt(const Var& a) { return unary(a, std::sqrt(a.value), 0.5 / std::sqrt(a.value)); }
inline Var tanh(const Var& a) {
  const double t = std::tanh(a.value);
  return unary(a, t, 1 - t * t);
}

}  // namespace dettax::reference
