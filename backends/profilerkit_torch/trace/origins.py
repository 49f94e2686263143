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

from collections.abc import Callable, Container, Iterable
from typing import Any

import torch

from profilerkit.arguments.structures import tensors_in as values_in
from profilerkit.unfinished import is_unfinished, make_unfinished_error

from ..compat.modes import unseen_by_functions
from ..compat.operators import HigherOrderOperator, find_operator
from ..compat.tensors import FakeTensor, storage_address
from ..costs.shapes import has_floats
from ..model.tensors import list_wrapped
from ..untouched.write_guard import written_by
from .exposed_memory import ExposedMemory, find_key
from .live_bytes import LiveBytes
from .operator_facts import LIFT, reads_numbers, tensors_among, tensors_in
from .untracked_tensors import UntrackedTensors

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
    """Checks the tensors that reach operators and results of a pass, before they are read.

    Attributes:
        untracked: Gets each tensor in memory that the recorder does not know.
        exposed: The known memory whose content no operator may have written.

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
        self.exposed: ExposedMemory = ExposedMemory(live, report)
        self.untracked: UntrackedTensors = UntrackedTensors(live, self.exposed, stands_in, report)

    def expose(self, tensor: torch.Tensor, values: torch.Tensor, *, copied: bool = False) -> None:
        """Note that a tensor's numbers leave torch, and the memory that they are in too unless they are copied.

        ``values`` is the tensor that has the numbers: itself, unless it is one without values.
        """
        if not has_floats(tensor):
            return
        if tensor.numel() > 1:
            self.untracked.note_numbers_outside()
        if not copied:
            self.exposed.add(tensor, values)

    def accept(self, results: Any) -> None:
        """Know the results of a layer that has a formula of its own."""
        with unseen_by_functions():
            for tensor in _list_tensors(results):
                self._live.add(tensor)
                self.exposed.accept(tensor)

    def meet_views(self, result: Any, arguments: Iterable[torch.Tensor]) -> None:
        """Look at views whose memory was not known before: they are of tensors that no recorded operator made."""
        keys = {find_key(tensor) for tensor in tensors_in(result)}
        for tensor in arguments:
            if find_key(tensor) in keys:
                self.untracked.meet(tensor)

    # What the caller of the model gets --------------------------------------------------------------------------------

    def check_results(self, results: Any) -> None:
        """Check the results of a pass; raises `InputError` for a generator or the like, which has not run yet."""
        unfinished = next(values_in(results, is_unfinished), None)
        if unfinished is not None:
            raise make_unfinished_error(unfinished)
        with unseen_by_functions():
            tensors = _list_tensors(results)
            if self._has_suspects(tensors):
                self._examine(tensors, (), reads=True)
        if self.untracked.numbers_are_outside and any(map(self._is_foreign_array, values_in(results, _is_array))):
            self._report()

    def _is_foreign_array(self, array: Any) -> bool:
        """Return whether an array of numpy's has numbers in memory that is no tensor's."""
        interface = array.__array_interface__
        has_numbers = interface["typestr"][1] in "fc" and 0 not in interface["shape"]
        address, _ = interface["data"]
        return has_numbers and self.exposed.is_foreign(address)

    # What operators read ----------------------------------------------------------------------------------------------

    def check(self, func: Any, args: Any, kwargs: Any) -> None:
        """Check the tensors that an operator is about to read or to write to."""
        if not (self._has_suspects(args) or (kwargs and self._has_suspects(kwargs.values()))):
            return
        kwargs = kwargs or {}
        is_higher = isinstance(func, HigherOrderOperator)  # without a schema: the operators inside it read and write
        written = set() if is_higher else set(map(id, written_by(func, args, kwargs)))
        tensors = tensors_among(args, kwargs)
        self._examine(tensors, written, reads=reads_numbers(func), is_lifted=func is LIFT)

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

    def _examine(
        self, tensors: Iterable[torch.Tensor], written: Container[int], *, reads: bool, is_lifted: bool = False
    ) -> None:
        """Report each tensor of unknown origin; ``written`` are the ids of those that are written to."""
        for tensor in tensors:
            entry = self._live.by_storage.get(find_key(tensor))
            if entry is None:
                self.untracked.meet(tensor, is_lifted=is_lifted)
            elif entry.suspicion is not None and (reads or id(tensor) in written):
                self.exposed.examine(tensor, is_written=id(tensor) in written)


def _is_array(value: Any) -> bool:
    """Return whether a value is an array of numpy's, or of a library that shows its memory as numpy does."""
    return not isinstance(value, torch.Tensor) and isinstance(getattr(value, "__array_interface__", None), dict)


def _list_tensors(results: Any) -> tuple[torch.Tensor, ...]:
    """Return the tensors among results; for a wrapper the tensors inside it, which operators have made."""
    tensors = values_in(results, torch.is_tensor)
    return tuple(part for tensor in tensors for part in list_wrapped(tensor) or [tensor])
