"""The encoder block in PyTorch, ONNX Runtime and numpy must be one function: they judge each other.

Run in build/venv (tools/bench_peers --setup-only). Exit code 77 when PyTorch or ONNX Runtime is missing.
"""

import pathlib
import sys
import unittest

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "peers"))
try:
    import onnx_block
    import ort_peer
    import torch
    import torch.nn.functional as F
    import torch_block
except ImportError as error:
    print(f"skipped: {error}; run tools/bench_peers --setup-only, then this with build/venv/bin/python")
    sys.exit(77)
import numpy_block  # noqa: E402

LIMIT = 5e-6
COPIES = 2


def problem(batch, seq, heads, head_size, ffn):
    return numpy_block.Problem("test", batch, seq, heads, head_size, ffn, 1, 1e-12)


# Sizes that are no multiple of anything; head size and FFN size differ from the usual multiples.
PROBLEMS = (problem(1, 16, 2, 8, 40), problem(3, 33, 4, 20, 100), problem(2, 7, 2, 40, 17))


class BlocksAgree(unittest.TestCase):
    def setUp(self):
        torch.set_num_threads(2)

    def agree(self, problem, got, distinct=True):
        want = numpy_block.chain(problem, numpy_block.random_data(problem, 3), COPIES, distinct)
        norm, worst = numpy_block.errors(got, want)
        self.assertLess(norm, LIMIT)
        self.assertLess(worst, 4 * LIMIT)

    def layers(self, problem):
        data = numpy_block.random_data(problem, 3)
        return data, [numpy_block.layer_copy(data, copy) for copy in range(COPIES)]

    def test_torch(self):
        for problem in PROBLEMS:
            data, layers = self.layers(problem)
            for build in (torch_block.Layer, torch_block.encoder_layer):
                with self.subTest(problem=problem, build=build.__name__), torch.inference_mode():
                    model = torch.nn.Sequential(*[build(problem, layer) for layer in layers]).eval()
                    self.agree(problem, model(torch_block.tensor(data["hidden"])).numpy())

    def test_onnxruntime(self):
        for problem in PROBLEMS:
            data, layers = self.layers(problem)
            for form in onnx_block.FORMS:
                with self.subTest(problem=problem, form=form):
                    runner = ort_peer.Runner(onnx_block.model(problem, layers, form), data["hidden"], 2)
                    self.agree(problem, runner.output())

    def test_copies_differ(self):
        """Were the copies equal, a compiler could merge them and read weights from cache."""
        problem = PROBLEMS[0]
        data, layers = self.layers(problem)
        self.assertFalse(np.array_equal(layers[0]["w_qkv"], layers[1]["w_qkv"]))
        self.assertTrue(np.array_equal(layers[0]["w_qkv"], data["w_qkv"]))
        same = numpy_block.chain(problem, data, COPIES, False)
        other = numpy_block.chain(problem, data, COPIES, True)
        self.assertGreater(numpy_block.errors(same, other)[0], LIMIT)

    def test_masked_attention(self):
        """numpy's masks, including rows that see nothing, are those of scaled_dot_product_attention."""
        problem = PROBLEMS[1]
        data, layers = self.layers(problem)
        visible = np.random.default_rng(5).random((problem.batch, problem.seq, problem.seq)) < 0.3
        visible[:, 4] = False
        got = numpy_block.block(data["hidden"], layers[0], problem.heads, problem.eps, visible)
        want = self.torch_masked(problem, layers[0], data["hidden"], visible)
        self.assertLess(numpy_block.errors(want, got)[0], LIMIT)

    def torch_masked(self, problem, layer, x, visible):
        p = {name: torch.tensor(values, dtype=torch.float64) for name, values in layer.items()}
        x = torch.tensor(x, dtype=torch.float64)
        shape = (problem.batch, problem.seq, problem.heads, problem.head_size)
        q, k, v = (part.view(shape).transpose(1, 2) for part in (x @ p["w_qkv"] + p["b_qkv"]).split(problem.hidden, -1))
        context = F.scaled_dot_product_attention(q, k, v, attn_mask=torch.tensor(visible)[:, None])
        context = torch.nan_to_num(context).transpose(1, 2).reshape(x.shape)
        size = (problem.hidden,)
        h = F.layer_norm(context @ p["w_out"] + p["b_out"] + x, size, p["gamma1"], p["beta1"], problem.eps)
        inner = F.gelu(h @ p["w_ffn1"] + p["b_ffn1"])
        return F.layer_norm(inner @ p["w_ffn2"] + p["b_ffn2"] + h, size, p["gamma2"], p["beta2"], problem.eps).numpy()


if __name__ == "__main__":
    unittest.main(verbosity=2)
