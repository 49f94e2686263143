"""What the operators of onnxruntime's optimizer and quantizer cost, by closed forms; shapes as they run.

By the convention each elementary function is one operation, a multiply-accumulate is two, and work on integers is
nothing but for products.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import pytest

pytest.importorskip("onnx")
import numpy as np
from onnx import TensorProto, helper
from onnx_graphs import BACKEND, F, make_model, make_unknown
from releases import as_numbers

from profilerkit import ModelInputs, ModelTrace, profile

UINT4 = helper.tensor_dtype_to_np_dtype(TensorProto.UINT4)
S8, U8 = np.int8, np.uint8
E = 2 * 3 * 4
X = np.ones((2, 3, 4), F)
Q = np.ones((2, 3, 4), U8)
IMAGE = np.ones((2, 6, 8, 10), F)
LAST = np.ones((2, 8, 10, 6), F)


def ones(*shape: int, dtype: Any = F) -> Any:
    return np.ones(shape, dtype)


SCALE, ZERO, ZERO_S = np.asarray(0.5, F), np.asarray(1, U8), np.asarray(0, S8)
#: Scale and zero point of an input and of the output.
X_, Y_ = (SCALE, ZERO), (SCALE, ZERO)

BITS_AND_BYTES = {"K": 64, "N": 16, "block_size": 64, "quant_type": 1}
#: The weights of 5 experts with 4 bits for each: of 16 units, and of 32 features.
PACKED = ones(5, 16, 16, dtype=U8), ones(5, 32, 8, dtype=U8)
SWIGLU = {
    "activation_type": "swiglu",
    "swiglu_fusion": 1,
    "activation_alpha": 1.702,
    "activation_beta": 1.0,
    "swiglu_limit": 7.0,
}
Case = tuple[str, list[Any], dict[str, Any], tuple[int, ...], int, int]
#: Operator, inputs (None for one left out), attributes, shape of the first output, multiply-accumulates, further FLOPs.
CASES: list[Case] = [
    # normalization with scale and shift, 7 for each element, and a SiLU, 2
    ("GroupNorm", [ones(2, 5, 6, 8), ones(8), ones(8)], {"groups": 4, "activation": 0}, (2, 5, 6, 8), 0, 480 * 7),
    ("GroupNorm", [ones(2, 5, 6, 8), ones(8), ones(8)], {"groups": 4, "activation": 1}, (2, 5, 6, 8), 0, 480 * 9),
    # and before it the sum with another tensor, and a bias if there is one
    (
        "SkipGroupNorm",
        [ones(2, 5, 6, 8), ones(8), ones(8), ones(2, 8)],
        {"groups": 4, "activation": 0},
        (2, 5, 6, 8),
        0,
        480 * 8,
    ),
    (
        "SkipGroupNorm",
        [ones(2, 5, 6, 8), ones(8), ones(8), ones(2, 5, 6, 8), ones(8)],
        {"groups": 4, "activation": 1},
        (2, 5, 6, 8),
        0,
        480 * (2 + 9),
    ),
    # matrix products
    ("FusedGemm", [ones(2, 3), ones(4, 3), ones(4)], {"transB": 1, "activation": "Relu"}, (2, 4), 24, 8 + 8),
    (
        "FusedGemm",
        [ones(2, 3), ones(3, 4)],
        {"activation": "LeakyRelu", "activation_alpha": 0.1, "alpha": 0.5},
        (2, 4),
        24,
        8 + 2 * 8,
    ),
    ("FusedGemm", [ones(2, 3), ones(3, 4)], {"activation": "Tanh"}, (2, 4), 24, 8),
    ("FusedMatMul", [ones(5, 2, 3), ones(5, 4, 3)], {"transB": 1, "alpha": 0.5}, (5, 2, 4), 5 * 24, 5 * 8),
    ("FusedMatMul", [ones(5, 3, 2), ones(3, 4)], {"transA": 1}, (5, 2, 4), 5 * 24, 0),
    ("FusedMatMul", [ones(2, 5, 3), ones(5, 3, 4)], {"transBatchA": 1}, (5, 2, 4), 5 * 24, 0),
    ("FusedMatMul", [ones(5, 2, 3), ones(4, 5, 3)], {"transBatchB": 1, "transB": 1}, (5, 2, 4), 5 * 24, 0),
    ("DynamicQuantizeMatMul", [ones(2, 5, 3), ones(3, 4, dtype=S8), ones(1)], {}, (2, 5, 4), 10 * 12, 0),
    (
        "DynamicQuantizeMatMul",
        [ones(2, 3), ones(3, 4, dtype=S8), ones(4), ones(4, dtype=S8), ones(4)],
        {},
        (2, 4),
        24,
        8,
    ),
    (
        "MatMulIntegerToFloat",
        [ones(2, 3, dtype=U8), ones(3, 4, dtype=S8), SCALE, SCALE, ZERO, ZERO_S, ones(4)],
        {},
        (2, 4),
        24,
        8,
    ),
    (
        "MatMulNBits",
        [ones(2, 5, 32), ones(16, 1, 16, dtype=U8), ones(16)],
        {"K": 32, "N": 16, "bits": 4, "block_size": 32},
        (2, 5, 16),
        10 * 32 * 16,
        0,
    ),
    (
        "MatMulNBits",
        [ones(2, 64), ones(16, 2, 16, dtype=U8), ones(32), None, None, ones(16)],
        {"K": 64, "N": 16, "bits": 4, "block_size": 32},
        (2, 16),
        2 * 64 * 16,
        2 * 16,
    ),
    ("MatMulBnb4", [ones(2, 64), ones(512, dtype=U8), ones(16)], BITS_AND_BYTES, (2, 16), 2 * 64 * 16, 0),
    (
        "GatherBlockQuantized",  # bytes of two numbers each
        [ones(5, 16, dtype=U8), np.asarray([[0, 1, 2]]), ones(5, 2)],
        {"bits": 4, "block_size": 16, "quantize_axis": 1},
        (1, 3, 32),
        0,
        2 * 96,
    ),
    (
        "QGemm",
        [ones(2, 3, dtype=U8), *X_, ones(4, 3, dtype=S8), SCALE, ZERO_S, ones(4, dtype=np.int32), *Y_],
        {"transB": 1},
        (2, 4),
        24,
        0,
    ),
    # convolutions: an output of 2 x 4 x 6 x 8 elements, each with a filter of 54
    ("FusedConv", [IMAGE, ones(4, 6, 3, 3), ones(4)], {"activation": "Relu"}, (2, 4, 6, 8), 384 * 54, 2 * 384),
    (
        "FusedConv",  # the sum with another tensor as well
        [IMAGE, ones(4, 6, 3, 3), ones(4), ones(2, 4, 6, 8)],
        {"activation": "LeakyRelu", "activation_params": [0.1]},
        (2, 4, 6, 8),
        384 * 54,
        (1 + 1 + 2) * 384,
    ),
    ("NhwcConv", [LAST, ones(4, 6, 3, 3), ones(4)], {}, (2, 6, 8, 4), 384 * 54, 384),
    ("NhwcFusedConv", [LAST, ones(4, 6, 3, 3)], {"activation": "Relu"}, (2, 6, 8, 4), 384 * 54, 384),
    ("NhwcMaxPool", [ones(2, 8, 10, 6, dtype=U8)], {"kernel_shape": [2, 2], "strides": [2, 2]}, (2, 4, 5, 6), 0, 0),
    (
        "QLinearConv",
        [ones(2, 8, 10, 6, dtype=U8), *X_, ones(4, 6, 3, 3, dtype=S8), SCALE, ZERO_S, *Y_],
        {"channels_last": 1},
        (2, 6, 8, 4),
        384 * 54,
        0,
    ),
    # attention: 2 samples, 4 heads, 5 queries of width 3; scale and softmax are 6 operations for a score
    (
        "Attention",
        [ones(2, 5, 12), ones(12, 36), ones(36)],
        {"num_heads": 4},
        (2, 5, 12),
        10 * 12 * 36 + 200 * 6,
        10 * 36 + 200 * 6,
    ),
    (
        "Attention",  # values half as wide as queries and keys
        [ones(2, 5, 12), ones(12, 32), ones(32)],
        {"num_heads": 4, "qkv_hidden_sizes": [12, 12, 8]},
        (2, 5, 8),
        10 * 12 * 32 + 200 * (3 + 2),
        10 * 32 + 200 * 6,
    ),
    (
        "MultiHeadAttention",
        [ones(2, 5, 12), ones(2, 7, 12), ones(2, 7, 12)],
        {"num_heads": 4},
        (2, 5, 12),
        280 * 6,
        280 * 6,
    ),
    (
        "MultiHeadAttention",  # keys and values by heads, a bias for a score
        [ones(2, 5, 12), ones(2, 4, 7, 3), ones(2, 4, 7, 3), None, None, ones(1, 4, 5, 7)],
        {"num_heads": 4},
        (2, 5, 12),
        280 * 6,
        280 * 7,
    ),
    (
        "MultiHeadAttention",  # a mask of the integers 0 and 1 selects keys
        [ones(2, 5, 12), ones(2, 7, 12), ones(2, 7, 12), None, ones(2, 7, dtype=np.int32)],
        {"num_heads": 4},
        (2, 5, 12),
        280 * 6,
        280 * 6,
    ),
    (
        "Attention",  # so does one that is given as lengths
        [ones(2, 5, 12), ones(12, 36), ones(36), np.asarray([5, 4], np.int32)],
        {"num_heads": 4},
        (2, 5, 12),
        10 * 12 * 36 + 200 * 6,
        10 * 36 + 200 * 6,
    ),
    (
        "MultiHeadAttention",  # a bias of each projection
        [ones(2, 5, 12), ones(2, 5, 12), ones(2, 5, 12), ones(36)],
        {"num_heads": 4},
        (2, 5, 12),
        200 * 6,
        200 * 6 + 3 * 120,
    ),
    (
        "MultiHeadAttention",  # keys and values by heads have theirs already: a bias of the queries alone
        [ones(2, 5, 12), ones(2, 4, 7, 3), ones(2, 4, 7, 3), ones(36)],
        {"num_heads": 4},
        (2, 5, 12),
        280 * 6,
        280 * 6 + 120,
    ),
    ("MultiHeadAttention", [ones(2, 5, 4, 3, 3)], {"num_heads": 4}, (2, 5, 12), 200 * 6, 200 * 6),
    (
        "GroupQueryAttention",  # 4 heads of queries of width 8, 2 of keys and values, after 5 positions
        [
            *(ones(2, 1, 32), ones(2, 1, 16), ones(2, 1, 16), ones(2, 2, 5, 8), ones(2, 2, 5, 8)),
            *(np.asarray([5, 5], np.int32), np.asarray(6, np.int32)),
        ],
        {"num_heads": 4, "kv_num_heads": 2},
        (2, 1, 32),
        2 * 4 * 6 * 16,
        2 * 4 * 6 * 6,
    ),
    (
        "GroupQueryAttention",  # the first 3 positions, in memory for 16 that earlier and present keys share
        [
            *(ones(2, 3, 32), ones(2, 3, 16), ones(2, 3, 16), ones(2, 2, 16, 8), ones(2, 2, 16, 8)),
            *(np.asarray([2, 2], np.int32), np.asarray(3, np.int32)),
        ],
        {"num_heads": 4, "kv_num_heads": 2},
        (2, 3, 32),
        2 * 4 * 9 * 16,
        2 * 4 * 9 * 6,
    ),
    (
        "GroupQueryAttention",  # queries, keys and values in one, which are turned: three operations an element
        [
            *(ones(2, 3, 128), None, None, None, None, np.asarray([2, 2], np.int32), np.asarray(3, np.int32)),
            *(ones(8, 8), ones(8, 8)),
        ],
        {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1, "softcap": 2.0},
        (2, 3, 64),
        2 * 4 * 9 * 32,
        2 * 4 * 9 * 9 + 3 * 2 * 3 * 6 * 16,
    ),
    (
        "GroupQueryAttention",  # 5 keys in all, in a cache that has room for 16
        [
            *(ones(2, 1, 32), ones(2, 1, 16), ones(2, 1, 16), ones(2, 2, 16, 8), ones(2, 2, 16, 8)),
            *(np.asarray([4, 4], np.int32), np.asarray(5, np.int32)),
        ],
        {"num_heads": 4, "kv_num_heads": 2},
        (2, 1, 32),
        2 * 4 * 5 * 16,
        2 * 4 * 5 * 6,
    ),
    (
        "QAttention",
        [
            *(ones(2, 5, 12, dtype=U8), ones(12, 36, dtype=S8), ones(36), SCALE, SCALE, None, ZERO, ZERO_S),
        ],
        {"num_heads": 4},
        (2, 5, 12),
        10 * 12 * 36 + 200 * 6,
        10 * 36 + 200 * 6,
    ),
    (
        "RotaryEmbedding",
        [ones(2, 3, 32), np.zeros((2, 3), np.int64), ones(8, 4), ones(8, 4)],
        {},
        (2, 3, 32),
        0,
        3 * 2 * 3 * 32,
    ),
    (
        "RotaryEmbedding",  # half of each of two heads
        [ones(2, 3, 32), np.zeros((2, 3), np.int64), ones(8, 4), ones(8, 4)],
        {"rotary_embedding_dim": 8, "num_heads": 2},
        (2, 3, 32),
        0,
        3 * 2 * 3 * 16,
    ),
    # mixtures of experts: 6 tokens of 4 features, each through 2 of 5 experts of 7 units; the softmax of 5 operations
    # for each token and expert, then 12 networks, whose results are weighted and added up in pairs
    (
        "MoE",
        [X, ones(6, 5), ones(5, 7, 4), None, ones(5, 4, 7)],
        {"k": 2},
        (2, 3, 4),
        12 * 7 * (4 + 4),
        5 * 30 + 12 * 7 + 12 * 4 + 6 * 4,
    ),
    (
        "MoE",  # gate and unit in one product; weights that add up to 1; swiglu as GPT-OSS has it
        [X, ones(6, 5), ones(5, 14, 4), ones(5, 14), ones(5, 4, 7), ones(5, 4)],
        {"k": 2, "normalize_routing_weights": 1, **SWIGLU},
        (2, 3, 4),
        12 * 7 * (8 + 4),
        5 * 30 + (6 + 12) + 12 * (14 + 4) + 8 * 12 * 7 + 12 * 4 + 6 * 4,
    ),
    (
        "MoE",  # the gates have a product of their own
        [X, ones(6, 5), ones(5, 7, 4), None, ones(5, 4, 7), None, ones(5, 7, 4), ones(5, 7)],
        {"k": 2, "activation_type": "silu"},
        (2, 3, 4),
        12 * 7 * (8 + 4),
        5 * 30 + 12 * 7 + 3 * 12 * 7 + 12 * 4 + 6 * 4,
    ),
    (
        "QMoE",  # 6 tokens of 32 features, each through one of 5 experts of 16 units; two weights in a byte
        [ones(6, 32), ones(6, 5), PACKED[0], ones(5, 16), None, PACKED[1], ones(5, 32)],
        {"k": 1, "activation_type": "identity"},
        (6, 32),
        6 * 16 * 64,
        5 * 30 + 6 * 32,
    ),
    (
        "QMoE",  # the weights of the sum are given: no softmax
        [ones(6, 32), ones(6, 5), PACKED[0], ones(5, 16), None, PACKED[1], ones(5, 32), *[None] * 7, ones(6, 5)],
        {"k": 1, "activation_type": "identity"},
        (6, 32),
        6 * 16 * 64,
        6 * 32,
    ),
    # activations
    ("Gelu", [X], {}, (2, 3, 4), 0, 5 * E),
    ("FastGelu", [X], {}, (2, 3, 4), 0, 8 * E),
    ("FastGelu", [X, ones(4)], {}, (2, 3, 4), 0, 9 * E),
    ("BiasGelu", [X, ones(4)], {}, (2, 3, 4), 0, 6 * E),
    ("QuickGelu", [X], {}, (2, 3, 4), 0, 3 * E),
    ("QuickGelu", [X], {"alpha": 1.0}, (2, 3, 4), 0, 2 * E),  # like a Swish: the product with 1 is none
    ("BiasSoftmax", [X, X], {"axis": 2, "is_inner_broadcast": 0}, (2, 3, 4), 0, 6 * E),
    # normalization
    ("SkipLayerNormalization", [X, X, ones(4), ones(4), ones(4)], {}, (2, 3, 4), 0, (2 + 7) * E),
    ("SkipLayerNormalization", [X, X, ones(4)], {}, (2, 3, 4), 0, (1 + 6) * E),
    ("SkipSimplifiedLayerNormalization", [X, X, ones(4)], {}, (2, 3, 4), 0, (1 + 4) * E + 6 * 2),
    ("::SimplifiedLayerNormalization", [X, ones(4)], {"axis": -1}, (2, 3, 4), 0, 4 * E + 6 * 2),
    (
        "EmbedLayerNormalization",
        [
            *(np.zeros((2, 3), np.int32), np.zeros((2, 3), np.int32), ones(7, 4), ones(5, 4), ones(2, 4)),
            *(ones(4), ones(4)),
        ],
        {"_outputs": 2},
        (2, 3, 4),
        0,
        (2 + 7) * E,
    ),
    # quantized integers
    ("QLinearAdd", [Q, *X_, ones(3, 1, dtype=U8), *X_, *Y_], {}, (2, 3, 4), 0, 0),
    ("QLinearMul", [ones(4, dtype=U8), *X_, Q, *X_, *Y_], {}, (2, 3, 4), 0, 0),
    ("QLinearLeakyRelu", [Q, *X_, *Y_], {"alpha": 0.1}, (2, 3, 4), 0, 0),
    ("QLinearSigmoid", [Q, *X_, *Y_], {}, (2, 3, 4), 0, 0),
    ("QLinearSoftmax", [Q, *X_, *Y_], {"axis": -1, "opset": 13}, (2, 3, 4), 0, 0),
    ("QLinearConcat", [*Y_, Q, *X_, Q, *X_], {"axis": 1}, (2, 6, 4), 0, 0),
    ("QLinearGlobalAveragePool", [ones(2, 6, 8, 10, dtype=U8), *X_, *Y_], {}, (2, 6, 1, 1), 0, 0),
    (
        "QLinearGlobalAveragePool",
        [ones(2, 8, 10, 6, dtype=U8), *X_, *Y_],
        {"channels_last": 1},
        (2, 1, 1, 6),
        0,
        0,
    ),
    (
        "QLinearAveragePool",
        [ones(2, 6, 8, 10, dtype=U8), *X_, *Y_],
        {"kernel_shape": [2, 2], "strides": [2, 2]},
        (2, 6, 4, 5),
        0,
        0,
    ),
    ("QuantizeLinear", [X, SCALE, ZERO], {}, (2, 3, 4), 0, 4 * E),
    ("DequantizeLinear", [Q, SCALE, ZERO], {}, (2, 3, 4), 0, 2 * E),
    (
        "DynamicQuantizeLSTM",  # steps 5, samples 2, features 3, units 4
        [
            *(ones(5, 2, 3), ones(1, 3, 16, dtype=S8), ones(1, 4, 16, dtype=S8), None, None, None, None, None),
            *(ones(1), ones(1, dtype=S8), ones(1), ones(1, dtype=S8)),
        ],
        {"hidden_size": 4},
        (5, 1, 2, 4),
        10 * 16 * 7,
        10 * 4 * 13,
    ),
]
#: In the blocked layout, which is that of the machine: what it costs, and no run.
BLOCKED: list[Case] = [
    (
        "Conv",
        [ones(2, 16, 8, 10), ones(32, 16, 3, 3), ones(32), ones(2, 32, 6, 8)],
        {"activation": "Relu"},
        (2, 32, 6, 8),
        2 * 32 * 48 * 144,
        3 * 2 * 32 * 48,
    ),
    ("MaxPool", [ones(2, 16, 8, 10)], {"kernel_shape": [2, 2], "strides": [2, 2]}, (2, 16, 4, 5), 0, 4 * 2 * 16 * 20),
    ("AveragePool", [ones(2, 16, 8, 10)], {"kernel_shape": [3, 3]}, (2, 16, 6, 8), 0, 9 * 2 * 16 * 48),
    ("GlobalAveragePool", [ones(2, 16, 8, 10)], {}, (2, 16, 1, 1), 0, 2 * 16 * 80),
    ("GlobalMaxPool", [ones(2, 16, 8, 10)], {}, (2, 16, 1, 1), 0, 2 * 16 * 80),
    ("Upsample", [ones(2, 16, 4, 5)], {"scales": [1, 1, 2, 2], "mode": "nearest"}, (2, 16, 8, 10), 0, 0),
    ("Upsample", [ones(2, 16, 4, 5)], {"scales": [1, 1, 2, 2], "mode": "linear"}, (2, 16, 8, 10), 0, 7 * 2 * 16 * 80),
    ("ReorderInput", [ones(2, 8, 10, 16)], {"channels_last": 1}, (2, 16, 8, 10), 0, 0),
    ("ReorderInput", [ones(2, 16, 8, 10)], {}, (2, 16, 8, 10), 0, 0),
    ("ReorderOutput", [ones(2, 16, 8, 10)], {"channels": 12}, (2, 12, 8, 10), 0, 0),
    ("ReorderOutput", [ones(2, 16, 8, 10)], {"channels": 12, "channels_last": 1}, (2, 8, 10, 12), 0, 0),
]


def model_and_inputs(case: Case, domain: str) -> tuple[Any, ModelInputs]:
    """Return a model of one operator; what is large is given, what is small and comes after it stands in the file."""
    op, arrays, attributes = case[0].removeprefix("::"), case[1], dict(case[2])
    domain = "" if case[0].startswith("::") else domain
    made = [f"y{index}" for index in range(attributes.pop("_outputs", 1))]
    names = ["" if array is None else f"x{index}" for index, array in enumerate(arrays)]
    first = 2 if op == "QLinearConcat" else 0
    given = {name: array for name, array in zip(names, arrays, strict=True) if name}
    known = {name: array for name, array in given.items() if name != f"x{first}"}
    node = helper.make_node(op, names, made, domain=domain, **attributes)
    model = make_model([node], {f"x{first}": arrays[first]}, known, made, opset=20)
    return model, ModelInputs(arrays[first])


def trace_case(case: Case, domain: str) -> ModelTrace:
    trace = BACKEND.trace(*model_and_inputs(case, domain))
    assert trace.failure is None, trace.failure
    assert trace.missing == ()
    return trace


def identity(case: Case) -> str:
    return case[0].strip(":")


@pytest.mark.parametrize("case", CASES, ids=map(identity, CASES))
def test_an_operator_of_the_runtime_costs_its_closed_form(case: Case) -> None:
    """Nothing of its shapes stands in the file."""
    *_, shape, macs, further = case
    trace = trace_case(case, "com.microsoft")
    assert trace.operators[0].outputs[0].shape == shape
    assert (trace.macs, trace.flops) == (macs, 2 * macs + further)


@pytest.mark.parametrize("case", BLOCKED, ids=map(identity, BLOCKED))
def test_an_operator_in_the_blocked_layout_costs_its_closed_form(case: Case) -> None:
    *_, shape, macs, further = case
    trace = trace_case(case, "com.microsoft.nchwc")
    assert trace.operators[0].outputs[0].shape == shape
    assert (trace.macs, trace.flops) == (macs, 2 * macs + further)


#: Operators that the build for CPUs defines and has no kernel for these inputs of.
WITHOUT_KERNEL = {"NhwcConv", "NhwcFusedConv", "BiasSoftmax", "GroupNorm", "SkipGroupNorm"}
#: Operators that onnxruntime 1.22 has in an older form, without some of these inputs.
NEWER_FORM = {"FusedConv", "NhwcFusedConv", "GroupQueryAttention"}


@pytest.mark.parametrize("case", CASES, ids=map(identity, CASES))
def test_the_runtime_makes_results_of_these_shapes_and_dtypes(case: Case) -> None:
    """onnxruntime runs the operator: the shapes above are no invention."""
    pytest.importorskip("onnxruntime")
    model, inputs = model_and_inputs(case, "com.microsoft")
    try:
        with BACKEND.run(model, inputs) as run:
            outputs = run()
    except Exception as error:
        if ("NOT_IMPLEMENTED" in str(error) and identity(case) in WITHOUT_KERNEL) or "not implemented for CPU" in str(
            error
        ):
            pytest.skip(f"no kernel: {identity(case)}")
        if as_numbers(version("onnxruntime")) < (1, 23) and identity(case) in NEWER_FORM:
            pytest.skip(f"an older form: {identity(case)}")
        raise
    first = next(iter(outputs.values())) if isinstance(outputs, dict) else outputs
    info = trace_case(case, "com.microsoft").operators[0].outputs[0]
    assert (first.shape, first.dtype.name) == (info.shape, info.dtype)


@pytest.mark.parametrize(
    ("bits", "dtype", "columns"), [(4, np.uint8, 16), (2, np.uint8, 8), (8, np.uint8, 32), (4, UINT4, 32)]
)
def test_a_table_of_few_bits_has_as_many_parameters_as_numbers(bits: int, dtype: Any, columns: int) -> None:
    """Five rows of 32 numbers: bytes hold 8, 4 or 2 bits of several, and onnx's own narrow type one each."""
    attributes: dict[str, Any] = {"bits": bits, "block_size": 16, "quantize_axis": 1}
    node = helper.make_node("GatherBlockQuantized", ["t", "x", "s"], ["y"], domain="com.microsoft", **attributes)
    table = np.ones((5, columns), np.uint8).astype(dtype)
    model = make_model([node], {"x": np.ones((1, 3), np.int64)}, {"t": table, "s": ones(5, 2)}, ["y"], opset=21)
    report = profile(model, np.ones((1, 3), np.int64), metrics=["total_params", "model_size"])
    assert (report["total_params"], report["model_size"]) == (5 * 32, 5 * 32 * bits // 8 + 5 * 2 * 4)


@pytest.mark.parametrize(("attributes", "turned"), [({}, 3), ({"rotary_embedding_dim": 2}, 2)])
@pytest.mark.parametrize("op", ["Attention", "QAttention"])
def test_queries_and_keys_that_attention_turns(op: str, attributes: dict[str, Any], turned: int) -> None:
    """Ten positions of 4 heads, in queries and keys; three operations for each element (CUDA alone has a kernel)."""
    case = next(case for case in CASES if case[0] == op)
    model, inputs = model_and_inputs((*case[:2], {**case[2], "do_rotary": 1, **attributes}, *case[3:]), "com.microsoft")
    further = case[5] + 10 * 4 * 2 * turned * 3
    assert BACKEND.trace(model, inputs).flops == 2 * case[4] + further


def share_memory(op: str) -> tuple[Any, dict[str, Any], int]:
    """Return a node with one new position behind others in memory for 16, its inputs, and the products beside scores.

    There are 2 samples of 2 heads of width 4.
    """
    if op == "Attention":
        names = ["x", "w", "b", "", "past", "", "length"]
        node = helper.make_node(op, names, ["y", "k"], domain="com.microsoft", num_heads=2, past_present_share_buffer=1)
        inputs = {"x": ones(2, 1, 8), "w": ones(8, 24), "b": ones(24), "past": ones(2, 2, 2, 16, 4)}
        return node, inputs, 2 * 8 * 24
    names = ["x", "x", "x", "", "", "", "keys", "values", "length"]
    node = helper.make_node(op, names, ["y", "k", "v"], domain="com.microsoft", num_heads=2)
    return node, {"x": ones(2, 1, 8), "keys": ones(2, 2, 16, 4), "values": ones(2, 2, 16, 4)}, 0


@pytest.mark.parametrize(("is_known", "keys"), [(True, 5 + 1), (False, 16)])
@pytest.mark.parametrize("op", ["Attention", "MultiHeadAttention"])
def test_attention_whose_keys_have_room_counts_those_that_are_there(op: str, is_known: bool, keys: int) -> None:
    """Where their number is not known before the model runs, they are as many as the memory holds."""
    node, inputs, projections = share_memory(op)
    length = {"length": np.asarray([5], np.int32)}
    model = make_model([node], inputs if is_known else {**inputs, **length}, length if is_known else {}, node.output)
    trace = BACKEND.trace(model, make_unknown(**inputs) if is_known else make_unknown(**inputs, **length))
    assert trace.macs == projections + 2 * 2 * keys * (4 + 4)
    held = next(value.shape for name, value in inputs.items() if name in ("past", "keys"))
    assert [output.shape for output in trace.operators[0].outputs] == [(2, 1, 8), *[held] * (len(node.output) - 1)]


def test_keys_with_room_have_the_shape_that_the_runtime_makes() -> None:
    """On the CPU, MultiHeadAttention has a kernel for it."""
    pytest.importorskip("onnxruntime")
    node, inputs, _ = share_memory("MultiHeadAttention")
    model = make_model([node], inputs, {"length": np.asarray([5], np.int32)}, node.output)
    with BACKEND.run(model, ModelInputs(**inputs)) as run:
        outputs = run()
    assert [outputs[name].shape for name in ("k", "v")] == [(2, 2, 16, 4)] * 2


#: The activations that the runtime has a kernel for, after a convolution or a product: operations for each element.
FUSED = {
    "FusedConv": {"Clip": 2, "HardSigmoid": 4, "HardSwish": 5, "LeakyRelu": 2, "Relu": 1, "Sigmoid": 1, "Tanh": 1},
    "FusedGemm": {
        "Celu": 4,
        "Elu": 4,
        "HardSigmoid": 4,
        "LeakyRelu": 2,
        "ParametricSoftplus": 5,
        "Relu": 1,
        "ScaledTanh": 3,
        "Selu": 4,
        "Sigmoid": 1,
        "Softplus": 3,
        "Softsign": 3,
        "Tanh": 1,
        "ThresholdedRelu": 1,
    },
}


@pytest.mark.parametrize(("op", "name"), [(op, name) for op, names in FUSED.items() for name in names])
def test_activations_that_the_runtime_fuses_are_counted(op: str, name: str) -> None:
    """The operations of an activation are those of the same activation in a node of its own."""
    inputs = [IMAGE, ones(4, 6, 1, 1)] if op == "FusedConv" else [ones(2, 3), ones(3, 4)]
    macs, elements = (640 * 6, 640) if op == "FusedConv" else (24, 8)
    case: Case = (op, inputs, {"activation": name}, (), 0, 0)
    trace = BACKEND.trace(*model_and_inputs(case, "com.microsoft"))
    assert trace.missing == ()
    assert (trace.macs, trace.flops) == (macs, 2 * macs + FUSED[op][name] * elements)


def test_an_activation_that_is_not_known_is_named() -> None:
    case: Case = ("FusedConv", [IMAGE, ones(4, 6, 3, 3)], {"activation": "Unheard"}, (), 0, 0)
    assert BACKEND.trace(*model_and_inputs(case, "com.microsoft")).missing == ("com.microsoft::FusedConv (1 call)",)


@pytest.mark.parametrize("op", ["FusedConv", "Attention", "MultiHeadAttention", "QGemm", "EmbedLayerNormalization"])
def test_shapes_that_do_not_fit_are_named_and_no_error(op: str) -> None:
    """A damaged file: what a rule cannot tell is unknown, and the count a lower bound."""
    trace = BACKEND.trace(*model_and_inputs((op, [ones(3)], {}, (), 0, 0), "com.microsoft"))
    assert trace.failure is not None or trace.missing != ()


@pytest.mark.parametrize(
    "case",
    [
        ("FusedMatMul", [ones(2, 3), ones(4, 5)], {}, (), 0, 0),
        ("FusedConv", [ones(1, 3, 3), ones(8, 3, 5, 5)], {}, (), 0, 0),
        ("NhwcMaxPool", [ones(1, 8, 8, 3, dtype=S8)], {}, (), 0, 0),
    ],
    ids=identity,
)
def test_inputs_that_do_not_fit_an_operator_of_the_runtime_name_its_node(case: Case) -> None:
    """onnx's own error escaped: "the model raised InferenceError", without the operator."""
    failure = BACKEND.trace(*model_and_inputs(case, "com.microsoft")).failure
    shapes = ", ".join(str(array.shape) for array in case[1])
    assert f"the operator com.microsoft::{case[0]} of the node " in str(failure)
    assert f"does not fit inputs of the shapes {shapes}: " in str(failure)


QUERIES = ones(1, 2, 5, 4)


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes", "is_masked"),
    [
        ("Attention", [QUERIES] * 3, {}, False),
        ("Attention", [QUERIES] * 3, {"is_causal": 1}, True),
        ("Attention", [*[QUERIES] * 3, ones(5, 5)], {}, True),
        ("com.microsoft::MultiHeadAttention", [ones(1, 5, 8)] * 3, {"num_heads": 2}, False),
        ("com.microsoft::MultiHeadAttention", [ones(1, 5, 8)] * 3, {"num_heads": 2, "unidirectional": 1}, True),
        ("com.microsoft::GroupQueryAttention", [ones(1, 5, 8)] * 3, {"num_heads": 2, "kv_num_heads": 2}, True),
    ],
)
def test_masks_of_attention_are_known_as_such(
    operator: str, inputs: list[Any], attributes: dict[str, Any], is_masked: bool
) -> None:
    """Two heads, 5 x 5 scores, 4 MACs for keys and 4 for values: in full; an upper bound where a mask hides some."""
    domain, _, name = operator.rpartition("::")
    names = [f"x{index}" for index in range(len(inputs))]
    node = helper.make_node(name, names, ["y"], domain=domain, **attributes)
    model = make_model([node], dict(zip(names, inputs, strict=True)), opset=23)
    given = dict(zip(names, inputs, strict=True))
    status = profile(model, ModelInputs(**given), metrics=["attended_macs"]).status("attended_macs")
    assert (status.value, status.sign) == (2 * 25 * 8, "\u2264 " if is_masked else "")


def test_a_product_of_integers_without_a_last_zero_point_makes_floats() -> None:
    """3 x 5 floats of four bytes, and an input of 3 x 4 bytes."""
    weights = {"s": SCALE, "z": ZERO, "w": ones(5, 4, dtype=U8)}
    node = helper.make_node("QGemm", ["x", "s", "z", "w", "s", "z"], ["y"], domain="com.microsoft", transB=1)
    x = ones(3, 4, dtype=U8)
    trace = BACKEND.trace(make_model([node], {"x": x}, weights), ModelInputs(x=x))
    assert [(info.shape, info.dtype) for info in trace.operators[0].outputs] == [((3, 5), "float32")]
    assert max(trace.memory.live_bytes) == 12 + 60


def test_a_cache_that_has_room_does_not_grow() -> None:
    """The cache has 2 x 2 x 16 x 8 numbers of a byte each before the step and after it."""
    arrays = {
        "q": ones(2, 1, 32),
        "k": ones(2, 1, 16),
        "v": ones(2, 1, 16),
        "keys": ones(2, 2, 16, 8, dtype=S8),
        "values": ones(2, 2, 16, 8, dtype=S8),
    }
    weights = {"before": np.asarray([4, 4], np.int32), "all": np.asarray(5, np.int32)}
    attributes: dict[str, Any] = {
        "num_heads": 4,
        "kv_num_heads": 2,
        "k_quant_type": "PER_TENSOR",
        "v_quant_type": "PER_TENSOR",
    }
    names = ["y", "new_keys", "new_values"]
    node = helper.make_node("GroupQueryAttention", [*arrays, *weights], names, domain="com.microsoft", **attributes)
    trace = BACKEND.trace(make_model([node], arrays, weights, names), ModelInputs(**arrays))
    assert [info.shape for info in trace.operators[0].outputs] == [(2, 1, 32), (2, 2, 16, 8), (2, 2, 16, 8)]
    assert [info.dtype for info in trace.operators[0].outputs] == ["float32", "int8", "int8"]


def test_rotary_attention_turns_queries_and_keys() -> None:
    """Three operations for each of 2 x 4 positions and 16 + 16 elements, beside attention without it."""
    arrays, weights = {"x": ones(2, 4, 16)}, {"w": ones(16, 48), "b": ones(48)}
    flops = []
    variants: list[dict[str, Any]] = [{}, {"do_rotary": 1}, {"do_rotary": 1, "rotary_embedding_dim": 4}]
    for attributes in variants:
        node = helper.make_node("Attention", ["x", "w", "b"], ["y"], domain="com.microsoft", num_heads=2, **attributes)
        trace = BACKEND.trace(make_model([node], arrays, weights), ModelInputs(**arrays))
        flops.append(sum(operator.flops for operator in trace.operators))
    assert [count - flops[0] for count in flops] == [0, 3 * 8 * 32, 3 * 8 * 2 * 2 * 4]


def test_queries_and_keys_are_normalized_where_attention_has_weights_for_it() -> None:
    """4 x 8 elements of queries and 2 x 8 of keys at each of 3 positions, as an RMSNormalization of them would be."""
    arrays = {"q": ones(1, 3, 32), "k": ones(1, 3, 16), "v": ones(1, 3, 16)}
    weights = {"before": np.asarray([2], np.int32), "all": np.asarray(3, np.int32), "w": ones(8)}
    given = ["q", "k", "v", "", "", "before", "all", *[""] * 7, "w", "w"]
    flops = []
    for names in (given[:7], given):
        node = helper.make_node(
            "GroupQueryAttention", names, ["y"], domain="com.microsoft", num_heads=4, kv_num_heads=2
        )
        trace = BACKEND.trace(make_model([node], arrays, weights), ModelInputs(**arrays))
        flops.append(sum(operator.flops for operator in trace.operators))
    norm = helper.make_node("RMSNormalization", ["x", "w"], ["y"])
    heads = ones(1, 3, 6, 8)
    alone = BACKEND.trace(make_model([norm], {"x": heads}, {"w": ones(8)}, opset=23), ModelInputs(x=heads))
    assert flops[1] - flops[0] == sum(operator.flops for operator in alone.operators) > 0
