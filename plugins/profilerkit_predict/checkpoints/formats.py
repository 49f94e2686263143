"""The formats of weights: bits of an element, the scales that groups of elements share, and how they are multiplied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from profilerkit.errors import ArgumentError, by_likeness


class WeightKind(StrEnum):
    """The purpose of weights."""

    #: Products with each token.
    MATRIX = "matrix"
    #: Products with the tokens that are sent to them.
    EXPERTS = "experts"
    #: Tables of which rows are read.
    EMBEDDING = "embedding"
    #: The product that makes logits.
    HEAD = "head"
    #: Norms, biases, buffers.
    OTHER = "other"


#: The kinds of weights that most methods convert, and the kinds for methods that convert tables and the head too.
MULTIPLIED = (WeightKind.MATRIX, WeightKind.EXPERTS)
MULTIPLIED_OR_LOOKED_UP = (*MULTIPLIED, WeightKind.EMBEDDING, WeightKind.HEAD)


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """How weights are stored: some bits for each element, and others that a group of elements shares."""

    #: Its name: "int4".
    name: str
    #: Bits of an element. 0 in GGUF, whose blocks mix elements and scales: a block's bits are all shared.
    bits: int
    #: How many elements share a scale; 0 for one scale a matrix, which is not counted.
    group: int = 0
    #: The bits that a group shares: a scale with its zero point, or a whole block of GGUF.
    scale_bits: int = 16
    #: The kinds of weights that are stored so; the others stay as they are.
    kinds: tuple[WeightKind, ...] = MULTIPLIED

    def count_bytes(self, elements: int) -> int:
        """Return the bytes of so many elements, with their scales.

        >>> WeightFormat("int4", 4, 128).count_bytes(1024)
        528
        """
        groups = -(-elements // self.group) if self.group else 0  # rounded up, like both numbers of bytes
        return -(-elements * self.bits // 8) - (-groups * self.scale_bits // 8)


@dataclass(frozen=True, slots=True)
class GgmlType:
    """A type of tensors in GGUF files, by ggml-common.h."""

    #: Its name: "Q4_K"; for plain numbers the name of their dtype: "bfloat16".
    name: str
    elements: int
    #: Bytes of a block, with its scales.
    bytes: int


#: The types by their numbers. No program writes files of the missing types any more, or none ever did.
GGML_TYPES: dict[int, GgmlType] = {
    0: GgmlType("float32", 1, 4),
    1: GgmlType("float16", 1, 2),
    2: GgmlType("Q4_0", 32, 2 + 16),
    3: GgmlType("Q4_1", 32, 2 + 2 + 16),
    6: GgmlType("Q5_0", 32, 2 + 4 + 16),
    7: GgmlType("Q5_1", 32, 2 + 2 + 4 + 16),
    8: GgmlType("Q8_0", 32, 2 + 32),
    10: GgmlType("Q2_K", 256, 2 + 2 + 16 + 64),
    11: GgmlType("Q3_K", 256, 2 + 32 + 64 + 12),
    12: GgmlType("Q4_K", 256, 2 + 2 + 12 + 128),
    13: GgmlType("Q5_K", 256, 2 + 2 + 12 + 32 + 128),
    14: GgmlType("Q6_K", 256, 2 + 16 + 64 + 128),
    15: GgmlType("Q8_K", 256, 4 + 256 + 32),
    16: GgmlType("IQ2_XXS", 256, 2 + 64),
    17: GgmlType("IQ2_XS", 256, 2 + 64 + 8),
    18: GgmlType("IQ3_XXS", 256, 2 + 96),
    19: GgmlType("IQ1_S", 256, 2 + 32 + 16),
    20: GgmlType("IQ4_NL", 32, 2 + 16),
    21: GgmlType("IQ3_S", 256, 2 + 64 + 8 + 32 + 4),
    22: GgmlType("IQ2_S", 256, 2 + 64 + 8 + 8),
    23: GgmlType("IQ4_XS", 256, 2 + 2 + 4 + 128),
    24: GgmlType("int8", 1, 1),
    25: GgmlType("int16", 1, 2),
    26: GgmlType("int32", 1, 4),
    27: GgmlType("int64", 1, 8),
    28: GgmlType("float64", 1, 8),
    29: GgmlType("IQ1_M", 256, 32 + 16 + 8),
    30: GgmlType("bfloat16", 1, 2),
    34: GgmlType("TQ1_0", 256, 2 + 48 + 4),
    35: GgmlType("TQ2_0", 256, 2 + 64),
    39: GgmlType("MXFP4", 32, 1 + 16),
    40: GgmlType("NVFP4", 64, 4 + 32),
    41: GgmlType("Q1_0", 128, 2 + 16),
}
_BLOCKS = tuple(block for block in GGML_TYPES.values() if block.elements > 1)

#: The formats of ``weights=``, by name.
WEIGHT_FORMATS: Mapping[str, WeightFormat] = {
    form.name: form
    for form in (
        WeightFormat("float32", 32),
        WeightFormat("bfloat16", 16),
        WeightFormat("float16", 16),
        WeightFormat("fp8", 8),
        WeightFormat("mxfp8", 8, group=32, scale_bits=8),
        WeightFormat("int8", 8),
        WeightFormat("int4", 4, group=128),
        WeightFormat("mxfp4", 4, group=32, scale_bits=8),
        WeightFormat("nf4", 4, group=64, scale_bits=32),  # as bitsandbytes stores it without double quantization
        WeightFormat("nvfp4", 4, group=16, scale_bits=8),
        *(WeightFormat(block.name, 0, block.elements, 8 * block.bytes, MULTIPLIED_OR_LOOKED_UP) for block in _BLOCKS),
    )
}
_OTHER_NAMES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "float8": "fp8"}


def find_weight_format(value: Any, option: str = "weights", stored: str = "weights") -> WeightFormat:
    """Return a format by its name.

    Raises `ArgumentError` for an unknown format, with the formats that the option knows, nearest first.
    """
    name = str(value)
    form = WEIGHT_FORMATS.get(_OTHER_NAMES.get(name, name))
    if form is None:
        nearest = ", ".join(by_likeness(name, WEIGHT_FORMATS))
        raise ArgumentError(f"{option}={name!r} is no format of {stored}; there are, nearest first: {nearest}")
    return form


#: By format, the dtypes in which devices that have them multiply weights and activations, the fastest first.
_PRODUCT_DTYPES: Mapping[str, tuple[str, ...]] = {
    "fp8": ("float8",),
    "int8": ("int8",),
    "mxfp4": ("float4", "float8"),
    "mxfp8": ("float8",),
    "nvfp4": ("float4", "float8"),
    # llama.cpp rounds activations to 8-bit integers; on NVIDIA Blackwell, for blocks of 4-bit floats, to 4-bit floats:
    # https://github.com/ggml-org/llama.cpp/blob/master/ggml/src/ggml-cuda/mmq.cu (ggml_cuda_mmq_get_prec_src1)
    **{block.name: ("int8",) for block in _BLOCKS},
    "MXFP4": ("float4", "int8"),
    "NVFP4": ("float4", "int8"),
}


def list_product_dtypes(name: str) -> tuple[str, ...]:
    """Return the dtypes in which an engine may multiply weights of a format, the fastest first.

    The dtype of the activations is left out: an engine can unpack weights of any format to it. For formats without a
    dtype here, such as "int4", it must.
    """
    return _PRODUCT_DTYPES.get(name, ())
