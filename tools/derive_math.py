#!/usr/bin/env python3
"""Derives the coefficients of kernels/ops/math.h: a minimax fit by Lawson's iteration.

    exp(r)  on [-ln2/2, ln2/2]   1 + r + r^2 * P(r), relative error
    erf(z)  on [0, 4]            z * P(z^2) / Q(z^2), absolute error

Lawson's iteration is a weighted least-squares fit whose weights are multiplied by the error after every
round; it converges to the minimax fit. For the rational function the denominator of the previous round
linearises the problem (Sanathanan-Koerner). Prints the coefficients as float32 and the error of a float32
evaluation against float64. Needs numpy only.
"""
import math

import numpy as np


def lawson(columns, target, scale, rounds):
    """Minimax coefficients c of sum c_i * columns_i ~ target, error multiplied by scale."""
    weights = np.ones(len(target)) / len(target)
    best, best_error = None, np.inf
    for _ in range(rounds):
        root = np.sqrt(weights) * scale
        c, *_ = np.linalg.lstsq(columns * root[:, None], target * root, rcond=None)
        error = np.abs((columns @ c - target) * scale)
        if error.max() < best_error:
            best, best_error = c, error.max()
        weights *= error
        weights /= weights.sum()
    return best, best_error


def chebyshev(a, b, n):
    return (a + b) / 2 + (b - a) / 2 * np.cos(np.pi * (np.arange(n) + 0.5) / n)


def fit_exp(degree):
    r = chebyshev(-math.log(2) / 2, math.log(2) / 2, 2000)
    target = (np.exp(r) - 1 - r) / r**2
    columns = np.stack([r**i for i in range(degree - 1)], axis=1)
    return lawson(columns, target, r**2 / np.exp(r), 200)


def fit_erf(p, q):
    z = chebyshev(0, 4, 3000)
    t = z * z
    erf = np.vectorize(math.erf)(z)
    denominator = np.ones_like(z)
    best = (None, None, np.inf)
    weights = np.ones_like(z) / len(z)
    for _ in range(400):
        columns = np.stack([z * t**i for i in range(p + 1)] + [-erf * t**i for i in range(1, q + 1)], axis=1)
        root = np.sqrt(weights) / denominator
        c, *_ = np.linalg.lstsq(columns * root[:, None], erf * root, rcond=None)
        P, Q = c[: p + 1], np.concatenate([[1.0], c[p + 1 :]])
        denominator = sum(Q[i] * t**i for i in range(q + 1))
        error = np.abs(z * sum(P[i] * t**i for i in range(p + 1)) / denominator - erf)
        if error.max() < best[2]:
            best = (P, Q, error.max())
        weights *= np.sqrt(error) + 1e-12
        weights /= weights.sum()
    return best


def float32_horner(x, coefficients):
    y = np.full_like(x, np.float32(coefficients[-1]))
    for c in coefficients[-2::-1]:
        y = np.float32(y * x + np.float32(c))
    return y


def show(name, coefficients):
    print(f"{name}: " + ", ".join(f"{np.float32(c)!s}f" for c in coefficients))


if __name__ == "__main__":
    c, error = fit_exp(6)
    show("exp P", c)
    r = np.linspace(-math.log(2) / 2, math.log(2) / 2, 200001).astype(np.float32)
    got = np.float32(np.float32(float32_horner(r, c) * r * r + r) + np.float32(1))
    print(f"exp: minimax relative error {error:.2e}, in float32 {np.max(np.abs(got / np.exp(r.astype(float)) - 1)):.2e}")
    P, Q, error = fit_erf(5, 5)
    show("erf P", P)
    show("erf Q", Q)
    z = np.linspace(0, 4, 400001).astype(np.float32)
    t = np.float32(z * z)
    got = np.float32(z * float32_horner(t, P) / float32_horner(t, Q))
    exact = np.vectorize(math.erf)(z.astype(float))
    print(f"erf: minimax absolute error {error:.2e}, in float32 {np.max(np.abs(got - exact)):.2e}")
