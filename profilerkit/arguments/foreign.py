"""What other profilers call their arguments, so that someone who comes from them gets the name to give here."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

__all__ = ["foreign_hint"]

#: The argument here for the names that people bring along: torchinfo's, ptflops', thop's, fvcore's and DeepSpeed's too.
_HERE = {
    **dict.fromkeys(("metric", "status", "keys", "col_names"), "metrics"),
    **dict.fromkeys(("exclude", "skip"), "leave_out"),
    **dict.fromkeys(("input_size", "input_res"), "input_shape"),
    **dict.fromkeys(("input_data", "example_input", "example_inputs", "dummy_input", "x"), "inputs"),
    **dict.fromkeys(("repeats", "iterations", "runs"), "num_iters"),
    **dict.fromkeys(("seconds", "time_limit"), "max_seconds"),
    "ignore_modules": "ignore",
    "custom_ops": "functions",
    "gpu": "device",
    "warm_up": "warmup",
    "threads": "num_threads",
}


def foreign_hint(name: str, value: Any, taken: Container[str]) -> str:
    """Return what to give in place of another profiler's argument, ready to paste where that is known; else nothing.

    >>> foreign_hint("input_size", (8, 3, 224, 224), {"input_shape"})
    'give input_shape=(3, 224, 224), batch_size=8: the shape of one sample, and the batch by itself'
    """
    here = _HERE.get(name)
    if here is None or here not in taken:
        return ""
    if name == "input_size" and isinstance(value, (tuple, list)) and all(type(size) is int for size in value):
        batch = f", batch_size={value[0]}" if len(value) > 1 and value[0] != 1 else ""
        shape = tuple(value[1:]) if len(value) > 1 else tuple(value)
        return f"give input_shape={shape!r}{batch}: the shape of one sample, and the batch by itself"
    return f"did you mean {here!r}?"
