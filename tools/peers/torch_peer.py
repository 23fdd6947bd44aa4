"""Peer process: a chain of encoder layers in PyTorch, in one of three ways.

    torch_peer.py --kind eager|fastpath|compile --problem PRESET,BATCH,SEQ --data DIR --copies N --threads N
"""

import argparse
import sys

import numpy_block
import protocol
import torch
import torch_block


def eager(problem, layers):
    model = torch.nn.Sequential(*[torch_block.Layer(problem, layer) for layer in layers]).eval()
    return model, "inference_mode, scaled_dot_product_attention"


def fastpath(problem, layers):
    model = torch.nn.Sequential(*[torch_block.encoder_layer(problem, layer) for layer in layers]).eval()
    return model, "nn.TransformerEncoderLayer, native fast path"


def compiled(problem, layers, x):
    """The fastest of three ways to compile that this torch offers for CPUs."""
    ways = [
        ("max-autotune, freezing", {"mode": "max-autotune"}, True),
        ("default mode, freezing", {}, True),
        ("default mode", {}, False),
    ]
    best, tried = None, []
    for settings, options, freezing in ways:
        torch._dynamo.reset()
        torch._inductor.config.freezing = freezing
        model, _ = eager(problem, layers)
        try:
            candidate = torch.compile(model, fullgraph=True, dynamic=False, **options)
            seconds = protocol.best_seconds(lambda: candidate(x))
        except Exception as error:  # whatever the compiler trips over: this way is not available here
            print(f"torch.compile, {settings}: {type(error).__name__}: {error}", file=sys.stderr)
            tried.append(f"{settings}: failed")
            continue
        tried.append(f"{settings}: {seconds / len(layers) * 1e6:.0f} us")
        if best is None or seconds < best[0]:
            best = seconds, candidate, settings
    if best is None:
        raise RuntimeError("torch.compile works in none of the tried modes; see the messages above")
    return best[1], f"torch.compile, {best[2]} (tried once each: {', '.join(tried)})"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=("eager", "fastpath", "compile"), required=True)
    parser.add_argument("--problem", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--copies", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    arguments = parser.parse_args()
    answers = protocol.private_stdout()

    torch.set_num_threads(arguments.threads)
    torch.set_flush_denormal(True)
    name, batch, seq = arguments.problem.split(",")
    problem = numpy_block.preset(name, int(batch), int(seq))
    data = numpy_block.load_data(arguments.data, problem)
    layers = [numpy_block.layer_copy(data, copy) for copy in range(arguments.copies)]
    x = torch_block.tensor(data["hidden"])

    with torch.inference_mode():
        if arguments.kind == "eager":
            model, settings = eager(problem, layers)
        elif arguments.kind == "fastpath":
            model, settings = fastpath(problem, layers)
        else:
            model, settings = compiled(problem, layers, x)
        rows = {f"torch-{arguments.kind}": (settings, lambda: model(x), lambda: model(x).numpy())}
        protocol.serve(answers, rows, {"torch": torch.__version__}, arguments.copies)


if __name__ == "__main__":
    main()
