"""The backend of one rank's share of a model, which is traced in a separate process, and never run."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, TypeVar

from profilerkit import Backend, ModelInputs, ModelTrace, TensorSpec, errors
from profilerkit.backend import DeviceLike
from profilerkit.backend_kit.optimizers import OptimizerBytes
from profilerkit.error_text import error_line
from profilerkit.errors import InputError, ModelFailedError, NotOfferedError, PlacementError, ProfilerKitError
from profilerkit.isolation.job_file import read_job, require_started, write_job
from profilerkit.job import Job
from profilerkit.models.loaders import load_model
from profilerkit.models.python_loaders import load_function
from profilerkit.protocols import LimitsMetrics, ReadsOptimizers, Trains, require_capability
from profilerkit.trace.records import LayerRecord, WeightRecord

from .capability import TRACES_RANKS, TracesRanks
from .layout import SCHEMES, RankModel
from .records import RankTrace

T = TypeVar("T")


class RankBackend(Backend, LimitsMetrics, ReadsOptimizers, Trains):
    """Counts a `RankModel` by the backend of its framework, in a separate process."""

    name: ClassVar[str] = "mesh"

    def __init__(self, inner: Backend) -> None:
        self.inner: Backend = inner
        #: The model and the inputs that were traced last, and the outcome: a second trace would fail like the first.
        self._traced: tuple[RankModel, ModelInputs] | None = None
        self._outcome: RankTrace | ProfilerKitError = NotOfferedError("no step of a rank was traced")

    def trace_step(self, model: RankModel, inputs: ModelInputs) -> RankTrace:
        """Return a training step of the rank, which is traced once; raises the error of its process."""
        if self._traced is None or self._traced[0] is not model or self._traced[1] is not inputs:
            self._traced = model, inputs
            try:
                self._outcome = _trace_in_process(model, inputs, self.inner.name)
            except InputError as error:  # the function is not found, or does not fit the mesh
                self._outcome = PlacementError(str(error))
            except ProfilerKitError as error:
                self._outcome = error
        return self.step

    @property
    def step(self) -> RankTrace:
        """The step that was traced last; raises its error if it failed."""
        if isinstance(self._outcome, ProfilerKitError):
            raise self._outcome
        return self._outcome

    def trace(self, model: RankModel, inputs: ModelInputs | None) -> ModelTrace:
        """Return the forward pass of the step, or all of them."""
        unknown = ModelTrace(
            (LayerRecord("", model.name, 0),), unmade_weights="the weights of a rank, which its step shows"
        )
        if inputs is None:
            return unknown
        try:
            step = self.trace_step(model, inputs).trace
        except PlacementError:
            raise
        except ProfilerKitError as error:
            return replace(unknown, failure=error)
        indices = [index for index, operator in enumerate(step.operators) if operator.phase == "forward"]
        alive = tuple(step.memory.live_bytes[index] for index in indices)
        memory = replace(step.memory, live_bytes=alive, parts={}, left_bytes=None)
        return replace(step, operators=tuple(step.operators[index] for index in indices), memory=memory)

    def trace_training(self, model: RankModel, inputs: ModelInputs) -> ModelTrace:
        return self.trace_step(model, inputs).trace

    def inapplicable(self, model: RankModel) -> Mapping[str, str]:
        """Return the metrics of inference, as a rank trains, and the time of a step without its collectives."""
        return {
            "memory_footprint": "a rank of a mesh is traced in a training step: see rank_peak_memory",
            "predicted_training_time": "a rank of a mesh has collectives too: see rank_step_time",
        }

    def optimizer_bytes(self, optimizer: Any, weights: Sequence[WeightRecord]) -> OptimizerBytes | str:
        return require_capability(self.inner, ReadsOptimizers).optimizer_bytes(optimizer, weights)

    def accepts(self, model: Any) -> bool:
        return isinstance(model, RankModel)

    def model_name(self, model: RankModel) -> str:
        return model.name

    def model_type(self, model: RankModel) -> str:
        """Return the class of the model in the traced step; without a step, the name of the building function."""
        is_traced = self._traced is not None and self._traced[0] is model
        failed = isinstance(self._outcome, ProfilerKitError)
        return self.step.trace.layers[0].type if is_traced and not failed else model.name

    def resolve_device(self, model: Any, device: DeviceLike) -> str:
        """Refuse any device: a rank is traced without one."""
        if device is not None:
            raise NotOfferedError("a rank of a mesh is traced on shapes alone, on no device; leave out device=")
        return "cpu"

    def is_tensor(self, value: Any) -> bool:
        return self.inner.is_tensor(value)

    def as_tensor(self, value: Any) -> Any:
        return self.inner.as_tensor(value)

    def random_tensor(self, spec: TensorSpec, batch_size: int) -> Any:
        return self.inner.random_tensor(spec, batch_size)

    def with_batch_size(self, tensor: Any, batch_size: int) -> Any:
        return self.inner.with_batch_size(tensor, batch_size)

    def evaluate(self, model: Any, call: Callable[[], T], device: DeviceLike = None) -> T:
        """Refuse: one rank alone gives no results."""
        raise NotOfferedError("one rank of a mesh is traced on shapes alone, and evaluates nothing")

    def preserve(self, model: Any) -> AbstractContextManager[None]:
        """Return a context that does nothing: the model is built in a separate process."""
        return nullcontext()

    @property
    def non_default_settings(self) -> tuple[str, ...]:
        return self.inner.non_default_settings

    def environment(self) -> Mapping[str, str]:
        return self.inner.environment()


_PROGRAM = f"from {__name__} import main; main()"


def _trace_in_process(model: RankModel, inputs: ModelInputs, backend: str) -> RankTrace:
    """Return a training step of a rank, traced in a new process, which has the process group of the rank.

    Raises the error of the step there; `ModelFailedError` for an error of the model's code, and for a process that ends
    without an answer. `InputError` if the model, or the function that spreads it, cannot be sent there, or if the
    function raises.
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
    """Trace the job in the standard input, and write the answer; the model's output goes to the standard error."""
    answers = os.dup(1)
    os.dup2(2, 1)
    answer: tuple[str, Any]
    try:
        job = read_job(sys.stdin.buffer)
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

    return require_capability(backend_named(backend), TracesRanks, [TRACES_RANKS])


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
    """Call the user's function; its errors become `InputError`, because it may not fit the mesh."""
    try:
        return parallelize(model, mesh)
    except (MemoryError, ProfilerKitError):
        raise
    except Exception as error:  # whatever the user's function raises
        raise InputError(f"parallelize raised {type(error).__name__}: {error_line(error)}") from error
