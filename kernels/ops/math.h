// exp, erf and GELU for any value type with + - * / and comparisons: a float, or a vector of floats.
//
// A target provides, for its value type V and matching integer type:
//   splat<V>(float), select(mask, a, b), round_to_int(V) and scale_by_power_of_two(V, ints).
// Coefficients: tools/derive_math.py (minimax fits), errors there and in tests/codegen.
#ifndef FUSETUNE_KERNELS_OPS_MATH_H
#define FUSETUNE_KERNELS_OPS_MATH_H

namespace ft {

/// e^x, 2e-7 relative. Exactly 0 below -87 (so that masked scores weigh nothing and leave no denormals);
/// callers pass x <= 88. -infinity gives 0, NaN gives NaN.
template <class V>
FT_INLINE V exp(V x) {
  const V clamped = select(x < -87.0f, splat<V>(-87.0f), x);
  // Adding 1.5 * 2^23 rounds to an integer in the low mantissa bits; needs strict float semantics.
  const V shifted = clamped * 1.44269504088896341f + 12582912.0f;
  const V n = shifted - 12582912.0f;
  const V r = (clamped - n * 0.693145751953125f) - n * 1.42860682030941723e-6f;
  V p = splat<V>(0.0013814613f);
  p = p * r + 0.00836871f;
  p = p * r + 0.04166839f;
  p = p * r + 0.16666521f;
  p = p * r + 0.49999994f;
  p = (p * r) * r + r + 1.0f;
  return select(x < -87.0f, splat<V>(0.0f), scale_by_power_of_two(p, shifted));
}

/// erf(x), 5e-7 absolute. The rational fit holds on |x| <= 4, where 1 - erf(4) = 1.5e-8.
template <class V>
FT_INLINE V erf(V x) {
  V z = select(x > 4.0f, splat<V>(4.0f), x);
  z = select(z < -4.0f, splat<V>(-4.0f), z);
  const V t = z * z;
  V p = splat<V>(1.9748459e-06f);
  p = p * t + 0.00028804108f;
  p = p * t + 0.0040035998f;
  p = p * t + 0.05346733f;
  p = p * t + 0.1962478f;
  p = p * t + 1.128379f;
  V q = splat<V>(3.7481015e-05f);
  q = q * t + 0.0012163502f;
  q = q * t + 0.015444325f;
  q = q * t + 0.11647595f;
  q = q * t + 0.50725126f;
  q = q * t + 1.0f;
  return z * p / q;
}

/// GELU, erf form: x/2 (1 + erf(x / sqrt 2)). Large |x| cannot overflow: erf saturates.
struct GeluErf {
  template <class V>
  FT_INLINE V operator()(V x) const {
    return x * 0.5f * (1.0f + erf(x * 0.70710678118654752f));
  }
};

/// GELU, tanh form: x/2 (1 + tanh(u)), u = sqrt(2/pi) (x + 0.044715 x^3), as x / (1 + e^(-2u)).
struct GeluTanh {
  template <class V>
  FT_INLINE V operator()(V x) const {
    const V u = (x + 0.044715f * x * x * x) * 0.79788456080286536f;
    V e = -2.0f * u;
    e = select(e > 80.0f, splat<V>(80.0f), e);
    return x / (1.0f + exp(e));
  }
};

}  // namespace ft

#endif
