"""Asks fusetune for the plan to time: `fusetune search --json`, or the mask the user gave."""

import json
import pathlib
import re
import subprocess


def find(options, preset, batch, seq, note):
    """(mask, {variant: schedule}) of one problem. Without a search the schedules are left to be tuned."""
    if options.mask:
        return options.mask, {}
    command = [options.fusetune, "search", "--preset", preset, "--batch", str(batch), "--seq", str(seq),
               "--threads", str(options.threads), "--db", str(pathlib.Path(options.work) / "search.db"),
               "--json", "--quiet"]  # fmt: skip
    if options.search_seconds:
        command += ["--time-limit", str(options.search_seconds)]
    note(f"  searching: {' '.join(command)}")
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"bench_peers: the search failed with exit code {done.returncode}:\n{done.stderr[-2000:]}")
    return best_plan(json.loads(done.stdout))


def best_plan(result):
    """(mask, {variant: schedule}) of a search's result."""
    best = result["best"]
    variants = re.findall(r"\[[0-9-]+\]\*?", best["plan"])
    return str(best["mask"]), dict(zip(variants, best["schedules"], strict=True))
