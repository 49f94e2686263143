"""What the caller is in the middle of when he asks.

Modes of torch's are in ``test_callers_context.py``, and what records in ``test_while_torch_records.py``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from attack_calls import in_a_thread
from attack_cases import NO_CONTEXT

__all__ = ["CONTEXTS"]

Context = Callable[[Callable[[], Any]], Any]


def _inside(make: Callable[[], AbstractContextManager[Any]]) -> Context:
    def context(do: Callable[[], Any]) -> Any:
        with make():
            return do()

    return context


def _in_backward(do: Callable[[], Any]) -> Any:
    """As a hook of the caller's own does it, in the thread of a backward pass."""
    leaf = torch.ones(3, requires_grad=True)
    out = leaf * 2
    out.register_hook(lambda gradient: do() and None)
    out.sum().backward()


def _in_a_hook(do: Callable[[], Any]) -> Any:
    layer = torch.nn.ReLU()
    layer.register_forward_hook(lambda module, args, output: do() and None)
    layer(torch.ones(1, 2))


def _generator(do: Callable[[], Any]) -> Any:
    """Left before its end, as by a loop that breaks."""

    def steps() -> Any:
        try:
            yield 1
            yield 2
        finally:
            do()

    for _ in steps():
        break


def _run_profiled(do: Callable[[], Any]) -> Any:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True):
        do()


def _double(do: Callable[[], Any]) -> Any:
    held = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        do()
    finally:
        torch.set_default_dtype(held)


def _one_thread(do: Callable[[], Any]) -> Any:
    held = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        do()
    finally:
        torch.set_num_threads(held)


def _run_flushing(do: Callable[[], Any]) -> Any:
    torch.set_flush_denormal(True)
    try:
        do()
    finally:
        torch.set_flush_denormal(False)


@contextmanager
def _deterministic() -> Any:
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@contextmanager
def _errors() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def _run_compiled(do: Callable[[], Any]) -> Any:
    """In code that is compiled, at a break of the graph."""

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def call() -> None:
        do()

    def function(row: torch.Tensor) -> torch.Tensor:
        row = row * 2
        call()
        return row + 1

    torch._dynamo.reset()
    torch.compile(function, backend="eager")(torch.ones(2))


def _identity(tensor: Any) -> Any:
    return tensor


CONTEXTS: dict[str, Context] = {
    NO_CONTEXT: _inside(nullcontext),
    "no_grad": _inside(torch.no_grad),
    "autocast": _inside(lambda: torch.autocast("cpu", dtype=torch.bfloat16)),
    "profiler": _run_profiled,
    "saved_tensors_hooks": _inside(lambda: torch.autograd.graph.saved_tensors_hooks(_identity, _identity)),
    "no_saved_tensors_hooks": _inside(lambda: torch.autograd.graph.disable_saved_tensors_hooks("not here")),
    "deterministic": _inside(_deterministic),
    "warnings_are_errors": _inside(_errors),
    "double": _double,
    "one_thread": _one_thread,
    "flush_denormal": _run_flushing,
    "single_threaded_backward": _inside(lambda: torch.autograd.set_multithreading_enabled(False)),
    "force_eager": _inside(lambda: torch.compiler.set_stance("force_eager")),
    "in_backward": _in_backward,
    "in_a_hook": _in_a_hook,
    "in_a_thread": in_a_thread,
    "in_a_closing_generator": _generator,
    "compiled": _run_compiled,
}
