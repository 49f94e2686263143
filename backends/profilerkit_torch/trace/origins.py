"""Work of a pass that no recorded operator does: it is noticed by the tensors in which its results come back.

- In another thread, ``pool.submit(torch.matmul, a, b).result()``: on stand-ins a tensor without values that no operator
  of this thread made; in a real run a tensor of unknown origin after another thread has run.
- In numpy, ``torch.from_numpy(numpy.tanh(x.numpy()))``: a tensor of unknown origin after numbers have left torch.
- In a kernel that torch does not know, ``y = torch.empty(n); library.tanh(x.data_ptr(), y.data_ptr())``: memory that is
  read although no operator wrote to it; ``library.double(x.data_ptr())``: memory that changed without an operator.

A constant that the model makes of its own numbers, ``torch.tensor([0.5])``, is no such work. Neither are numbers on
which only the path of the model depends. Once numbers have left torch, a constant cannot be told from a result that was
computed of these numbers.

A CUDA graph that the model replays leaves no such trace: `count_missing_replays` has each replay reported.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

from profilerkit.arguments.structures import tensors_in as values_in
from profilerkit.process.collector import frozen_objects_found
from profilerkit.process.restoring import for_each, restored
from profilerkit.unfinished import is_unfinished, make_unfinished_error

from ..compat.modes import disable_dispatch_modes, unseen_by_functions
from ..compat.operators import HigherOrderOperator, find_operator
from ..costs.shapes import has_floats
from ..model.tensors import list_tensors_alive, list_wrapped
from ..untouched.write_guard import written_by
from .exposed_memory import ExposedMemory, find_key
from .live_bytes import LiveBytes
from .operator_facts import LIFT, reads_numbers, tensors_among, tensors_in

__all__ = ["EMPTY", "Origins", "count_missing_replays"]

#: Operators that make memory, and write nothing to it.
EMPTY = frozenset(
    find_operator(f"aten.{name}")
    for name in (
        *("empty.memory_format", "empty_like.default", "empty_strided.default", "empty_permuted.default"),
        *("new_empty.default", "new_empty_strided.default"),
    )
)


class Origins:
    """Checks the tensors that reach operators and results of a pass, before they are read.

    Attributes:
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
        self._stands_in = stands_in or (lambda tensor: False)
        self._report = report
        self.exposed: ExposedMemory = ExposedMemory(live, report)
        #: Whether tensors of the model or of its inputs have values.
        self._has_values = stands_in is None
        #: Whether numbers have left torch: tensors that come from now on may have been computed of them.
        self._numbers_are_outside = False
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

    @contextmanager
    def accept_indices(self) -> Iterator[None]:
        """Accept the integers that torch makes inside, from the sequences in an index."""
        outside, self._is_indexing = self._is_indexing, True
        try:
            yield
        finally:
            self._is_indexing = outside

    def accept(self, results: Any) -> None:
        """Know the results of a layer that has a formula of its own."""
        with unseen_by_functions():
            for tensor in _list_tensors(results):
                self._live.add(tensor)
                self.exposed.accept(tensor)

    def expose(self, tensor: torch.Tensor, values: torch.Tensor, *, copied: bool = False) -> None:
        """Note that a tensor's numbers leave torch, and the memory that they are in too unless they are copied.

        ``values`` is the tensor that has the numbers: itself, unless it is one without values.
        """
        if not has_floats(tensor):
            return
        if tensor.numel() > 1:
            self._numbers_are_outside = True
            self._know_earlier()
        if not copied:
            self.exposed.add(tensor, values)

    # What operators read ----------------------------------------------------------------------------------------------

    def check(self, func: Any, args: Any, kwargs: Any) -> None:
        """Check the tensors that an operator is about to read or to write to."""
        for tensor, watched in self._find_suspects(tensors_among(args, kwargs)):
            is_written = id(tensor) in _find_written(func, args, kwargs)
            if watched is None:
                self._meet(tensor, is_lifted=func is LIFT)
            elif is_written or reads_numbers(func):
                self.exposed.examine(tensor, is_written=is_written)

    def check_views(self, views: Any, arguments: Iterable[torch.Tensor]) -> None:
        """Check the arguments of which an operator has made views, in memory that was not known before."""
        keys = {find_key(view) for view in tensors_in(views)}
        for tensor in arguments:
            if find_key(tensor) in keys:
                self._meet(tensor, is_lifted=False)

    def check_results(self, results: Any) -> None:
        """Check the results of a pass; raises `InputError` for a generator or the like, which has not run yet."""
        unfinished = next(values_in(results, is_unfinished), None)
        if unfinished is not None:
            raise make_unfinished_error(unfinished)
        with unseen_by_functions():
            for tensor, watched in self._find_suspects(_list_tensors(results)):
                if watched is None:
                    self._meet(tensor, is_lifted=False)
                else:
                    self.exposed.examine(tensor, is_written=False)
        if self._numbers_are_outside and any(map(self._is_foreign_array, values_in(results, _is_array))):
            self._report()

    def _is_foreign_array(self, array: Any) -> bool:
        """Return whether an array of numpy's has numbers in memory that is no tensor's."""
        interface = array.__array_interface__
        has_numbers = interface["typestr"][1] in "fc" and 0 not in interface["shape"]
        address, _ = interface["data"]
        return has_numbers and self.exposed.is_foreign(address)

    def _find_suspects(self, tensors: Iterable[torch.Tensor]) -> Iterator[tuple[torch.Tensor, Any]]:
        """Yield each tensor of unknown origin with None, and each whose content may be with what is known of it."""
        for tensor in tensors:
            key = find_key(tensor)  # none of sparse and other tensors without one storage
            watched = self._live.by_storage.get(key)
            if key and (watched is None or watched.suspicion is not None):
                yield tensor, watched

    # Tensors that no recorded operator made ---------------------------------------------------------------------------

    def _meet(self, tensor: torch.Tensor, is_lifted: bool) -> None:
        """Report a tensor that no recorded operator made, unless it may be a constant.

        ``is_lifted`` marks a tensor that torch makes in this thread from numbers of Python or numpy.
        """
        if tensor.requires_grad and tensor.is_leaf:  # a real run would add to its gradient in place
            self._leaves.setdefault(id(tensor), (tensor, tensor.grad))
            tensor.grad = None
        if self._stands_in(tensor):
            self._meet_stand_in(tensor, is_lifted)
        elif has_floats(tensor):
            self._meet_numbers(tensor, is_lifted)

    def _meet_stand_in(self, tensor: torch.Tensor, is_lifted: bool) -> None:
        """Report a tensor without values, unless it is lifted, or integers that torch makes of an index."""
        if not tensor.numel():
            return
        self._live.add(tensor, None if self._is_indexing else 0)
        if not is_lifted and (has_floats(tensor) or not self._is_indexing):
            self._report()

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
        if self._numbers_are_outside:
            with unseen_by_functions():
                return self.exposed.is_foreign(tensor.data_ptr())
        if self._threads.were_started:
            return True
        return not is_lifted and self._threads.have_run(if_unknown=self._has_values)


def _find_written(func: Any, args: Any, kwargs: Any) -> set[int]:
    """Return the ``id`` of each tensor that an operator writes to; of one that takes functions those inside write."""
    return set() if isinstance(func, HigherOrderOperator) else set(map(id, written_by(func, args, kwargs)))


def _is_array(value: Any) -> bool:
    """Return whether a value is an array of numpy's, or of a library that shows its memory as numpy does."""
    return not isinstance(value, torch.Tensor) and isinstance(getattr(value, "__array_interface__", None), dict)


def _list_tensors(results: Any) -> tuple[torch.Tensor, ...]:
    """Return the tensors among results; for a wrapper the tensors inside it, which operators have made."""
    tensors = values_in(results, torch.is_tensor)
    return tuple(part for tensor in tensors for part in list_wrapped(tensor) or [tensor])


# Other threads, and CUDA graphs ---------------------------------------------------------------------------------------


class OtherThreads:
    """What other threads do while a pass is followed."""

    def __init__(self) -> None:
        #: Whether a thread was started.
        self.were_started = False
        #: What the system had counted of each thread before; None where it does not count.
        self._before: dict[int, str] | None = {}

    @contextmanager
    def follow(self) -> Iterator[None]:
        """Note each thread that is started: the first thing that it runs is a profile function of ours."""
        before = threading.getprofile()

        def note(frame: Any, event: str, argument: Any) -> None:
            self.were_started = True
            sys.setprofile(before)

        with restored(lambda: threading.setprofile(before), in_child=False):
            threading.setprofile(note)
            yield

    def begin_counting(self) -> None:
        """Note how long the threads that there are have run."""
        self._before = _count_runs()

    def have_run(self, *, if_unknown: bool) -> bool:
        """Return whether a thread has run since; ``if_unknown`` where there are threads, and nothing is counted."""
        before, now = self._before, _count_runs()
        if before is None or now is None:
            return if_unknown and threading.active_count() > 1
        return any(counted != before.get(thread) for thread, counted in now.items())


def _count_runs() -> dict[int, str] | None:
    """Return how long, and how many times, each other thread has run, by its number; None where that is not known.

    The thread that asks has run: where that is not counted, neither are the others. Threads that have ended are left
    out.
    """
    counted = {}
    current = threading.get_native_id()
    for number in filter(None, {current, *(thread.native_id for thread in threading.enumerate())}):
        with suppress(OSError):  # of one that has ended; of all where a system does not count
            run, _, times = Path(f"/proc/self/task/{number}/schedstat").read_text(encoding="ascii").split()
            counted[number] = f"{run} {times}"
    return None if counted.pop(current, "0 0") == "0 0" else counted


#: What messages call the replay of a CUDA graph.
_REPLAY = "torch.cuda.CUDAGraph.replay"


@contextmanager
def count_missing_replays(recorder: Any) -> Iterator[None]:
    """Count each replay of this thread as an operator that is not counted, and of unknown size.

    Where tensors without values stand in for the model's, nothing is replayed: it would write to real memory.
    """
    graph: Any = torch.cuda.CUDAGraph
    replay, thread = graph.replay, threading.get_ident()

    def miss(self: Any) -> None:
        if threading.get_ident() != thread:
            replay(self)
            return
        recorder.miss_unsized(_REPLAY)
        if not recorder.settings.stands_in:
            replay(self)

    with restored(lambda: setattr(graph, "replay", replay)):
        graph.replay = miss
        yield
