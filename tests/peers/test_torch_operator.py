#!/usr/bin/env python3
"""The PyTorch operator of an exported bundle against torch.nn.TransformerEncoderLayer.

    test_torch_operator.py --fusetune PROGRAM --work DIR [options of unittest]

Exports a bundle, builds its operator with CMake, and uses it as its users would. Run in build/venv
(tools/bench_peers --setup-only). Exit code 77 when PyTorch is missing.
"""

import argparse
import os
import pathlib
import re
import shutil
import signal
import sys
import threading
import unittest

try:
    import torch
    from torch.utils import cpp_extension  # noqa: F401, needs setuptools
    from torch_bundle import BATCH, HIDDEN, SEQ, BundleTest, make_bundle, make_layer, reference, run
except ImportError as error:
    print(f"skipped: {error}; run tools/bench_peers --setup-only, then this with build/venv/bin/python")
    sys.exit(77)

operator = None  # the bundle's Python module
bundle = None  # its directory


class TorchOperator(BundleTest):
    def setUp(self):
        super().setUp()
        self.layer = make_layer()
        self.block = operator.EncoderBlock.from_layer(self.layer)
        self.hidden = torch.randn(BATCH, SEQ, HIDDEN)

    def weights(self):
        return [self.layer.state_dict()[name] for name in operator.WEIGHTS]

    # ---- Results

    def test_is_the_layer_at_several_batch_sizes(self):
        for batch in (BATCH, 3 * BATCH):
            hidden = torch.randn(batch, SEQ, HIDDEN)
            with self.subTest(batch=batch):
                self.agree(self.block(hidden), reference(self.layer, hidden))
        self.assertEqual(self.block(self.hidden[:0]).shape, (0, SEQ, HIDDEN))

    def test_lengths_are_a_padding_mask(self):
        hidden = torch.randn(2 * BATCH, SEQ, HIDDEN)
        lengths = torch.tensor([SEQ, 1, 20, 7])
        self.agree(self.block(hidden, lengths), reference(self.layer, hidden, lengths))
        self.agree(self.block(hidden), reference(self.layer, hidden))  # and are forgotten

    def test_layers_share_threads_and_not_weights(self):
        layers = [self.layer, make_layer()]
        blocks = torch.nn.Sequential(*[operator.EncoderBlock.from_layer(layer) for layer in layers])
        want = reference(layers[1], reference(layers[0], self.hidden).float())
        self.agree(blocks(self.hidden), want)

    def test_any_number_of_threads(self):
        for threads in (1, 3, 2):
            torch.set_num_threads(threads)
            with self.subTest(threads=threads):
                self.agree(self.block(self.hidden), reference(self.layer, self.hidden))

    def test_calls_at_once_take_turns(self):
        inputs = [torch.randn(BATCH, SEQ, HIDDEN) for _ in range(4)]
        lengths = [None, torch.tensor([5, 9]), None, torch.tensor([33, 2])]
        want = [self.block(*call) for call in zip(inputs, lengths)]
        wrong = []

        def work(i):
            for _ in range(50):
                if not torch.equal(self.block(inputs[i], lengths[i]), want[i]):
                    wrong.append(i)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_a_forked_process_has_threads_of_its_own(self):
        want = self.block(self.hidden)
        child = os.fork()
        if child == 0:  # a hang is ended by the alarm
            signal.alarm(20)
            os._exit(0 if torch.equal(self.block(self.hidden), want) else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_state_dict_carries_the_weights(self):
        other = operator.EncoderBlock.from_layer(make_layer())
        other.load_state_dict(self.block.state_dict())
        self.assertTrue(torch.equal(other(self.hidden), self.block(self.hidden)))
        model = {"encoder.0." + name: weight for name, weight in self.layer.state_dict().items()}
        prefixed = operator.EncoderBlock(model, prefix="encoder.0.")
        self.assertTrue(torch.equal(prefixed(self.hidden), self.block(self.hidden)))

    def test_packed_weights_at_any_multiple_of_four(self):
        """Where a file or a compiler puts them is not PyTorch's alignment."""
        packed = self.block.packed
        moved = torch.cat([packed[:4], packed])[4:]
        self.assertTrue(torch.equal(operator.encoder_block(self.hidden, moved), self.block(self.hidden)))

    # ---- PyTorch's machinery

    def test_opcheck(self):
        for lengths in (None, torch.tensor([SEQ, 20])):
            torch.library.opcheck(operator.encoder_block, (self.hidden, self.block.packed, lengths))
        torch.library.opcheck(operator.pack_weights, (self.weights(),))

    def test_compile(self):
        for dynamic in (False, True):
            torch._dynamo.reset()
            compiled = torch.compile(lambda x: self.block(x + 1) * 2, fullgraph=True, dynamic=dynamic)
            for batch in (BATCH, 2 * BATCH):
                hidden = torch.randn(batch, SEQ, HIDDEN)
                with self.subTest(dynamic=dynamic, batch=batch):
                    self.agree(compiled(hidden), reference(self.layer, hidden + 1) * 2)

    def test_compile_refuses_what_a_call_refuses(self):
        torch._dynamo.reset()
        compiled = torch.compile(self.block, fullgraph=True, backend="eager")
        self.refuses("expected [batch, 33, 120]", compiled, self.hidden[:, :-1], error=Exception)

    def test_export(self):
        pairs = torch.export.Dim("pairs", min=1)
        program = torch.export.export(self.block, (torch.cat([self.hidden] * 2),),
                                      dynamic_shapes={"hidden": {0: BATCH * pairs}})  # fmt: skip
        self.assertIn("fusetune_enc.encoder_block", str(program.graph))
        hidden = torch.randn(3 * BATCH, SEQ, HIDDEN)
        self.agree(program.module()(hidden), reference(self.layer, hidden))
        package = str(bundle.parent / "compiled.pt2")
        torch._inductor.aoti_compile_and_package(program, package_path=package)
        self.agree(torch._inductor.aoti_load_package(package)(hidden), reference(self.layer, hidden))

    # ---- Refusals

    def test_refuses_wrong_hidden(self):
        hidden = self.hidden
        self.refuses("batch size 1, expected a multiple of 2: pad the batch", self.block, hidden[:1])
        self.refuses("hidden has shape [2, 32, 120], expected [batch, 33, 120]", self.block, hidden[:, :-1])
        self.refuses("hidden has shape [33, 120]", self.block, hidden[0])
        self.refuses("hidden has dtype Double, expected Float: call float()", self.block, hidden.double())
        gaps = torch.randn(BATCH, SEQ, 2 * HIDDEN)[..., ::2]
        self.refuses("expected no gaps and the last dimension first: call contiguous()", self.block, gaps)

    def test_refuses_wrong_devices(self):
        hidden, packed = self.hidden, self.block.packed
        self.refuses("packed is on cpu, hidden on meta: call cpu()", self.block, hidden.to("meta"))
        self.refuses("packed is on meta, hidden on cpu", operator.encoder_block, hidden, packed.to("meta"))
        self.refuses("hidden is Sparse on cpu, expected Strided on cpu: call to_dense()", self.block,
                     hidden.to_sparse())  # fmt: skip
        if torch.cuda.is_available():
            self.refuses("hidden is Strided on cuda:0, expected Strided on cpu", self.block, hidden.cuda())
            weights = [weight.cuda() for weight in self.weights()]
            self.refuses("tensor 0 is Strided on cuda:0", operator.pack_weights, weights)

    def test_refuses_wrong_packed_weights(self):
        call, packed = operator.encoder_block, self.block.packed
        self.refuses("make it with pack_weights of this bundle", call, self.hidden, packed[:-1])
        self.refuses("make it with pack_weights of this bundle", call, self.hidden, packed.float())
        self.refuses("pack the weights again", call, self.hidden, torch.zeros_like(packed))
        odd = torch.cat([packed[:1], packed])[1:]
        self.refuses("packed: the address is no multiple of 4", call, self.hidden, odd)

    def test_refuses_wrong_lengths(self):
        self.refuses("lengths has shape [3], expected [2]", self.block, self.hidden, torch.tensor([1, 2, 3]))
        self.refuses("lengths has dtype Int, expected Long", self.block, self.hidden, torch.tensor([1, 2]).int())
        self.refuses("lengths[1] is 34, expected 0 to 33", self.block, self.hidden, torch.tensor([1, 34]))
        self.agree(self.block(self.hidden), reference(self.layer, self.hidden))

    def test_refuses_wrong_weights(self):
        pack, weights = operator.pack_weights, self.weights()
        self.refuses("got 11 tensors, expected 12", pack, weights[:-1])
        self.refuses("got 0 tensors, expected 12", pack, [])
        self.refuses("self_attn.in_proj_weight has shape [120, 360], expected [360, 120]", pack,
                     [weights[0].t(), *weights[1:]])  # fmt: skip
        self.refuses("norm2.bias has dtype Double, expected Float", pack, [*weights[:-1], weights[-1].double()])
        self.refuses("norm2.bias is on meta", pack, [*weights[:-1], weights[-1].to("meta")])
        self.refuses("tensor 0 is Sparse on cpu", pack, [weight.to_sparse() for weight in weights])

    def test_refuses_layers_that_are_another_function(self):
        self.refuses_other_layers(operator.EncoderBlock.from_layer)

    def test_refuses_training(self):
        with torch.enable_grad():
            output = self.block(self.hidden.requires_grad_())
            self.refuses("derivative for fusetune_enc::encoder_block is not implemented", output.sum().backward)

    # ---- Other ways to build it

    def test_without_cmake_it_is_compiled_on_import(self):
        copied = bundle.parent / "copied"
        shutil.copytree(bundle, copied, ignore=shutil.ignore_patterns("build"))
        torch.save((self.block.state_dict(), self.hidden, self.block(self.hidden)), copied / "expected.pt")
        script = ("import sys, torch; sys.path.insert(0, sys.argv[1] + '/pytorch'); import enc_torch\n"
                  "state, hidden, want = torch.load(sys.argv[1] + '/expected.pt'); torch.set_num_threads(2)\n"
                  "got = enc_torch.encoder_block(hidden, state['packed'])\n"
                  "print('same bits:', torch.equal(got, want))")  # fmt: skip
        self.assertIn("same bits: True", run(sys.executable, "-c", script, copied))

    def test_says_where_it_cannot_compile(self):
        copied = bundle.parent / "unwritable"
        shutil.copytree(bundle, copied, ignore=shutil.ignore_patterns("build"))
        (copied / "pytorch" / "build").write_text("in the way")
        script = "import sys; sys.path.insert(0, sys.argv[1] + '/pytorch'); import enc_torch"
        with self.assertRaisesRegex(RuntimeError, "ImportError: enc_torch: cannot compile .*-DFUSETUNE_TORCH=ON"):
            run(sys.executable, "-c", script, copied)

    def test_readme_example(self):
        example = re.search("```python\n(.*?)```", (bundle / "README.md").read_text(), re.DOTALL).group(1)
        names = {"layer": self.layer, "hidden": self.hidden}
        exec(example, names)
        self.agree(names["output"], reference(self.layer, self.hidden))

    def test_installed(self):
        installed = bundle.parent / "installed"
        run("cmake", "--install", bundle / "build", "--prefix", installed)
        module = next(installed.glob("lib*/**/enc_torch.py"))
        script = "import sys; sys.path.insert(0, sys.argv[1]); import enc_torch; print(enc_torch.encoder_block)"
        self.assertIn("fusetune_enc.encoder_block", run(sys.executable, "-c", script, module.parent))


def main():
    global operator, bundle
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fusetune", required=True, metavar="PROGRAM")
    parser.add_argument("--work", required=True, metavar="DIR", type=pathlib.Path, help="replaced by what is made")
    arguments, rest = parser.parse_known_args()
    bundle = make_bundle(arguments.fusetune, arguments.work.resolve(), "--threads", "2")
    sys.path.insert(0, str(bundle / "pytorch"))
    import enc_torch

    operator = enc_torch
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
