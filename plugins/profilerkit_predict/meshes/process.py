"""A process for one rank: a group of processes belongs to the whole process, so that the caller's is left alone."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from profilerkit import (
    InputError,
    ModelFailedError,
    ModelInputs,
    ProfilerKitError,
    errors,
)
from profilerkit.error_text import error_line
from profilerkit.isolation.job import Job
from profilerkit.isolation.job_file import read_job, require_started, write_job
from profilerkit.models.loaders import load_model
from profilerkit.models.python_loaders import load_function
from profilerkit.protocols import require_capability

from ..capabilities import CAPABILITIES, TracesRanks
from .layout import SCHEMES, RankModel
from .records import RankTrace

__all__ = ["main", "trace_in_process"]

_PROGRAM = f"from {__name__} import main; main()"


def trace_in_process(model: RankModel, inputs: ModelInputs, backend: str) -> RankTrace:
    """Return a training step of a rank, traced in a process of its own.

    Raises what the step raises there; `ModelFailedError` for an error of the model's code, and for a process that ends
    without an answer. `InputError` where the model, or the function that spreads it, cannot be sent there, or where
    that function raises.
    """
    require_started()
    environment = {**os.environ, **_require_tracer(backend).list_rank_variables(model.ranks)}
    with write_job(Job(model, inputs=inputs, backend=backend)) as job:
        command = [sys.executable, "-c", _PROGRAM]
        done = subprocess.run(command, stdin=job, capture_output=True, check=False, env=environment)
    if done.returncode or not done.stdout:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise ModelFailedError(
            f"the process of rank {model.rank} ended without an answer (exit code {done.returncode}); its last line: "
            f"{last or 'none'}"
        )
    name, answer = pickle.loads(done.stdout)
    if name:
        raise getattr(errors, name, ModelFailedError)(answer)
    result: RankTrace = answer
    return result


def main() -> None:
    """Trace the job that the standard input holds, and write the answer; what the model prints is an error's text."""
    answers = os.dup(1)
    os.dup2(2, 1)
    answer: tuple[str, Any]
    try:
        job = read_job(os.dup(0))
        answer = "", _trace(job.model, job.inputs, job.backend)
    except MemoryError:
        raise
    except ProfilerKitError as error:
        answer = type(error).__name__, str(error)
    except Exception as error:  # whatever the user's code raises
        answer = ModelFailedError.__name__, f"the step of the rank raised {type(error).__name__}: {error_line(error)}"
    sys.stdout.flush()
    os.dup2(answers, 1)
    sys.stdout.buffer.write(pickle.dumps(answer))


def _require_tracer(backend: str) -> TracesRanks:
    from profilerkit.hooks.backends import backend_named

    return require_capability(backend_named(backend), TracesRanks, CAPABILITIES)


def _trace(model: RankModel, inputs: ModelInputs, backend: str) -> RankTrace:
    build, parallelize = model.build, model.parallelize
    if isinstance(parallelize, str) and parallelize not in SCHEMES:
        parallelize = load_function(parallelize)
    if callable(parallelize):
        parallelize = partial(_spread, parallelize)
    if isinstance(build, str):
        build = partial(load_model, build, model.trust)
    return _require_tracer(backend).trace_rank(replace(model, build=build, parallelize=parallelize), inputs)


def _spread(parallelize: Callable[..., Any], model: Any, mesh: Any) -> Any:
    """Call the user's function; what it raises is of the arguments: it may not fit the mesh."""
    try:
        return parallelize(model, mesh)
    except (MemoryError, ProfilerKitError):
        raise
    except Exception as error:  # whatever the user's function raises
        raise InputError(f"parallelize raised {type(error).__name__}: {error_line(error)}") from error
