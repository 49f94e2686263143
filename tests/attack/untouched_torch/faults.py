"""What goes wrong while a model runs: at the first or third call of forward, in a hook, in the backward pass."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from odd_errors import Custom, Outside, Unspeakable, make_raising, recursion, warn
from torch import nn

__all__ = ["FAULTS", "Fault", "Faulty"]


class Sealed(Exception):
    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"sealed: {name}")


class Instruction(str):
    """Text that is no plain text."""


KEPT = RuntimeError("the same object each time")


def _thread(model: Any, output: Any) -> None:
    threading.excepthook = lambda args: None
    thread = threading.Thread(target=lambda: (_ for _ in ()).throw(RuntimeError("in a thread")))
    thread.start()
    thread.join()


def _change_parameters(model: Any, output: Any) -> None:
    with torch.no_grad():
        for parameter in nn.Module.parameters(model):
            if parameter.layout is torch.strided and parameter.is_floating_point() and not parameter.is_inference():
                parameter.copy_(parameter * 2)
                break
    raise RuntimeError("after changing a parameter")


def _delete_attributes(model: Any, output: Any) -> None:
    for module in list(nn.Module.modules(model)):
        if not isinstance(module, torch.jit.ScriptModule):
            module.__dict__.pop("training", None)
            module._buffers.clear()
    raise RuntimeError("half-way")


def _settings(model: Any, output: Any) -> None:
    torch.set_grad_enabled(False)
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(5)
    model.training = not model.training
    raise RuntimeError("after changing the process")


class Raising(torch.autograd.Function):
    """Raises in the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("in the backward pass")


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        yield from (tensor for part in value.values() for tensor in _tensors(part))
    elif isinstance(value, (tuple, list)):
        yield from (tensor for part in value for tensor in _tensors(part))


def _backward(model: Any, output: Any) -> Any:
    return [Raising.apply(tensor) for tensor in _tensors(output) if tensor.is_floating_point()]  # type: ignore[no-untyped-call]


def _hook(model: Any, output: Any) -> Any:
    for tensor in _tensors(output):
        if tensor.requires_grad:
            tensor.register_hook(lambda gradient: _raise(RuntimeError("in a hook of a gradient")))


def _module_hook(model: Any, output: Any) -> None:
    def hook(module: nn.Module, args: Any) -> None:
        handle.remove()
        raise RuntimeError("in a hook of a module")

    handle = model.register_forward_pre_hook(hook)


def _group() -> BaseException:
    return ExceptionGroup("several", [ValueError("one"), TypeError("two")])


def _raise(error: BaseException) -> Any:
    raise error


_WHAT: dict[str, Callable[[Any, Any], Any]] = {
    "RuntimeError": make_raising(lambda: RuntimeError("half-way")),
    "grad_error": make_raising(lambda: RuntimeError("element 0 does not require grad; Inference tensors cannot be")),
    "Custom": make_raising(lambda: Custom(1, two=2)),
    "Unspeakable": make_raising(Unspeakable),
    "Sealed": make_raising(lambda: Sealed("sealed")),
    "same_object": make_raising(lambda: KEPT),
    "huge_message": make_raising(lambda: ValueError("long " * 1_000_000)),
    "no_text": make_raising(lambda: ValueError(Instruction("\x00\ud800\n"))),
    "group": make_raising(_group),
    "MemoryError": make_raising(MemoryError),
    "OutOfMemoryError": make_raising(lambda: torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")),
    "AssertionError": make_raising(AssertionError),
    "NotImplementedError": make_raising(lambda: NotImplementedError("Could not run 'aten::x' on the 'Meta' backend")),
    "KeyError": make_raising(lambda: KeyError("x")),
    "StopIteration": make_raising(lambda: StopIteration(3)),
    "StopAsyncIteration": make_raising(StopAsyncIteration),
    "GeneratorExit": make_raising(GeneratorExit),
    "SystemExit": make_raising(lambda: SystemExit(3)),
    "KeyboardInterrupt": make_raising(KeyboardInterrupt),
    "CancelledError": make_raising(asyncio.CancelledError),
    "BaseException": make_raising(lambda: Outside("outside")),
    "RecursionError": recursion,
    "warning_as_error": warn,
    "returns_none": lambda model, output: (None,),
    "returns_a_generator": lambda model, output: (part for part in [output]),
    "returns_nan": lambda model, output: [tensor * float("nan") for tensor in _tensors(output)],
    "returns_other_structure": lambda model, output: {"a": [output, {1, 2}, torch.ones(3)], 3: object()},
    "returns_itself": lambda model, output: model,
    "thread": _thread,
    "changes_parameters": _change_parameters,
    "deletes_attributes": _delete_attributes,
    "changes_settings": _settings,
    "in_backward": _backward,
    "in_gradient_hook": _hook,
    "in_module_hook": _module_hook,
}


@dataclass
class Fault:
    """Something that goes wrong at one call; the calls are counted where nothing that is restored can reach.

    ``armed`` is switched off where the model's output is compared afterwards.
    """

    name: str
    at: int
    armed: bool = True
    calls: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def __call__(self, model: Any, output: Any) -> Any:
        """Return what the model returns, or raise."""
        if not self.armed or next(self.calls) != self.at:
            return output
        changed = _WHAT[self.name](model, output)
        return output if changed is None else None if changed == (None,) else changed


#: The faults of the case that runs now, by number: a model refers to its own by the number alone.
CURRENT: dict[int, Fault] = {}


class Faulty(nn.Module):
    """A model around another one, with a fault."""

    def __init__(self, inner: nn.Module, fault: Fault) -> None:
        super().__init__()
        self.inner = inner
        self.number = id(fault)
        CURRENT[self.number] = fault

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return CURRENT[self.number](self, self.inner(*args, **kwargs))


#: The faults by name, "RuntimeError@3" at the third call.
FAULTS = [f"{name}@{at}" for name in _WHAT for at in (1, 3)]
