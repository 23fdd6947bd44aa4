#!/usr/bin/env python3
"""Checks the float64 oracle against an independent computation in NumPy.

usage: check_oracle.py DUMP_ORACLE

For each problem below, DUMP_ORACLE writes generated data and every tensor of the oracle. This script

- rebuilds the generated data from the seed with its own Philox4x32-10 and compares it exactly;
- rebuilds the mask from its own predicates;
- recomputes all 18 tensors from the definitions and compares them.

Exit code 0: all agree; 1: a difference; 77: NumPy is missing, nothing was checked.
"""

import math
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
except ImportError as error:
    print(f"SKIPPED: {sys.executable} has no NumPy ({error}); install python3-numpy to run this check")
    sys.exit(77)

# Largest accepted |oracle - numpy| relative to the tensor's largest magnitude: float64 sums in another order.
TOLERANCE = 1e-12

PROBLEMS = [
    # (batch, seq, heads, head_size, ffn, mask, dtype, eps, gelu, data, seed)
    (1, 16, 2, 8, 64, "full", "f32", "1e-05", "erf", "uniform", 0),
    (2, 65, 3, 16, 100, "causal", "f32", "1e-12", "erf", "scaled", 1),
    (1, 127, 2, 33, 70, "strided", "f32", "1e-05", "erf", "scaled", 2),
    (1, 63, 1, 40, 128, "fixed:step=5", "f32", "1e-05", "tanh", "scaled", 3),
    (1, 130, 2, 16, 32, "bigbird:global=3,window=4,block=16,random=2", "f32", "1e-12", "erf", "scaled", 4),
    (1, 65, 1, 8, 32, "bigbird:global=0,block=8,random=5,seed=9", "f32", "1e-12", "erf", "scaled", 12),
    (3, 33, 2, 16, 64, "padding:lengths=33/1/20", "f32", "1e-12", "erf", "uniform", 5),
    (4, 31, 2, 16, 64, "padding:avg=20,seed=7", "bf16", "1e-05", "erf", "scaled", 6),
    (2, 40, 2, 8, 16, "sliding:window=3,causal=1,padding_lengths=40/11", "f16", "1e-05", "tanh", "scaled", 7),
    (1, 67, 2, 8, 16, "dilated:window=4,rate=2", "f32", "1e-05", "erf", "scaled", 8),
    (1, 70, 2, 8, 16, "longformer:global=2,window=5", "f32", "1e-05", "erf", "scaled", 2**40 + 11),
    (1, 64, 2, 8, 16, "block_diagonal:block=24", "f32", "1e-05", "erf", "scaled", 9),
    (1, 1, 1, 1, 1, "full", "f32", "1e-12", "erf", "scaled", 10),
]

WEIGHTS = ["w_qkv", "w_out", "w_ffn1", "w_ffn2"]
PARAMETERS = ["b_qkv", "b_out", "gamma1", "beta1", "b_ffn1", "b_ffn2", "gamma2", "beta2"]


# ------------------------------------------------------------------------------------------------ Philox


def philox(seed, stream, index, extra=0):
    """Four uint32 words per element of the uint64 array `index` (shape [n, 4]); Salmon et al., SC'11."""
    index = np.asarray(index, dtype=np.uint64)
    low32 = np.uint64(0xFFFFFFFF)
    shift = np.uint64(32)
    counter = [index & low32, index >> shift, np.full_like(index, stream), np.full_like(index, extra)]
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        first = counter[0] * np.uint64(0xD2511F53)
        second = counter[2] * np.uint64(0xCD9E8D57)
        counter = [
            (second >> shift) ^ counter[1] ^ np.uint64(key[0]),
            second & low32,
            (first >> shift) ^ counter[3] ^ np.uint64(key[1]),
            first & low32,
        ]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.stack(counter, axis=-1)


def unit(words):
    return (words >> np.uint64(8)).astype(np.float64) * 2.0**-24


def below(word, bound):
    return (int(word) * bound) >> 32


def uniform_values(count, seed, stream):
    words = philox(seed, stream, np.arange((count + 3) // 4)).reshape(-1)[:count]
    return -0.4 + (0.4 - -0.4) * unit(words)


def normal_values(count, seed, stream):
    pairs = unit(philox(seed, stream, np.arange((count + 3) // 4)).reshape(-1, 2))
    radius = np.sqrt(-2.0 * np.log(1.0 - pairs[:, 0]))
    angle = 2.0 * math.pi * pairs[:, 1]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1).reshape(-1)[:count]


def round_dtype(values, dtype):
    values = values.astype(np.float32)
    if dtype == "f16":
        return values.astype(np.float16).astype(np.float32)
    if dtype == "bf16":
        bits = values.view(np.uint32).astype(np.uint64)
        bits = (bits + 0x7FFF + ((bits >> np.uint64(16)) & np.uint64(1))) & np.uint64(0xFFFF0000)
        return bits.astype(np.uint32).view(np.float32)
    return values


def expected_data(problem, shapes):
    """Generated hidden, weights and parameters by name."""
    seed, scaled = problem["seed"], problem["data"] == "scaled"
    streams = [("input_hidden", 0)]
    streams += [(name, 1 + i) for i, name in enumerate(WEIGHTS)]
    streams += [(name, 5 + i) for i, name in enumerate(PARAMETERS)]
    result = {}
    for name, stream in streams:
        shape = shapes[name]
        count = math.prod(shape)
        if not scaled:
            values = uniform_values(count, seed, stream)
        elif name.startswith("gamma"):
            values = np.ones(count)
        else:
            scale = 1.0 if name == "input_hidden" else 0.02
            if name in WEIGHTS:
                scale = 1.0 / math.sqrt(shape[0])
            values = scale * normal_values(count, seed, stream)
        dtype = "f32" if name in PARAMETERS else problem["dtype"]
        result[name] = round_dtype(values, dtype).reshape(shape)
    return result


# ------------------------------------------------------------------------------------------------- masks


def bigbird_blocks(seq, block, random, seed):
    """Drawn key blocks of each query block."""
    blocks = -(-seq // block)
    drawn = []
    for query_block in range(blocks):
        order = list(range(blocks))
        for t in range(min(random, blocks)):
            word = philox(seed, 65, [query_block], t // 4)[0][t % 4]
            other = t + below(word, blocks - t)
            order[t], order[other] = order[other], order[t]
        drawn.append(set(order[: min(random, blocks)]))
    return drawn


def predicate(pattern, p, seq):
    step = int(p.get("step", math.isqrt(seq)))
    window = int(p.get("window", 32))
    rate = int(p.get("rate", 1))
    first = int(p.get("global", 32))
    block = int(p.get("block", 128 if pattern == "block_diagonal" else 32))
    if pattern == "bigbird":
        drawn = bigbird_blocks(seq, block, int(p.get("random", 3)), int(p.get("seed", 0)))

    def longformer(i, j):
        return i < first or j < first or abs(i - j) <= window

    return {
        "full": lambda i, j: True,
        "padding": lambda i, j: True,
        "causal": lambda i, j: j <= i,
        "strided": lambda i, j: j <= i and ((i - j) % step == 0 or j > i - step),
        "fixed": lambda i, j: j <= i and (j % step == step - 1 or j - j % step > i - step),
        "sliding": lambda i, j: abs(i - j) <= window,
        "dilated": lambda i, j: (i - j) % (rate + 1) == 0 and abs(i - j) <= window * (rate + 1),
        "longformer": longformer,
        "bigbird": lambda i, j: longformer(i, j) or j // block in drawn[i // block],
        "block_diagonal": lambda i, j: i // block == j // block,
    }[pattern]


def visibility(text, batch, seq):
    """Booleans [B,S,S] and the lengths [B]."""
    pattern, _, rest = text.partition(":")
    p = dict(part.split("=") for part in rest.split(",") if part)
    lengths = [seq] * batch
    listed = p.get("lengths", p.get("padding_lengths"))
    average = p.get("avg", p.get("padding_avg"))
    if listed:
        lengths = [int(length) for length in listed.split("/")]
    if average:
        low = max(1, 2 * int(average) - seq)
        seed = int(p.get("seed", 0))
        lengths = [low + below(philox(seed, 64, [b])[0][0], seq - low + 1) for b in range(batch)]
    visible = predicate(pattern, p, seq)
    grid = np.zeros((batch, seq, seq), dtype=bool)
    for b in range(batch):
        for i in range(lengths[b]):
            for j in range(lengths[b]):
                grid[b, i, j] = visible(i, j) and (p.get("causal") != "1" or j <= i)
    return grid, lengths


# ------------------------------------------------------------------------------------------------- block


def layer_norm(x, gamma, beta, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred * centred).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * gamma + beta


def gelu(x, form):
    if form == "tanh":
        return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1.0 + np.vectorize(math.erf)(x / math.sqrt(2.0)))


def compute_block(problem, data):
    d = {name: array.astype(np.float64) for name, array in data.items()}
    batch, seq, heads, size = (problem[key] for key in ("batch", "seq", "heads", "head_size"))
    visible, lengths = visibility(problem["mask"], batch, seq)
    visible = visible[:, None, :, :]
    used = visible.any(axis=2)[..., None]  # [B,1,S,1]: keys that some query sees

    t = {"hidden": d["input_hidden"]}
    t["qkv"] = t["hidden"] @ d["w_qkv"]
    parts = np.split(t["qkv"] + d["b_qkv"], 3, axis=-1)
    t["q"], t["k"], t["v"] = (x.reshape(batch, seq, heads, size).transpose(0, 2, 1, 3) for x in parts)
    t["scores"] = t["q"] @ np.where(used, t["k"], 0.0).transpose(0, 1, 3, 2) / math.sqrt(size)
    t["masked_scores"] = np.where(visible, t["scores"], -np.inf)
    weight = np.where(visible, np.exp(t["scores"] - t["scores"].max(axis=-1, keepdims=True)), 0.0)
    total = weight.sum(axis=-1, keepdims=True)
    t["probs"] = np.divide(weight, total, out=np.zeros_like(weight), where=total > 0)
    t["context"] = t["probs"] @ np.where(used, t["v"], 0.0)
    t["merged"] = t["context"].transpose(0, 2, 1, 3).reshape(batch, seq, heads * size)
    t["attn_proj"] = t["merged"] @ d["w_out"]
    t["attn_sum"] = t["attn_proj"] + d["b_out"] + t["hidden"]
    t["norm1"] = layer_norm(t["attn_sum"], d["gamma1"], d["beta1"], problem["eps"])
    t["ffn_up"] = t["norm1"] @ d["w_ffn1"]
    t["ffn_act"] = gelu(t["ffn_up"] + d["b_ffn1"], problem["gelu"])
    t["ffn_down"] = t["ffn_act"] @ d["w_ffn2"]
    t["ffn_sum"] = t["ffn_down"] + d["b_ffn2"] + t["norm1"]
    t["output"] = layer_norm(t["ffn_sum"], d["gamma2"], d["beta2"], problem["eps"])
    for b, length in enumerate(lengths):
        t["output"][b, length:] = 0.0
    return t


# ------------------------------------------------------------------------------------------------ checks


def compare_data(name, got, want, exact):
    if got.dtype == want.dtype and np.array_equal(got, want):
        return None
    # log, sin and cos of two libraries may differ in float64's last place, which seldom changes the rounding.
    worst = np.abs(got.astype(np.float64) - want).max()
    share = float(np.mean(got != want))
    if not exact and worst <= 2.0**-7 * np.abs(want).max() and share < 1e-3:
        return None
    return f"{name}: generated values differ by {worst} in {share:.2%} of the elements"


def compare_tensor(name, got, want):
    if got.shape != want.shape:
        return f"{name}: shape {got.shape}, expected {want.shape}"
    infinite = np.isinf(want)
    if not np.array_equal(np.isinf(got), infinite) or np.isnan(got).any():
        return f"{name}: infinities or NaN in other places"
    if name == "probs" and not np.array_equal(got == 0.0, want == 0.0):
        return "probs: zeros in other places"
    error = np.abs(np.subtract(got, want, out=np.zeros_like(want), where=~infinite))
    scale = max(np.abs(want[~infinite]).max(initial=0.0), 1e-300)
    worst = error.max() / scale
    if worst <= TOLERANCE:
        return None
    where = tuple(int(index) for index in np.unravel_index(error.argmax(), error.shape))
    return f"{name}: off by {worst:.3g} of its largest magnitude at {where}"


def check(dump_oracle, row):
    keys = ["batch", "seq", "heads", "head_size", "ffn", "mask", "dtype", "eps", "gelu", "data", "seed"]
    problem = dict(zip(keys, row))
    text = " ".join(f"{key}={value}" for key, value in problem.items()) + " layers=1"
    problem["eps"] = float(problem["eps"])
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run([dump_oracle, directory, text], check=True)
        dumped = {path.stem: np.load(path) for path in Path(directory).glob("*.npy")}
    inputs = {name: dumped.pop(name) for name in ["input_hidden", *WEIGHTS, *PARAMETERS]}
    expected = expected_data(problem, {name: array.shape for name, array in inputs.items()})
    failures = [
        compare_data(name, inputs[name], expected[name], exact=problem["data"] == "uniform")
        for name in inputs
    ]
    tensors = compute_block(problem, inputs)
    if set(tensors) != set(dumped):
        failures.append(f"tensors {sorted(set(tensors) ^ set(dumped))} are on one side only")
    failures += [compare_tensor(name, dumped[name], tensors[name]) for name in tensors if name in dumped]
    failures = [failure for failure in failures if failure]
    print(f"{'FAILED' if failures else 'ok':6}  {text}")
    for failure in failures:
        print(f"        {failure}")
    return not failures


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    results = [check(sys.argv[1], row) for row in PROBLEMS]
    print(f"{sum(results)} of {len(results)} problems agree")
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
