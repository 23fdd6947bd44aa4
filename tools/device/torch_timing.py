"""Times of PyTorch's calls, as the program takes its own: microseconds are the median over samples between CUDA events,
of separate calls and, where capture works, of a CUDA graph of many (no launch cost of the host)."""

import json
import statistics
import time

import torch

SAMPLES = 25
SAMPLE_MICROSECONDS = 300
CALLS_OF_A_GRAPH = 20


class Timer:
    """`device`: cuda, or cpu for a rehearsal, whose times mean nothing. `quick`: as few calls as possible."""

    def __init__(self, device, quick):
        self.device, self.quick = device, quick

    def calls(self, launch):
        """Microseconds of one of many calls."""
        if self.quick:
            self._sample(launch, 1)
            return self._sample(launch, 1)
        self._sample(launch, 10)
        once = max(self._sample(launch, 10), 0.1)
        launches = min(200, int(SAMPLE_MICROSECONDS / once) + 1)
        return statistics.median(self._sample(launch, launches) for _ in range(SAMPLES))

    def graph(self, launch):
        """Microseconds of one call in a graph of many; None where it cannot be captured."""
        if self.device == "cpu":
            return None
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
        except RuntimeError:
            return None
        return self.calls(graph.replay) / CALLS_OF_A_GRAPH

    def _sample(self, launch, launches):
        if self.device == "cpu":
            begin = time.perf_counter()
            for _ in range(launches):
                launch()
            return 1e6 * (time.perf_counter() - begin) / launches
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(launches):
            launch()
        end.record()
        end.synchronize()
        return 1000 * begin.elapsed_time(end) / launches


def random(device, *shape):
    return torch.rand(shape, dtype=torch.float16, device=device) - 0.5


class Report:
    """Appends a line of JSON for each figure. Ratios are to a large product and a copy measured here."""

    def __init__(self, path, stage, timer):
        self.file, self.stage, self.timer = open(path, "a", encoding="utf-8"), stage, timer
        self.gemm_rate = self.copy_rate = None

    def add(self, item, ok=True, **fields):
        line = {"stage": self.stage, "item": item, "ok": ok, **fields}
        self.file.write(json.dumps(line, separators=(",", ":")) + "\n")
        self.file.flush()

    def measure_rates(self):
        size, count = (64, 1 << 16) if self.timer.quick else (8192, 1 << 29)
        a, b = random(self.timer.device, size, size), random(self.timer.device, size, size)
        product = self.timer.calls(lambda: torch.mm(a, b))
        source = torch.empty(count, dtype=torch.float16, device=self.timer.device)
        target = torch.empty_like(source)
        copy = self.timer.calls(lambda: target.copy_(source))
        self.gemm_rate = 2.0 * size**3 / (1e-6 * product)
        self.copy_rate = 2.0 * source.numel() * source.element_size() / (1e-6 * copy)
        self.add(
            "at best",
            torch=torch.__version__,
            cuda=torch.version.cuda,
            gemm_f16_tflops=float(f"{1e-12 * self.gemm_rate:.4g}"),
            copy_tb_per_s=float(f"{1e-12 * self.copy_rate:.4g}"),
        )

    def time(self, item, flops, launch, blocks=1, ok=True, **fields):
        """The time of one of the `blocks` that a call consists of. One that fails is one line; the others go on."""
        try:
            calls, graph = self.timer.calls(launch), self.timer.graph(launch)
        except RuntimeError as error:
            self.add(item, ok=False, finding=first_line(error))
            return
        best = min(calls, graph) if graph else calls
        self.add(
            item,
            ok,
            us=round(best / blocks, 3),
            us_calls=round(calls / blocks, 3),
            us_graph=round(graph / blocks, 3) if graph else None,
            tflops=float(f"{1e-6 * flops * blocks / best:.4g}"),
            of_gemm_rate=float(f"{flops * blocks / (1e-6 * best) / self.gemm_rate:.3g}"),
            **fields,
        )


def first_line(error):
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0] if text else ''}"
