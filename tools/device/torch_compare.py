"""The same products, attention and whole blocks by PyTorch, on the device of the other stages: see torch_timing.py for
what a figure is."""

import argparse

import torch
import torch.nn.functional as functional
import torch_blocks
from torch_timing import Report, Timer, random

HIDDEN, FFN, HEADS, HEAD_SIZE = 768, 3072, 12, 64


def time_products(report, quick):
    device = report.timer.device
    for rows in (16,) if quick else (128, 1024):
        for columns, depth in ((3 * HIDDEN, HIDDEN), (HIDDEN, HIDDEN), (FFN, HIDDEN), (HIDDEN, FFN)):
            a, b, c = random(device, rows, depth), random(device, depth, columns), random(device, rows, columns)
            report.time(
                f"gemm {rows}x{columns}x{depth}",
                2.0 * rows * columns * depth,
                lambda a=a, b=b, c=c: torch.mm(a, b, out=c),
            )


def time_attention(report, quick):
    for batch, seq, causal in ((1, 64, True),) if quick else ((1, 128, False), (8, 512, False), (1, 1024, True)):
        q, k, v = (random(report.timer.device, batch, HEADS, seq, HEAD_SIZE) for _ in range(3))
        pairs = seq * (seq + 1) // 2 if causal else seq * seq
        report.time(
            f"attention {batch}x{seq} {'causal' if causal else 'full'}",
            4.0 * batch * pairs * HEADS * HEAD_SIZE,
            lambda q=q, k=k, v=v, causal=causal: functional.scaled_dot_product_attention(q, k, v, is_causal=causal),
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stage", required=True, choices=("torch", "torch-products", "torch-autotune"))
    parser.add_argument("--out", required=True, help="file that gets the results, one line each")
    parser.add_argument("--work", required=True, help="folder with the tuned problems' data")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="cpu: a rehearsal")
    parser.add_argument("--quick", action="store_true", help="few calls and small sizes: a rehearsal")
    arguments = parser.parse_args()
    report = Report(arguments.out, arguments.stage, Timer(arguments.device, arguments.quick))
    if arguments.device == "cuda" and not torch.cuda.is_available():
        report.add(arguments.stage, skipped="PyTorch finds no device")
        return
    with torch.inference_mode():
        report.measure_rates()
        if arguments.stage == "torch":
            torch_blocks.time_blocks(report, arguments.work)
        elif arguments.stage == "torch-products":
            time_products(report, arguments.quick)
            time_attention(report, arguments.quick)
        else:
            torch_blocks.time_autotuned(report, arguments.work)


main()
