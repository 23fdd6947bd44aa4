"""Asks fusetune for the plan to time: `fusetune search --json`, or the mask the user gave."""

import json
import subprocess
import pathlib


def find(options, preset, batch, seq, note):
    """(mask, {variant: schedule}) of one problem. Without a search the schedules are left to be tuned."""
    if options.mask:
        return options.mask, {}
    if not options.fusetune:
        raise SystemExit("bench_peers: give --fusetune PROGRAM to search for a plan, or --mask MASK to time one")
    database = pathlib.Path(options.work) / "search.db"
    command = [options.fusetune, "search", "--preset", preset, "--batch", str(batch), "--seq", str(seq),
               "--threads", str(options.threads), "--time-limit", str(options.search_seconds),
               "--db", str(database), "--json", "--quiet"]  # fmt: skip
    note(f"  searching: {' '.join(command)}")
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"bench_peers: the search failed with exit code {done.returncode}:\n{done.stderr[-2000:]}")
    best = json.loads(done.stdout)["best"]
    schedules = {segment["variant"]: segment["schedule"] for segment in best["segments"]}
    return str(best["mask"]), schedules
