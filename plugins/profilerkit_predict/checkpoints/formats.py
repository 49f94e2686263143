"""The formats of weights: bits of an element, the scales that groups of elements share, and how they are multiplied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from profilerkit.errors import ArgumentError, by_likeness

from .ggml_types import GGML_TYPES

__all__ = [
    "MULTIPLIED",
    "MULTIPLIED_OR_LOOKED_UP",
    "WEIGHT_FORMATS",
    "WeightFormat",
    "WeightKind",
    "find_weight_format",
    "list_product_dtypes",
]


class WeightKind(StrEnum):
    """What weights are for."""

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


#: The kinds of weights that most methods convert, and those of the methods that convert tables and the head too.
MULTIPLIED = (WeightKind.MATRIX, WeightKind.EXPERTS)
MULTIPLIED_OR_LOOKED_UP = (*MULTIPLIED, WeightKind.EMBEDDING, WeightKind.HEAD)


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """How weights are stored: some bits for each element, and others that a group of elements shares.

    Attributes:
        name: Its name: "int4".
        bits: Bits of an element. 0 in GGUF, whose blocks mix elements and scales: a block's bits are all shared.
        group: How many elements share a scale; 0 for one scale a matrix, which is not counted.
        scale_bits: The bits that a group shares: a scale with its zero point, or a whole block of GGUF.
        kinds: The kinds of weights that are stored so; the others stay as they are.
    """

    name: str
    bits: int
    group: int = 0
    scale_bits: int = 16
    kinds: tuple[WeightKind, ...] = MULTIPLIED

    def count_bytes(self, elements: int) -> int:
        """Return the bytes of so many elements, with their scales.

        >>> WeightFormat("int4", 4, 128).count_bytes(1024)
        528
        """
        groups = _divide_up(elements, self.group) if self.group else 0
        return _divide_up(elements * self.bits, 8) + _divide_up(groups * self.scale_bits, 8)


def _divide_up(total: int, size: int) -> int:
    """Return how many parts of a size hold the total, the last one perhaps in part."""
    return -(-total // size)


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
        WeightFormat("nf4", 4, group=64),
        WeightFormat("nvfp4", 4, group=16, scale_bits=8),
        *(WeightFormat(block.name, 0, block.elements, 8 * block.bytes, MULTIPLIED_OR_LOOKED_UP) for block in _BLOCKS),
    )
}
_OTHER_NAMES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "float8": "fp8"}


def find_weight_format(name: str, option: str = "weights", stored: str = "weights") -> WeightFormat:
    """Return a format by its name.

    Raises `ArgumentError` for an unknown one, with those that there are for what the option stores, nearest first.
    """
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
    # llama.cpp rounds activations to 8-bit integers; to 4-bit floats for these blocks of such, on NVIDIA Blackwell:
    # https://github.com/ggml-org/llama.cpp/blob/master/ggml/src/ggml-cuda/mmq.cu (ggml_cuda_mmq_get_prec_src1)
    **{block.name: ("int8",) for block in _BLOCKS},
    "MXFP4": ("float4", "int8"),
    "NVFP4": ("float4", "int8"),
}


def list_product_dtypes(name: str) -> tuple[str, ...]:
    """Return the dtypes in which an engine may multiply weights of a format, the fastest first.

    The dtype of the activations is left out: an engine can unpack weights of any format to it, as it must those of
    formats for which this returns nothing, such as "int4".
    """
    return _PRODUCT_DTYPES.get(name, ())
