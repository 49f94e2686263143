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

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch

from profilerkit.backend_kit.call_stack import tensors_in as values_in
from profilerkit.unfinished import is_unfinished, make_unfinished_error

from ..compat.modes import unseen_by_functions
from ..compat.operators import HigherOrderOperator, find_operator
from ..compat.tensors import FakeTensor, storage_address
from ..costs.shapes import has_floats
from ..model.tensors import list_wrapped
from ..untouched.write_guard import written_by
from .exposed_memory import ExposedMemory, Suspicion
from .live_bytes import LiveBytes
from .operator_facts import LIFT, reads_numbers, tensors_among, tensors_in
from .untracked_tensors import UntrackedTensors, find_key

__all__ = ["EMPTY", "Origins"]

#: Operators that make memory, and write nothing to it.
EMPTY = frozenset(
    find_operator(f"aten.{name}")
    for name in (
        *("empty.memory_format", "empty_like.default", "empty_strided.default", "empty_permuted.default"),
        *("new_empty.default", "new_empty_strided.default"),
    )
)
#: Tensors of these types hand no question of ours to code of the user's.
_QUIET_TYPES = (torch.Tensor, torch.nn.Parameter, FakeTensor)


class Origins:
    """Finds tensors that reach operators and results of a pass although no recorded operator made them.

    A tensor in memory that the recorder does not know goes to `untracked`. Known memory has a suspicion once it was
    made empty or left torch: `check` reads it before an operator, and `renew` notes afterwards what was written.

    Args:
        live: The storages that are alive, of which the recorder knows the origin.
        stands_in: Whether a tensor has no values of its own; None in a real run, where all have values.
        report: Called once for each tensor of unknown origin.
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
        self._suspect(tensor, Suspicion())

    def expose(self, tensor: torch.Tensor, values: torch.Tensor, *, copied: bool = False) -> None:
        """Note that a tensor's numbers leave torch, and the memory that they are in too unless they are copied.

        ``values`` is the tensor that has the numbers: itself, unless it is one without values.
        """
        if not has_floats(tensor):
            return
        if tensor.numel() > 1 and not self._exposed.has_numbers:
            self._exposed.has_numbers = True
            self.untracked.know_earlier()
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
                self._suspect(tensor, None)

    def _suspect(self, tensor: torch.Tensor, suspicion: Suspicion | None) -> None:
        """Have the memory of a tensor be of unknown content, or known where the suspicion is None."""
        entry = self._live.by_storage.get(find_key(tensor))
        if entry is not None:
            entry.suspicion = suspicion

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
