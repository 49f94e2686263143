"""The function graphs that a thread makes in a block, by a function around the constructor of TensorFlow's class."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

from profilerkit.process.restoring import restored

from ..compat.graphs import FuncGraph

__all__ = ["collect_new_graphs"]


class _OpenBlocks(threading.local):
    """The lists of the `collect_new_graphs` blocks that are open in this thread, the innermost last."""

    def __init__(self) -> None:
        self.lists: list[list[weakref.ref[Any]]] = []


_open_blocks = _OpenBlocks()


@contextmanager
def collect_new_graphs() -> Iterator[list[weakref.ref[Any]]]:
    """Yield a list of the function graphs that this thread makes in the block, except those of a nested block."""
    graphs: list[weakref.ref[Any]] = []
    outer = [*_open_blocks.lists]
    is_patched = bool(outer) or FuncGraph is None
    patch = nullcontext() if is_patched else _patch_constructor(FuncGraph.__init__)
    with patch, restored(partial(setattr, _open_blocks, "lists", outer), in_child=False):
        _open_blocks.lists = [*outer, graphs]
        yield graphs


@contextmanager
def _patch_constructor(original: Any) -> Iterator[None]:
    """Have each new graph put into the list of the innermost block."""

    @functools.wraps(original)
    def construct(graph: Any, *args: Any, **kwargs: Any) -> None:
        original(graph, *args, **kwargs)
        if _open_blocks.lists:
            _open_blocks.lists[-1].append(weakref.ref(graph))

    with restored(partial(setattr, FuncGraph, "__init__", original)):
        FuncGraph.__init__ = construct
        yield
