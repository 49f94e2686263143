"""Compiling a model temporarily: the results of ``torch.compile`` for it are removed, earlier results stay.

``torch.compile`` keeps its results with the code objects of the functions that it compiles, and all models of a class
share the code of ``forward``. So it gets a new function with its own code, which calls the model; it compiles code of
the model itself only if it breaks the graph. New results are removed afterwards. ``torch._dynamo.reset()`` would remove
the user's compiled models too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from types import CodeType, FunctionType
from typing import Any

import torch
from torch import nn

from profilerkit import InputError
from profilerkit.error_text import error_line
from profilerkit.process.restoring import restored

from ..compat.compiler import forget_code, list_compiled_codes, read_compiled_states

__all__ = ["use_compiled"]

_numbers = count(1)


@contextmanager
def use_compiled(model: nn.Module, compile: Any) -> Iterator[Callable[..., Any]]:
    """Yield the compiled model, as a function; it is compiled in its first call. The model itself stays unchanged.

    ``compile`` is True, the name of a compiler, or a mapping of arguments for ``torch.compile``; False or None yields
    the model itself. Shapes are taken as fixed, as in a model's first call, unless these arguments differ.
    """
    if not compile:
        yield model
        return
    before = [(book, _list_codes(book)) for book in list_compiled_codes()]
    states = set(read_compiled_states())

    def forget() -> None:
        for book, codes in before:
            for number, code in _list_codes(book).items():
                if number not in codes:
                    forget_code(code)
        for key in set(read_compiled_states()) - states:
            read_compiled_states().pop(key, None)

    with restored(forget, in_child=False):
        yield _compile(_make_function(model), compile)


def _read_arguments(compile: Any) -> Mapping[str, Any]:
    """Return the arguments for ``torch.compile``; raises `InputError` for a value of another type."""
    if compile is True:
        return {}
    if isinstance(compile, str):
        return {"backend": compile}
    if isinstance(compile, Mapping):
        return compile
    raise InputError(
        f"compile={compile!r}: give True, the name of a compiler such as 'inductor', or a mapping of arguments for "
        "torch.compile"
    )


def _compile(function: Callable[..., Any], compile: Any) -> Callable[..., Any]:
    arguments = _read_arguments(compile)
    try:
        return torch.compile(function, **{"dynamic": False, **arguments})
    except MemoryError:
        raise
    except Exception as error:
        raise InputError(
            f"compile={compile!r}: torch.compile does not take that: {error_line(error)}; the compilers it knows are "
            f"{', '.join(torch.compiler.list_backends())}"
        ) from error


def _make_function(model: nn.Module) -> Callable[..., Any]:
    """Return a function that calls the model; no other function has its code or its name."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return model(*args, **kwargs)

    code = call.__code__.replace(co_name=f"profiled_{next(_numbers)}")
    return FunctionType(code, call.__globals__, code.co_name, closure=call.__closure__)


def _list_codes(book: Any) -> dict[int, CodeType]:
    """Return the code objects in one of the lists that the compiler keeps, by their ids.

    The ids are the keys because code that the compiler writes has no hash if one of its constants has none.
    """
    codes = [reference() for reference in getattr(book, "seen", ())]
    return {id(code): code for code in codes if code is not None}
