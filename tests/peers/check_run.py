#!/usr/bin/env python3
"""Checks `fusetune run` on a real BERT checkpoint against numpy, and with --full against PyTorch.

    check_run.py --fusetune PROGRAM --model DIR --work DIR [--mask MASK ...] [--layer N ...] [--full]

DIR holds model.safetensors and config.json. The input of layer N is what the layers before it make of the
embedding of a short text, computed here. For each mask and layer, fusetune runs the layer and saves its output,
weights and input; then its weights must be those of the checkpoint, its input the one given, and its output that
of the layer in float64 (norm error 1e-5, worst element 2e-5 of its row's largest).
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "peers"))
import numpy_block  # noqa: E402
from safetensors_reader import SafeTensors, bert_layer  # noqa: E402

# [0][1][2][3-14], unfused, ByteTransformer's partition, and [0-1][2-6]*[7-14] (*: hand-written attention).
MASKS = ("20480", "10922", "48996", "40704")
NORM_LIMIT, WORST_LIMIT = 1e-5, 2e-5
TOKENS = (101, 1996, 4248, 2829, 4419, 14523, 2058, 1996, 13971, 3899, 1012, 102)  # repeated to the length


class Checkpoint:
    def __init__(self, directory):
        directory = pathlib.Path(directory)
        self.file = SafeTensors(directory / "model.safetensors")
        self.config = json.loads((directory / "config.json").read_text())
        self.heads = self.config["num_attention_heads"]
        self.eps = self.config["layer_norm_eps"]

    def embedding(self, seq):
        """[1,S,D] float32: what layer 0 reads for TOKENS."""
        file, names = self.file, self.file.names()

        def tensor(name):
            return file[next(full for full in names if full.endswith("embeddings." + name))].astype(np.float64)

        tokens = np.resize(TOKENS, seq)
        x = tensor("word_embeddings.weight")[tokens] + tensor("position_embeddings.weight")[:seq]
        x = x + tensor("token_type_embeddings.weight")[0]
        x = numpy_block._layernorm(x, tensor("LayerNorm.weight"), tensor("LayerNorm.bias"), self.eps)
        return x[None].astype(np.float32)

    def layer(self, number):
        return bert_layer(self.file, number)

    def input_of(self, number, seq):
        x = self.embedding(seq)
        for before in range(number):
            x = numpy_block.block(x, self.layer(before), self.heads, self.eps)
        return x.astype(np.float32)


def run_fusetune(arguments, mask, layer, x, work):
    """Runs one layer; returns (output, directory with what it used)."""
    np.save(work / "x.npy", x)
    model = pathlib.Path(arguments.model)
    command = [arguments.fusetune, "run", mask, "--hf-model", str(model), "--weights", str(model / "model.safetensors"),
               "--layer", str(layer), "--batch", "1", "--seq", str(x.shape[1]), "--input", str(work / "x.npy"),
               "--save-data", str(work / "used"), "--output", str(work / "y.npy")]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\nended with exit code {done.returncode}:\n{done.stdout}{done.stderr}")
    return np.load(work / "y.npy"), work / "used"


def check_used(used, layer, x):
    """What fusetune says it ran on must be the checkpoint's layer and the given input, exactly."""
    for name, values in (layer | {"hidden": x}).items():
        got = np.load(used / f"{name}.npy")
        if got.shape != values.shape or not np.array_equal(got, values):
            raise RuntimeError(f"{used / name}.npy differs from the checkpoint's {name} (shape {got.shape}, expected "
                               f"{values.shape}): the weights were mapped wrongly")  # fmt: skip


def torch_output(checkpoint, layer, x):
    """The layer in PyTorch, float32, as Hugging Face composes it."""
    import torch
    import torch_block

    d, ffn = layer["w_ffn1"].shape
    problem = numpy_block.Problem("checkpoint", 1, x.shape[1], checkpoint.heads, d // checkpoint.heads, ffn, 1,
                                  checkpoint.eps)  # fmt: skip
    with torch.inference_mode():
        return torch_block.Layer(problem, layer).eval()(torch.tensor(x)).numpy()


def report(what, got, want):
    """Prints one comparison; True when it is within the limits."""
    norm, worst = numpy_block.errors(got, want)
    good = norm <= NORM_LIMIT and worst <= WORST_LIMIT and math.isfinite(norm)
    print(f"{'ok  ' if good else 'BAD '} {what}: norm error {norm:.2e}, worst element {worst:.2e}", flush=True)
    return good


def check(arguments):
    checkpoint = Checkpoint(arguments.model)
    work = pathlib.Path(arguments.work)
    work.mkdir(parents=True, exist_ok=True)
    good = True
    for number in arguments.layer:
        layer, x = checkpoint.layer(number), checkpoint.input_of(number, arguments.seq)
        want = numpy_block.block(x, layer, checkpoint.heads, checkpoint.eps)
        if arguments.full:
            good &= report(f"layer {number}, PyTorch against numpy", torch_output(checkpoint, layer, x), want)
        for mask in arguments.mask:
            got, used = run_fusetune(arguments, mask, number, x, work)
            check_used(used, layer, x)
            good &= report(f"layer {number}, mask {mask}, fusetune against numpy", got, want)
            if arguments.full:
                good &= report(f"layer {number}, mask {mask}, fusetune against PyTorch", got,
                               torch_output(checkpoint, layer, x))  # fmt: skip
    return good


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fusetune", required=True, metavar="PROGRAM")
    parser.add_argument("--model", required=True, metavar="DIR", help="holds model.safetensors and config.json")
    parser.add_argument("--work", required=True, metavar="DIR", help="for the files that are exchanged")
    parser.add_argument("--mask", action="append", help=f"default: {' '.join(MASKS)}")
    parser.add_argument("--layer", type=int, action="append", help="default: 0")
    parser.add_argument("--seq", type=int, default=128)
    parser.add_argument("--full", action="store_true", help="against PyTorch too")
    arguments = parser.parse_args(words)
    arguments.mask = arguments.mask or list(MASKS)
    arguments.layer = arguments.layer or [0]
    return arguments


def main(words=None):
    return 0 if check(parse(words)) else 1


if __name__ == "__main__":
    sys.exit(main())
