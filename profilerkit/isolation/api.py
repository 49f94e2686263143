"""`isolated` profiles a model in a separate process; `isolated_comparison` does so for several models."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias, get_args

from ..api import compare, profile
from ..arguments.checks import Check, texts
from ..error_text import shown
from ..errors import ArgumentError
from ..hooks.manager import announce, is_limited_to_own_plugins
from ..job import Job, read_names
from ..results.comparison import Comparison, side_by_side
from ..results.report import Report
from .limits import Limits
from .run import IsolatedRun
from .starting import require_possible
from .turns import run_in_turn, wait_for_answer

__all__ = ["isolated", "isolated_comparison", "run_jobs"]

#: How a process may be started.
StartMethod: TypeAlias = Literal["spawn", "forkserver"]
_METHODS: tuple[StartMethod, ...] = get_args(StartMethod)
_MODULES = Check("names of modules: preload=['torch']", lambda value: tuple(texts("").read(value)))


def isolated(
    model: Any,
    inputs: Any = None,
    *,
    timeout: float | None = None,
    memory: int | str | None = None,
    max_threads: int | None = None,
    start_method: StartMethod = "spawn",
    preload: Iterable[str] = (),
    trust: bool = False,
    **arguments: Any,
) -> Report:
    """Profile a model in a separate process, and return its `Report`, even if the process fails.

    If the model hangs, crashes, exits or exceeds a limit, the report has the values that were computed before, and a
    reason for each missing value.

    Args:
        model: How to get the model: text for a model loader, as on the command line (``"net.py:build"``); a class or a
            function that builds it, which is called in the new process; or the model itself, of which the new process
            gets a copy. A class, a function and a model are pickled.
        inputs: Example inputs, as in `profile`.
        timeout: The most seconds that the process may take, from its start. No limit by default.
        memory: The most memory of all the model's processes together: bytes, or a text such as "4 GiB". GPU memory is
            not limited. No limit by default.
        max_threads: The most threads of all the model's processes together; some thousand by default.
        start_method: "spawn" (a fresh interpreter) or "forkserver" (a copy of an interpreter that has imported
            ``preload`` and is kept for further models).
        preload: The names of modules that the fork server imports once: ``["torch"]``.
        trust: Load a file that may run code when it is loaded, as ``--trust`` does.
        **arguments: All other arguments of `profile`. With ``strict`` an error is raised also if the process ends
            early; with ``static`` the process still loads or builds the model.

    Raises `InputError` for an invalid limit, a model that cannot be pickled, and modules that cannot be imported or
    must not be copied; wrong arguments raise the same errors as in `profile`.
    """
    parts = _take_parts(arguments, profile)
    job = Job.read(model, inputs=inputs, trust=trust, arguments=arguments, **parts)
    limits = Limits.read(timeout, memory, max_threads)
    (report,) = run_jobs([job], limits, _read_preload(start_method, preload))
    announce(report)
    return report


def isolated_comparison(
    *models: Any,
    names: Sequence[str] | None = None,
    timeout: float | None = None,
    memory: int | str | None = None,
    max_threads: int | None = None,
    start_method: StartMethod = "spawn",
    preload: Iterable[str] = (),
    trust: bool = False,
    **arguments: Any,
) -> Comparison:
    """Profile models side by side, each in a separate process; the first model is the reference.

    The times of the models are sampled in turn, as in `profilerkit.compare`: while one process runs, the others are
    stopped. The limits apply to each process; the time that a process waits does not count. ``names`` are the names of
    the models in the comparison. For the other arguments see `isolated`. The comparison says that processes of equal
    models differ by some per cent.
    """
    if len(models) < 2:
        raise TypeError("isolated_comparison() needs a reference and at least one other model")
    names = read_names(names, len(models))
    parts = _take_parts(arguments, compare)
    job = Job.read(None, trust=trust, arguments=arguments, **parts)
    jobs = [replace(job, model=model) for model in models]
    reports = run_jobs(jobs, Limits.read(timeout, memory, max_threads), _read_preload(start_method, preload))
    comparison = side_by_side(reports, names)
    announce(comparison)
    return comparison


def _take_parts(arguments: dict[str, Any], function: Callable[..., Any]) -> dict[str, Any]:
    """Take out of arguments those that `profile` or `compare` itself takes; the rest is for metric functions."""
    parameters = inspect.signature(function).parameters.values()
    names = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    return {name: arguments.pop(name) for name in names if name in arguments}


def _read_preload(start_method: str, preload: Any) -> tuple[str, ...] | None:
    """Return the modules of a fork server, None for a fresh interpreter; `ArgumentError` for another way to start."""
    modules: tuple[str, ...] = _MODULES("preload", preload)
    if start_method not in _METHODS:
        raise ArgumentError(f"start_method={shown(start_method)}: give one of {' and '.join(map(repr, _METHODS))}")
    if start_method == "forkserver":
        return modules
    if modules:
        raise ArgumentError(f"preload={shown(preload)} is for start_method='forkserver', not for {start_method!r}")
    return None


def run_jobs(jobs: Sequence[Job], limits: Limits, preload: tuple[str, ...] | None = None) -> list[Report]:
    """Run each job in a separate process and return their reports; the times of several jobs are sampled in turn.

    When this returns or raises, all these processes, and all processes that they started, have ended.
    """
    require_possible(limits)
    alone, in_turn = is_limited_to_own_plugins(), len(jobs) > 1
    runs: list[IsolatedRun] = []
    try:
        for job in jobs:
            runs.append(IsolatedRun(replace(job, own_plugins_alone=alone, in_turn=in_turn), limits, preload))
            wait_for_answer(runs[-1])
            if runs[-1].progress.error is not None:
                runs[-1].result()  # raises it, before any model is timed
        run_in_turn(runs)
        return [run.result() for run in runs]
    finally:
        for run in runs:
            run.close()
