"""Reads .safetensors files with nothing but numpy: eight bytes of header length, a JSON header, raw values."""

import json
import struct

import numpy as np

_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "u1", "BOOL": "?"}


class SafeTensors:
    """The tensors of one file by name; values are read when they are asked for."""

    def __init__(self, path):
        self.path = path
        with open(path, "rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            header = json.loads(stream.read(length))
        self._start = 8 + length
        self._entries = {name: entry for name, entry in header.items() if name != "__metadata__"}

    def names(self):
        return sorted(self._entries)

    def __getitem__(self, name):
        entry = self._entries[name]
        begin, end = entry["data_offsets"]
        with open(self.path, "rb") as stream:
            stream.seek(self._start + begin)
            raw = stream.read(end - begin)
        if entry["dtype"] == "BF16":  # the upper half of a float32
            values = (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            values = np.frombuffer(raw, _DTYPES[entry["dtype"]])
        return values.reshape(entry["shape"])


def bert_layer(file, number):
    """Layer `number` of a Hugging Face BERT checkpoint under the block's names; weights become [in, out]."""
    ending = f"encoder.layer.{number}.attention.self.query.weight"
    found = [name for name in file.names() if name.endswith(ending)]
    if len(found) != 1:
        raise KeyError(f"{file.path}: {len(found)} tensors end with {ending}, one was expected")
    prefix = found[0][: -len("attention.self.query.weight")]

    def both(name):
        return file[f"{prefix}{name}.weight"], file[f"{prefix}{name}.bias"]

    heads = [both(f"attention.self.{part}") for part in ("query", "key", "value")]
    layer = {
        "w_qkv": np.concatenate([weight.T for weight, _ in heads], axis=1),
        "b_qkv": np.concatenate([bias for _, bias in heads]),
    }
    for weight, bias, name in (("w_out", "b_out", "attention.output.dense"), ("w_ffn1", "b_ffn1", "intermediate.dense"),
                               ("w_ffn2", "b_ffn2", "output.dense")):  # fmt: skip
        matrix, layer[bias] = both(name)
        layer[weight] = matrix.T
    layer["gamma1"], layer["beta1"] = both("attention.output.LayerNorm")
    layer["gamma2"], layer["beta2"] = both("output.LayerNorm")
    return layer
