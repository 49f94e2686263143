"""Shapes as text, on the command line and in plans: ``3,224,224``, or with a name and dtype ``ids=128:int64``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ..error_text import shown
from ..errors import ArgumentError
from .checks import MOST, ONE_BATCH_SIZE

__all__ = ["shapes_of_text"]

#: A shape as people write it otherwise: ``3x224x224``, ``(1, 3, 224, 224)``, ``3 224 224``.
_OTHER_SPELLING = re.compile(r"[\s(\[]*\d+([\s,;xX*]+\d+)*[\s,)\]]*")


def shapes_of_text(texts: Iterable[str]) -> Any:
    """Return the argument ``input_shape`` for texts, one for each input, each of one sample; None without any.

    >>> shapes_of_text(["3,32,32"]), shapes_of_text(["ids=128:int64", "mask=128"])
    ([(3, 32, 32)], {'ids': ((128,), 'int64'), 'mask': (128,)})

    A text without a dtype is a shape alone, so that a model takes it in its usual dtype.
    Raises `ArgumentError` for a text that is no shape, and if only some of the inputs have names.
    """
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for text in texts:
        name, _, shape_and_dtype = text.rpartition("=")
        sizes, _, dtype = shape_and_dtype.partition(":")
        try:
            shape = _read_sizes(sizes)
        except ValueError:
            raise ArgumentError(f"{shown(text)} is no shape; {_suggest_shape(text)}") from None
        if "=" in name:
            raise ArgumentError(f"{shown(text)} has several names; give each input as a text of its own")
        spec = (shape, dtype.strip()) if dtype.strip() else shape
        name = name.strip()
        if name in named:
            raise ArgumentError(f"the input {name!r} is given twice; give it once")
        if name:
            named[name] = spec
        else:
            positional.append(spec)
    if positional and named:
        raise ArgumentError("name all inputs or none of them")
    return named or positional or None


def _read_sizes(sizes: str) -> tuple[int, ...]:
    """Return the sizes of one sample: none for "()", a single number. Raises ValueError for a text that has none."""
    if sizes.strip() == "()":
        return ()
    return tuple(ONE_BATCH_SIZE("batch_size", int(size)) for size in sizes.split(","))


def _suggest_shape(text: str) -> str:
    """Return the advice for a text: its sizes, if it is a shape in another spelling; else an example."""
    sizes = re.findall(r"\d+", text)
    if any(int(size) > MOST for size in sizes):
        return f"a size is at most {MOST:,}"
    is_shape = _OTHER_SPELLING.fullmatch(text) and "0" not in sizes
    if not is_shape:
        return "give 3,224,224 (of one sample), with a name and dtype ids=128:int64, and () for a single number"
    without_batch = f", or {','.join(sizes[1:])} if the first is the batch" if len(sizes) > 3 else ""
    return f"give {','.join(sizes)} (of one sample){without_batch}"
