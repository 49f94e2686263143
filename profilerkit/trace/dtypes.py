"""The dtypes of a trace, by the names that backends give them: their sizes, and the dtypes of products."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["element_bytes", "product_dtype"]


def element_bytes(dtype: str) -> float:
    """Return the bytes of one element of a dtype, by the bits in its name: the first number.

    >>> element_bytes("bfloat16"), element_bytes("float8_e4m3fn"), element_bytes("bool"), element_bytes("quint4x2")
    (2.0, 1.0, 1.0, 0.5)
    """
    bits = re.search(r"\d+", dtype)
    return int(bits[0]) / 8 if bits else 1.0


def product_dtype(operands: Sequence[str], output: str) -> str | None:
    """Return the dtype of the factors of a product if it is narrower than the dtype of the result; otherwise None.

    Products of 8-bit floats write bfloat16, and products of 8-bit integers write 32-bit integers or floats. With two
    dtypes the wider counts: an engine unpacks narrow weights before it multiplies them.

    >>> product_dtype(["float8_e4m3fn", "float8_e4m3fn"], "bfloat16"), product_dtype(["uint8", "int8"], "float32")
    ('float8_e4m3fn', 'int8')
    >>> product_dtype(["int8", "int8"], "int32"), product_dtype(["int64", "int64"], "int64")
    ('int8', None)
    >>> product_dtype(["float32", "int8"], "float32") is None
    True
    """
    multiplied = list(operands[:2])
    if len(multiplied) < 2 or output in multiplied:
        return None
    if all(dtype in ("int8", "uint8") for dtype in multiplied):
        return "int8"
    if not all(dtype.startswith(("float", "bfloat")) for dtype in (*multiplied, output)):
        return None
    widest = max(multiplied, key=element_bytes)
    return widest if element_bytes(widest) < element_bytes(output) else None
