"""The text that tools/bench_peers prints."""

from statistics_of_ratios import geometric_mean

# Rows that compute less than the block: they bound it, nobody can be compared with them as a rival.
BOUNDS = ("floor", "gemms", "onednn-gemms", "onednn-linear")
TITLES = {
    "found": "fusetune, found plan",
    "unfused": "fusetune, unfused",
    "gemms": "bare products, fusetune",
    "onednn-gemms": "bare products, oneDNN",
    "onednn-linear": "4 linear products, oneDNN",
    "floor": "floor: FLOPs / FMA rate",
    "torch-eager": "PyTorch eager",
    "torch-fastpath": "PyTorch encoder fast path",
    "torch-compile": "torch.compile",
    "onnxruntime": "ONNX Runtime",
}


def peers(result):
    """Rows of other libraries that compute the whole block."""
    return [row for row in result["rows"] if row not in BOUNDS and row not in ("found", "unfused")]


def best_peer(result):
    """The fastest of peers(); None without any."""
    return min(peers(result), key=lambda row: result["rows"][row]["median_us"], default=None)


def table(result):
    """One problem: time, distance from the bounds, and how many times faster the found plan is, paired."""
    rows = result["rows"]
    lines = ["", f"{result['problem']}  f32, {result['threads']} threads, {result['rounds']} rounds, "
                 f"{result['copies']} layers ({result['copies'] * result['weight_bytes'] / 1e6:.0f} MB of weights)",
             f"  {'':26} {'us/block':>9} {'x floor':>8} {'x bare':>7}   found plan is faster by (95 %)"]  # fmt: skip
    for row in sorted(rows, key=lambda name: rows[name]["median_us"]):
        data, ratio = rows[row], rows[row]["vs_found"]
        faster = "" if row == "found" else f"{ratio['ratio']:.3f}x  ({ratio['low']:.3f} - {ratio['high']:.3f})"
        lines.append(f"  {TITLES[row]:26} {data['median_us']:9.0f} {data['vs_floor']['ratio']:8.3f} "
                     f"{data['vs_gemms']['ratio']:7.3f}   {faster}")  # fmt: skip
    best = best_peer(result)
    if best:
        ratio = rows[best]["vs_found"]
        lines.append(f"  best peer: {TITLES[best]}, {ratio['ratio']:.3f}x the found plan's time")
    lines += [f"  {TITLES[row]}: {data['settings']}" for row, data in rows.items()]
    lines += [f"  left out: {name}: {reason}" for name, reason in result["left_out"].items()]
    if result["disturbed_samples"] or result["restless_turns"]:
        lines.append(f"  {result['disturbed_samples']} samples with involuntary context switches were dropped where "
                     f"others were left; {result['restless_turns']} turns began with a thread still running")  # fmt: skip
    return "\n".join(lines)


def summary(results, machine):
    """Geometric means over the problems, and what the figures belong to."""
    lines = ["", f"geometric means over {len(results)} problem(s)"]

    def mean(title, values):
        values = list(values)
        if len(values) == len(results):
            lines.append(f"  {title:44} {geometric_mean(values):.3f}x")

    mean("found plan against the floor", (r["rows"]["found"]["vs_floor"]["ratio"] for r in results))
    mean("found plan against its own bare products", (r["rows"]["found"]["vs_gemms"]["ratio"] for r in results))
    mean("gain over unfused", (r["rows"]["unfused"]["vs_found"]["ratio"] for r in results))
    mean("gain over the best peer", (r["rows"][best_peer(r)]["vs_found"]["ratio"] for r in results if best_peer(r)))
    for row in ("torch-eager", "torch-fastpath", "torch-compile", "onnxruntime"):
        mean(f"gain over {TITLES[row]}", (r["rows"][row]["vs_found"]["ratio"] for r in results if row in r["rows"]))
    versions = {key: value for result in results for key, value in result["versions"].items()}
    lines.append("")
    lines += [f"  {key}: {value}" for key, value in (machine | versions).items()]
    return "\n".join(lines)
