"""A peer as the coordinator sees it: a process that answers questions and is silent in between."""

import json
import os
import pathlib
import select
import subprocess
import time


class PeerError(RuntimeError):
    """A peer ended, gave no answer in time or answered nonsense; the text ends with what it last said."""


class PeerProcess:
    def __init__(self, name, command, environment, log, timeout):
        """Starts `command`; its standard error goes to the file `log`. Returns once it says it is ready."""
        self.name, self.command, self.log = name, command, pathlib.Path(log)
        self._buffer = b""
        with open(self.log, "wb") as stream:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stream,
                                             env=environment)  # fmt: skip
        try:
            ready = self._answer(timeout)
        except PeerError:
            self.close()
            raise
        self.rows = {row: about["settings"] for row, about in ready["rows"].items()}
        self.versions = ready["versions"]

    def check(self, row, file, timeout=300):
        return self._ask(f"check {row} {file}", timeout)

    def sample(self, rows, warm, count, timeout=300):
        """{row: [[seconds per block, involuntary context switches], ...]}"""
        return self._ask(f"sample {','.join(rows)} {warm} {count}", timeout)

    def close(self):
        try:
            self._process.stdin.close()
        except OSError:
            pass  # it is gone already
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def running_threads(self):
        """Threads that want a CPU right now; 0 once its pools have stopped spinning."""
        count = 0
        for stat in pathlib.Path(f"/proc/{self._process.pid}/task").glob("*/stat"):
            try:
                state = stat.read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue  # the thread ended meanwhile
            count += state == "R"
        return count

    def _ask(self, question, timeout):
        try:
            self._process.stdin.write((question + "\n").encode())
            self._process.stdin.flush()
        except OSError as error:
            raise PeerError(self._describe(f"cannot be asked '{question}': {error}")) from error
        return self._answer(timeout)

    def _answer(self, timeout):
        deadline = time.monotonic() + timeout
        descriptor = self._process.stdout.fileno()
        while b"\n" not in self._buffer:
            if not select.select([descriptor], [], [], max(0, deadline - time.monotonic()))[0]:
                raise PeerError(self._describe(f"gave no answer within {timeout:.0f} s"))
            text = os.read(descriptor, 1 << 16)
            if not text:
                raise PeerError(self._describe(f"ended with exit code {self._process.wait()}"))
            self._buffer += text
        line, _, self._buffer = self._buffer.partition(b"\n")
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(self._describe(answer["error"]))
        return answer

    def _describe(self, what):
        said = self.log.read_text(errors="replace").splitlines()[-8:]
        return "\n  ".join([f"peer {self.name} {what}; command: {' '.join(self.command)}; it last said:", *said])


def wait_until_quiet(peers, timeout=2.0):
    """Returns when no peer has a running thread, twice in a row; True unless that took longer than `timeout`."""
    deadline = time.monotonic() + timeout
    quiet = 0
    while time.monotonic() < deadline:
        time.sleep(0.002)
        quiet = quiet + 1 if sum(peer.running_threads() for peer in peers) == 0 else 0
        if quiet == 2:
            return True
    return False
