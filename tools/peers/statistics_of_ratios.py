"""Medians of paired ratios and what can be said about them."""

import math
import statistics


def median_interval(values, confidence=0.95):
    """(low, high): a confidence interval of the median from order statistics, free of any distribution.

    The interval between the k-th smallest and k-th largest of n values covers the median with probability
    1 - 2 * P(Binomial(n, 1/2) < k). With fewer than six values no pair reaches 95 %: the whole range is given.
    """
    ordered = sorted(values)
    n = len(ordered)
    tail, k = 0.0, 0
    while k < n // 2:
        tail += math.comb(n, k) / 2**n
        if 2 * tail > 1 - confidence:
            break
        k += 1
    k = max(k - 1, 0)
    return ordered[k], ordered[n - 1 - k]


def paired(numerator, denominator):
    """{"ratio", "low", "high", "pairs"} of two lists of times whose elements were taken one after the other."""
    ratios = [a / b for a, b in zip(numerator, denominator, strict=True)]
    low, high = median_interval(ratios)
    return {"ratio": statistics.median(ratios), "low": low, "high": high, "pairs": len(ratios)}


def geometric_mean(values):
    values = list(values)
    return math.exp(sum(math.log(value) for value in values) / len(values))
