"""What a peer process and the coordinator say to each other: one line asked, one line of JSON answered.

    (start)                          {"rows": {row: {"settings": text}}, "versions": {...}}
    check ROW FILE                   writes the chain's output as raw float32; {"distinct": bool} says whether
                                     the copies of the layer differ (numpy_block.layer_copy) or are equal;
                                     {"self_checked": text} for rows that have no block output
    sample ROW[,ROW...] WARM COUNT   {ROW: [[seconds per block, involuntary context switches], ...]}
    quit

Between two questions a peer is blocked reading its standard input. Everything else it or its libraries print
goes to standard error.
"""

import json
import os
import resource
import sys
import time


def _switches():
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def timed(function, blocks):
    """[seconds per block, involuntary context switches] of one call that runs `blocks` blocks."""
    before = _switches()
    start = time.perf_counter()
    function()
    seconds = time.perf_counter() - start
    return [seconds / blocks, _switches() - before]


def best_seconds(function, warm=2, count=5):
    """The fastest of a few calls: for choosing between settings before anything is compared."""
    for _ in range(warm):
        function()
    return min(timed(function, 1)[0] for _ in range(count))


def private_stdout():
    """Moves standard output aside, so that only answers reach the coordinator."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return answers


def serve(answers, rows, versions, blocks):
    """Answers questions until `quit` or end of input.

    rows: name -> (settings, function that runs the chain of `blocks` blocks, function that returns its output).
    """

    def answer(value):
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    answer({"rows": {name: {"settings": row[0]} for name, row in rows.items()}, "versions": versions})
    for line in sys.stdin:
        words = line.split()
        if not words or words[0] == "quit":
            return
        if words[0] == "check":
            rows[words[1]][2]().astype("<f4").tofile(words[2])
            answer({"distinct": True})
        elif words[0] == "sample":
            names, warm, count = words[1].split(","), int(words[2]), int(words[3])
            times = {name: [] for name in names}
            for turn in range(warm + count):
                for name in names:
                    sample = timed(rows[name][1], blocks)
                    if turn >= warm:
                        times[name].append(sample)
            answer(times)
        else:
            answer({"error": f"unknown question {words[0]!r}"})
