"""The dtype that a product runs in: that of what it multiplies, which may be narrower than what it writes."""

from __future__ import annotations

from collections.abc import Sequence

from ..trace.dtypes import element_bytes

__all__ = ["product_dtype"]


def product_dtype(operands: Sequence[str], output: str) -> str | None:
    """Return the dtype of what is multiplied if that is narrower than what is written; otherwise None.

    Products of 8-bit floats write bfloat16, and products of 8-bit integers may write floats. With two dtypes the wider
    counts: an engine unpacks narrow weights before it multiplies them.

    >>> product_dtype(["float8_e4m3fn", "float8_e4m3fn"], "bfloat16"), product_dtype(["uint8", "int8"], "float32")
    ('float8_e4m3fn', 'int8')
    >>> product_dtype(["float32", "int8"], "float32"), product_dtype(["int8", "int8"], "int32")
    (None, None)
    """
    multiplied = list(operands[:2])
    if len(multiplied) < 2 or not output.startswith(("float", "bfloat")):
        return None
    if all(dtype in ("int8", "uint8") for dtype in multiplied):
        return "int8"
    if not all(dtype.startswith(("float", "bfloat")) for dtype in multiplied):
        return None
    widest = max(multiplied, key=element_bytes)
    return widest if element_bytes(widest) < element_bytes(output) else None
