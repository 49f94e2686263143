"""What goes wrong while a model runs: at the first or third call of forward, in a hook, in the backward pass."""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

__all__ = ["FAULTS", "NO_FAULT", "Fault", "Faulty"]


class Custom(Exception):
    """One that cannot be made again from what it says."""

    def __init__(self, one: int, *, two: int) -> None:
        super().__init__(f"{one} and {two}")


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("and saying so fails as well")

    __repr__ = __str__


class Sealed(Exception):
    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"sealed: {name}")


class Outside(BaseException):
    """None of `Exception`'s."""


class Instruction(str):
    """Text that is no plain text."""


KEPT = RuntimeError("the same object each time")


def _recursion(model: Any, output: Any) -> Any:
    return _recursion(model, output)


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


def _warn(model: Any, output: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.warn("turned into an error", UserWarning, stacklevel=2)


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
    if sys.version_info >= (3, 11):
        return ExceptionGroup("several", [ValueError("one"), TypeError("two")])  # noqa: F821
    return ValueError("no groups here")


def _raise(error: BaseException) -> Any:
    raise error


def _raising(make: Callable[[], BaseException]) -> Callable[[Any, Any], Any]:
    def fault(model: Any, output: Any) -> Any:
        raise make()

    return fault


_WHAT: dict[str, Callable[[Any, Any], Any]] = {
    "RuntimeError": _raising(lambda: RuntimeError("half-way")),
    "grad_error": _raising(lambda: RuntimeError("element 0 does not require grad; Inference tensors cannot be")),
    "Custom": _raising(lambda: Custom(1, two=2)),
    "Unspeakable": _raising(Unspeakable),
    "Sealed": _raising(lambda: Sealed("sealed")),
    "same_object": _raising(lambda: KEPT),
    "huge_message": _raising(lambda: ValueError("long " * 1_000_000)),
    "no_text": _raising(lambda: ValueError(Instruction("\x00\ud800\n"))),
    "group": _raising(_group),
    "MemoryError": _raising(MemoryError),
    "OutOfMemoryError": _raising(lambda: torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")),
    "AssertionError": _raising(AssertionError),
    "NotImplementedError": _raising(lambda: NotImplementedError("Could not run 'aten::x' on the 'Meta' backend")),
    "KeyError": _raising(lambda: KeyError("x")),
    "StopIteration": _raising(lambda: StopIteration(3)),
    "StopAsyncIteration": _raising(StopAsyncIteration),
    "GeneratorExit": _raising(GeneratorExit),
    "SystemExit": _raising(lambda: SystemExit(3)),
    "KeyboardInterrupt": _raising(KeyboardInterrupt),
    "CancelledError": _raising(asyncio.CancelledError),
    "BaseException": _raising(lambda: Outside("outside")),
    "RecursionError": _recursion,
    "warning_as_error": _warn,
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


NO_FAULT = "none"
#: The faults by name, "RuntimeError@3" at the third call.
FAULTS = [f"{name}@{at}" for name in _WHAT for at in (1, 3)]
