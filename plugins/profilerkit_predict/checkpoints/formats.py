"""The formats of weights: bits of an element, and the scales that groups of elements share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from profilerkit.errors import ArgumentError, by_likeness

from .ggml_types import GGML_TYPES

__all__ = ["WEIGHT_FORMATS", "WeightFormat", "WeightKind", "list_product_dtypes", "make_grouped", "weight_format"]


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


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """How weights are stored.

    Attributes:
        name: Its name: "int4".
        bits: Bits of an element.
        group: How many elements share a scale; 0 for one scale a matrix, which is not counted.
        scale_bits: Bits of a scale, with its zero point.
        kinds: The kinds of weights that are stored so; the others stay as they are.
    """

    name: str
    bits: int
    group: int = 0
    scale_bits: int = 16
    kinds: tuple[WeightKind, ...] = (WeightKind.MATRIX, WeightKind.EXPERTS)

    def count_bytes(self, elements: int) -> int:
        """Return the bytes of so many elements, with their scales.

        >>> WeightFormat("int4", 4, 128).count_bytes(1024)
        528
        """
        scales = -(-elements // self.group) if self.group else 0
        return -(-elements * self.bits // 8) + -(-scales * self.scale_bits // 8)


def make_grouped(name: str, bits: int, group: int, scale_bits: int) -> WeightFormat:
    """Return a format whose groups share a scale; groups of whole rows (-1) have one that is not counted."""
    return WeightFormat(name, bits, max(group, 0), scale_bits if group > 0 else 0)


#: The kinds of weights that a GGUF file has in blocks.
_IN_BLOCKS = (WeightKind.MATRIX, WeightKind.EXPERTS, WeightKind.HEAD, WeightKind.EMBEDDING)

#: The formats of ``weights=``. Of the first ones only matrices of products and experts change; of the blocks of GGUF
#: files tables and heads too. Norms stay as they are.
WEIGHT_FORMATS: Mapping[str, WeightFormat] = {
    form.name: form
    for form in (
        WeightFormat("float32", 32),
        WeightFormat("bfloat16", 16),
        WeightFormat("float16", 16),
        WeightFormat("fp8", 8),
        WeightFormat("mxfp8", 8, 32, 8),
        WeightFormat("int8", 8),
        WeightFormat("int4", 4, 128),
        WeightFormat("mxfp4", 4, 32, 8),
        WeightFormat("nf4", 4, 64),
        WeightFormat("nvfp4", 4, 16, 8),
        *(
            WeightFormat(block.name, 0, block.elements, 8 * block.bytes, _IN_BLOCKS)
            for block in GGML_TYPES.values()
            if block.elements > 1
        ),
    )
}
_SHORT = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "float8": "fp8"}


#: The options that take a format, and what is stored in it.
_OPTIONS = {"weights": "weights", "cache_dtype": "the cache"}


def weight_format(name: str, option: str = "weights") -> WeightFormat:
    """Return a format by its name; raises `ArgumentError` for an unknown one of an option, with the nearest."""
    full_name = _SHORT.get(name, name)
    if full_name not in WEIGHT_FORMATS:
        raise ArgumentError(
            f"{option}={name!r} is no format of {_OPTIONS[option]}; there are, nearest first: "
            f"{', '.join(by_likeness(str(name), WEIGHT_FORMATS))}"
        )
    return WEIGHT_FORMATS[full_name]


#: In what an engine may multiply weights of a format, besides the dtype of the activations.
_PRODUCTS = {
    "fp8": ("float8",),
    "int8": ("int8",),
    "mxfp4": ("float4", "float8"),
    "mxfp8": ("float8",),
    "nvfp4": ("float4", "float8"),
}


def list_product_dtypes(name: str) -> tuple[str, ...]:
    """Return the dtypes in which an engine may multiply weights of a format, besides that of the activations.

    Weights of 8 bits may be multiplied with activations of 8 bits, and those of microscaling formats of 4 bits by
    devices that do so. The blocks of GGUF are multiplied as integers of 8 bits. Other weights of 4 bits are unpacked to
    the dtype of the activations.
    """
    if name.lower() in _PRODUCTS:
        return _PRODUCTS[name.lower()]
    return ("int8",) if name.startswith(("Q", "IQ", "TQ")) else ()
