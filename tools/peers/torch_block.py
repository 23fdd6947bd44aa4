"""The same encoder layer in PyTorch, written as people write it, and as torch.nn.TransformerEncoderLayer."""

import torch
import torch.nn.functional as F


class Layer(torch.nn.Module):
    """Post-LN encoder layer: one QKV projection, scaled_dot_product_attention, erf GELU."""

    def __init__(self, problem, layer):
        super().__init__()
        self.heads, self.head_size, self.hidden = problem.heads, problem.head_size, problem.hidden
        self.qkv = _linear(layer["w_qkv"], layer["b_qkv"])
        self.out = _linear(layer["w_out"], layer["b_out"])
        self.ffn1 = _linear(layer["w_ffn1"], layer["b_ffn1"])
        self.ffn2 = _linear(layer["w_ffn2"], layer["b_ffn2"])
        self.norm1 = _norm(layer["gamma1"], layer["beta1"], problem.eps)
        self.norm2 = _norm(layer["gamma2"], layer["beta2"], problem.eps)

    def forward(self, x):
        batch, seq, _ = x.shape
        qkv = self.qkv(x).view(batch, seq, 3, self.heads, self.head_size)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        context = F.scaled_dot_product_attention(q, k, v)
        context = context.transpose(1, 2).reshape(batch, seq, self.hidden)
        h = self.norm1(x + self.out(context))
        return self.norm2(h + self.ffn2(F.gelu(self.ffn1(h))))


def encoder_layer(problem, layer):
    """torch.nn.TransformerEncoderLayer, whose fast path runs the layer as one native operator."""
    module = torch.nn.TransformerEncoderLayer(
        problem.hidden, problem.heads, problem.ffn, dropout=0.0, activation="gelu",
        layer_norm_eps=problem.eps, batch_first=True)  # fmt: skip
    state = {
        "self_attn.in_proj_weight": layer["w_qkv"].T, "self_attn.in_proj_bias": layer["b_qkv"],
        "self_attn.out_proj.weight": layer["w_out"].T, "self_attn.out_proj.bias": layer["b_out"],
        "linear1.weight": layer["w_ffn1"].T, "linear1.bias": layer["b_ffn1"],
        "linear2.weight": layer["w_ffn2"].T, "linear2.bias": layer["b_ffn2"],
        "norm1.weight": layer["gamma1"], "norm1.bias": layer["beta1"],
        "norm2.weight": layer["gamma2"], "norm2.bias": layer["beta2"],
    }  # fmt: skip
    module.load_state_dict({name: tensor(values) for name, values in state.items()})
    return module


def tensor(values):
    """A contiguous float32 tensor in memory of its own."""
    return torch.tensor(values, dtype=torch.float32).contiguous()


def _linear(weight, bias):
    module = torch.nn.Linear(weight.shape[0], weight.shape[1])
    module.weight = torch.nn.Parameter(tensor(weight.T), requires_grad=False)
    module.bias = torch.nn.Parameter(tensor(bias), requires_grad=False)
    return module


def _norm(gamma, beta, eps):
    module = torch.nn.LayerNorm(gamma.shape[0], eps=eps)
    module.weight = torch.nn.Parameter(tensor(gamma), requires_grad=False)
    module.bias = torch.nn.Parameter(tensor(beta), requires_grad=False)
    return module
