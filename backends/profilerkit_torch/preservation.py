"""Handing the user's model back exactly as it came, and the process around it, without copying the model.

`preserved` notes every module's attributes, flags and class, every parameter's gradient, and the process' state, and
puts back what changed. Inside it, `substitute` lets other tensors stand in for the model's.
"""

from __future__ import annotations

import random
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from profilerkit import ModelChangedWarning
from profilerkit.data import map_leaves

from .guard import has_values, write_back
from .keras_layers import substitute_variables
from .modules import (
    CONTAINERS,
    OWN,
    STANDARD,
    buffers_of,
    elements_of,
    modules_of,
    named_parameters_of,
    others,
    parameters_of,
    reached,
    tensors_of,
)

__all__ = ["preserved", "substitute", "unchanged_parameters"]


@contextmanager
def preserved(model: nn.Module, *, buffer_values: bool = False) -> Iterator[None]:
    """Put back whatever changes of the model's structure and of the process' state, after errors too.

    With ``buffer_values`` buffers are copied beforehand and get their values back as well, and a change of a
    parameter's values, which nothing could undo, is warned of. One model is profiled at a time in a process: another
    thread waits here.
    """
    with _one_at_a_time, _handed_back(model), unchanged_parameters(model, buffer_values):
        buffers = [buffer for buffer in buffers_of(model) if has_values(buffer)] if buffer_values else []
        values = [(buffer, buffer.detach().clone()) for buffer in buffers]
        try:
            yield
        finally:
            write_back(values)


_one_at_a_time = threading.RLock()


@contextmanager
def _handed_back(model: nn.Module) -> Iterator[None]:
    snapshots = [_Snapshot(module) for module in modules_of(model)]
    gradients = [(parameter, parameter.grad, parameter.requires_grad) for parameter in parameters_of(model)]
    data = [(tensor, tensor.data) for tensor in tensors_of(model) if has_values(tensor)]
    caches = [(cache, copied(cache)) for cache in _class_caches(model)]
    restore_process = _process_state()
    try:
        yield
    finally:
        restore_process()
        for snapshot in snapshots:
            snapshot.restore()
        for parameter, gradient, requires_grad in gradients:
            if parameter.grad is not gradient:
                parameter.grad = gradient
            if parameter.requires_grad != requires_grad:
                parameter.requires_grad_(requires_grad)
        for tensor, held in data:
            if elements_of(tensor) != elements_of(held):  # given other data: tensor.data = ..., tensor.set_(...)
                tensor.data = held
        for cache, content in caches:
            refill(cache, content)


def _class_caches(model: nn.Module) -> Iterator[Any]:
    """Yield the containers that the user's own module classes hold, where some models keep tensors between calls."""
    classes = {cls for module in modules_of(model) for cls in type(module).__mro__}
    for cls in classes:
        if cls.__module__.partition(".")[0] not in ("torch", "builtins"):
            yield from (value for value in vars(cls).values() if isinstance(value, CONTAINERS))


@contextmanager
def unchanged_parameters(
    model: nn.Module, wanted: bool = True, watched: Callable[[torch.Tensor], bool] = lambda tensor: True
) -> Iterator[None]:
    """Warn of parameters whose values were changed in place, which nothing can undo."""
    named = named_parameters_of(model) if wanted else ()
    versions = [(name, p, p._version) for name, p in named if not p.is_inference() and watched(p)]
    try:
        yield
    finally:
        changed = [name for name, parameter, version in versions if parameter._version != version]
        if changed:
            warnings.warn(
                f"the code that was run changed the parameters {', '.join(changed[:5])} in place; profilerkit cannot "
                "undo that, the code should not do it",
                ModelChangedWarning,
                stacklevel=6,
            )


class _Snapshot:
    """The attributes of one module, with the contents of the containers and plain objects they reach."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.type = type(module)
        self.training = module.training
        self.attributes = dict(module.__dict__)
        self.empty = [value for name, value in self.attributes.items() if name in STANDARD and not value]
        own = [self.attributes[name] for name in OWN if name in self.attributes]
        held = [*own, *reached(others(module))]
        self.contents = [(found, copied(found)) for found in held if isinstance(found, CONTAINERS)]
        self.generators = [
            (restore, state) for value in others(module).values() for restore, state in _random_state(value)
        ]

    def restore(self) -> None:
        for restore, state in self.generators:
            restore(state)
        if type(self.module) is not self.type:
            self.module.__class__ = self.type
        current = self.module.__dict__
        if not _same_items(current, self.attributes):
            current.clear()
            current.update(self.attributes)
        for container in self.empty:
            if container:
                container.clear()
        for container, content in self.contents:
            refill(container, content)
        if self.module.training != self.training:  # a scripted module keeps its flag elsewhere
            self.module.training = self.training


def _random_state(value: Any) -> Iterator[tuple[Callable[[Any], Any], Any]]:
    """Yield what sets the state of a random generator, with the state it has; nothing for any other value."""
    if isinstance(value, torch.Generator):
        yield value.set_state, value.get_state()
    elif isinstance(value, random.Random):
        yield value.setstate, value.getstate()
    elif hasattr(type(value), "bit_generator"):  # numpy's
        numbers = value.bit_generator
        yield (lambda state: setattr(numbers, "state", state)), numbers.state


def copied(container: Any) -> Any:
    return dict(container) if isinstance(container, dict) else list(container)


def _same_items(current: dict[Any, Any], saved: dict[Any, Any]) -> bool:
    return current.keys() == saved.keys() and all(current[key] is value for key, value in saved.items())


def refill(container: Any, content: Any) -> None:
    """Give a container its content back, by the methods of its base class: a subclass may refuse to be changed."""
    kind: Any = next(kind for kind in CONTAINERS if isinstance(container, kind))
    if isinstance(container, dict):
        if not _same_items(container, content) or list(container) != list(content):
            kind.clear(container)
            kind.update(container, content)
    elif len(container) != len(content) or any(a is not b for a, b in zip(container, content, strict=True)):
        kind.clear(container)
        (kind.update if kind is set else kind.extend)(container, content)


def _process_state() -> Callable[[], None]:
    """Note the process' state and return what puts it back."""
    numpy = sys.modules.get("numpy")
    python_rng, numpy_rng = random.getstate(), numpy.random.get_state() if numpy else None
    torch_rng = torch.get_rng_state()
    cuda_rng = torch.cuda.get_rng_state_all() if torch.cuda.is_available() and torch.cuda.is_initialized() else None
    settings = [(read, write, read()) for read, write in _SETTINGS]

    def restore() -> None:
        random.setstate(python_rng)
        if numpy and numpy_rng is not None:
            numpy.random.set_state(numpy_rng)
        torch.set_rng_state(torch_rng)
        if cuda_rng is not None:
            torch.cuda.set_rng_state_all(cuda_rng)
        for read, write, value in settings:
            if read() != value:
                write(value)

    return restore


def _attribute(owner: Any, name: str) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    return (lambda: getattr(owner, name)), (lambda value: setattr(owner, name, value))


_SETTINGS: list[tuple[Callable[[], Any], Callable[[Any], Any]]] = [
    (torch.is_grad_enabled, torch.set_grad_enabled),
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.get_num_threads, torch.set_num_threads),
    (torch.backends.mha.get_fastpath_enabled, torch.backends.mha.set_fastpath_enabled),
    *(_attribute(torch.backends.cudnn, name) for name in ("enabled", "benchmark", "deterministic", "allow_tf32")),
]


def substitute(model: nn.Module, convert: Callable[[torch.Tensor], torch.Tensor]) -> dict[int, torch.Tensor]:
    """Put ``convert(tensor)`` in the place of every tensor that the model's modules hold; use inside `preserved`.

    That is parameters, buffers and plain attributes, also where they sit in a list, tuple or dict attribute (as the
    flat weights of recurrent modules do). A tensor held twice gets one substitute. Returns them by the ``id`` of what
    they stand for.
    """
    known: dict[int, torch.Tensor] = {}

    def stand_in(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in known:
            known[id(value)] = convert(value)
        return known[id(value)]

    for module in modules_of(model):
        if isinstance(module, torch.jit.ScriptModule):
            raise TypeError("a scripted module keeps its weights where nothing can stand in for them")
        for held in (module._parameters, module._buffers):
            held.update({name: stand_in(tensor) for name, tensor in held.items()})
        for name, value in others(module).items():
            if _holds_tensors(value):
                module.__dict__[name] = map_leaves(value, stand_in)
        substitute_variables(module, stand_in)
    return known


def _holds_tensors(value: Any) -> bool:
    if type(value) in (list, tuple, dict):
        items = value.values() if type(value) is dict else value
        return any(isinstance(item, torch.Tensor) for item in items)
    return isinstance(value, torch.Tensor)
