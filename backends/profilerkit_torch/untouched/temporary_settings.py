"""Settings of the process that are changed for the time of a pass and put back, in forked children too."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch

from profilerkit.process.import_hooks import AroundImport
from profilerkit.process.restoring import restored

from ..compat.compiler import COMPILER, is_compiler_imported, save_stance
from ..compat.settings import graph_executor
from ..model.inventory import Inventory
from .preservation import one_at_a_time
from .triton_import import answer_for_triton

__all__ = ["deepen_recursion", "disable_compiling", "run_operator_by_operator"]


@contextmanager
def disable_compiling() -> Iterator[None]:
    """Have compiled code run as it was written, in the whole process.

    Nothing is compiled yet where torch's compiler is not imported, and its import takes a second: then compiling is
    disabled at the moment when something in the block imports it.
    """
    answer_for_triton()
    if is_compiler_imported():
        with restored(save_stance()):
            _run_as_written()
            yield
    else:
        with _disable_compiling_when_imported():
            yield


def _run_as_written() -> None:
    torch.compiler.set_stance("force_eager")


@contextmanager
def _disable_compiling_when_imported() -> Iterator[None]:
    """Watch for the import of torch's compiler in the block, and disable compiling when that is done."""
    finder = AroundImport((COMPILER,), _disable_after_import)
    with restored(partial(_stop_finding, finder), _enable_compiling):
        sys.meta_path.insert(0, finder)
        yield


@contextmanager
def _disable_after_import() -> Iterator[None]:
    """Disable compiling at the end of the block, in which Python loads the compiler."""
    yield
    _run_as_written()


def _stop_finding(finder: AroundImport) -> None:
    """Remove a finder from ``sys.meta_path``."""
    sys.meta_path[:] = [other for other in sys.meta_path if other is not finder]


def _enable_compiling() -> None:
    """Have torch compile again, if its compiler was imported since it was disabled."""
    if is_compiler_imported():
        torch.compiler.set_stance("default")


@contextmanager
def run_operator_by_operator(inventory: Inventory) -> Iterator[None]:
    """Have compiled code run as it was written, and scripts without fusing operators, so that each is seen.

    These settings are the whole process': another thread waits here, or it would take ours for the user's.
    """
    with one_at_a_time.block(), disable_compiling():
        if not inventory.scripts:
            yield
            return
        fuses_operators, set_fusing = graph_executor
        with restored(partial(set_fusing, fuses_operators())):
            set_fusing(False)
            yield


@contextmanager
def deepen_recursion() -> Iterator[None]:
    """Double the recursion limit: following layers costs each call a frame, and no model may fail for that."""
    limit = sys.getrecursionlimit()
    with restored(partial(sys.setrecursionlimit, limit)):
        sys.setrecursionlimit(2 * limit)
        yield
