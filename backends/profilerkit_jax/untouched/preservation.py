"""The modes of layers and the values of variables, put back after a block: of modules of nnx, and of Keras models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import jax

from profilerkit.process.restoring import for_each, restored

from ..model.keras_state import as_it_is
from ..model.recognition import find_kind
from ..model.subjects import find_subject

__all__ = ["in_inference_mode", "preserve"]

#: The attributes that say whether a layer trains, each true in inference mode.
_MODES = ("deterministic", "inference", "use_running_average")
_Modes = list[tuple[Any, str, Any]]


def _modes(model: Any) -> _Modes:
    if find_kind(model) not in ("flax.nnx", "equinox"):
        return []
    layers = find_subject(model).layers.values()
    return [
        (layer, name, vars(layer)[name])
        for layer in layers
        for name in _MODES
        if name in getattr(layer, "__dict__", {})
    ]


@contextmanager
def preserve(model: Any) -> Iterator[None]:
    """Put the modes of the layers and the values of the variables back at the end, after an error too."""
    modes, restore = _modes(model), _variables_as_they_are(model)
    with restored(partial(for_each, object.__setattr__, modes), restore, in_child=False):
        yield


@contextmanager
def in_inference_mode(model: Any) -> Iterator[None]:
    """Let the layers of a module run as for inference inside the block."""
    modes = _modes(model)
    with restored(partial(for_each, object.__setattr__, modes), in_child=False):
        for layer, name, _ in modes:
            object.__setattr__(layer, name, True)
        yield


def _variables_as_they_are(model: Any) -> Callable[[], None]:
    """Return what puts back the variables that a module of nnx, or a Keras model, has now."""
    if find_kind(model) == "keras":
        return as_it_is(model)
    if find_kind(model) != "flax.nnx":
        return lambda: None
    from flax import nnx

    state = nnx.state(model)
    values, tree = jax.tree.flatten(state)
    return lambda: nnx.update(model, jax.tree.unflatten(tree, values))
