"""Autograd: the graph of a backward pass, its nodes, and the run of it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import torch

from profilerkit.backend_kit.private_names import field, find

from .modes import WatchingMode, disable_dispatch_modes
from .names import find_first, refuse, require
from .tensors import storage_address

#: Runs operators before autograd takes them apart. Without it the bytes alive would be wrong: no pass is made.
without_autograd_kernels: Callable[[], AbstractContextManager[Any]] = require(
    "torch._C._AutoDispatchBelowAutograd", purpose="sees operators before they are taken apart"
)
#: The number of the next node of a graph: a call's nodes have the numbers between its beginning and its end.
read_next_node_number: Callable[[], int] = require(
    "torch._C._autograd._get_sequence_nr", purpose="tells which layer a node of the backward pass is of"
)
_NUMBER = field("_sequence_nr")
_no_number = refuse("Node._sequence_nr", "tells which layer a node of the backward pass is of")


def read_node_number(node: Any) -> int:
    """Return the number of a node of a graph, in the order in which nodes were made."""
    return int(getattr(node, _NUMBER, _no_number)())


def list_followers(node: Any) -> list[Any]:
    """Return the nodes that get a gradient from a node of the backward pass, one for each gradient."""
    return [follower for follower, _ in node.next_functions if follower is not None]


#: The node that runs.
find_current_node: Callable[[], Any] = require(
    "torch._C._current_autograd_node", purpose="tells which layer a node of the backward pass is of"
)
#: The same in a forward pass, which may compute gradients too; without it, these are work like any other.
find_node_in_forward_pass: Callable[[], Any] = find_first(
    "torch._C._current_autograd_node",
    instead=lambda: None,
    off="gradients that a forward pass computes take other memory than in a run",
)
#: The number of the backward pass that runs, -1 outside of all.
read_current_task: Callable[[], int] = require(
    "torch._C._current_graph_task_id", purpose="tells when a backward pass is over"
)
_run_engine: Any = require(
    "torch.autograd.Variable._execution_engine.run_backward", purpose="runs the backward pass of a training step"
)
#: Has a function called when the backward pass that runs is over.
call_after_backward: Callable[[Callable[[], None]], None] = require(
    "torch.autograd.Variable._execution_engine.queue_callback", purpose="tells when a backward pass is over"
)


def run_backward(loss: torch.Tensor, gradient: torch.Tensor) -> None:
    """Run the backward pass like ``loss.backward(gradient)``, but by a function that no mode handles."""
    _run_engine((loss,), (gradient,), False, False, (), allow_unreachable=True, accumulate_grad=True)


_IN_NEW_MEMORY = "training_memory has a gradient too many where several gradients of a tensor are added up"
#: Returns how many references there are in torch to a tensor; without it a sum of gradients is never in place.
_count_uses: Any = find_first("torch.Tensor._use_count", off=_IN_NEW_MEMORY)
#: The same for a storage, by its address.
_count_storage_uses: Any = find_first("torch._C._storage_Use_Count", off=_IN_NEW_MEMORY)


def count_references(terms: tuple[torch.Tensor, ...]) -> tuple[int, int, int] | None:
    """Return how many references there are to the first term of a sum, to its storage, and to it in Python.

    None if torch does not report them.
    """
    if _count_uses is None or _count_storage_uses is None:
        return None
    storage = storage_address(terms[0].untyped_storage())
    return int(_count_uses(terms[0])), int(_count_storage_uses(storage)), sys.getrefcount(terms[0])


class _SumWatch(WatchingMode):
    """Counts the references to the first term of a sum."""

    counts: tuple[int, int, int] | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.add.Tensor:
            self.counts = count_references(args)
        return func(*args, **(kwargs or {}))


@cache
def count_references_in_sum() -> tuple[int, int, int] | None:
    """Return the result of `count_references` for a gradient to which torch adds another gradient in place.

    Torch adds in place if only the sum refers to the first gradient, but not while a mode is active: so a recorder does
    not see it, and compares the references of a sum with this result. The counts differ between releases, so they are
    taken once, in a backward pass of ``-x + -x`` before a recorded pass. It saves no tensors, because the user may have
    hooks for saved tensors, and is on the CPU, because torch negates meta tensors with its compiler loaded.
    """
    with disable_dispatch_modes(), torch.inference_mode(False), torch.enable_grad(), _SumWatch() as watch:
        x = torch.empty(1, device="cpu", requires_grad=True)
        torch.autograd.grad(-x + -x, x, torch.empty(1, device="cpu"))
    counts: tuple[int, int, int] | None = watch.counts
    return counts


_will_run: Any = find_first(
    "torch._C._will_engine_execute_node",
    instead=lambda node: True,
    off="gradients of recurrent layers that a step does not ask for are counted",
)


def is_asked_for(node: Any) -> bool:
    """Return whether the running backward pass needs the gradient that goes to a node of its graph."""
    try:
        return node is not None and bool(_will_run(node))
    except RuntimeError:  # torch does not answer for a tensor by which the model differentiates
        return True


#: The hooks for tensors that a graph saves: a pair, or None. Without it, as in torch 2.6, no report names them, and
#: hooks that a model leaves switched on stay.
top_saved_tensors_hooks: Callable[[bool], Any] = find_first(
    "torch._C._autograd._top_saved_tensors_default_hooks", instead=lambda ignore_tracing: None
)
_set_version: Any = find_first(
    "torch._C._autograd._unsafe_set_version_counter",
    instead=lambda tensors, versions: None,
    off="a graph that was made before the profile may refuse its backward pass",
)


def set_version(tensor: torch.Tensor, version: int) -> None:
    """Give a tensor whose values were restored its earlier count of writes.

    Without it a graph of the caller that needs the tensor refuses its backward pass.
    """
    try:
        _set_version((tensor,), (version,))
    except TypeError:  # torch 2.6 takes one tensor
        _set_version(tensor, version)


#: Makes a tensor that carries its derivative; if it is missing, models cannot call it either.
make_dual: Any = find("torch._C._VariableFunctions._make_dual")
