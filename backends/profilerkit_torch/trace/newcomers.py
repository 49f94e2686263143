"""Tensors that no recorded operator made: constants of the model, or computed where nobody has seen it.

A constant that the model makes of numbers of its own, ``torch.tensor([0.5])``, is no work; nor are numbers that only
decide which way the model takes. Once numbers have left torch, nothing tells such a constant from what was computed of
them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from profilerkit.process.collector import frozen_objects_found
from profilerkit.process.restoring import restored

from ..compat.modes import unseen_by_functions
from ..compat.tensors import find_storage, storage_address
from ..untouched.leftovers import tensors_alive
from .live_bytes import LiveBytes
from .other_threads import OtherThreads
from .suspicions import LeftMemory

__all__ = ["Newcomers", "find_key"]


class Newcomers:
    """Reports tensors that no recorded operator made, unless they may be constants.

    Args:
        live: The storages that are alive, of which the recorder knows the origin.
        left: The memory that has left torch.
        stands_in: Whether a tensor has no values of its own; None in a real run, where all have values.
        report: Called once for each tensor of unknown origin.

    Attributes:
        has_values: Whether tensors of the model or of its inputs have values: in a real run, and those in objects among
            the inputs, for which nothing stands in.
        is_indexing: Whether torch itself makes tensors now, of the sequences in an index.
    """

    def __init__(
        self,
        live: LiveBytes,
        left: LeftMemory,
        stands_in: Callable[[torch.Tensor], bool] | None,
        report: Callable[[], None],
    ) -> None:
        self._live = live
        self._left = left
        self._stands_in = stands_in or (lambda tensor: False)
        self._report = report
        self.has_values: bool = stands_in is None
        self.is_indexing = False
        self._threads = OtherThreads()
        #: Tensors with values that were there before, and those that were asked about.
        self._others = LiveBytes()
        #: Leaves of the graph that are no weights of the model's, with the gradients that they had.
        self._leaves: dict[int, tuple[torch.Tensor, torch.Tensor | None]] = {}

    @contextmanager
    def follow(self) -> Iterator[None]:
        """Note the threads that are started; where tensors have values, know what was there before.

        Leaves of the graph that are no weights of the model's have their gradients again afterwards.
        """
        if self.has_values:
            self.know_all()
        if self.has_values or threading.active_count() > 1:
            self._threads.begin_counting()
        with restored(self._restore_gradients, in_child=False), self._threads.follow():
            yield

    def know_all(self) -> None:
        """Know all tensors that there are: what was there before is no result."""
        with frozen_objects_found(), unseen_by_functions():
            for tensor in tensors_alive():
                self._others.add(tensor, 0)

    def _restore_gradients(self) -> None:
        for tensor, gradient in self._leaves.values():
            tensor.grad = gradient

    def meet(self, tensor: torch.Tensor, *, is_lifted: bool = False) -> None:
        """Report a tensor that no recorded operator made, unless it may be a constant.

        Lifted is what torch makes in this thread of numbers of Python's or numpy's.
        """
        if tensor.requires_grad and tensor.is_leaf:
            self._take_gradient(tensor)
        is_number = tensor.is_floating_point() or tensor.is_complex()
        if not self._stands_in(tensor):
            if is_number:
                self._meet_numbers(tensor, is_lifted)
        elif tensor.numel():
            self._live.add(tensor, 0)
            if not is_lifted and (is_number or not self.is_indexing):
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
        if self._left.has_numbers:
            return self._left.is_foreign(_read_address(tensor))
        if self._threads.were_started:
            return True
        return not is_lifted and self._threads.have_run(if_unknown=self.has_values)


def find_key(tensor: torch.Tensor) -> int:
    """Return the address of a tensor's storage; 0 where it has no single one."""
    try:
        with unseen_by_functions():
            return int(storage_address(find_storage(tensor)))
    except (NotImplementedError, RuntimeError):
        return 0


def _read_address(tensor: torch.Tensor) -> int:
    with unseen_by_functions():
        return tensor.data_ptr()
