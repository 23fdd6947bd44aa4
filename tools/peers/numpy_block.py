"""The encoder block in numpy float64, the data that every peer runs on, and the accuracy figures.

Written from the definitions in the operator table (post-LN BERT layer, erf GELU, biased variance); it shares
no code with fusetune or with any peer, so it can judge all of them.

Shapes: B batch, S sequence length, H heads, W head size, D = H*W, F inner FFN size. Weights are [in, out].
"""

import dataclasses
import math
import pathlib

import numpy as np

WEIGHTS = ("w_qkv", "w_out", "w_ffn1", "w_ffn2")
PARAMETERS = ("b_qkv", "b_out", "gamma1", "beta1", "b_ffn1", "b_ffn2", "gamma2", "beta2")

# Copy number c of a layer multiplies its weights by 1 + c * COPY_STEP: the copies must differ, because
# graph compilers merge constants that are equal and would then read one layer's weights from cache.
COPY_STEP = 2.0**-12


@dataclasses.dataclass(frozen=True)
class Problem:
    """Sizes of one block; `layers` is the number of layers of the model around it."""

    name: str
    batch: int
    seq: int
    heads: int
    head_size: int
    ffn: int
    layers: int
    eps: float

    @property
    def hidden(self):
        return self.heads * self.head_size

    @property
    def tokens(self):
        return self.batch * self.seq

    @property
    def flops(self):
        """Multiplications and additions of the block's six matrix products."""
        d, m = self.hidden, self.tokens
        linear = 2 * m * d * (3 * d + d + 2 * self.ffn)
        attention = 2 * 2 * self.batch * self.heads * self.seq * self.seq * self.head_size
        return linear + attention

    @property
    def weight_bytes(self):
        """Bytes of one layer's four weight matrices in float32."""
        return 4 * self.hidden * (4 * self.hidden + 2 * self.ffn)

    def shapes(self):
        """Shape of every stored tensor by name: input `hidden`, weights, parameters."""
        d, f = self.hidden, self.ffn
        return {
            "hidden": (self.batch, self.seq, d),
            "w_qkv": (d, 3 * d), "w_out": (d, d), "w_ffn1": (d, f), "w_ffn2": (f, d),
            "b_qkv": (3 * d,), "b_out": (d,), "gamma1": (d,), "beta1": (d,),
            "b_ffn1": (f,), "b_ffn2": (d,), "gamma2": (d,), "beta2": (d,),
        }  # fmt: skip


# name -> heads, head size, inner FFN size, layers, eps
PRESETS = {
    "bert-base": (12, 64, 3072, 12, 1e-12),
    "minilm-l6": (12, 32, 1536, 6, 1e-12),
}


def preset(name, batch, seq):
    """A Problem of a named model size."""
    if name not in PRESETS:
        raise ValueError(f"unknown preset {name!r}; known: {', '.join(PRESETS)}")
    heads, head_size, ffn, layers, eps = PRESETS[name]
    return Problem(f"{name} ({batch},{seq})", batch, seq, heads, head_size, ffn, layers, eps)


def random_data(problem, seed=0):
    """Realistic magnitudes: weights N(0, 1/fan_in), gamma about 1, biases and beta small, input N(0, 1)."""
    generator = np.random.default_rng(seed)
    data = {}
    for name, shape in problem.shapes().items():
        values = generator.standard_normal(shape)
        if name in WEIGHTS:
            values /= math.sqrt(shape[0])
        elif name.startswith("gamma"):
            values = 1 + 0.05 * values
        elif name != "hidden":
            values *= 0.05
        data[name] = values.astype(np.float32)
    return data


def save_data(directory, data):
    """One raw little-endian float32 file per tensor: what the C++ programs read."""
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    for name, values in data.items():
        values.astype("<f4").tofile(directory / f"{name}.f32")


def load_data(directory, problem):
    """Reads what save_data() wrote."""
    data = {}
    for name, shape in problem.shapes().items():
        values = np.fromfile(pathlib.Path(directory) / f"{name}.f32", dtype="<f4")
        if values.size != math.prod(shape):
            raise ValueError(f"{directory}/{name}.f32 holds {values.size} values, {shape} needs {math.prod(shape)}")
        data[name] = values.reshape(shape)
    return data


def layer_copy(data, copy):
    """Copy number `copy` of the layer in memory of its own; copy 0 is the layer itself."""
    scale = np.float32(1 + copy * COPY_STEP)
    return {name: values * scale if name in WEIGHTS else values.copy()
            for name, values in data.items() if name != "hidden"}  # fmt: skip


# float64 erf: numpy has none. Exact to rounding, element by element.
_erf = np.frompyfunc(math.erf, 1, 1)


def _gelu(x):
    return 0.5 * x * (1 + _erf(x / math.sqrt(2)).astype(np.float64))


def _layernorm(x, gamma, beta, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * gamma + beta


def block(x, layer, heads, eps, visible=None, gelu=_gelu):
    """One encoder layer in float64.

    x [B,S,D]; `layer` maps WEIGHTS and PARAMETERS to arrays; `visible` is a boolean [S,S] or [B,S,S] array,
    true where query i may attend to key j (None: everywhere). A row that sees nothing has a zero context.
    """
    p = {name: np.asarray(values, dtype=np.float64) for name, values in layer.items() if name != "hidden"}
    x = np.asarray(x, dtype=np.float64)
    batch, seq, d = x.shape
    width = d // heads

    qkv = (x @ p["w_qkv"] + p["b_qkv"]).reshape(batch, seq, 3, heads, width)
    q, k, v = np.moveaxis(qkv, 2, 0).swapaxes(2, 3)  # each [B,H,S,W]
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(width)
    if visible is not None:
        visible = np.broadcast_to(visible, (batch, seq, seq))[:, None]
        scores = np.where(visible, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    weight = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = weight.sum(axis=-1, keepdims=True)
    probs = weight / np.where(total > 0, total, 1)
    context = (probs @ v).swapaxes(1, 2).reshape(batch, seq, d)

    norm1 = _layernorm(context @ p["w_out"] + p["b_out"] + x, p["gamma1"], p["beta1"], eps)
    inner = gelu(norm1 @ p["w_ffn1"] + p["b_ffn1"])
    return _layernorm(inner @ p["w_ffn2"] + p["b_ffn2"] + norm1, p["gamma2"], p["beta2"], eps)


def chain(problem, data, copies, distinct):
    """`copies` layers one after the other in float64; `distinct`: layer_copy(c), else equal layers."""
    x = data["hidden"]
    for copy in range(copies):
        x = block(x, layer_copy(data, copy if distinct else 0), problem.heads, problem.eps)
    return x


def errors(got, want):
    """(norm error, worst element over its row's largest magnitude); NaN in `got` gives infinities."""
    got, want = np.asarray(got, dtype=np.float64), np.asarray(want, dtype=np.float64)
    if got.shape != want.shape:
        raise ValueError(f"shape {got.shape}, expected {want.shape}")
    difference = np.abs(got - want)
    if not np.all(np.isfinite(difference)):
        return math.inf, math.inf
    norm = float(np.linalg.norm(difference) / np.linalg.norm(want))
    row_top = np.abs(want).max(axis=-1, keepdims=True)
    return norm, float((difference / np.where(row_top > 0, row_top, 1)).max())
