"""A model that is not built is called once to build it; the call that is counted after that is still its first.

Some models count their calls, or do something else in the first. Building them runs their code once more than a user's
first call does, so what they have noted in that run is put back. So it is with a module that makes its variables when
it is called: TensorFlow traces that twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from operator import is_
from typing import Any

from profilerkit.backend_kit.failures import note_layer
from profilerkit.backend_kit.keras_kinds import is_keras, is_legacy_keras
from profilerkit.backend_kit.keras_layers import direct_layers
from profilerkit.process.restoring import restored

from ..model.kinds import is_layer, list_layers, own_variables

__all__ = ["FirstTrace", "as_before_the_call"]

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_CONTAINERS = (list, dict, set, deque)


@contextmanager
def as_before_the_call(model: Any) -> Iterator[None]:
    """Put numbers, texts and plain containers of the layers back to what they were when ``call`` of each began.

    The call in this block builds the model. What Keras runs to build a layer comes before that layer's ``call``, and
    happens in a user's first call too: it stays. So does all that a layer has noted which made a layer or a variable.
    An error has the path of the layer that it has left.
    """
    layers = {id(layer): (path, layer) for path, layer in reversed(list_layers(model)) if is_layer(layer)}
    paths = {key: path for key, (path, _) in layers.items()}
    classes = {_find_users_class(layer) for _, layer in layers.values()}
    states: dict[int, _State] = {}
    with ExitStack() as patches:
        for cls in filter(None, classes):
            patches.enter_context(_patch(cls, states, paths))
        yield
    for state in states.values():
        state.put_back()


def _find_users_class(layer: Any) -> type | None:
    """Return the class that defines ``call`` of a layer, unless it is one of Keras."""
    cls = next((cls for cls in type(layer).__mro__ if "call" in cls.__dict__), None)
    return None if cls is None or cls.__module__.partition(".")[0] in ("keras", "tf_keras") else cls


@contextmanager
def _patch(cls: type, states: dict[int, _State], paths: dict[int, str]) -> Iterator[None]:
    original = cls.__dict__["call"]

    def call(layer: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return note(layer, *args, **kwargs)
        except Exception as error:
            note_layer(error, paths.get(id(layer), ""))
            raise

    def note(layer: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(layer, "built", True):
            states.setdefault(id(layer), _State(layer))
            return original(layer, *args, **kwargs)
        before = set(states)
        outputs = original(layer, *args, **kwargs)  # this builds the layer: its `call` follows
        for key in set(states) - before:
            del states[key]
        return outputs

    call.__wrapped__ = original  # type: ignore[attr-defined]
    with restored(partial(type.__setattr__, cls, "call", original)):
        type.__setattr__(cls, "call", call)
        yield


class FirstTrace:
    """Puts back, when a program is traced for the second time, what its layers noted in the first."""

    def __init__(self, layers: Iterable[tuple[str, Any]]) -> None:
        self._layers = [layer for _, layer in layers if is_layer(layer)]
        self._states: list[_State] | None = None

    def begin(self) -> None:
        """Call this where each trace begins."""
        if self._states is None:
            self._states = [_State(layer) for layer in self._layers if getattr(layer, "built", True)]
        for state in self._states:
            state.put_back()


class _State:
    """What a layer held in plain attributes and containers of its own."""

    def __init__(self, layer: Any) -> None:
        self._layer = layer
        self._parts = _count_parts(layer)
        self._plain = {name: value for name, value in vars(layer).items() if isinstance(value, _PLAIN)}
        self._contents = [
            (value, value.copy())
            for name, value in vars(layer).items()
            if isinstance(value, _CONTAINERS) and not name.startswith("_")
        ]

    def put_back(self) -> None:
        """Put it back; only numbers where layers or variables were made since: the rest may say that they exist."""
        has_new_parts = _count_parts(self._layer) != self._parts
        attributes = vars(self._layer)
        for name, value in self._plain.items():
            now = attributes.get(name, self)
            is_put_back = _is_number(now) if has_new_parts else isinstance(now, _PLAIN)
            if is_put_back and now != value:
                attributes[name] = value
        if not has_new_parts:
            for container, content in self._contents:
                _refill(container, content)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, complex)) and not isinstance(value, bool)


def _count_parts(layer: Any) -> tuple[int, ...]:
    """Return how many attributes, layers and variables a layer has."""
    inside = direct_layers(layer) if is_keras(layer) or is_legacy_keras(layer) else ()
    return len(vars(layer)), len(inside), sum(1 for _ in own_variables(layer))


def _refill(container: Any, content: Any) -> None:
    """Give a container its content back; one that has it is left alone."""
    now, before = _list_items(container), _list_items(content)
    if len(now) == len(before) and all(map(is_, now, before)):
        return
    container.clear()
    container.extend(content) if hasattr(container, "extend") else container.update(content)


def _list_items(container: Any) -> list[Any]:
    return [*container, *container.values()] if isinstance(container, dict) else [*container]
