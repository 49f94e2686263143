"""The dtypes of a trace, by the names that backends give them."""

from __future__ import annotations

__all__ = ["element_bytes"]


def element_bytes(dtype: str) -> float:
    """Return the bytes of one element of a dtype, by the bits in its name.

    >>> element_bytes("bfloat16"), element_bytes("float8_e4m3fn"), element_bytes("bool"), element_bytes("int4")
    (2.0, 1.0, 1.0, 0.5)
    """
    digits = "".join(character if character.isdigit() else " " for character in dtype.partition("_")[0]).split()
    return int(digits[-1]) / 8 if digits else 1.0
