"""Handing the user's model back exactly as it came, and the process around it, without copying the model.

`preserved` notes every module's attributes, flags and class, every parameter's gradient, and the process' state, and
puts back what changed. `WriteGuard` notices the first write to a tensor and keeps the value it had.
"""

from __future__ import annotations

import random
import sys
import warnings
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import nn
from torch._ops import HigherOrderOperator
from torch.nn.parameter import is_lazy
from torch.utils._python_dispatch import TorchDispatchMode

from profilerkit import ModelChangedWarning
from profilerkit.data import map_leaves

__all__ = ["WriteGuard", "preserved", "set_inference_flags", "substitute", "tensors_of"]


@contextmanager
def preserved(model: nn.Module, *, buffer_values: bool = False) -> Iterator[None]:
    """Put back whatever changes of the model's structure and of the process' state, after errors too.

    With ``buffer_values`` buffers are copied beforehand and get their values back as well, and a change of a
    parameter's values, which nothing could undo, is warned of.
    """
    snapshots = [_Snapshot(module) for module in model.modules()]
    gradients = [(parameter, parameter.grad, parameter.requires_grad) for parameter in model.parameters()]
    buffers = [buffer for buffer in model.buffers() if _has_values(buffer)] if buffer_values else []
    values = [(buffer, buffer.detach().clone()) for buffer in buffers]
    versions = [(name, parameter, parameter._version) for name, parameter in _watched(model, buffer_values)]
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
        _write_back(values)
        changed = [name for name, parameter, version in versions if parameter._version != version]
        if changed:
            warnings.warn(
                f"the code that was run changed the parameters {', '.join(changed[:5])} in place; profilerkit cannot "
                "undo that, the code should not do it",
                ModelChangedWarning,
                stacklevel=4,
            )


def _watched(model: nn.Module, wanted: bool) -> Iterable[tuple[str, nn.Parameter]]:
    if not wanted:
        return ()
    return [(name, parameter) for name, parameter in model.named_parameters() if not parameter.is_inference()]


def _has_values(tensor: torch.Tensor) -> bool:
    return not (tensor.is_meta or is_lazy(tensor))


def _write_back(values: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> None:
    for tensor, value in values:
        with torch.no_grad(), torch.inference_mode(tensor.is_inference()):
            if not _equal(tensor, value):
                tensor.copy_(value)


def _equal(tensor: torch.Tensor, value: torch.Tensor) -> bool:
    try:
        return torch.equal(tensor, value)
    except RuntimeError:  # sparse tensors cannot be compared
        return False


class _Snapshot:
    """The attributes of one module, with the contents of the containers and plain objects they reach."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.type = type(module)
        self.training = module.training
        self.attributes = dict(module.__dict__)
        reached = _reached(self.attributes)
        self.contents = [(found, _copied(found)) for found in reached if isinstance(found, _CONTAINERS)]

    def restore(self) -> None:
        if type(self.module) is not self.type:
            self.module.__class__ = self.type
        current = self.module.__dict__
        if not _same_items(current, self.attributes):
            current.clear()
            current.update(self.attributes)
        for container, content in self.contents:
            _refill(container, content)
        if self.module.training != self.training:  # a scripted module keeps its flag elsewhere
            self.module.training = self.training


_CONTAINERS = (OrderedDict, dict, list, set, deque)
#: What has attributes, but is not the model's to change, or is looked after elsewhere.
_NOT_FOLLOWED = (nn.Module, torch.Tensor, type, ModuleType, FunctionType, MethodType, torch.jit.ScriptModule)
#: How far a cache may be nested: a dict of lists of objects, say.
_DEPTH = 4
#: Longer containers are vocabularies and the like: they are kept whole, but not looked into.
_LONG = 1000


def _reached(container: Any, depth: int = _DEPTH, met: set[int] | None = None) -> Iterator[Any]:
    """Yield the containers and tensors that a module's attributes lead to; of plain objects, their ``__dict__``."""
    met = set() if met is None else met
    for value in container.values() if isinstance(container, dict) else container:
        if isinstance(value, torch.Tensor):
            yield value
            continue
        held = value if isinstance(value, (*_CONTAINERS, tuple)) else _attributes(value)
        if held is None or id(held) in met:
            continue
        met.add(id(held))
        yield held
        if depth > 1 and len(held) <= _LONG:
            yield from _reached(held, depth - 1, met)


def _attributes(value: Any) -> Any:
    return None if isinstance(value, _NOT_FOLLOWED) else getattr(value, "__dict__", None)


def _copied(container: Any) -> Any:
    return dict(container) if isinstance(container, dict) else list(container)


def _same_items(current: dict[Any, Any], saved: dict[Any, Any]) -> bool:
    return current.keys() == saved.keys() and all(current[key] is value for key, value in saved.items())


def _refill(container: Any, content: Any) -> None:
    """Give a container its content back, by the methods of its base class: a subclass may refuse to be changed."""
    kind: Any = next(kind for kind in _CONTAINERS if isinstance(container, kind))
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


def set_inference_flags(model: nn.Module) -> None:
    """Put every module into inference mode by its flag alone: an overridden ``train()`` may have effects of its own."""
    for module in model.modules():
        if module.training:
            module.training = False


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

    for module in model.modules():
        if isinstance(module, torch.jit.ScriptModule):
            raise TypeError("a scripted module keeps its weights where nothing can stand in for them")
        for held in (module._parameters, module._buffers):
            held.update({name: stand_in(tensor) for name, tensor in held.items()})
        for name, value in list(module.__dict__.items()):
            if name not in _OWN and _holds_tensors(value):
                module.__dict__[name] = map_leaves(value, stand_in)
    return known


_OWN = ("_parameters", "_buffers", "_modules")


def _holds_tensors(value: Any) -> bool:
    if type(value) in (list, tuple, dict):
        items = value.values() if type(value) is dict else value
        return any(isinstance(item, torch.Tensor) for item in items)
    return isinstance(value, torch.Tensor)


def tensors_of(model: nn.Module) -> Iterator[torch.Tensor]:
    """Yield the parameters, the buffers, and the tensors that other attributes of the modules lead to."""
    yield from model.parameters()
    yield from model.buffers()
    for module in model.modules():
        others = {name: value for name, value in module.__dict__.items() if name not in _OWN}
        yield from (value for value in _reached(others) if isinstance(value, torch.Tensor))


class WriteGuard(TorchDispatchMode):
    """While it is active, the first write to one of the tensors keeps the value it had; see `restoring`."""

    supports_higher_order_operators = True

    def __init__(self, tensors: Iterable[torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._guarded: dict[int, list[torch.Tensor]] = {}
        for tensor in filter(_has_values, tensors):
            self._guarded.setdefault(_storage_key(tensor), []).append(tensor.detach())
        self._saved: list[tuple[torch.Tensor, torch.Tensor]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator, keeping what it is about to overwrite."""
        kwargs = kwargs or {}
        for tensor in () if isinstance(func, HigherOrderOperator) else _written(func, args, kwargs):
            self._keep(tensor)
        return func(*args, **kwargs)

    def keep(self, tensors: Iterable[torch.Tensor]) -> None:
        """Keep the values of these now: for what may be written after the guard has gone."""
        for tensor in tensors:
            self._keep(tensor)

    def _keep(self, tensor: torch.Tensor) -> None:
        sharing = self._guarded.pop(_storage_key(tensor), ())
        self._saved += [(guarded, guarded.clone()) for guarded in sharing]

    @contextmanager
    def restoring(self) -> Iterator[None]:
        """Write the kept values back at the end, after errors too."""
        try:
            yield
        finally:
            _write_back(self._saved)


def _storage_key(tensor: torch.Tensor) -> int:
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):  # tensors without storage, sparse ones say
        return id(tensor)


def _written(func: Any, args: Any, kwargs: Any) -> Iterator[torch.Tensor]:
    if "batch_norm" in func._schema.name:  # updates its running statistics without saying so in the schema
        yield from (tensor for tensor in args[3:5] if isinstance(tensor, torch.Tensor))
    if not func._schema.is_mutable:
        return
    for position, argument in enumerate(func._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = args[position] if position < len(args) else kwargs.get(argument.name)
        for tensor in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(tensor, torch.Tensor):
                yield tensor
