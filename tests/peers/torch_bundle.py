"""What the tests of bundles' PyTorch operators share: the block, the layer that it is compared with, how a bundle is
made and built.
"""

import copy
import re
import shutil
import subprocess
import sys
import unittest

import torch

# No multiple of a tile, a vector or a mask tile. [0-1][2-6]*[7-14].
MASK, BATCH, SEQ, HEADS, HEAD_SIZE, FFN, EPS = "40704", 2, 33, 3, 40, 96, 1e-12
HIDDEN = HEADS * HEAD_SIZE


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def make_bundle(fusetune, work, *options):
    """The bundle's directory under `work`, its operator built there as its README says."""
    shutil.rmtree(work, ignore_errors=True)
    made = work / "bundle"
    run(fusetune, "export", MASK, "--batch", str(BATCH), "--seq", str(SEQ), "--heads", str(HEADS), "--head-size",
        str(HEAD_SIZE), "--ffn", str(FFN), "--mask", "causal", "--name", "enc", "--no-archive", "--out", made,
        *options)  # fmt: skip
    run("cmake", "-S", made, "-B", made / "build", "-DFUSETUNE_TORCH=ON", f"-DPython3_EXECUTABLE={sys.executable}",
        "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Wshadow -Werror")  # fmt: skip
    run("cmake", "--build", made / "build", "--parallel", "2")
    return made


def make_layer(**changes):
    """A layer with weights that are not what every new layer has."""
    arguments = {"d_model": HIDDEN, "nhead": HEADS, "dim_feedforward": FFN, "activation": "gelu",
                 "layer_norm_eps": EPS, "batch_first": True} | changes  # fmt: skip
    layer = torch.nn.TransformerEncoderLayer(**arguments).eval()
    with torch.no_grad():
        for weight in layer.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    return layer


def reference(layer, hidden, lengths=None):
    """What the layer gives under the bundle's mask, in float64; zero where there is padding."""
    exact = copy.deepcopy(layer).double()
    hidden_by_mask = torch.triu(torch.ones(SEQ, SEQ, dtype=torch.bool), 1)
    if lengths is None:
        return exact(hidden.double(), src_mask=hidden_by_mask)
    padding = torch.arange(SEQ) >= lengths[:, None]
    output = exact(hidden.double(), src_mask=hidden_by_mask, src_key_padding_mask=padding)
    return output.masked_fill(padding[..., None], 0)


class BundleTest(unittest.TestCase):
    """Sets what every test starts from; `limit` of the error's norm is the subclass's."""

    dtype, limit = torch.float32, 1e-5

    def setUp(self):
        torch.manual_seed(7)
        torch.set_num_threads(2)
        torch.set_grad_enabled(False)

    def tearDown(self):
        torch.set_grad_enabled(True)

    def agree(self, got, want):
        self.assertEqual(got.dtype, self.dtype)
        self.assertEqual(got.shape, want.shape)
        self.assertLess(float((got.double() - want).norm() / want.norm()), self.limit)

    def refuses(self, words, call, *arguments, error=RuntimeError):
        with self.assertRaisesRegex(error, re.escape(words)):
            call(*arguments)

    def refuses_other_layers(self, from_layer):
        for changes, words in (({"nhead": 4}, "nhead is 4, expected 3"),
                               ({"norm_first": True}, "norm_first is True"),
                               ({"activation": "relu"}, "activation is a GELU is False"),
                               ({"activation": torch.nn.GELU("tanh")}, "approximate of the GELU is tanh"),
                               ({"layer_norm_eps": 0.5}, "layer_norm_eps is 0.5")):  # fmt: skip
            self.refuses(words, from_layer, make_layer(**changes), error=ValueError)
        self.refuses("[288, 96], expected [360, 120]", from_layer, make_layer(d_model=96))
        self.refuses("no self_attn.in_proj_bias", from_layer, make_layer(bias=False), error=KeyError)
