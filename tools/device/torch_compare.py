"""The same products and attention by PyTorch: cuBLASLt and its fused attention, on the device of the other stages.

Appends one line of JSON for each figure. Like the program's own: microseconds are the median over samples between
CUDA events; ratios are to a large product and a copy measured here. Each is measured as separate calls and, where
capture works, as a CUDA graph of many calls (no launch cost of the host)."""

import argparse
import json
import statistics

import torch
import torch.nn.functional as functional

SAMPLES = 25
SAMPLE_MICROSECONDS = 300
CALLS_OF_A_GRAPH = 20
HIDDEN, FFN, HEADS, HEAD_SIZE = 768, 3072, 12, 64


def event_time(launch, launches):
    """Microseconds of one launch."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(launches):
        launch()
    end.record()
    end.synchronize()
    return 1000 * begin.elapsed_time(end) / launches


def median_time(launch):
    event_time(launch, 10)
    once = max(event_time(launch, 10), 0.1)
    launches = min(200, int(SAMPLE_MICROSECONDS / once) + 1)
    return statistics.median(event_time(launch, launches) for _ in range(SAMPLES))


def graph_time(launch):
    """Microseconds of one call in a graph of many; None where it cannot be captured."""
    try:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            launch()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(CALLS_OF_A_GRAPH):
                launch()
        return median_time(graph.replay) / CALLS_OF_A_GRAPH
    except RuntimeError:
        return None


def random(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.float16)


def best_rates():
    """FLOP/s of a large product, bytes/s of a large copy."""
    size = 8192
    a, b, c = random(size, size), random(size, size), random(size, size)
    product = median_time(lambda: torch.mm(a, b, out=c))
    source = torch.empty(1 << 30, device="cuda", dtype=torch.uint8)
    target = torch.empty_like(source)
    copy = median_time(lambda: target.copy_(source))
    return 2.0 * size**3 / (1e-6 * product), 2.0 * source.numel() / (1e-6 * copy)


class Report:
    def __init__(self, path):
        self.file = open(path, "a", encoding="utf-8")

    def add(self, item, ok=True, **fields):
        line = {"stage": "torch", "item": item, "ok": ok, **fields}
        self.file.write(json.dumps(line, separators=(",", ":")) + "\n")
        self.file.flush()

    def time(self, item, flops, launch, rate):
        """An item that fails is one line; the others go on."""
        try:
            calls, graph = median_time(launch), graph_time(launch)
        except RuntimeError as error:
            self.add(item, ok=False, finding=str(error).splitlines()[0])
            return
        best = min(calls, graph) if graph else calls
        self.add(
            item,
            us=round(best, 3),
            us_calls=round(calls, 3),
            us_graph=round(graph, 3) if graph else None,
            tflops=round(1e-6 * flops / best, 2),
            of_matrix_rate=round(flops / (1e-6 * best) / rate, 3),
        )


def time_products(report, rate):
    for rows in (128, 1024):
        for columns, depth in ((3 * HIDDEN, HIDDEN), (HIDDEN, HIDDEN), (FFN, HIDDEN), (HIDDEN, FFN)):
            a, b, c = random(rows, depth), random(depth, columns), random(rows, columns)
            report.time(
                f"gemm {rows}x{columns}x{depth}",
                2.0 * rows * columns * depth,
                lambda a=a, b=b, c=c: torch.mm(a, b, out=c),
                rate,
            )


def time_attention(report, rate):
    for batch, seq, causal in ((1, 128, False), (8, 512, False), (1, 1024, True)):
        q, k, v = (random(batch, HEADS, seq, HEAD_SIZE) for _ in range(3))
        pairs = seq * (seq + 1) // 2 if causal else seq * seq
        report.time(
            f"attention {batch}x{seq} {'causal' if causal else 'full'}",
            4.0 * batch * pairs * HEADS * HEAD_SIZE,
            lambda q=q, k=k, v=v, causal=causal: functional.scaled_dot_product_attention(q, k, v, is_causal=causal),
            rate,
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--quick", action="store_true", help="taken for the other stages' sake")
    arguments = parser.parse_args()
    report = Report(arguments.out)
    if not torch.cuda.is_available():
        report.add("torch", skipped="PyTorch finds no device")
        return
    with torch.inference_mode():
        rate, copy = best_rates()
        report.add(
            "at best",
            torch=torch.__version__,
            cuda=torch.version.cuda,
            matrix_f16_tflops=round(1e-12 * rate, 1),
            copy_tb_per_s=round(1e-12 * copy, 3),
        )
        time_products(report, rate)
        time_attention(report, rate)


main()
