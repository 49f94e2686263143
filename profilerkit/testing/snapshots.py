"""Snapshots of an object and everything that it refers to, for a comparison before and after."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Mapping, Set
from types import FunctionType, ModuleType
from typing import Any, ClassVar

from ..process.inner_states import list_generators
from ..process.object_facts import list_slots

__all__ = ["collect_facts", "differences", "process_facts"]

_PLAIN = (str, bytes, int, float, complex, bool, type(None))  # compared by their texts


class _Same:
    """Which object a value is, whatever its class calls equal; it is kept alive, so that no other one gets its id."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{type(self.value).__name__} at {id(self.value):#x}>"


def collect_facts(value: Any) -> dict[str, Any]:
    """Return every object behind the attributes and items of ``value``, by its path; arrays with their values.

    Raises `TypeError` for an array whose values cannot be read with ``numpy.asarray``.
    """
    facts: dict[str, Any] = {}
    seen: set[int] = set()
    waiting = [("model", value)]
    while waiting:
        path, part = waiting.pop()
        if isinstance(part, _PLAIN):
            facts[path] = repr(part)
            continue
        facts[path] = _Same(part)
        if id(part) in seen:
            continue
        seen.add(id(part))
        values = _read_values(path, part)
        if values is None:
            inside = list(_list_parts(part))
        else:
            facts[f"{path} (values)"] = values
            flags = getattr(part, "__dict__", {})  # that a framework or a user has set on an array
            inside = [(f".{name}", flag) for name, flag in flags.items() if isinstance(flag, _PLAIN)]
        waiting += [(f"{path}{name}", inner) for name, inner in reversed(inside)]  # the first is looked at next
    return facts


def _read_values(path: str, value: Any) -> Any:
    """Return the values of an array or the state of a random generator; None for any other object."""
    if isinstance(value, random.Random) and not isinstance(value, random.SystemRandom):
        return value.getstate()
    if isinstance(value, list_generators()):
        return _read_generator(value)
    if not (hasattr(value, "shape") and hasattr(value, "dtype")):
        return None
    import numpy as np  # imported here, since a model may have no arrays

    try:
        array = np.asarray(value.detach() if hasattr(value, "detach") else value)  # detached, if it has a gradient
    except MemoryError:
        raise
    except Exception as error:
        raise TypeError(
            f"the values of {path}, a {type(value).__name__}, cannot be read ({error}); define snapshot(model), which "
            "returns what must not change"
        ) from error
    return str(array.dtype), array.shape, array.tobytes()


def _read_generator(generator: Any) -> Any:
    """Return the state of a generator of numpy's, or of its module ``random``, with arrays as bytes."""
    if hasattr(generator, "get_state"):
        return _freeze(generator.get_state(legacy=False))  # the tuple has no room for other bits than MT19937's
    return _freeze(getattr(generator, "bit_generator", generator).state)


def _freeze(state: Any) -> Any:
    """Return a state that later draws do not change: a copy of its mappings, with the bytes of their arrays."""
    if isinstance(state, Mapping):
        return {name: _freeze(part) for name, part in state.items()}
    return state.tobytes() if hasattr(state, "tobytes") else state


def _list_parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the items and attributes of an object, each behind how it is reached: ``[0]``, ``.name``."""
    if isinstance(value, Mapping):
        yield from ((f"[{key!r}]", part) for key, part in value.items())
    elif isinstance(value, (list, tuple)):
        yield from ((f"[{index}]", part) for index, part in enumerate(value))
    elif isinstance(value, Set):
        yield "{}", " ".join(sorted(map(repr, value)))
    if isinstance(value, (type, ModuleType, FunctionType)):
        return  # code is not part of a model's state
    yield from ((f".{name}", part) for name, part in list(getattr(value, "__dict__", {}).items()))
    for slot in list_slots(type(value)):
        if hasattr(value, slot.__name__):  # it was assigned
            yield f".{slot.__name__}", getattr(value, slot.__name__)


def process_facts() -> dict[str, Any]:
    """Return the states of Python's and numpy's random number generators."""
    facts: dict[str, Any] = {"random.getstate()": random.getstate()}
    if "numpy.random" in sys.modules:
        facts["numpy.random.get_state()"] = _read_generator(sys.modules["numpy.random"])
    return facts


def differences(before: Any, after: Any) -> str:
    """Return a description of the differences between two snapshots, by key if they are mappings."""
    if not (isinstance(before, Mapping) and isinstance(after, Mapping)):
        return f"{_shorten(before)} became {_shorten(after)}"
    changes = [f"{key} is new" for key in after if key not in before]
    changes += [f"{key} is gone" for key in before if key not in after]
    both = [key for key in before if key in after and before[key] != after[key]]
    changes += [f"{key}: {_shorten(before[key])} became {_shorten(after[key])}" for key in both]
    return "; ".join(changes[:5]) + (f"; and {len(changes) - 5} more" if len(changes) > 5 else "")


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
