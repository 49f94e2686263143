"""Restoring a model and the process after a block: the modes of layers, the variables of nnx and of Keras."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import jax

from profilerkit.backend_kit.python_state import note_python_state
from profilerkit.process.restoring import for_each, restored

from ..model.function_models import list_modules
from ..model.keras_state import save_state
from ..model.recognition import find_kind
from ..model.subjects import find_subject

__all__ = ["in_inference_mode", "preserve"]

#: The attributes that say whether a layer trains, each true in inference mode.
_MODES = ("deterministic", "inference", "use_running_average")


class _Mode(NamedTuple):
    """An attribute of a layer that says whether it trains, with its value now: arguments of `object.__setattr__`."""

    layer: Any
    name: str
    value: Any


def _read_modes(model: Any) -> list[_Mode]:
    if find_kind(model) not in ("flax.nnx", "equinox"):
        return []
    layers = find_subject(model).layers.values()
    attributes = [(layer, getattr(layer, "__dict__", {})) for layer in layers]
    return [_Mode(layer, name, values[name]) for layer, values in attributes for name in _MODES if name in values]


@contextmanager
def preserve(model: Any) -> Iterator[None]:
    """Restore modes of layers, values of variables, and the state of Python and numpy, after an error too."""
    restore_modes = partial(for_each, object.__setattr__, _read_modes(model))
    variables = map(_save_variables, list_modules(model))
    with restored(restore_modes, *variables, note_python_state(), in_child=False):
        yield


@contextmanager
def in_inference_mode(model: Any) -> Iterator[None]:
    """Let the layers of a module run as for inference inside the block."""
    modes = _read_modes(model)
    with restored(partial(for_each, object.__setattr__, modes), in_child=False):
        for mode in modes:
            object.__setattr__(mode.layer, mode.name, True)
        yield


def _save_variables(module: Any) -> Callable[[], None]:
    """Return a function that restores the current variables of a module of nnx, or of a Keras model."""
    kind = find_kind(module)
    if kind == "keras":
        return save_state(module)
    if kind != "flax.nnx":
        return lambda: None
    from flax import nnx

    state = nnx.state(module)
    values, tree = jax.tree.flatten(state)
    return lambda: nnx.update(module, jax.tree.unflatten(tree, values))
