"""Work of a pass that no recorded operator does: it is noticed by the tensors in which its results come back.

- In another thread, ``pool.submit(torch.matmul, a, b).result()``: on stand-ins a tensor without values that no operator
  of this thread made; in a real run a tensor of unknown origin after another thread has run.
- In numpy, ``torch.from_numpy(numpy.tanh(x.numpy()))``: a tensor of unknown origin after numbers have left torch.
- In a kernel that torch does not know, ``y = torch.empty(n); library.tanh(x.data_ptr(), y.data_ptr())``: memory that is
  read although no operator wrote to it; ``library.double(x.data_ptr())``: memory that changed without an operator.

A constant that the model makes of its own numbers, ``torch.tensor([0.5])``, is no such work. Neither are numbers on
which only the path of the model depends. Once numbers have left torch, a constant cannot be told from a result that was
computed of these numbers.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from profilerkit.backend_kit.call_stack import tensors_in as values_in
from profilerkit.process.collector import frozen_objects_found
from profilerkit.process.restoring import restored
from profilerkit.unfinished import is_unfinished, make_unfinished_error

from ..compat.modes import unseen_by_functions
from ..compat.operators import HigherOrderOperator, find_operator
from ..compat.tensors import FakeTensor, find_storage, storage_address
from ..costs.shapes import has_floats
from ..model.tensors import list_wrapped
from ..untouched.leftovers import tensors_alive
from ..untouched.write_guard import written_by
from .exposed_memory import ExposedMemory, Suspicion
from .live_bytes import LiveBytes
from .operator_facts import LIFT, reads_numbers, tensors_among, tensors_in
from .unseen_work import OtherThreads

__all__ = ["EMPTY", "Origins"]

#: Operators that make memory, and write nothing to it.
EMPTY = frozenset(
    {
        find_operator("aten.empty.memory_format"),
        find_operator("aten.empty_like.default"),
        find_operator("aten.empty_strided.default"),
        find_operator("aten.empty_permuted.default"),
        find_operator("aten.new_empty.default"),
        find_operator("aten.new_empty_strided.default"),
    }
)
#: Tensors of these types hand no question of ours to code of the user's.
_QUIET_TYPES = (torch.Tensor, torch.nn.Parameter, FakeTensor)


class Origins:
    """Finds tensors that reach operators and results of a pass although no recorded operator made them.

    Args:
        live: The storages that are alive, of which the recorder knows the origin.
        stands_in: Whether a tensor has no values of its own; None in a real run, where all have values.
        report: Called once for each tensor of unknown origin.

    Attributes:
        untracked: Judges the tensors whose storage the recorder does not know.
    """

    def __init__(
        self, live: LiveBytes, stands_in: Callable[[torch.Tensor], bool] | None, report: Callable[[], None]
    ) -> None:
        self._live = live
        self._report = report
        self._exposed = ExposedMemory()
        self.untracked: UntrackedTensors = UntrackedTensors(live, self._exposed, stands_in, report)
        #: Memory that has left torch, and was written to or has changed since the operator that runs began.
        self._rewritten: list[Suspicion] = []

    # Numbers that leave torch, and memory that is made empty ----------------------------------------------------------

    def note_empty(self, tensor: torch.Tensor) -> None:
        """Note memory that nothing has written to."""
        entry = self._live.by_storage.get(find_key(tensor))
        if entry is not None:
            entry.suspicion = Suspicion()

    def expose(self, tensor: torch.Tensor, values: torch.Tensor, *, copied: bool = False) -> None:
        """Note that a tensor's numbers leave torch, and the memory that they are in too unless they are copied.

        ``values`` is the tensor that has the numbers: itself, unless it is one without values.
        """
        if not has_floats(tensor):
            return
        if tensor.numel() > 1 and not self._exposed.has_numbers:
            self._exposed.has_numbers = True
            if not self.untracked.has_values:  # otherwise all earlier tensors are known from the start
                self.untracked.know_all()
        entry = self._live.by_storage.get(find_key(tensor))
        if entry is None or copied:
            return
        with unseen_by_functions():
            storage = weakref.ref(values.untyped_storage())
        if entry.suspicion is None:
            entry.suspicion = Suspicion(storage)
            entry.suspicion.renew()
        entry.suspicion.storage = storage
        self._exposed.add(entry.suspicion)

    def note_freed_memory(self) -> None:
        """Count memory that the model has given back itself, by ``storage.resize_(0)``, as large as it is now."""
        for storage in self._exposed.list_storages():
            entry = self._live.by_storage.get(storage_address(storage))
            if entry is not None and storage.nbytes() < entry.seen:
                self._live.resize(storage)

    def accept(self, results: Any) -> None:
        """Know the results of a layer that has a formula of its own."""
        with unseen_by_functions():
            for tensor in _list_tensors(results):
                self._live.add(tensor)
                entry = self._live.by_storage.get(find_key(tensor))
                if entry is not None:
                    entry.suspicion = None

    # Tensors that operators and callers read --------------------------------------------------------------------------

    def check(self, func: Any, args: Any, kwargs: Any) -> None:
        """Check the tensors that an operator is about to read."""
        if self._has_suspects(args) or (kwargs and self._has_suspects(kwargs.values())):
            self._examine(func, args, kwargs or {})

    def renew(self) -> None:
        """Note the values that the operator has written to memory that has left torch."""
        while self._rewritten:
            self._rewritten.pop().renew()

    def check_results(self, results: Any) -> None:
        """Check the results of a pass; raises `InputError` for a generator or the like, which has not run yet."""
        unfinished = next(values_in(results, is_unfinished), None)
        if unfinished is not None:
            raise make_unfinished_error(unfinished)
        with unseen_by_functions():
            self.check(None, _list_tensors(results), None)
        if self._exposed.has_numbers and any(map(self._is_foreign_array, values_in(results, _is_array))):
            self._report()

    def meet_views(self, result: Any, arguments: Iterable[torch.Tensor]) -> None:
        """Look at views whose memory was not known before: they are of tensors that no recorded operator made."""
        keys = {find_key(tensor) for tensor in tensors_in(result)}
        for tensor in arguments:
            if find_key(tensor) in keys:
                self.untracked.meet(tensor)

    def _has_suspects(self, values: Iterable[Any]) -> bool:
        """Return whether a tensor among values is of unknown origin, or in memory whose content may be."""
        for value in values:
            if isinstance(value, torch.Tensor):
                if self._is_suspect(value):
                    return True
            elif isinstance(value, (list, tuple)) and self._has_suspects(value):
                return True
        return False

    def _is_suspect(self, tensor: torch.Tensor) -> bool:
        try:
            is_quiet = type(tensor) in _QUIET_TYPES
            key = storage_address(tensor.untyped_storage()) if is_quiet else find_key(tensor)
        except (NotImplementedError, RuntimeError):  # sparse and other tensors without one storage
            return False
        entry = self._live.by_storage.get(key)
        return entry is None or entry.suspicion is not None

    def _examine(self, func: Any, args: Any, kwargs: Any) -> None:
        """Report each tensor of unknown origin that an operator reads; the caller of the model where it is None."""
        has_schema = func is not None and not isinstance(func, HigherOrderOperator)
        written = set(map(id, written_by(func, args, kwargs))) if has_schema else set()
        reads = func is None or reads_numbers(func)
        for tensor in tensors_among(args, kwargs):
            entry = self._live.by_storage.get(find_key(tensor))
            if entry is None:
                self.untracked.meet(tensor, is_lifted=func is LIFT)
            elif entry.suspicion is not None and (reads or id(tensor) in written):
                self._examine_suspect(tensor, entry, is_written=id(tensor) in written)

    def _examine_suspect(self, tensor: torch.Tensor, entry: Any, *, is_written: bool) -> None:
        """Report a tensor whose memory holds values that no operator wrote; values written now are known afterwards."""
        suspicion: Suspicion = entry.suspicion
        is_first_write = is_written and suspicion.content is None  # over memory whose content nobody has read
        if tensor.numel() and not is_first_write and suspicion.is_changed():
            self._report()
        elif not is_written:
            return
        if suspicion.storage is None:  # made empty, and filled now
            entry.suspicion = None
        else:
            self._rewritten.append(suspicion)

    def _is_foreign_array(self, array: Any) -> bool:
        """Return whether an array of numpy's has numbers in memory that is no tensor's."""
        interface = array.__array_interface__
        has_numbers = interface["typestr"][1] in "fc" and 0 not in interface["shape"]
        address, _ = interface["data"]
        return has_numbers and self._exposed.is_foreign(address)


def _is_array(value: Any) -> bool:
    """Return whether a value is an array of numpy's, or of a library that shows its memory as numpy does."""
    return not isinstance(value, torch.Tensor) and isinstance(getattr(value, "__array_interface__", None), dict)


def _list_tensors(results: Any) -> tuple[torch.Tensor, ...]:
    """Return the tensors among results; for a wrapper the tensors inside it, which operators have made."""
    tensors = values_in(results, torch.is_tensor)
    return tuple(part for tensor in tensors for part in list_wrapped(tensor) or [tensor])


# Tensors that no recorded operator made -------------------------------------------------------------------------------


class UntrackedTensors:
    """Reports tensors that no recorded operator made, unless they may be constants.

    Args:
        live: The storages that are alive, of which the recorder knows the origin.
        exposed: The memory that has left torch.
        stands_in: Whether a tensor has no values of its own; None in a real run, where all have values.
        report: Called once for each tensor of unknown origin.

    Attributes:
        has_values: Whether tensors of the model or of its inputs have values: in a real run, and if objects among the
            inputs hold tensors, which have no stand-ins.
        is_indexing: Whether torch itself is making tensors now, from the sequences in an index.
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
        self.has_values: bool = stands_in is None
        self.is_indexing = False
        self._threads = OtherThreads()
        #: Tensors with values from before the pass, and tensors that were judged already.
        self._others = LiveBytes()
        #: Leaves of the graph that are no weights of the model's, with the gradients that they had.
        self._leaves: dict[int, tuple[torch.Tensor, torch.Tensor | None]] = {}

    @contextmanager
    def follow(self) -> Iterator[None]:
        """Note the threads that are started; if tensors have values, note all tensors from before the pass.

        Leaves of the graph that are no weights of the model get their gradients back at the end.
        """
        if self.has_values:
            self.know_all()
        if self.has_values or threading.active_count() > 1:
            self._threads.begin_counting()
        with restored(self._restore_gradients, in_child=False), self._threads.follow():
            yield

    def know_all(self) -> None:
        """Note all existing tensors: a tensor from before the pass is no result of it."""
        with frozen_objects_found(), unseen_by_functions():
            for tensor in tensors_alive():
                self._others.add(tensor, 0)

    def _restore_gradients(self) -> None:
        for tensor, gradient in self._leaves.values():
            tensor.grad = gradient

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
        if not is_lifted and (has_floats(tensor) or not self.is_indexing):
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
        if self._exposed.has_numbers:
            return self._exposed.is_foreign(_read_address(tensor))
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
