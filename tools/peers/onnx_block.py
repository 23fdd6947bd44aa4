"""The encoder layer as ONNX graphs: in standard operators, and in ONNX Runtime's fused transformer operators."""

import math

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FORMS = ("standard", "attention", "multi-head")
_FUSED = "com.microsoft"


class _Graph:
    """Collects nodes and initializers; names are unique by counting."""

    def __init__(self):
        self.nodes, self.initializers = [], []

    def constant(self, values):
        name = f"c{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def add(self, operator, *inputs, domain="", **attributes):
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], name=f"n{len(self.nodes)}",
                                           domain=domain, **attributes))  # fmt: skip
        return name


def model(problem, layers, form):
    """Serialised model: `layers` one after the other, input `x` and output `y`, both [B,S,D] float32.

    form: "standard": MatMul, Softmax, LayerNormalization, Gelu and so on, for the optimiser to fuse;
    "attention": the fused Attention, SkipLayerNormalization and BiasGelu operators;
    "multi-head": the same with MatMul and MultiHeadAttention for Attention.
    """
    graph = _Graph()
    x = "x"
    for layer in layers:
        x = _standard_layer(graph, problem, layer, x) if form == "standard" else _fused_layer(
            graph, problem, layer, x, form)  # fmt: skip
    graph.nodes.append(helper.make_node("Identity", [x], ["y"]))
    shape = [problem.batch, problem.seq, problem.hidden]
    described = helper.make_graph(
        graph.nodes, "encoder",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        graph.initializers)  # fmt: skip
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid(_FUSED, 1)]
    return helper.make_model(described, opset_imports=opsets, ir_version=9).SerializeToString()


def _standard_layer(graph, problem, layer, x):
    batch, seq, heads, width = problem.batch, problem.seq, problem.heads, problem.head_size
    constant, add = graph.constant, graph.add

    def linear(value, weight, bias):
        return add("Add", add("MatMul", value, constant(layer[weight])), constant(layer[bias]))

    def norm(value, number):
        return add("LayerNormalization", value, constant(layer[f"gamma{number}"]), constant(layer[f"beta{number}"]),
                   axis=-1, epsilon=problem.eps)  # fmt: skip

    d = problem.hidden
    to_heads = constant(np.array([batch, seq, heads, width], np.int64))

    def head_tensor(part, order):
        columns = slice(part * d, (part + 1) * d)
        value = add("Add", add("MatMul", x, constant(layer["w_qkv"][:, columns])), constant(layer["b_qkv"][columns]))
        return add("Transpose", add("Reshape", value, to_heads), perm=order)

    q, k, v = head_tensor(0, [0, 2, 1, 3]), head_tensor(1, [0, 2, 3, 1]), head_tensor(2, [0, 2, 1, 3])
    scores = add("Div", add("MatMul", q, k), constant(np.array(math.sqrt(width), np.float32)))
    context = add("MatMul", add("Softmax", scores, axis=-1), v)
    merged = add("Reshape", add("Transpose", context, perm=[0, 2, 1, 3]), constant(np.array([batch, seq, d], np.int64)))
    norm1 = norm(add("Add", linear(merged, "w_out", "b_out"), x), 1)
    inner = add("Gelu", linear(norm1, "w_ffn1", "b_ffn1"))
    return norm(add("Add", linear(inner, "w_ffn2", "b_ffn2"), norm1), 2)


def _fused_layer(graph, problem, layer, x, form):
    constant, add = graph.constant, graph.add

    def skip_norm(value, skip, number, bias):
        return add("SkipLayerNormalization", value, skip, constant(layer[f"gamma{number}"]),
                   constant(layer[f"beta{number}"]), constant(layer[bias]), domain=_FUSED, epsilon=problem.eps)  # fmt: skip

    if form == "attention":
        context = add("Attention", x, constant(layer["w_qkv"]), constant(layer["b_qkv"]), domain=_FUSED,
                      num_heads=problem.heads)  # fmt: skip
    else:
        parts = [add("MatMul", x, constant(part)) for part in np.split(layer["w_qkv"], 3, axis=1)]
        context = add("MultiHeadAttention", *parts, constant(layer["b_qkv"]), domain=_FUSED, num_heads=problem.heads)
    norm1 = skip_norm(add("MatMul", context, constant(layer["w_out"])), x, 1, "b_out")
    inner = add("BiasGelu", add("MatMul", norm1, constant(layer["w_ffn1"])), constant(layer["b_ffn1"]), domain=_FUSED)
    return skip_norm(add("MatMul", inner, constant(layer["w_ffn2"])), norm1, 2, "b_ffn2")
