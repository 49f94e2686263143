"""What the names of operators and functions show about gradients, as observed with TensorFlow 2.21."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

__all__ = ["find_traced_name", "forward_names", "is_gradient_name"]

_OF_TAPE = re.compile(r"(?:.*/)?gradient_tape/(.+)")
_OF_FUNCTION = re.compile(r"(?:.*/)?gradients/(.+)")
_GRADIENT_PART = re.compile(r"_grad(?:_\d+)?$")
#: What TensorFlow adds to the name of a branch's or a loop's body to have it give what the gradient needs.
_REWRITTEN = "_rewritten"


def find_traced_name(graph: Any) -> str:
    """Return the name of a function's graph as it was traced, without what a gradient's copy of it adds."""
    return str(graph.name).removesuffix(_REWRITTEN)


def is_gradient_name(name: str) -> bool:
    """Return whether an operator of that name computes gradients."""
    return _OF_TAPE.match(name) is not None or _OF_FUNCTION.match(name) is not None


def forward_names(name: str) -> Iterator[str]:
    """Yield the names that the forward operator of a gradient's, or its scope, may have, the longest first.

    The tape calls the gradient of ``a/b/Conv2D`` something inside ``gradient_tape/a/b/Conv2D/``, where any part may
    have got a number to make it unique. In the gradient of a called function, of a loop's body or of a branch it is
    something inside ``gradients/a/b/Conv2D_grad/``.
    """
    of_function, of_tape = _OF_FUNCTION.match(name), _OF_TAPE.match(name)
    if of_function is not None:
        parts = of_function[1].split("/")
        for end in range(len(parts), 0, -1):
            if _GRADIENT_PART.search(parts[end - 1]):
                yield _GRADIENT_PART.sub("", "/".join(parts[:end]))
    elif of_tape is not None:
        parts = of_tape[1].split("/")
        for end in range(len(parts), 0, -1):
            candidate = "/".join(parts[:end])
            yield candidate
            yield re.sub(r"_\d+$", "", candidate)
