"""Shapes as text, on the command line and in plans: ``3,224,224``, or with a name and dtype ``ids=128:int64``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ..error_text import shown
from ..errors import ArgumentError
from .checks import ONE_BATCH_SIZE

__all__ = ["shapes_of_text"]


def shapes_of_text(texts: Iterable[str]) -> Any:
    """Return ``input_shape``, of one sample, for the texts of one or several inputs; None without any.

    >>> shapes_of_text(["3,32,32"]), shapes_of_text(["ids=128:int64", "mask=128"])
    ([((3, 32, 32), 'float32')], {'ids': ((128,), 'int64'), 'mask': ((128,), 'float32')})

    Raises `ArgumentError` for a text that is no shape, and if only some of the inputs have names.
    """
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for text in texts:
        name, _, rest = text.rpartition("=")
        sizes, _, dtype = rest.partition(":")
        try:
            shape = _read_sizes(sizes)
        except ValueError:
            raise ArgumentError(f"{shown(text)} is no shape; {_suggest_shape(text)}") from None
        if name.strip():
            named[name.strip()] = (shape, dtype.strip() or "float32")
        else:
            positional.append((shape, dtype.strip() or "float32"))
    if positional and named:
        raise ArgumentError("name all inputs or none of them")
    return named or positional or None


def _read_sizes(sizes: str) -> tuple[int, ...]:
    """Return the sizes of one sample; of "()", which is one number, none. Raises ValueError for other texts."""
    if sizes.strip() == "()":
        return ()
    return tuple(ONE_BATCH_SIZE("batch_size", int(size)) for size in sizes.split(","))


def _suggest_shape(text: str) -> str:
    """Return what to give instead of a text: the same sizes as a shape, where it is one in another spelling."""
    sizes = re.findall(r"\d+", text)
    if not sizes or not re.fullmatch(r"[\s(\[]*\d+([\s,;xX*]+\d+)*[\s,)\]]*", text) or "0" in sizes:
        return "give 3,224,224 (of one sample), with a name and dtype ids=128:int64"
    without_batch = f", or {','.join(sizes[1:])} if the first is the batch" if len(sizes) > 3 else ""
    return f"give {','.join(sizes)} (of one sample){without_batch}"
