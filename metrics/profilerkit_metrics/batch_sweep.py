"""Execution time, throughput and memory over several batch sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from profilerkit import InputError, JointFunction, Measurement, Metric, NotOfferedError, Profiler, TracingError
from profilerkit.arguments.checks import BATCH_SIZES, Check
from profilerkit.backend import Backend, RunOptions
from profilerkit.error_text import error_line
from profilerkit.errors import WithoutValuesError
from profilerkit.piping.function import Keys
from profilerkit.piping.outcome import Failure, Outcome, qualify
from profilerkit.piping.quantity import format_number
from profilerkit.times.batch_sweep import BatchSweep as Sweep
from profilerkit.times.measurement import divide
from profilerkit.times.sampling import Sampling

from .execution_time import TimedCall, measure_in_turn
from .other_sizes import OtherSize

__all__ = ["BatchSweep", "ComputeBatchSweep"]

#: The sizes unless others are given.
USUAL_SIZES = (1, 2, 4, 8, 16, 32)


class BatchSweep(Metric):
    """Execution time, throughput and peak memory over several batch sizes, and the knee of the throughput.

    >>> from torch import nn
    >>> from profilerkit import profile
    >>> report = profile(nn.Linear(8, 2), input_shape=(8,), metrics=["macs"], batch_size=(1, 2), num_iters=2)
    >>> [row["batch_size"] for row in report["batch_sweep"]]
    [1, 2]
    """

    NAME: str = "batch_sweep"
    FORMULA: str = (
        "for each batch size execution_time, batch size / its median, and memory_footprint; the knee is the "
        "smallest size with 90 % of the best throughput"
    )
    OMISSIONS: str = "batch sizes between those that were tried"
    SOURCE: str = "profilerkit's own definition"

    def show(self) -> str:
        """Return where the knee is; the table is the value."""
        if self.value is None:
            return ""
        if self.value.knee is None:
            return f"no knee up to {self.value[-1]['batch_size']}"
        row = next(row for row in self.value if row["is_knee"])
        return f"knee at {row['batch_size']}: {format_number(row['throughput'])} samples/s"


class ComputeBatchSweep(JointFunction):
    """Measures the model at several batch sizes, of several models in turn.

    Computed if requested by name, or if several batch sizes are given.
    """

    KEYS: ClassVar[Keys] = (BatchSweep,)
    CHECKS: ClassVar[Mapping[str, Check]] = {"batch_sizes": BATCH_SIZES}
    COMPUTED_WITH: ClassVar[tuple[str, ...]] = ("batch_sizes",)
    ON_DEMAND: ClassVar[bool] = True
    ONLY_THROUGH_BACKEND: ClassVar[bool] = True

    def __call__(
        self,
        profiler: Profiler,
        model: Any,
        backend: Backend,
        run_options: RunOptions,
        sampling: Sampling,
        batch_sizes: Iterable[int] = USUAL_SIZES,
        split: str | None = None,
        call: Callable[..., Any] | None = None,
        include_weights: bool = True,
        optimizer: Any = None,
    ) -> Any:
        """Return the `BatchSweep`; a lower bound if the model fails at some of the sizes.

        Args:
            profiler: The model's profiler, which provides the inputs.
            model: The model.
            backend: The model's backend.
            run_options: How to run it; a compiled model is compiled for each size. In training, the memory is the peak
                of training steps too.
            sampling: How often it is run at each size.
            batch_sizes: The batch sizes of ``batch_sweep``. Default: 1, 2, 4, 8, 16 and 32. ``batch_size`` with several
                numbers sets them too.
            split: The data split that inputs are read from, if they come from data.
            call: The function that is profiled instead of the model's call, if there is one.
            include_weights: That of ``memory_footprint``.
            optimizer: That of ``training_memory``.
        """
        return self.alone(
            profiler=profiler,
            model=model,
            backend=backend,
            run_options=run_options,
            sampling=sampling,
            batch_sizes=batch_sizes,
            split=split,
            call=call,
            include_weights=include_weights,
            optimizer=optimizer,
        )

    def measure_together(self, calls: Sequence[Mapping[str, Any]]) -> Sequence[Any]:
        """Return the sweeps of several models: at each size they are measured in turn."""
        sizes = BATCH_SIZES("batch_sizes", calls[0]["batch_sizes"])
        measured = {size: _try_size(size, calls) for size in sizes}
        failures = {size: rows.error for size, rows in measured.items() if isinstance(rows, Failure)}
        if len(failures) == len(sizes):
            raise failures[sizes[0]]
        tables = zip(*(rows for rows in measured.values() if not isinstance(rows, Failure)), strict=True)
        return [_describe(table, sizes[0], failures, call) for table, call in zip(tables, calls, strict=True)]


class _Row(NamedTuple):
    """The measured values at one batch size; the memory with the reasons if its number is not complete."""

    size: int
    time: Measurement
    memory: Outcome

    def make(self) -> dict[str, Any]:
        """Return the row of the table."""
        return {
            "batch_size": self.size,
            "execution_time": self.time,
            "throughput": divide(self.size, self.time.median),
            "memory_footprint": self.memory.value,
        }


def _try_size(size: int, calls: Sequence[Mapping[str, Any]]) -> Sequence[_Row] | Failure:
    """Return the rows of all models at a size, or the error of one of them: the other sizes are fine.

    Raises errors that are no different at another size.
    """
    try:
        return list(_measure_size(size, calls))
    except (InputError, NotOfferedError, TracingError, WithoutValuesError):
        raise
    except Exception as error:  # out of memory, most often
        return Failure(error)


def _measure_size(size: int, calls: Sequence[Mapping[str, Any]]) -> Iterator[_Row]:
    """Yield the row of each model at a size."""
    models = [OtherSize.make(call["profiler"], size, split=call["split"], call=call["call"]) for call in calls]
    timed_calls = [
        TimedCall(call["model"], call["backend"], model.make_inputs("sweep of batch sizes"), call["run_options"])
        for model, call in zip(models, calls, strict=True)
    ]
    times = measure_in_turn(timed_calls, calls[0]["sampling"])
    for model, call, timed in zip(models, calls, times, strict=True):
        yield _Row(size, timed.time, _find_peak(model, call))


def _find_peak(model: OtherSize, call: Mapping[str, Any]) -> Outcome:
    """Return the peak bytes of the timed pass; without a value if they are unknown, or no function computes them."""
    key = "training_memory" if call["run_options"].training else "memory_footprint"
    if not model.profiler.status_contains(key):
        return Outcome()
    try:
        return model.compute(key, include_weights=call["include_weights"], optimizer=call["optimizer"])
    except (TracingError, MemoryError):
        raise
    except Exception:  # the report says why, beside the memory at the first size
        return Outcome()


def _describe(table: Sequence[_Row], first: int, failures: Mapping[int, Exception], call: Mapping[str, Any]) -> Any:
    """Return a sweep with notes on its sizes; partial if the model failed at some, or not all of a memory is known."""
    sweep = Sweep.of(row.make() for row in table)
    noisy = [row.size for row in table if row.time.is_noisy]
    busy = [row.size for row in table if row.time.conditions is not None and row.time.conditions.busy]
    notes = [
        str(call["run_options"]),
        _note_sizes("noisy at batch size", noisy),
        _note_sizes("the machine was busy at batch size", busy),
        f"what is not in this table is for a batch of {first}, the first size",
    ]
    missing = [f"batch size {size}: {type(error).__name__}: {error_line(error)}" for size, error in failures.items()]
    missing += dict.fromkeys(
        f"memory: {text}" for row in table if row.memory.value is not None for text in row.memory.missing
    )
    return qualify(sweep, missing, notes)


def _note_sizes(what: str, sizes: Sequence[int]) -> str:
    """Return a note on some sizes; empty if there are none."""
    return f"{what} {', '.join(map(str, sorted(sizes)))}" if sizes else ""
