"""Handing the user's model back exactly as it came, and the process around it, without copying the model.

`preserved` notes every module's attributes, flags and class, every parameter's gradient, and the process' state, and
puts back what changed. Inside it, `substitute` lets other tensors stand in for the model's.
"""

from __future__ import annotations

import random
import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from operator import is_, itemgetter
from typing import Any

import torch
from torch import nn

from profilerkit import ModelChangedWarning
from profilerkit.structures import map_leaves

from .guard import has_values, write_back
from .inventory import Inventory
from .keras_layers import substitute_variables
from .modules import CONTAINERS, STANDARD, elements_of, named_parameters_of

__all__ = ["preserved", "substitute", "unchanged_parameters"]


@contextmanager
def preserved(model: nn.Module, *, buffer_values: bool = False, held: Inventory | None = None) -> Iterator[None]:
    """Put back whatever changes of the model's structure and of the process' state, after errors too.

    With ``buffer_values`` buffers are copied beforehand and get their values back as well, and a change of a
    parameter's values, which nothing could undo, is warned of. ``held`` is what the model holds, where that is known
    already. One model is profiled at a time in a process: another thread waits here.
    """
    with _one_at_a_time:
        held = held or Inventory(model)
        with _handed_back(held), unchanged_parameters(model, buffer_values):
            buffers = [buffer for buffer in held.buffers if has_values(buffer)] if buffer_values else []
            values = [(buffer, buffer.detach().clone()) for buffer in buffers]
            try:
                yield
            finally:
                write_back(values)


_one_at_a_time = threading.RLock()


@contextmanager
def _handed_back(held: Inventory) -> Iterator[None]:
    snapshots = list(map(_Snapshot, held.modules, held.others))
    contents = [(found, copied(found)) for found in held.containers]
    gradients = [(parameter, parameter.grad, parameter.requires_grad) for parameter in held.parameters]
    data = [(tensor, tensor.data) for tensor in held.tensors if has_values(tensor)]
    contents += [(cache, copied(cache)) for cache in _class_caches(held.modules)]
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
        for tensor, before in data:
            if not _same_elements(tensor, before):  # given other data: tensor.data = ..., tensor.set_(...)
                tensor.data = before
        for container, content in contents:
            refill(container, content)


def _same_elements(tensor: torch.Tensor, before: torch.Tensor) -> bool:
    """Say whether a tensor still has the elements of an alias that was made of it: one address is one storage then."""
    try:
        address = tensor.data_ptr()
    except RuntimeError:  # tensors without storage, sparse ones say
        address = 0
    if address and address == before.data_ptr():
        return tensor.shape == before.shape and tensor.stride() == before.stride()
    return bool(elements_of(tensor) == elements_of(before))


def _class_caches(modules: Iterable[nn.Module]) -> Iterator[Any]:
    """Yield the containers that the user's own module classes hold, where some models keep tensors between calls."""
    for cls in {base for kind in set(map(type, modules)) for base in kind.__mro__}:
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


_standard = itemgetter(*STANDARD)


class _Snapshot:
    """The attributes of one module, its own containers with their contents, and the state of its random generators.

    Args:
        module: The module.
        others: Those of its attributes that are no plain values; see `modules.others`.
    """

    __slots__ = ("attributes", "containers", "contents", "generators", "lengths", "module", "training", "type")

    def __init__(self, module: nn.Module, others: dict[str, Any]) -> None:
        self.module = module
        self.type = type(module)
        self.training = getattr(module, "training", None)
        self.attributes = dict(module.__dict__)
        self.containers, self.lengths = self._own_containers()
        self.contents = [(found, copied(found)) for found in self.containers if found]
        self.generators = [pair for value in others.values() for pair in _random_state(value)] if others else ()

    def _own_containers(self) -> tuple[tuple[Any, ...], tuple[int, ...]]:
        """Return the containers that every module has, with their lengths."""
        if not isinstance(self.module, torch.jit.ScriptModule):
            try:
                found = _standard(self.attributes)
                return found, tuple(map(len, found))
            except (KeyError, TypeError):  # some are missing, or are none
                pass
        found = tuple(value for name in STANDARD if isinstance(value := self.attributes.get(name), CONTAINERS))
        return found, tuple(map(len, found))

    def restore(self) -> None:
        for restore, state in self.generators:
            restore(state)
        if type(self.module) is not self.type:
            self.module.__class__ = self.type
        current = self.module.__dict__
        if not _same_items(current, self.attributes):
            current.clear()
            current.update(self.attributes)
        if tuple(map(len, self.containers)) != self.lengths:
            for container, length in zip(self.containers, self.lengths, strict=True):
                if not length:
                    container.clear()
        for container, content in self.contents:
            refill(container, content)
        # A scripted module keeps its flag elsewhere, and some modules have none.
        if self.training is not None and self.module.training != self.training:
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
    """Say whether two mappings have the same objects in the same order: nothing is asked whether it is equal."""
    same_keys = len(current) == len(saved) and all(map(is_, current, saved))
    return same_keys and all(map(is_, current.values(), saved.values()))


def refill(container: Any, content: Any) -> None:
    """Give a container its content back, by the methods of its base class: a subclass may refuse to be changed."""
    if isinstance(container, dict):
        if _same_items(container, content):
            return
    elif len(container) == len(content) and all(map(is_, container, content)):
        return
    kind: Any = next(kind for kind in CONTAINERS if isinstance(container, kind))
    kind.clear(container)
    (kind.extend if kind in (list, deque) else kind.update)(container, content)


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


def substitute(
    model: nn.Module, convert: Callable[[torch.Tensor], torch.Tensor], held: Inventory | None = None
) -> dict[int, torch.Tensor]:
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

    held = held or Inventory(model)
    for module, attributes in zip(held.modules, held.others, strict=True):
        if isinstance(module, torch.jit.ScriptModule):
            raise TypeError("a scripted module keeps its weights where nothing can stand in for them")
        _substitute_in(module, attributes, stand_in)
        if held.holds_keras:
            substitute_variables(module, stand_in)
    return known


def _substitute_in(module: nn.Module, attributes: dict[str, Any], stand_in: Callable[[Any], Any]) -> None:
    for own in (module._parameters, module._buffers):
        if own:
            own.update([(name, stand_in(tensor)) for name, tensor in own.items()])
    for name, value in attributes.items():
        if _holds_tensors(value):
            module.__dict__[name] = map_leaves(value, stand_in)


def _holds_tensors(value: Any) -> bool:
    if type(value) in (list, tuple, dict):
        items = value.values() if type(value) is dict else value
        return any(isinstance(item, torch.Tensor) for item in items)
    return isinstance(value, torch.Tensor)
