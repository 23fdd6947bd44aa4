"""The whole block by PyTorch in several ways, on the input, weights and mask of the tuned problems."""

import pathlib

import numpy
import torch
import torch.nn.functional as functional
from torch_timing import first_line

WEIGHTS = ("w_qkv", "w_out", "w_ffn1", "w_ffn2")
PARAMETERS = ("b_qkv", "b_out", "b_ffn1", "b_ffn2", "gamma1", "beta1", "gamma2", "beta2")
# Both round to 16 bits at other places.
MOST_DIFFERENCE = 1e-2


class Problem:
    """What `fusetune run --save-data` wrote of a tuned problem. Shapes as in its documentation: weights [in, out]."""

    def __init__(self, folder, device):
        key = dict(pair.split("=", 1) for pair in (folder / "problem.txt").read_text().split())
        self.batch, self.seq, self.heads, self.head_size, self.layers = (
            int(key[name]) for name in ("batch", "seq", "heads", "head_size", "layers")
        )
        self.hidden, self.ffn, self.eps = self.heads * self.head_size, int(key["ffn"]), float(key["eps"])

        def load(name):
            return torch.from_numpy(numpy.load(folder / f"{name}.npy")).to(device)

        self.x = load("hidden").half().reshape(self.batch, self.seq, self.hidden)
        self.weights = {name: load(name).half() for name in WEIGHTS + PARAMETERS}
        self.visible = load("mask").bool().unsqueeze(1)  # [1 or batch, 1, seq, seq]
        self.is_sparse = not bool(self.visible.all())
        self.want = load("output").float().reshape(self.x.shape)

    def flops(self):
        """Of the products; a masked pair counts for nothing."""
        pairs = int(self.visible.sum()) * (self.batch // self.visible.shape[0])
        return 2.0 * self.hidden * (self.batch * self.seq * (4 * self.hidden + 2 * self.ffn) + 2 * pairs)


def by_hand(problem):
    scale = problem.head_size**-0.5
    hidden = ~problem.visible if problem.is_sparse else None

    def attention(q, k, v):
        scores = torch.matmul(q, k.transpose(-1, -2)) * scale
        if hidden is not None:
            scores = scores.masked_fill(hidden, float("-inf"))
        return torch.matmul(torch.softmax(scores, -1), v)

    return attention


def sdpa(problem):
    mask = problem.visible if problem.is_sparse else None
    return lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def flex(problem):
    """FlexAttention skips blocks of the mask that hide all; its own block size."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    visible = problem.visible[0, 0]
    mask = create_block_mask(
        lambda b, h, query, key: visible[query, key], None, None, problem.seq, problem.seq, device=visible.device
    )
    return lambda q, k, v: flex_attention(q, k, v, block_mask=mask)


def block_of(problem, attention):
    """A post-LN encoder layer as a function of its input and weights: compiled once, it does for any copy of them."""
    width, eps = (problem.hidden,), problem.eps

    def block(x, w):
        qkv = functional.linear(x, w["w_qkv"].T, w["b_qkv"])
        q, k, v = qkv.view(problem.batch, problem.seq, 3, problem.heads, problem.head_size).permute(2, 0, 3, 1, 4)
        context = attention(q, k, v).transpose(1, 2).reshape(x.shape)
        h = functional.layer_norm(
            x + functional.linear(context, w["w_out"].T, w["b_out"]), width, w["gamma1"], w["beta1"], eps
        )
        up = functional.gelu(functional.linear(h, w["w_ffn1"].T, w["b_ffn1"]))
        return functional.layer_norm(
            h + functional.linear(up, w["w_ffn2"].T, w["b_ffn2"]), width, w["gamma2"], w["beta2"], eps
        )

    return block


def time_way(report, name, problem, block):
    """One layer's output beside fusetune's, then a chain of layers with weights of their own, as in a model."""
    copies = [{key: value.clone() for key, value in problem.weights.items()} for _ in range(problem.layers)]

    def chain():
        x = problem.x
        for weights in copies:
            x = block(x, weights)
        return x

    try:
        got = block(problem.x, problem.weights).float()
        difference = float((got - problem.want).norm() / problem.want.norm())
    except Exception as error:  # whatever a compiler trips over: this way is not available here
        report.add(name, ok=False, finding=first_line(error))
        return
    right = difference <= MOST_DIFFERENCE
    report.time(name, problem.flops(), chain, problem.layers, right, difference=float(f"{difference:.2g}"))


def problems(work, device):
    """Of all stages that tuned one before, by their names without "tune-"."""
    for folder in sorted(pathlib.Path(work).glob("tune-*")):
        if (folder / "output.npy").exists():
            yield folder.name.removeprefix("tune-"), Problem(folder, device)


def time_blocks(report, work):
    found = list(problems(work, report.timer.device))
    if not found:
        report.add("blocks", skipped="no problem was tuned before")
    for name, problem in found:  # what needs no compiler first
        for way, attention in (("eager", by_hand), ("SDPA", sdpa)):
            time_way(report, f"{name} {way}", problem, block_of(problem, attention(problem)))
    for name, problem in found:
        ways = [("torch.compile", sdpa)]
        if problem.is_sparse:
            ways.append(("FlexAttention", flex))
        for way, attention in ways:
            torch._dynamo.reset()
            compiled = torch.compile(block_of(problem, attention(problem)), fullgraph=True, dynamic=False)
            time_way(report, f"{name} {way}", problem, compiled)


def time_autotuned(report, work):
    """Only of the smallest problem: this takes minutes. A graph is captured here, for all ways alike."""
    for name, problem in problems(work, report.timer.device):
        if name != "1x128":
            continue
        block = torch.compile(
            block_of(problem, sdpa(problem)), fullgraph=True, dynamic=False, mode="max-autotune-no-cudagraphs"
        )
        time_way(report, f"{name} max-autotune", problem, block)
        return
    report.add("max-autotune", skipped="no problem was tuned before")
