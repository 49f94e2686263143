"""The inputs of a model call: the arguments, in nested structures of any kind.

They are made of example inputs, of shapes alone (`input_shapes`), by a function of the batch size, or of the batches of
a data split (`data_splits`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from .arguments.structures import list_leaves, map_leaves
from .error_text import shown
from .errors import InputError
from .process.interrupts import interruptible
from .unfinished import require_finished

__all__ = ["ModelInputs", "NoInputs"]


class ModelInputs:
    """The arguments of one model call: ``ModelInputs(x, mask=m)`` is ``model(x, mask=m)``.

    >>> ModelInputs.of((1, 2)).args, ModelInputs.of({"mask": 3}).kwargs
    ((1, 2), {'mask': 3})
    """

    __slots__ = ("are_random", "args", "function", "kwargs", "note")

    def __init__(self, /, *args: Any, **kwargs: Any) -> None:
        self.args: tuple[Any, ...] = args
        self.kwargs: dict[str, Any] = kwargs
        #: Called with the model and the arguments instead of the model itself; see `given_to`.
        self.function: Callable[..., Any] | None = None
        #: How the inputs were made, for a report.
        self.note: str = ""
        #: Whether profilerkit has made up their values, so that these decide nothing.
        self.are_random: bool = False

    def given_to(self, function: Callable[..., Any] | None) -> ModelInputs:
        """Return the same arguments for a function of the model: ``lambda model, x: model.generate(x)``."""
        return ModelInputs(*self.args, **self.kwargs)._take_from(self, function)

    def _take_from(self, other: ModelInputs, function: Callable[..., Any] | None) -> ModelInputs:
        self.function, self.note, self.are_random = function, other.note, other.are_random
        return self

    @interruptible
    def run(self, model: Any) -> Any:
        """Call the model, or the function of `given_to`; raises `InputError` for an output still to be computed."""
        call = model if self.function is None else partial(self.function, model)
        return require_finished(call(*self.args, **self.kwargs))

    def own_call(self) -> ModelInputs:
        """Return the inputs for a backend without ``call=``; raises `InputError` if it was given."""
        if self.function is not None:
            raise InputError("call= was given, but only the model's own call can be followed here; leave it out")
        return self

    @classmethod
    def of(cls, value: Any) -> ModelInputs:
        """Read inputs: a tuple or list has positional inputs, a mapping keyword inputs; any other is one input.

        So is a named tuple, such as a ``PackedSequence``: the model reads its fields.
        """
        if isinstance(value, ModelInputs):
            return value
        if isinstance(value, NoInputs):
            raise value.error
        if isinstance(value, Mapping):
            invalid = [key for key in value if not isinstance(key, str)]
            if invalid:
                raise InputError(
                    f"a mapping of inputs gives keyword arguments by name, but has the keys {invalid!r}; to pass a "
                    "mapping as one positional input, use ModelInputs(mapping)"
                )
            return cls(**value)
        if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
            return cls(*value)
        return cls(value)

    def map(self, function: Callable[[Any], Any]) -> ModelInputs:
        """Return inputs of the same structure with ``function`` applied to every leaf."""
        args, kwargs = map_leaves((self.args, self.kwargs), function)
        return ModelInputs(*args, **kwargs)._take_from(self, self.function)

    def leaves(self) -> Iterator[Any]:
        """Yield every leaf of the structure: positional inputs first, then keyword ones."""
        return iter(list_leaves((self.args, self.kwargs)))

    def __repr__(self) -> str:
        parts = [*map(_shorten, self.args)]
        parts += [f"{name}={_shorten(value)}" for name, value in self.kwargs.items()]
        call = f"ModelInputs({', '.join(parts)})"
        if self.function is None:
            return call
        return f"{call} given to {getattr(self.function, '__name__', type(self.function).__name__)}"


@dataclass(frozen=True)
class NoInputs:
    """Stands for inputs that are not available: `ModelInputs.of` raises its ``error``."""

    error: Exception


def _shorten(value: Any) -> str:
    """Return a value as short text: a tensor as its type and shape."""
    try:
        shape = getattr(value, "shape", None)
        sizes = None if shape is None else tuple(shape)
    except MemoryError:
        raise
    except Exception:  # a nested tensor has several shapes; a class of the user's may raise anything
        return type(value).__name__
    if sizes is not None:
        return f"{type(value).__name__}{sizes}"
    longest = 40
    if type(value) in (dict, list, tuple):
        with suppress(InputError):  # it contains itself
            value, longest = map_leaves(value, lambda leaf: _Name(_shorten(leaf))), 100
    text = shown(value)
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


class _Name(str):
    """A text whose ``repr`` is the text itself; it replaces a tensor in a structure."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
