"""Hooks on the nodes of autograd's graph, which note when each begins; hooks of modules cannot time a backward pass.

A module's backward hooks wrap its tensors, which fails beside operations in place and with outputs that are no tensors.
An operator makes a node, and the node's number in the sequence of the graph shows the call of a layer that made it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.autograd.function import BackwardCFunction
from torch.utils.hooks import RemovableHandle

from profilerkit.process.restoring import for_each, restored

from ..compat.autograd import call_after_backward, list_followers, read_current_task, read_node_number
from ..compat.modules import read_parameters
from ..model.attributes import list_tensors
from ..model.keras_layers import list_reported_weights
from ..model.tensors import has_graph
from .timed_calls import Call
from .timeline import Accumulation, Event, Kind, Node, Span

__all__ = ["GraphHooks", "list_graph_outputs"]


class GraphHooks:
    """Registers hooks that note an event when a node begins, and takes them away again.

    Args:
        note: Takes an event.
        clock: Returns the moment.
        is_followed: Returns whether a node of an earlier call has its hook already.
    """

    def __init__(
        self, note: Callable[[Event], None], clock: Callable[[], Any], is_followed: Callable[[int], bool]
    ) -> None:
        self._note = note
        self._clock = clock
        self._is_followed = is_followed
        #: For the ``id`` of each parameter the paths of the layer that owns it.
        self._owners: Mapping[int, tuple[str, ...]] = {}
        self.under_way: set[int] = set()  #: the backward passes under way
        self._handles: list[Any] = []
        #: By the ``id`` of a parameter, the handle on the node that adds to its gradient.
        self._accumulations: dict[int, Any] = {}

    @contextmanager
    def follow(self, layers: Sequence[tuple[str, nn.Module]]) -> Iterator[None]:
        """Follow the nodes that add to gradients, by the layers that own the weights; remove all hooks at the end.

        The layers are every module under every path it has.
        """
        self._owners = _find_owners(layers)
        with restored(self.remove, in_child=False):
            yield

    def register(self, outputs: Iterable[torch.Tensor], span: Span) -> None:
        """Hook every node that leads to the outputs and was made in the span, and the nodes right before."""
        self._handles = [handle for handle in self._handles if handle.hooks_dict_ref() is not None]  # of nodes alive
        for node in _walk_graph(outputs, span.first):
            number = read_node_number(node)
            if _is_accumulation(node):
                self._hook_accumulation(node)
            elif number >= span.first:
                self._hook_made(node, number, span.find_owner(number))
            elif not self._is_followed(number):  # made before the layers ran: its time is no layer's
                self._hook(node, None)

    def _hook_made(self, node: Any, number: int, call: Call | None) -> None:
        """Hook a node for the call that made it, with its end if only gradients of parameters come after it."""
        if call is not None:
            call.nodes += 1
        owner = Node(call, number, runs_layers=isinstance(node, BackwardCFunction))
        self._hook(node, owner, notes_end=all(map(_is_accumulation, list_followers(node))))

    def remove(self) -> None:
        """Take every hook away, from nodes that are still alive too."""
        for_each(RemovableHandle.remove, [(handle,) for handle in self._handles])
        self._handles.clear()
        self._accumulations.clear()

    def _hook(self, node: Any, owner: Node | Accumulation | None, notes_end: bool = False) -> Any:
        """Have the begin of a node noted, and its end if it is the last with time of its call; return the handle."""
        handle = node.register_prehook(partial(self._note_begin, owner))
        self._handles.append(handle)
        if notes_end:
            self._handles.append(node.register_hook(self._note_end))
        return handle

    def _hook_accumulation(self, node: Any) -> None:
        """Hook the node that adds to a gradient, which several graphs share for as long as one of them is alive."""
        key = id(node.variable)
        handle = self._accumulations.get(key)
        if handle is None or handle.hooks_dict_ref() is None:
            self._accumulations[key] = self._hook(node, Accumulation(self._owners.get(key, ())), notes_end=True)

    def _note_begin(self, owner: Node | Accumulation | None, gradients: Any) -> None:
        task = read_current_task()
        if task not in self.under_way:
            self.under_way.add(task)
            call_after_backward(partial(self._note_end_of_pass, task))
            if torch.is_grad_enabled():  # by create_graph=True
                self._note((Kind.GRAPH, None, self._clock(), task))
        self._note((Kind.STARTS, owner, self._clock(), task))

    def _note_end(self, gradients: Any, incoming: Any) -> None:
        self._note((Kind.ENDS, None, self._clock(), read_current_task()))

    def _note_end_of_pass(self, task: int) -> None:
        self.under_way.discard(task)
        self._note((Kind.OVER, None, self._clock(), task))


def _walk_graph(outputs: Iterable[torch.Tensor], first: int) -> Iterator[Any]:
    """Yield each node once that leads to the outputs and has a number from ``first`` on, and the nodes right before."""
    visited: dict[Any, None] = dict.fromkeys(tensor.grad_fn for tensor in outputs)
    waiting = list(visited)
    while waiting:
        node = waiting.pop()
        yield node
        if read_node_number(node) >= first:
            unvisited = dict.fromkeys(follower for follower in list_followers(node) if follower not in visited)
            visited.update(unvisited)
            waiting += unvisited


def _is_accumulation(node: Any) -> bool:
    """Return whether a node adds a gradient to a parameter."""
    return hasattr(node, "variable")


def list_graph_outputs(output: Any, modules: Iterable[nn.Module]) -> list[torch.Tensor]:
    """Return the tensors with a graph after a call: its results, and tensors in attributes and buffers of modules."""
    tensors = list_tensors((output,))
    if torch.is_grad_enabled():
        kept = (value for module in modules for attribute in module.__dict__.values() for value in _open(attribute))
        tensors += [value for value in kept if isinstance(value, torch.Tensor)]
    return list(filter(has_graph, tensors))


def _open(attribute: Any) -> Iterable[Any]:
    """Return the items of a list, a tuple or a dict, as the buffers of a module are; else the value itself."""
    if isinstance(attribute, dict):
        return tuple(dict.values(attribute))  # without code of a derived class
    return attribute if type(attribute) in (list, tuple) else (attribute,)


def _find_owners(layers: Sequence[tuple[str, nn.Module]]) -> dict[int, tuple[str, ...]]:
    """Return by the ``id`` of each parameter the paths of the module that owns it, or owned it first."""
    modules: dict[int, nn.Module] = {}
    paths: dict[int, list[str]] = {}
    for path, module in layers:
        modules[id(module)] = module
        paths.setdefault(id(module), []).append(path)
    owners: dict[int, tuple[str, ...]] = {}
    for key, module in reversed(modules.items()):  # of two owners the first is noted last
        keras_weights = [value for _, value in list_reported_weights(module)]
        for parameter in (*read_parameters(module).values(), *keras_weights):
            if parameter is not None:
                owners[id(parameter)] = tuple(paths[key])
    return owners
