#!/usr/bin/env python3
"""The PyTorch operator of an exported GPU bundle against torch.nn.TransformerEncoderLayer, without a GPU.

    test_torch_cuda_operator.py --fusetune PROGRAM --driver LIBRARY --kernels PROGRAM --work DIR [options of unittest]

LIBRARY stands in for NVIDIA's driver (tests/backend/cuda/fake_driver.cpp) and runs the emulator's build of each kernel,
which PROGRAM makes (fake_kernels.cpp); fake_cuda.cpp gives PyTorch tensors in its memory. The operator's own code is
what a GPU would run. Run in build/venv (tools/bench_peers --setup-only). Exit code 77 when PyTorch or NVRTC is missing.
"""

import argparse
import copy
import os
import pathlib
import re
import shutil
import sys
import threading
import unittest

try:
    import torch
    from torch.utils import cpp_extension  # needs setuptools
    from torch_bundle import (BATCH, FFN, HEAD_SIZE, HEADS, HIDDEN, SEQ, BundleTest, make_bundle, make_layer, reference,
                              run)  # fmt: skip
except ImportError as error:
    print(f"skipped: {error}; run tools/bench_peers --setup-only, then this with build/venv/bin/python")
    sys.exit(77)

DEVICE = "cuda:0"
KERNELS = 3  # of the plan

operator = None  # the bundle's Python module
bundle = None  # its directory
fake = None  # torch.ops.fake_cuda


def use_fake_driver(arguments):
    """This process's children too."""
    kernels = arguments.work / "kernels"
    shutil.rmtree(arguments.work, ignore_errors=True)
    kernels.mkdir(parents=True)
    (kernels / "problem").write_text(
        f"batch={BATCH} seq={SEQ} heads={HEADS} head_size={HEAD_SIZE} ffn={FFN} layers=12 mask=causal dtype=f16 "
        "eps=1e-12 gelu=erf data=uniform seed=0\n")  # fmt: skip
    os.environ |= {"FUSETUNE_DRIVER": str(arguments.driver), "FUSETUNE_FAKE_DRIVER": "small",
                   "FUSETUNE_FAKE_KERNELS": str(kernels), "FUSETUNE_FAKE_COMPILER": str(arguments.kernels)}  # fmt: skip
    run(arguments.kernels, kernels)


def make_fake_device(work):
    """A CUDA device in this process's PyTorch. PyTorch itself would look for a GPU at the first use."""
    global fake
    work.mkdir()
    cpp_extension.load("fake_cuda", [str(pathlib.Path(__file__).parent / "fake_cuda.cpp")],
                       extra_cflags=["-O0", "-std=c++20"], build_directory=str(work), with_cuda=False,
                       is_python_module=False)  # fmt: skip
    fake = torch.ops.fake_cuda
    fake.install()
    torch.cuda._lazy_init = lambda: None


def rounded(layer):
    """`layer` with the matrices that a float16 bundle has of it."""
    layer = copy.deepcopy(layer)
    with torch.no_grad():
        for weight in layer.parameters():
            if weight.dim() == 2:
                weight.copy_(weight.half())
    return layer


class TorchCudaOperator(BundleTest):
    dtype, limit = torch.float16, 1.5e-3  # the limit of docs/method.md

    def setUp(self):
        super().setUp()
        self.layer = make_layer()
        self.exact = rounded(self.layer)
        self.block = operator.EncoderBlock.from_layer(self.layer).to(DEVICE)
        self.host_hidden = torch.randn(BATCH, SEQ, HIDDEN).half()
        self.hidden = self.host_hidden.to(DEVICE)

    def agree(self, got, want):
        self.assertEqual(got.device, torch.device(DEVICE))
        super().agree(got.cpu(), want)

    def same(self, got, want):
        self.assertTrue(torch.equal(got.cpu(), want.cpu()))

    def weights(self, device=DEVICE):
        return [self.layer.state_dict()[name].to(device) for name in operator.WEIGHTS]

    # ---- Results

    def test_is_the_layer_at_any_batch_size(self):
        for batch in (1, BATCH, 5):
            hidden = torch.randn(batch, SEQ, HIDDEN).half()
            with self.subTest(batch=batch):
                self.agree(self.block(hidden.to(DEVICE)), reference(self.exact, hidden))
        self.assertEqual(self.block(self.hidden[:0]).shape, (0, SEQ, HIDDEN))

    def test_layers_share_kernels_and_not_weights(self):
        layers = [self.layer, make_layer()]
        self.block(self.hidden)
        loaded = fake.kernels_loaded()
        blocks = torch.nn.Sequential(*[operator.EncoderBlock.from_layer(layer) for layer in layers]).to(DEVICE)
        between = blocks[0](self.hidden)
        self.agree(blocks(self.hidden), reference(rounded(layers[1]), between.cpu()))
        self.assertEqual((loaded, fake.kernels_loaded()), (KERNELS, KERNELS))

    def test_weights_are_packed_alike_wherever_the_layer_is(self):
        self.same(operator.pack_weights(self.weights()), operator.pack_weights(self.weights("cpu")))
        half = [weight.half() for weight in self.weights()]
        want = operator.EncoderBlock.from_layer(copy.deepcopy(self.layer).half()).packed
        self.same(operator.pack_weights(half), want)
        self.agree(operator.encoder_block(self.hidden, want.to(DEVICE)),
                   reference(copy.deepcopy(self.layer).half(), self.host_hidden))  # fmt: skip

    def test_state_dict_carries_the_weights(self):
        other = operator.EncoderBlock.from_layer(make_layer()).to(DEVICE)
        other.load_state_dict(self.block.state_dict())
        self.same(other(self.hidden), self.block(self.hidden))
        self.same(self.block.half()(self.hidden), other(self.hidden))

    # ---- Streams, threads, graphs

    def test_runs_in_the_current_stream(self):
        for stream in (0x30, 0x40, 0):
            fake.set_stream(stream)
            self.block(self.hidden)
            self.assertEqual(fake.last_stream(), stream)

    def test_a_thread_that_has_no_context(self):
        want, got = self.block(self.hidden), []
        thread = threading.Thread(target=lambda: got.append(self.block(self.hidden)))
        thread.start()
        thread.join()
        self.same(got[0], want)

    def test_is_captured_into_a_graph(self):
        want = self.block(self.hidden)
        fake.begin_capture()
        output = self.block(self.hidden)
        graph = fake.end_capture()
        self.assertTrue(output.cpu().isnan().all())  # nothing ran
        fake.launch_graph(graph)
        self.same(output, want)
        self.hidden.copy_(self.hidden.cpu() + 1)
        fake.launch_graph(graph)
        self.same(output, self.block(self.hidden))

    # ---- PyTorch's machinery

    def test_opcheck(self):
        """What of it needs no other operators on the device."""
        parts = ("test_autograd_registration", "test_faketensor")
        torch.library.opcheck(operator.encoder_block, (self.hidden, self.block.packed), test_utils=parts)
        torch.library.opcheck(operator.pack_weights, (self.weights(),), test_utils=parts)

    def test_compile(self):
        for dynamic in (False, True):
            torch._dynamo.reset()
            compiled = torch.compile(lambda x: self.block(self.block(x)), fullgraph=True, dynamic=dynamic,
                                     backend="aot_eager")  # fmt: skip
            for batch in (BATCH, 3):
                hidden = torch.randn(batch, SEQ, HIDDEN).half().to(DEVICE)
                with self.subTest(dynamic=dynamic, batch=batch):
                    self.same(compiled(hidden), self.block(self.block(hidden)))

    def test_compile_refuses_what_a_call_refuses(self):
        torch._dynamo.reset()
        compiled = torch.compile(self.block, fullgraph=True, backend="eager")
        self.refuses("expected [batch, 33, 120]", compiled, self.hidden[:, :-1], error=Exception)

    def test_export(self):
        batch = torch.export.Dim("batch", min=1)
        program = torch.export.export(self.block, (self.hidden,), dynamic_shapes={"hidden": {0: batch}})
        self.assertIn("fusetune_enc.encoder_block", str(program.graph))
        hidden = torch.randn(3, SEQ, HIDDEN).half().to(DEVICE)
        self.same(program.module()(hidden), self.block(hidden))

    # ---- Refusals

    def test_refuses_wrong_hidden(self):
        hidden = self.hidden
        self.refuses("hidden has shape [2, 32, 120], expected [batch, 33, 120]: export a bundle", self.block,
                     hidden[:, :-1])  # fmt: skip
        self.refuses("hidden has shape [33, 120]", self.block, hidden[0])
        self.refuses("hidden has dtype Float, expected Half: call half()", self.block, self.host_hidden.float())
        gaps = torch.randn(BATCH, SEQ, 2 * HIDDEN).half().to(DEVICE)[..., ::2]
        self.refuses("expected no gaps and the last dimension first: call contiguous()", self.block, gaps)
        flat = torch.randn(HIDDEN * SEQ + 2).half().to(DEVICE)
        self.refuses("hidden begins 4 bytes behind a multiple of 256", self.block, flat[2:].view(1, SEQ, HIDDEN))

    def test_refuses_wrong_devices(self):
        self.refuses("packed is on cuda:0, hidden on meta: call cuda()", self.block, self.hidden.to("meta"))
        self.refuses("packed is on cpu, hidden on cuda:0: call cuda()", operator.encoder_block, self.hidden,
                     self.block.packed.cpu())  # fmt: skip
        self.refuses("hidden is Strided on cpu, expected Strided on cuda: call", operator.encoder_block,
                     self.host_hidden, self.block.packed.cpu())  # fmt: skip

    def test_refuses_wrong_packed_weights(self):
        call, packed = operator.encoder_block, self.block.packed
        self.refuses("make it with pack_weights of this bundle", call, self.hidden, packed[:-1])
        moved = torch.cat([packed.cpu()[:16], packed.cpu()]).to(DEVICE)[16:]
        self.refuses("packed begins 16 bytes behind a multiple of 256", call, self.hidden, moved)

    def test_refuses_lengths(self):
        self.refuses("lengths are given, expected None: padding on a GPU", self.block, self.hidden,
                     torch.tensor([1, 2]))  # fmt: skip

    def test_refuses_wrong_weights(self):
        pack, weights = operator.pack_weights, self.weights()
        self.refuses("got 11 tensors, expected 12", pack, weights[:-1])
        self.refuses("got 0 tensors, expected 12", pack, [])
        self.refuses("self_attn.in_proj_weight has shape [120, 360], expected [360, 120]", pack,
                     [weights[0].t(), *weights[1:]])  # fmt: skip
        self.refuses("norm2.bias has dtype Double, expected Float or Half", pack,
                     [*self.weights("cpu")[:-1], weights[-1].cpu().double()])  # fmt: skip
        self.refuses("norm2.bias is on cpu, self_attn.in_proj_weight on cuda:0: call cuda()", pack,
                     [*weights[:-1], weights[-1].cpu()])  # fmt: skip
        self.refuses("tensor 0 is Sparse on cpu, expected Strided on cpu or cuda", pack,
                     [weight.to_sparse() for weight in self.weights("cpu")])  # fmt: skip

    def test_refuses_layers_that_are_another_function(self):
        self.refuses_other_layers(operator.EncoderBlock.from_layer)

    def test_refuses_training(self):
        with torch.enable_grad():
            output = self.block(self.hidden.requires_grad_())
            self.refuses("derivative for fusetune_enc::encoder_block is not implemented", output.grad_fn,
                         torch.zeros_like(output))  # fmt: skip

    # ---- Other ways to build it

    def test_without_cmake_it_is_built_on_import(self):
        copied = bundle.parent / "copied"
        shutil.copytree(bundle, copied, ignore=shutil.ignore_patterns("build"))
        script = ("import sys; sys.path.insert(0, sys.argv[1] + '/pytorch'); import enc_torch, torch\n"
                  "weights = torch.load(sys.argv[1] + '/weights.pt')\n"
                  "print(enc_torch.encoder_block, enc_torch.pack_weights(weights).sum().item())")  # fmt: skip
        torch.save(self.weights("cpu"), copied / "weights.pt")
        said = run(sys.executable, "-c", script, copied)
        self.assertIn(f"fusetune_enc.encoder_block {self.block.packed.cpu().sum().item()}", said)
        (copied / "pytorch" / "build" / "CMakeCache.txt").unlink()
        (copied / "CMakeLists.txt").write_text("message(FATAL_ERROR \"broken\")\n")
        with self.assertRaisesRegex(RuntimeError, "ImportError: enc_torch: cannot compile the operator: cmake"):
            run(sys.executable, "-c", script, copied)

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
        self.agree(names["output"], reference(self.exact, self.host_hidden))

    def test_installed(self):
        installed = bundle.parent / "installed"
        run("cmake", "--build", bundle / "build")
        run("cmake", "--install", bundle / "build", "--prefix", installed)
        module = next(installed.glob("lib*/**/enc_torch.py"))
        script = "import sys; sys.path.insert(0, sys.argv[1]); import enc_torch; print(enc_torch.encoder_block)"
        self.assertIn("fusetune_enc.encoder_block", run(sys.executable, "-c", script, module.parent))


def main():
    global operator, bundle
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fusetune", required=True, metavar="PROGRAM")
    parser.add_argument("--driver", required=True, metavar="LIBRARY", type=pathlib.Path)
    parser.add_argument("--kernels", required=True, metavar="PROGRAM")
    parser.add_argument("--work", required=True, metavar="DIR", type=pathlib.Path, help="replaced by what is made")
    arguments, rest = parser.parse_known_args()
    arguments.work = arguments.work.resolve()
    use_fake_driver(arguments)
    try:
        bundle = make_bundle(arguments.fusetune, arguments.work / "made", "--backend", "cuda", "--dtype", "f16",
                             "--no-emulation")  # fmt: skip
    except RuntimeError as error:
        if "cannot open NVRTC" not in str(error):
            raise
        print(f"skipped: {error}")
        sys.exit(77)
    make_fake_device(arguments.work / "fake_cuda")
    sys.path.insert(0, str(bundle / "pytorch"))
    import enc_torch

    operator = enc_torch
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
