"""The parts of the benchmark that need numpy alone: statistics, data files, peers as processes, safetensors."""

import contextlib
import io
import json
import math
import pathlib
import random
import struct
import sys
import tempfile
import types
import unittest

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "peers"))
import bench  # noqa: E402
import check_run  # noqa: E402
import found_plan  # noqa: E402
import numpy_block  # noqa: E402
import report  # noqa: E402
from peer_process import PeerError, PeerProcess, wait_until_quiet  # noqa: E402
from safetensors_reader import SafeTensors, bert_layer  # noqa: E402
from statistics_of_ratios import geometric_mean, median_interval, paired  # noqa: E402


class Statistics(unittest.TestCase):
    def test_interval_by_definition(self):
        """n = 10: P(Binomial(10, 1/2) < 2) = 11/1024, so the 2nd and 9th smallest cover with 97.9 %."""
        self.assertEqual(median_interval(range(1, 11)), (2, 9))
        self.assertEqual(median_interval([3, 1, 2]), (1, 3))
        self.assertEqual(median_interval([5]), (5, 5))

    def test_interval_covers(self):
        generator = random.Random(1)
        covered = sum(low <= 0 <= high for low, high in (
            median_interval([generator.gauss(0, 1) for _ in range(25)]) for _ in range(2000)))  # fmt: skip
        self.assertGreater(covered / 2000, 0.94)

    def test_pairs_cancel_drift(self):
        drift = [1 + 0.1 * i for i in range(20)]
        result = paired([2 * value for value in drift], drift)
        self.assertEqual((result["ratio"], result["low"], result["high"], result["pairs"]), (2, 2, 2, 20))
        with self.assertRaises(ValueError):
            paired([1, 2], [1])

    def test_geometric_mean(self):
        self.assertAlmostEqual(geometric_mean([1, 4]), 2)


class CheckRun(unittest.TestCase):
    def test_a_wrong_output_is_noticed(self):
        want = np.linspace(-1, 1, 48).reshape(2, 3, 8)
        wrong = want.copy()
        wrong[1, 2, 3] += 1e-4
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertTrue(check_run.report("same", want.astype(np.float32), want))
            self.assertFalse(check_run.report("one element off", wrong, want))
            self.assertFalse(check_run.report("NaN", want * math.nan, want))

    def test_other_weights_are_noticed(self):
        layer, x = {"w_out": np.ones((2, 2), np.float32)}, np.zeros((1, 1, 2), np.float32)
        with tempfile.TemporaryDirectory() as directory:
            used = pathlib.Path(directory)
            np.save(used / "hidden.npy", x)
            np.save(used / "w_out.npy", layer["w_out"])
            check_run.check_used(used, layer, x)
            np.save(used / "w_out.npy", layer["w_out"] * 2)
            with self.assertRaisesRegex(RuntimeError, "differs from the checkpoint's w_out"):
                check_run.check_used(used, layer, x)


class FakePeer:
    """Answers like a PeerProcess; every row takes `seconds`, and the first sample of each turn was disturbed."""

    versions = {"fake": "1"}

    def __init__(self, name, seconds):
        self.name, self.seconds = name, seconds
        self.rows = {row: f"settings of {row}" for row in seconds}

    def running_threads(self):
        return 0

    def sample(self, rows, _, count):
        return {row: [[99.0, 1]] + [[self.seconds[row], 0]] * count for row in rows}

    def close(self):
        pass


class Coordinator(unittest.TestCase):
    def play(self):
        with tempfile.TemporaryDirectory() as directory:
            options = types.SimpleNamespace(work=directory, seconds=0, min_rounds=6, turn_seconds=0.3, threads=2)
            match = bench.Match(options, "minilm-l6", 1, 128)
        match.peers = [FakePeer("fusetune", {"found": 1e-3, "unfused": 1.1e-3, "gemms": 0.9e-3, "floor": 0.8e-3}),
                       FakePeer("torch-eager", {"torch-eager": 3e-3}), FakePeer("onnxruntime", {"onnxruntime": 2e-3})]
        match.left_out["onednn"] = "not installed"
        return match.result(*match.play())

    def test_ratios_and_disturbed_samples(self):
        result = self.play()
        self.assertEqual(result["rounds"], 6)
        self.assertEqual(result["disturbed_samples"], 36)
        self.assertAlmostEqual(result["rows"]["unfused"]["vs_found"]["ratio"], 1.1)
        self.assertAlmostEqual(result["rows"]["found"]["vs_floor"]["ratio"], 1.25)
        self.assertAlmostEqual(result["rows"]["found"]["median_us"], 1000)
        json.dumps(result)

    def test_report(self):
        result = self.play()
        self.assertEqual(report.best_peer(result), "onnxruntime")  # bounds and own rows are no peers
        text = report.table(result) + report.summary([result, result], {"cpu": "some CPU"})
        for expected in ("minilm-l6 (1,128)", "best peer: ONNX Runtime, 2.000x", "left out: onednn: not installed",
                         "gain over unfused                            1.100x", "cpu: some CPU"):  # fmt: skip
            self.assertIn(expected, text)


class FoundPlan(unittest.TestCase):
    def test_variants_meet_their_schedules(self):
        best = {"mask": 40704, "plan": "[0-1][2-6]*[7-13][14]", "schedules": ["a", "b", "c", "d"]}
        want = {"[0-1]": "a", "[2-6]*": "b", "[7-13]": "c", "[14]": "d"}
        self.assertEqual(found_plan.best_plan({"best": best}), ("40704", want))
        with self.assertRaises(ValueError):
            found_plan.best_plan({"best": best | {"schedules": ["a"]}})


class Block(unittest.TestCase):
    problem = numpy_block.Problem("test", 2, 3, 2, 2, 5, 1, 1e-5)

    def test_against_loops(self):
        data = numpy_block.random_data(self.problem, 1)
        got = numpy_block.block(data["hidden"], data, 2, 1e-5)
        for b in range(2):
            np.testing.assert_allclose(got[b], self.by_hand(data, b), rtol=0, atol=1e-12)

    def by_hand(self, data, b):
        """One batch entry, scalar by scalar."""
        p = {name: values.astype(float).tolist() for name, values in data.items()}
        x, d, s, width = p["hidden"][b], 4, 3, 2

        def linear(row, weight, bias):
            return [sum(v * p[weight][i][j] for i, v in enumerate(row)) + p[bias][j] for j in range(len(p[bias]))]

        def norm(row, gamma, beta):
            mean = sum(row) / d
            deviation = math.sqrt(sum((v - mean) ** 2 for v in row) / d + 1e-5)
            return [(v - mean) / deviation * p[gamma][i] + p[beta][i] for i, v in enumerate(row)]

        qkv = [linear(row, "w_qkv", "b_qkv") for row in x]
        rows = []
        for i in range(s):
            merged = []
            for h in range(2):
                columns = range(h * width, (h + 1) * width)
                weights = [math.exp(sum(qkv[i][c] * qkv[j][d + c] for c in columns) / math.sqrt(width)) for j in range(s)]
                merged += [sum(w * qkv[j][2 * d + c] for j, w in enumerate(weights)) / sum(weights) for c in columns]
            first = norm([a + r for a, r in zip(linear(merged, "w_out", "b_out"), x[i])], "gamma1", "beta1")
            inner = [0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in linear(first, "w_ffn1", "b_ffn1")]
            rows.append(norm([a + r for a, r in zip(linear(inner, "w_ffn2", "b_ffn2"), first)], "gamma2", "beta2"))
        return rows

    def test_hidden_keys_have_no_effect(self):
        data = numpy_block.random_data(self.problem, 1)
        visible = np.ones((3, 3), bool)
        visible[:, 2] = False
        before = numpy_block.block(data["hidden"], data, 2, 1e-5, visible)
        data["hidden"][:, 2] += 1
        after = numpy_block.block(data["hidden"], data, 2, 1e-5, visible)
        np.testing.assert_array_equal(before[:, :2], after[:, :2])

    def test_errors(self):
        want = np.array([[3.0, 4.0], [0.0, 0.0]])
        norm, worst = numpy_block.errors(want + [[0, 0.4], [0, 0]], want)
        self.assertAlmostEqual(norm, 0.08)
        self.assertAlmostEqual(worst, 0.1)
        self.assertEqual(numpy_block.errors(want * math.nan, want), (math.inf, math.inf))
        with self.assertRaises(ValueError):
            numpy_block.errors(want[:1], want)

    def test_files(self):
        data = numpy_block.random_data(self.problem, 1)
        with tempfile.TemporaryDirectory() as directory:
            numpy_block.save_data(directory, data)
            again = numpy_block.load_data(directory, self.problem)
            for name, values in data.items():
                np.testing.assert_array_equal(again[name], values)
            (pathlib.Path(directory) / "w_out.f32").write_bytes(b"\0" * 8)
            with self.assertRaisesRegex(ValueError, "w_out.f32 holds 2 values"):
                numpy_block.load_data(directory, self.problem)


class Safetensors(unittest.TestCase):
    def write(self, path, tensors):
        header, body = {"__metadata__": {"format": "pt"}}, b""
        for name, values in tensors.items():
            header[name] = {"dtype": "F32", "shape": values.shape, "data_offsets": [len(body), len(body) + values.nbytes]}
            body += values.astype("<f4").tobytes()
        text = json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + body)

    def test_layer(self):
        generator = np.random.default_rng(0)
        parts = {f"attention.self.{name}": (2, 2) for name in ("query", "key", "value")}
        parts |= {"attention.output.dense": (2, 2), "intermediate.dense": (3, 2), "output.dense": (2, 3)}
        tensors = {}
        for name, shape in parts.items():
            tensors[f"bert.encoder.layer.1.{name}.weight"] = generator.random(shape, np.float32)
            tensors[f"bert.encoder.layer.1.{name}.bias"] = generator.random(shape[0], np.float32)
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            for end in ("weight", "bias"):
                tensors[f"bert.encoder.layer.1.{name}.{end}"] = generator.random(2, np.float32)
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / "model.safetensors"
            self.write(path, tensors)
            layer = bert_layer(SafeTensors(path), 1)
            with self.assertRaisesRegex(KeyError, "0 tensors end with encoder.layer.0"):
                bert_layer(SafeTensors(path), 0)
        key = tensors["bert.encoder.layer.1.attention.self.key.weight"]
        np.testing.assert_array_equal(layer["w_qkv"][:, 2:4], key.T)
        np.testing.assert_array_equal(layer["w_ffn2"], tensors["bert.encoder.layer.1.output.dense.weight"].T)
        np.testing.assert_array_equal(layer["gamma1"], tensors["bert.encoder.layer.1.attention.output.LayerNorm.weight"])


class Processes(unittest.TestCase):
    def start(self, program, timeout=20):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        peer = PeerProcess("test", [sys.executable, "-c", program], None, pathlib.Path(directory.name) / "log", timeout)
        self.addCleanup(peer.close)
        return peer

    READY = "import json,sys\nprint(json.dumps({'rows':{'r':{'settings':'s'}},'versions':{'v':'1'}}),flush=True)\n"

    def test_answers(self):
        peer = self.start(self.READY + "for q in sys.stdin: print(json.dumps({'said': q.split()}), flush=True)")
        self.assertEqual((peer.rows, peer.versions), ({"r": "s"}, {"v": "1"}))
        self.assertEqual(peer.sample(["r", "t"], 1, 2), {"said": ["sample", "r,t", "1", "2"]})

    def test_dies(self):
        peer = self.start(self.READY + "sys.stdin.readline(); print('no memory', file=sys.stderr); sys.exit(3)")
        with self.assertRaisesRegex(PeerError, "(?s)exit code 3.*no memory"):
            peer.check("r", "file")

    def test_never_ready(self):
        with self.assertRaisesRegex(PeerError, "no answer within"):
            self.start("import time; time.sleep(60)", timeout=0.2)

    def test_quiet_means_asleep(self):
        spinning = self.start(self.READY + "import threading\nstop = []\n"
                              "thread = threading.Thread(target=lambda: [None for _ in iter(lambda: bool(stop), True)])\n"
                              "sys.stdin.readline()\nthread.start()\nprint('{}', flush=True)\n"
                              "sys.stdin.readline()\nstop.append(1)\nthread.join()\nprint('{}', flush=True)\n"
                              "sys.stdin.readline()")  # fmt: skip
        self.assertTrue(wait_until_quiet([spinning]))
        spinning.check("r", "file")
        self.assertFalse(wait_until_quiet([spinning], timeout=0.3))
        spinning.check("r", "file")
        self.assertTrue(wait_until_quiet([spinning]))


if __name__ == "__main__":
    unittest.main(verbosity=2)
