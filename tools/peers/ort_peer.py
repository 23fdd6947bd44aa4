"""Peer process: a chain of encoder layers in ONNX Runtime, in the fastest of three equivalent graphs.

    ort_peer.py --problem PRESET,BATCH,SEQ --data DIR --copies N --threads N
"""

import argparse

import numpy as np
import numpy_block
import onnx_block
import onnxruntime
import protocol


class Runner:
    """A session with its input and output bound to fixed memory."""

    def __init__(self, model, x, threads):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.set_denormal_as_zero", "1")
        self.session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self.x = onnxruntime.OrtValue.ortvalue_from_numpy(x)
        self.y = onnxruntime.OrtValue.ortvalue_from_numpy(np.full_like(x, np.nan))
        self.binding = self.session.io_binding()
        self.binding.bind_ortvalue_input("x", self.x)
        self.binding.bind_ortvalue_output("y", self.y)

    def run(self):
        self.session.run_with_iobinding(self.binding)

    def output(self):
        self.run()
        return self.y.numpy()


def fastest(problem, layers, x, threads):
    """(runner, settings) of the fastest form of the graph."""
    best, tried = None, []
    for form in onnx_block.FORMS:
        runner = Runner(onnx_block.model(problem, layers, form), x, threads)
        seconds = protocol.best_seconds(runner.run)
        tried.append(f"{form}: {seconds / len(layers) * 1e6:.0f} us")
        if best is None or seconds < best[0]:
            best = seconds, runner, form
    settings = f"{best[2]} graph (tried once each: {', '.join(tried)}), all optimisations, bound input and output"
    return best[1], settings


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problem", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--copies", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    arguments = parser.parse_args()
    answers = protocol.private_stdout()

    name, batch, seq = arguments.problem.split(",")
    problem = numpy_block.preset(name, int(batch), int(seq))
    data = numpy_block.load_data(arguments.data, problem)
    layers = [numpy_block.layer_copy(data, copy) for copy in range(arguments.copies)]
    runner, settings = fastest(problem, layers, data["hidden"], arguments.threads)
    rows = {"onnxruntime": (settings, runner.run, runner.output)}
    protocol.serve(answers, rows, {"onnxruntime": onnxruntime.__version__}, arguments.copies)


if __name__ == "__main__":
    main()
