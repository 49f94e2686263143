"""The types of tensors in GGUF files: how many elements a block has, and how many bytes, by ggml-common.h."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["GGML_TYPES", "GgmlType"]


@dataclass(frozen=True, slots=True)
class GgmlType:
    """A type of tensors.

    Attributes:
        name: Its name: "Q4_K"; of plain numbers that of their dtype: "bfloat16".
        elements: Elements of a block.
        bytes: Bytes of a block, with its scales.
    """

    name: str
    elements: int
    bytes: int


#: The types by their numbers. Of those that are missing, files were never or are no longer written.
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
