"""Calls an exported library named `enc` through ctypes on data that `fusetune run` saved and compares outputs.

usage: call_bundle.py LIBRARY DATA_DIRECTORY OUTPUT.npy [LENGTH ...]
Exit code 77: no NumPy.
"""
import ctypes
import sys

try:
    import numpy as np
except ImportError:
    print("no NumPy")
    sys.exit(77)


class Matrix(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("rows", ctypes.c_int64), ("columns", ctypes.c_int64),
                ("row_stride", ctypes.c_int64)]


def matrix(array):
    rows = 1 if array.ndim == 1 else int(np.prod(array.shape[:-1]))
    return Matrix(array.ctypes.data, rows, array.shape[-1], array.shape[-1])


NAMES = ["w_qkv", "w_out", "w_ffn1", "w_ffn2", "b_qkv", "b_out", "gamma1", "beta1", "b_ffn1", "b_ffn2", "gamma2",
         "beta2"]


class Weights(ctypes.Structure):
    _fields_ = [(name, Matrix) for name in NAMES]


def main():
    library = ctypes.CDLL(sys.argv[1])
    library.enc_error.restype = ctypes.c_char_p
    library.enc_workspace_bytes.restype = ctypes.c_size_t
    data = {name: np.load(f"{sys.argv[2]}/{name}.npy") for name in NAMES + ["hidden"]}
    want = np.load(sys.argv[3])
    lengths = [int(word) for word in sys.argv[4:]]

    def call(function, *arguments):
        if function(*arguments) != 0:
            sys.exit(library.enc_error().decode())

    block = ctypes.c_void_p()
    call(library.enc_create, 1, 2, ctypes.byref(block))
    call(library.enc_set_weights, block, ctypes.byref(Weights(*[matrix(data[name]) for name in NAMES])))
    if lengths:
        call(library.enc_set_lengths, block, (ctypes.c_int64 * len(lengths))(*lengths),
             ctypes.c_size_t(len(lengths)))
    size = library.enc_workspace_bytes(2)
    memory = np.empty(size + 64, np.uint8)
    workspace = (memory.ctypes.data + 63) // 64 * 64
    got = np.full_like(want, np.nan)
    call(library.enc_run, block, ctypes.byref(matrix(data["hidden"])), ctypes.byref(matrix(got)),
         ctypes.c_void_p(workspace), ctypes.c_size_t(size))
    library.enc_destroy(block)
    error = np.abs(got - want).max() / np.abs(want).max()
    print(f"largest difference {error:.2e}; equal bits: {bool((got == want).all())}")
    return 0 if error <= 1e-6 else 1


sys.exit(main())
