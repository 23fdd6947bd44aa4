"""Times fusetune's plans beside other ways to run the same block; started by tools/bench_peers.

Every contestant is a process of its own, loaded with the same weights and the same input. The coordinator asks
one after the other for a turn, in a new random order each round; whoever is not asked sleeps, which is checked
before each turn. Within a turn a contestant warms up and then runs a chain of layers, each with its own copy of
the weights, as a model does; a sample is the median time per layer of its turn. Ratios are taken within rounds.
A contestant's time counts only after its output was found equal to a float64 reference.
"""

import argparse
import json
import math
import os
import pathlib
import platform
import random
import shutil
import statistics
import subprocess
import sys
import time

import found_plan
import numpy as np
import numpy_block
import report
from peer_process import PeerError, PeerProcess, wait_until_quiet
from statistics_of_ratios import paired

HERE = pathlib.Path(__file__).resolve().parent
PROBLEMS = (("bert-base", 1, 128), ("bert-base", 8, 128), ("bert-base", 1, 512), ("minilm-l6", 1, 128),
            ("minilm-l6", 8, 128))  # fmt: skip
OWN_ROWS = ("found", "unfused", "gemms", "floor")
PEERS = ("onednn", "torch-eager", "torch-fastpath", "torch-compile", "onnxruntime")
TOLERANCE = 1e-4
MIN_ROUNDS, MAX_ROUNDS = 7, 60
UNFUSED_MASK = "0101010101010101"  # no two neighbouring bits of positions 1..15 are equal


def note(text):
    print(text, file=sys.stderr, flush=True)


def last_level_cache_bytes():
    sizes = [0]
    for file in pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = file.read_text().strip()
        sizes.append(int(text[:-1]) * {"K": 1 << 10, "M": 1 << 20}[text[-1]] if text[-1] in "KM" else int(text))
    return max(sizes)


def copies_of(problem):
    """Copies of the layer to rotate through: the model's, or enough to hold four times the last-level cache."""
    enough = math.ceil(4 * last_level_cache_bytes() / problem.weight_bytes)
    return max(2, min(problem.layers, enough))


def peer_environment(threads, work):
    """What every contestant runs under: its best settings, and none that lets it spin while others are timed.

    OMP_WAIT_POLICY stays unset: threads then spin through the pauses between two operators and sleep soon after.
    glibc is told to use huge pages and to keep memory, which spares eager frameworks a page fault per operator.
    """
    environment = dict(os.environ)
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "OPENBLAS_CORETYPE"):
        environment.pop(name, None)
    environment.update(
        OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads), OMP_PROC_BIND="true", OMP_DYNAMIC="false",
        GLIBC_TUNABLES="glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=33554432"
                       ":glibc.malloc.trim_threshold=8589934592",
        THP_MEM_ALLOC_ENABLE="1",
        TORCHINDUCTOR_CACHE_DIR=str(work / "inductor"), TORCHINDUCTOR_COMPILE_THREADS="1")  # fmt: skip
    return environment


class Match:
    """All contestants of one problem."""

    def __init__(self, options, preset, batch, seq):
        self.options = options
        self.preset, self.batch, self.seq = preset, batch, seq
        self.problem = numpy_block.preset(preset, batch, seq)
        self.copies = copies_of(self.problem)
        self.work = pathlib.Path(options.work) / f"{preset}-{batch}-{seq}"
        self.data = self.work / "data"
        self.peers, self.left_out, self.errors = [], {}, {}
        self._reference = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for peer in self.peers:
            peer.close()

    def start(self):
        """Starts and checks every contestant, one at a time: some choose their settings by timing."""
        data = numpy_block.random_data(self.problem)
        numpy_block.save_data(self.data, data)
        for name, command in self._commands():
            note(f"  starting {name}")
            try:
                peer = PeerProcess(name, command, peer_environment(self.options.threads, self.work),
                                   self.work / f"{name}.log", self.options.start_timeout)  # fmt: skip
                self.peers.append(peer)
                self._check(peer, data)
            except PeerError as error:
                if name == "fusetune":
                    raise
                self.left_out[name] = str(error).splitlines()[0]
                note(f"  left out: {error}")
            wait_until_quiet(self.peers)

    def _commands(self):
        size = ["--problem", f"{self.preset},{self.batch},{self.seq}"]
        common = ["--data", str(self.data), "--copies", str(self.copies), "--threads", str(self.options.threads)]
        programs = pathlib.Path(self.options.programs)
        yield "fusetune", self._fusetune_command(programs, common)
        p = self.problem
        sizes = f"{p.batch},{p.seq},{p.heads},{p.head_size},{p.ffn}"
        commands = {
            "onednn": [str(programs / "onednn_peer"), "--sizes", sizes, *common],
            "onnxruntime": [sys.executable, str(HERE / "ort_peer.py"), *size, *common],
        }
        for kind in ("eager", "fastpath", "compile"):
            commands[f"torch-{kind}"] = [sys.executable, str(HERE / "torch_peer.py"), "--kind", kind, *size, *common]
        for name in PEERS:
            if name in self.options.peers:
                yield name, commands[name]

    def _fusetune_command(self, programs, common):
        mask, schedules = found_plan.find(self.options, self.preset, self.batch, self.seq, note)
        command = [str(programs / "fusetune_peer"), "--preset", self.preset, "--batch", str(self.batch),
                   "--seq", str(self.seq), *common, "--cache", str(pathlib.Path(self.options.work) / "kernels"),
                   "--plan", f"found={mask}", "--plan", f"unfused={UNFUSED_MASK}"]  # fmt: skip
        (pathlib.Path(self.options.work) / "kernels").mkdir(parents=True, exist_ok=True)
        if schedules:
            file = self.work / "schedules.txt"
            file.write_text("".join(f"{variant} {schedule}\n" for variant, schedule in schedules.items()))
            command += ["--schedules", str(file)]
        return command

    def _check(self, peer, data):
        """Compares every output with the reference; a wrong one never counts."""
        for row in list(peer.rows):
            file = self.work / f"{row}.out"
            answer = peer.check(row, file)
            if "self_checked" in answer:
                continue
            want = self._chain(data, answer["distinct"])
            got = np.fromfile(file, dtype="<f4").reshape(want.shape)
            file.unlink()
            self.errors[row] = numpy_block.errors(got, want)
            if max(self.errors[row]) > TOLERANCE:
                if peer.name == "fusetune":
                    raise PeerError(f"fusetune's {row} plan is wrong: norm and worst error {self.errors[row]}")
                peer.rows.pop(row)
                self.left_out[row] = f"wrong result: norm error {self.errors[row][0]:.2e}, limit {TOLERANCE:.0e}"
                note(f"  {row}: {self.left_out[row]}")

    def _chain(self, data, distinct):
        if distinct not in self._reference:
            self._reference[distinct] = numpy_block.chain(self.problem, data, self.copies, distinct)
        return self._reference[distinct]

    def play(self):
        """{row: [seconds per block, one per round]} and what went less than perfectly."""
        turns = [(peer, list(peer.rows)) for peer in self.peers if peer.rows]
        repetitions = {peer.name: self._repetitions(peer, rows) for peer, rows in turns}
        times, disturbed, restless = {}, 0, 0
        order = random.Random(0)
        end = time.monotonic() + self.options.seconds
        rounds = 0
        while rounds < MAX_ROUNDS and (rounds < self.options.min_rounds or time.monotonic() < end):
            order.shuffle(turns)
            for peer, rows in turns:
                restless += not wait_until_quiet(self.peers)
                for row, samples in peer.sample(rows, *repetitions[peer.name]).items():
                    undisturbed = [seconds for seconds, switches in samples if switches == 0]
                    disturbed += len(samples) - len(undisturbed)
                    times.setdefault(row, []).append(statistics.median(undisturbed or [s for s, _ in samples]))
            rounds += 1
        return times, {"rounds": rounds, "disturbed_samples": disturbed, "restless_turns": restless}

    def _repetitions(self, peer, rows):
        """(warm-up passes, timed passes) of a turn of about `turn_seconds` per row."""
        seconds = sum(samples[-1][0] for samples in peer.sample(rows, 1, 1).values()) * self.copies
        timed = max(3, min(50, round(self.options.turn_seconds * len(rows) / seconds)))
        return max(1, min(5, timed // 3)), timed

    def result(self, times, quality):
        """Everything the report and the JSON file hold."""
        settings = {row: text for peer in self.peers for row, text in peer.rows.items()}
        rows = {}
        for row, samples in times.items():
            rows[row] = {"median_us": statistics.median(samples) * 1e6, "samples_us": [s * 1e6 for s in samples],
                         "settings": settings[row], "vs_found": paired(samples, times["found"]),
                         "vs_gemms": paired(samples, times["gemms"]), "vs_floor": paired(samples, times["floor"])}  # fmt: skip
            if row in self.errors:
                rows[row]["norm_error"], rows[row]["worst_error"] = self.errors[row]
        return {"problem": self.problem.name, "preset": self.preset, "batch": self.batch, "seq": self.seq,
                "flops": self.problem.flops, "weight_bytes": self.problem.weight_bytes, "copies": self.copies,
                "threads": self.options.threads, "rows": rows, "left_out": self.left_out, **quality,
                "versions": {key: value for peer in self.peers for key, value in peer.versions.items()}}  # fmt: skip


def machine():
    """What the figures belong to."""
    model = next((line.split(":")[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), platform.machine())  # fmt: skip
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True).stdout.splitlines()
    return {"cpu": model, "cpus": len(os.sched_getaffinity(0)), "last_level_cache_bytes": last_level_cache_bytes(),
            "system": platform.platform(), "python": platform.python_version(), "numpy": np.__version__,
            "compiler": version[0] if version else "unknown", "load_before": os.getloadavg()[0]}  # fmt: skip


def raise_priority():
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -10)
        return "raised"
    except OSError:
        return "not raised (not allowed)"


def parse_options():
    parser = argparse.ArgumentParser(prog="tools/bench_peers", description=__doc__.splitlines()[0])
    parser.add_argument("--problem", action="append", metavar="PRESET,BATCH,SEQ",
                        help="default: " + " ".join(f"{p},{b},{s}" for p, b, s in PROBLEMS))  # fmt: skip
    parser.add_argument("--peers", default=",".join(PEERS), help="comma-separated, default all: %(default)s")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60, help="of rounds per problem (default %(default)s)")
    parser.add_argument("--min-rounds", type=int, default=MIN_ROUNDS)
    parser.add_argument("--turn-seconds", type=float, default=0.3)
    parser.add_argument("--start-timeout", type=float, default=900, help="torch.compile takes minutes")
    parser.add_argument("--json", metavar="FILE", help="write every sample there")
    parser.add_argument("--fusetune", metavar="PROGRAM", required=True, help="searches for the plan to time")
    parser.add_argument("--search-seconds", type=float, default=0, help="time limit of a search; default: none")
    parser.add_argument("--mask", help="time this plan instead of searching for one")
    parser.add_argument("--programs", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--work", required=True, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.peers = [name for name in options.peers.split(",") if name]
    unknown = set(options.peers) - set(PEERS)
    if unknown:
        parser.error(f"unknown peers: {', '.join(sorted(unknown))}; known: {', '.join(PEERS)}")
    problems = []
    for text in options.problem or []:
        preset, batch, seq = text.split(",")
        problems.append((preset, int(batch), int(seq)))
    options.problem = problems or PROBLEMS
    return options


def main():
    options = parse_options()
    about = machine() | {"priority": raise_priority()}
    results = []
    for problem in options.problem:
        note(f"{problem[0]} ({problem[1]},{problem[2]})")
        with Match(options, *problem) as match:
            match.start()
            times, quality = match.play()
            results.append(match.result(times, quality))
        print(report.table(results[-1]), flush=True)
    print(report.summary(results, about))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"machine": about, "problems": results}, indent=1))


if __name__ == "__main__":
    main()
