"""Tensors that no recorded operator made: constants, or results of other threads, of numpy, or of unknown kernels."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from profilerkit.process.collector import frozen_objects_found
from profilerkit.process.restoring import for_each, restored

from ..compat.modes import disable_dispatch_modes, unseen_by_functions
from ..costs.shapes import has_floats
from ..model.tensors import list_tensors_alive
from .exposed_memory import ExposedMemory, find_key
from .live_bytes import LiveBytes
from .unseen_work import OtherThreads

__all__ = ["UntrackedTensors"]


class UntrackedTensors:
    """Reports tensors that no recorded operator made, unless they may be constants.

    Args:
        live: The storages that are alive, of which the recorder knows the origin.
        exposed: The memory that has left torch.
        stands_in: Whether a tensor has no values of its own; None in a real run, where all have values.
        report: Called once for each tensor of unknown origin.
    """

    def __init__(
        self,
        live: LiveBytes,
        exposed: ExposedMemory,
        stands_in: Callable[[torch.Tensor], bool] | None,
        report: Callable[[], None],
    ) -> None:
        self._live = live
        self._exposed = exposed
        self._stands_in = stands_in or (lambda tensor: False)
        self._report = report
        #: Whether tensors of the model or of its inputs have values.
        self._has_values = stands_in is None
        #: Whether numbers have left torch, with the memory that they are in, or copied to a list.
        self.numbers_are_outside = False
        #: Whether torch itself is making tensors now, from the sequences in an index.
        self._is_indexing = False
        self._threads = OtherThreads()
        #: Tensors with values from before the pass, and tensors that were judged already.
        self._others = LiveBytes()
        self._knows_earlier = False
        #: Leaves of the graph that are no weights of the model's, with the gradients that they had.
        self._leaves: dict[int, tuple[torch.Tensor, torch.Tensor | None]] = {}

    @contextmanager
    def follow(self, *, objects_have_values: bool) -> Iterator[None]:
        """Note the threads that are started; if tensors have values, note all tensors from before the pass.

        ``objects_have_values`` says whether objects among the inputs hold tensors, which have no stand-ins. Leaves of
        the graph that are no weights of the model get their gradients back at the end.
        """
        self._has_values |= objects_have_values
        if self._has_values:
            self._know_earlier()
        if self._has_values or threading.active_count() > 1:
            self._threads.begin_counting()
        with restored(self._restore_gradients, in_child=False), self._threads.follow():
            yield

    @contextmanager
    def accept_indices(self) -> Iterator[None]:
        """Accept the integers that torch makes inside, from the sequences in an index."""
        outside, self._is_indexing = self._is_indexing, True
        try:
            yield
        finally:
            self._is_indexing = outside

    def note_numbers_outside(self) -> None:
        """Note that numbers leave torch: tensors that come from now on may have been computed of them."""
        self.numbers_are_outside = True
        self._know_earlier()

    def _know_earlier(self) -> None:
        """Note all existing tensors, in the first call: a tensor from before that is no result of other work."""
        if self._knows_earlier:
            return
        self._knows_earlier = True
        # The pass may be under way: asking a sparse tensor for its parts is no work of the model.
        with frozen_objects_found(), unseen_by_functions(), disable_dispatch_modes():
            for tensor in list_tensors_alive():
                self._others.add(tensor, 0)

    def _restore_gradients(self) -> None:
        for_each(setattr, [(leaf, "grad", gradient) for leaf, gradient in self._leaves.values()])

    def meet(self, tensor: torch.Tensor, *, is_lifted: bool = False) -> None:
        """Report a tensor that no recorded operator made, unless it may be a constant.

        ``is_lifted`` marks a tensor that torch makes in this thread from numbers of Python or numpy.
        """
        if tensor.requires_grad and tensor.is_leaf:
            self._take_gradient(tensor)
        if self._stands_in(tensor):
            self._meet_stand_in(tensor, is_lifted)
        elif has_floats(tensor):
            self._meet_numbers(tensor, is_lifted)

    def _meet_stand_in(self, tensor: torch.Tensor, is_lifted: bool) -> None:
        """Report a tensor without values, unless it is lifted, or integers that torch makes of an index."""
        if not tensor.numel():
            return
        self._live.add(tensor, 0)
        if not is_lifted and (has_floats(tensor) or not self._is_indexing):
            self._report()

    def _take_gradient(self, leaf: torch.Tensor) -> None:
        """Take the gradient of a leaf away until the end: a real run would add to it in place."""
        self._leaves.setdefault(id(leaf), (leaf, leaf.grad))
        leaf.grad = None

    def _meet_numbers(self, tensor: torch.Tensor, is_lifted: bool) -> None:
        """Report a tensor that has values, where they may have been computed elsewhere; each storage once."""
        key = find_key(tensor)
        if not key or key in self._others.by_storage:
            return
        self._others.add(tensor, 0)
        if tensor.numel() > 1 and self._may_be_computed(tensor, is_lifted):
            self._report()

    def _may_be_computed(self, tensor: torch.Tensor, is_lifted: bool) -> bool:
        """Return whether the values of a tensor may come from numpy, a kernel or another thread."""
        if self.numbers_are_outside:
            return self._exposed.is_foreign(_read_address(tensor))
        if self._threads.were_started:
            return True
        return not is_lifted and self._threads.have_run(if_unknown=self._has_values)


def _read_address(tensor: torch.Tensor) -> int:
    with unseen_by_functions():
        return tensor.data_ptr()
