// Elementary functions on vectors of float, once per instruction set. Every lane takes the same
// fused operations in the same order, so a value does not depend on the vector's width or on its
// place in it (on every target that has FMA).

// Highway's guard: the file is read once for each target.
#if defined(DETTAX_VECTOR_MATH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef DETTAX_VECTOR_MATH_INL_H
#undef DETTAX_VECTOR_MATH_INL_H
#else
#define DETTAX_VECTOR_MATH_INL_H
#endif

#include <limits>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace dettax {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// e^(x - n ln 2) for an integer n that leaves a rest of at most ln 2 / 2; ln 2 in two parts, the first exact when multiplied by n.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_of_rest(D d, V x, V n) {
  auto r = hn::NegMulAdd(n, hn::Set(d, 0.693145751953125f), x);
  r = hn::NegMulAdd(n, hn::Set(d, 1.42860682030941723e-6f), r);
  auto p = hn::Set(d, 1.0f / 5040.0f);
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 720.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 120.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 24.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 6.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.5f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  return p;
}

// e^x within 2 ulp. Results that would be denormal are 0, too large ones infinite; NaN stays NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp(D d, V x) {
  const hn::RebindToSigned<D> di;
  const auto lowest = hn::Set(d, -87.33654f);
  const auto highest = hn::Set(d, 88.72284f);
  const auto clamped = hn::Min(hn::Max(x, lowest), highest);
  const auto n = hn::Round(hn::Mul(clamped, hn::Set(d, 1.442695041f)));
  const auto p = exp_of_rest(d, clamped, n);
  // 2^n in two factors, since 2^128 is no float though the result may be one.
  const auto exponent = hn::ConvertTo(di, n);
  const auto half = hn::ShiftRight<1>(exponent);
  const auto bias = hn::Set(di, 127);
  const auto power = [&](auto e) { return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(e, bias))); };
  auto result = hn::Mul(hn::Mul(p, power(half)), power(hn::Sub(exponent, half)));
  result = hn::IfThenElse(hn::Gt(x, highest), hn::Set(d, std::numeric_limits<float>::infinity()),
                          result);
  result = hn::IfThenZeroElse(hn::Lt(x, lowest), result);
  return hn::IfThenElse(hn::Eq(x, x), result, x);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V sigmoid(D d, V x) {
  const auto one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, exp(d, hn::Neg(x))));
}

// Tanh form of gelu, 0.5 x (1 + tanh u) with u = sqrt(2/pi) (x + 0.044715 x^3), written as x
// sigmoid(2u): the same function without the cancellation that 1 + tanh has for negative u.
inline constexpr float kGeluLinear = 1.5957691216057308f;  // 2 sqrt(2/pi)
inline constexpr float kGeluCubic = 0.071354816272850f;    // the same * 0.044715
inline constexpr float kGeluCubicSlope = 3 * 0.071354816272850f;

template <class D, class V = hn::Vec<D>>
HWY_INLINE V gelu_sigmoid(D d, V x, V square) {
  const auto twice_u =
      hn::Mul(x, hn::MulAdd(square, hn::Set(d, kGeluCubic), hn::Set(d, kGeluLinear)));
  return sigmoid(d, twice_u);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V gelu(D d, V x) {
  return hn::Mul(x, gelu_sigmoid(d, x, hn::Mul(x, x)));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V gelu_derivative(D d, V x) {
  const auto square = hn::Mul(x, x);
  const auto s = gelu_sigmoid(d, x, square);
  const auto slope = hn::MulAdd(square, hn::Set(d, kGeluCubicSlope), hn::Set(d, kGeluLinear));
  const auto bell = hn::Mul(s, hn::Sub(hn::Set(d, 1.0f), s));
  return hn::MulAdd(hn::Mul(x, slope), bell, s);
}

}  // namespace HWY_NAMESPACE
}  // namespace dettax
HWY_AFTER_NAMESPACE();

#endif
