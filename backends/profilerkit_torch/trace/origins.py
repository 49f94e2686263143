"""Work of a pass that no recorded operator does: in other threads, in numpy, in a kernel that torch does not know.

Such work is seen by what comes back of it. On stand-ins that is a tensor without values that no recorded operator made.
In a real run it is a tensor of unknown origin where other threads have run or numbers have left torch, or one whose
memory changed without an operator. In both it is memory that code of the model's made empty, and that is read although
no operator wrote to it. Constants that a model makes of numbers of its own, and numbers that only decide which way it
takes, are no such work. Once numbers have left, nothing tells such a constant from what was computed of them.
"""

from __future__ import annotations

import sys
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
from ..compat.operators import HigherOrderOperator, find_operator, read_schema
from ..compat.tensors import FakeTensor, storage_address
from ..untouched.leftovers import tensors_alive
from ..untouched.write_guard import written_by
from .live_bytes import LiveBytes
from .operator_facts import FROM_SHAPES, LIFT, depends_on_values, tensors_among, tensors_in
from .other_threads import count_runs
from .suspicions import Suspicion

__all__ = ["EMPTY", "Origins"]

#: Operators that make memory, and write nothing to it.
EMPTY = frozenset(
    find_operator(f"aten.{name}")
    for name in (
        "empty.memory_format",
        "empty_like.default",
        "empty_strided.default",
        "empty_permuted.default",
        "new_empty.default",
        "new_empty_strided.default",
    )
)
#: Tensors of these types hand no question of ours to code of the user's.
_QUIET_TYPES = (torch.Tensor, torch.nn.Parameter, FakeTensor)


class Origins:
    """Finds what reaches operators and results of a pass although no recorded operator made it.

    Args:
        live: The storages that are alive, of which the recorder knows the origin.
        stands_in: Whether a tensor has no values of its own; None in a real run.
        report: Called once for each tensor of unknown origin.
    """

    def __init__(
        self, live: LiveBytes, stands_in: Callable[[torch.Tensor], bool] | None, report: Callable[[], None]
    ) -> None:
        self._live = live
        self._stands_in = stands_in
        self._report = report
        #: In a real run the tensors that were there before it, and those that were asked about.
        self._others = LiveBytes()
        #: Whether tensors of the model or of its inputs have values: in objects among these nothing stands in for them.
        self.has_values: bool = stands_in is None
        #: Whether numbers have left torch, and whether threads were started.
        self._has_left = self._has_threads = False
        #: What the system had counted of each other thread before the pass.
        self._threads_before: dict[int, str] | None = {}
        #: Memory that has left torch.
        self._left: list[Suspicion] = []
        #: What of it was written to, or found to be changed, since an operator began.
        self._rewritten: list[Suspicion] = []
        #: Whether torch itself makes tensors of the sequences in an index.
        self.is_indexing = False
        #: Leaves of the graph that are no weights of the model's, with the gradients that they had.
        self._leaves: dict[int, tuple[torch.Tensor, torch.Tensor | None]] = {}

    # Before a pass ----------------------------------------------------------------------------------------------------

    @contextmanager
    def follow(self) -> Iterator[None]:
        """Note the threads that are started; in a real run, know what was there before it.

        Leaves of the graph that are no weights of the model's have their gradients again afterwards.
        """
        if self.has_values:
            self._know_all()
        if self.has_values or threading.active_count() > 1:
            self._threads_before = count_runs()
        before = threading.getprofile()

        def note(frame: Any, event: str, argument: Any) -> None:
            self._has_threads = True
            sys.setprofile(before)

        with restored(self._restore_gradients, lambda: threading.setprofile(before), in_child=False):
            threading.setprofile(note)
            yield

    def _know_all(self) -> None:
        """Know all tensors that there are: what was there before is no result."""
        with frozen_objects_found(), unseen_by_functions():
            for tensor in tensors_alive():
                self._others.add(tensor, 0)

    def _restore_gradients(self) -> None:
        for tensor, gradient in self._leaves.values():
            tensor.grad = gradient

    # What leaves torch, and what is made empty ------------------------------------------------------------------------

    def note_empty(self, tensor: torch.Tensor) -> None:
        """Note memory that nothing has written to."""
        entry = self._live.by_storage.get(_find_key(tensor))
        if entry is not None:
            entry.suspicion = Suspicion()

    def expose(self, tensor: torch.Tensor, values: torch.Tensor, *, copied: bool = False) -> None:
        """Note that a tensor's numbers leave torch, and the memory that they are in too unless they are copied.

        ``values`` is the tensor that has the numbers: itself, unless it is one without values.
        """
        if not (tensor.is_floating_point() or tensor.is_complex()):
            return
        if tensor.numel() > 1 and not self._has_left:
            self._has_left = True
            if not self.has_values:
                self._know_all()
        entry = self._live.by_storage.get(_find_key(tensor))
        if entry is None or copied:
            return
        with unseen_by_functions():
            storage = weakref.ref(values.untyped_storage())
        if entry.suspicion is None:
            entry.suspicion = Suspicion(storage)
            entry.suspicion.renew()
        entry.suspicion.storage = storage
        self._left = [left for left in self._left if left.find_storage()]
        self._left.append(entry.suspicion)

    def accept(self, results: Any) -> None:
        """Know the results of a layer that has a formula of its own."""
        with unseen_by_functions():
            for tensor in _list_tensors(results):
                self._live.add(tensor)
                entry = self._live.by_storage.get(_find_key(tensor))
                if entry is not None:
                    entry.suspicion = None

    # What operators and callers read ----------------------------------------------------------------------------------

    def check(self, func: Any, args: Any, kwargs: Any) -> None:
        """Look at what an operator is about to read."""
        if self._has_suspects(args) or (kwargs and self._has_suspects(kwargs.values())):
            self._examine(func, args, kwargs or {})

    def renew(self) -> None:
        """Know what the operator that has run wrote to memory that has left torch."""
        while self._rewritten:
            self._rewritten.pop().renew()

    def check_results(self, results: Any) -> None:
        """Look at what a pass has made; raises `InputError` for a generator or the like, which has made nothing yet."""
        for later in values_in(results, is_unfinished):
            raise make_unfinished_error(later)
        with unseen_by_functions():
            self.check(None, _list_tensors(results), None)
        if self._has_left and any(True for _ in values_in(results, self._is_foreign_array)):
            self._report()

    def meet_views(self, result: Any, arguments: Iterable[torch.Tensor]) -> None:
        """Look at views whose memory was not known before: they are of tensors that no recorded operator made."""
        keys = {_find_key(tensor) for tensor in tensors_in(result)}
        for tensor in arguments:
            if _find_key(tensor) in keys:
                self._meet(tensor)

    def _has_suspects(self, values: Iterable[Any]) -> bool:
        """Return whether a tensor among values is of unknown origin, or in memory whose content may be."""
        entries = self._live.by_storage
        for value in values:
            if isinstance(value, torch.Tensor):
                try:
                    is_quiet = type(value) in _QUIET_TYPES
                    key = storage_address(value.untyped_storage()) if is_quiet else _find_key(value)
                except (NotImplementedError, RuntimeError):  # sparse and other tensors without one storage
                    continue
                entry = entries.get(key)
                if entry is None or entry.suspicion is not None:
                    return True
            elif isinstance(value, (list, tuple)) and self._has_suspects(value):
                return True
        return False

    def _examine(self, func: Any, args: Any, kwargs: Any) -> None:
        """Report each tensor of unknown origin that an operator reads; the caller of the model where it is None."""
        has_schema = func is not None and not isinstance(func, HigherOrderOperator)
        written = set(map(id, written_by(func, args, kwargs))) if has_schema else set()
        reads = _reads(func)
        for tensor in tensors_among(args, kwargs):
            entry = self._live.by_storage.get(_find_key(tensor))
            if entry is None:
                self._meet(tensor, is_lifted=func is LIFT)
            elif entry.suspicion is not None and (reads or id(tensor) in written):
                self._examine_suspect(tensor, entry, is_written=id(tensor) in written)

    def _examine_suspect(self, tensor: torch.Tensor, entry: Any, *, is_written: bool) -> None:
        """Report a tensor whose memory holds what no operator wrote; what is written now is known from then on."""
        suspicion: Suspicion = entry.suspicion
        is_first_write = is_written and suspicion.content is None
        was_changed = tensor.numel() > 0 and not is_first_write and suspicion.is_changed()
        if not (is_written or was_changed):
            return
        if suspicion.storage is None:
            entry.suspicion = None
        else:
            self._rewritten.append(suspicion)
        if was_changed:
            self._report()

    # A tensor that no recorded operator made --------------------------------------------------------------------------

    def _meet(self, tensor: torch.Tensor, *, is_lifted: bool = False) -> None:
        """Report a tensor that no recorded operator made, unless it may be a constant.

        Lifted is what torch makes in this thread of numbers of Python's or numpy's.
        """
        if tensor.requires_grad and tensor.is_leaf:
            self._leaves.setdefault(id(tensor), (tensor, tensor.grad))
            tensor.grad = None  # a real run would add to it in place
        is_number = tensor.is_floating_point() or tensor.is_complex()
        if self._stands_in is None or not self._stands_in(tensor):
            if is_number:
                self._meet_numbers(tensor, is_lifted)
        elif tensor.numel():
            self._live.add(tensor, 0)
            if not is_lifted and (is_number or not self.is_indexing):
                self._report()

    def _meet_numbers(self, tensor: torch.Tensor, is_lifted: bool) -> None:
        """Report a tensor that has values, where they may have been computed elsewhere; each storage once."""
        key = _find_key(tensor)
        if not key or key in self._others.by_storage:
            return
        self._others.add(tensor, 0)
        if tensor.numel() < 2:
            return
        may_be_computed = self._has_left or self._has_threads or (not is_lifted and self._have_others_run())
        if may_be_computed and (not self._has_left or self._is_foreign(_read_address(tensor))):
            self._report()

    def _have_others_run(self) -> bool:
        """Return whether threads that were there before have run since; in a real run also where that is not known."""
        before, now = self._threads_before, count_runs()
        if before is None or now is None:
            return self.has_values and threading.active_count() > 1
        return any(counted != before.get(thread) for thread, counted in now.items())

    def _is_foreign(self, address: int) -> bool:
        """Return whether an address is in no tensor's memory that has left torch, or in one that has changed since."""
        for left in self._left:
            storage = left.find_storage()
            if storage is not None and storage.data_ptr() <= address <= storage.data_ptr() + storage.nbytes():
                return left.is_changed()
        return True

    def _is_foreign_array(self, value: Any) -> bool:
        """Return whether an array of numpy's has numbers in memory that is no tensor's."""
        interface = getattr(value, "__array_interface__", None)
        if not isinstance(interface, dict) or isinstance(value, torch.Tensor):
            return False
        if interface["typestr"][1] not in "fc":
            return False
        address, _ = interface["data"]
        return self._is_foreign(address)


def _list_tensors(results: Any) -> tuple[torch.Tensor, ...]:
    return tuple(values_in(results, torch.is_tensor))


def _find_key(tensor: torch.Tensor) -> int:
    """Return the address of a tensor's storage; 0 where it has no single one."""
    try:
        with unseen_by_functions():
            return int(storage_address(tensor.untyped_storage()))
    except (NotImplementedError, RuntimeError):
        return 0


def _read_address(tensor: torch.Tensor) -> int:
    with unseen_by_functions():
        return tensor.data_ptr()


def _reads(func: Any) -> bool:
    """Return whether an operator, or the caller of the model where it is None, reads the numbers of its tensors."""
    if func is None or isinstance(func, HigherOrderOperator):
        return func is None
    schema = read_schema(func)
    returns_tensors = any("Tensor" in str(returned.type) for returned in schema.returns)
    if not (schema.is_mutable or returns_tensors or depends_on_values(func)):  # a question of a size or a device
        return False
    name = str(schema.name).partition("::")[2]
    makes_new = schema.name in FROM_SHAPES or name.endswith("_like") or name.startswith(("new_", "_unsafe_view"))
    return not (func.is_view or makes_new)
