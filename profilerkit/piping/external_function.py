"""Profiler functions made of functions of the model and the data."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import Any

from ..arguments.checks import to_call
from ..error_text import shown
from .function import KeyLike, Keys, ProfilerFunction

__all__ = ["ExternalProfilerFunction"]

_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


class ExternalProfilerFunction(ProfilerFunction):
    """Makes a profiler function from a callable whose first two positional parameters are the model and the data.

    The names of these two do not matter. The other parameters are passed by name. Pass the status keys here, or
    override `get_bounded_status_keys` in a subclass.

    >>> from profilerkit import StatusKey
    >>> def count_batches(network, data):
    ...     return len(data["test"])
    >>> ExternalProfilerFunction(count_batches, StatusKey).can_pipe()
    True
    """

    def __init__(self, func: Callable[..., Any], *status_keys: KeyLike) -> None:
        self.func: Any = to_call("a function of the model and the data")("func", func)
        self.status_keys = status_keys
        try:
            listed = list(inspect.signature(func).parameters.values())
        except ValueError as error:
            raise TypeError(f"{shown(func)} has no signature to read; wrap it in a Python function") from error
        leading, others = listed[:2], listed[2:]
        if len(leading) < 2 or any(parameter.kind not in _POSITIONAL for parameter in leading):
            raise TypeError(f"{shown(func)} must take the model and the data as its first two positional parameters")
        self._others = {parameter.name: parameter for parameter in others}

    def get_bounded_status_keys(self) -> Keys:
        """Return the status keys given to the constructor."""
        return self.status_keys or super().get_bounded_status_keys()

    def parameters(self) -> Mapping[str, Parameter]:
        """Return ``model``, ``data_splits`` and the callable's further parameters."""
        provided = {name: Parameter(name, Parameter.KEYWORD_ONLY) for name in ("model", "data_splits")}
        return {**provided, **self._others}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function; the model and the data go first, whatever it calls them."""
        leading = [kwargs.pop(name) for name in ("model", "data_splits") if name in kwargs]
        return self.func(*leading, *args, **kwargs)
