"""Execution time, throughput and memory over several batch sizes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from profilerkit import InputError, JointFunction, Measurement, Metric, NotOfferedError, Profiler, TracingError
from profilerkit.arguments.checks import BATCH_SIZES, Check
from profilerkit.backend import RunOptions
from profilerkit.error_text import error_line
from profilerkit.errors import WithoutValuesError
from profilerkit.piping.function import Keys
from profilerkit.piping.outcome import Failure, Outcome, qualify
from profilerkit.piping.quantity import format_number
from profilerkit.times.batch_sweep import BatchSweep as SweepTable
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
        run_options: RunOptions,
        sampling: Sampling,
        batch_sizes: Iterable[int] = USUAL_SIZES,
        split: str | None = None,
        call: Callable[..., Any] | None = None,
        include_weights: bool = True,
        optimizer: Any = None,
    ) -> Any:
        """Return the `BatchSweep`; a lower bound if the model fails at some of the sizes, or a memory is not known.

        Args:
            profiler: The model's profiler, which provides the inputs.
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
            sampling=sampling,
            batch_sizes=batch_sizes,
            profiler=profiler,
            run_options=run_options,
            split=split,
            call=call,
            include_weights=include_weights,
            optimizer=optimizer,
        )

    def measure_together(self, calls: Sequence[Mapping[str, Any]]) -> Sequence[Any]:
        """Return the sweeps of several models: at each size they are measured in turn."""
        models = [_SweptModel(**{name: call[name] for name in _SweptModel._fields}) for call in calls]
        sampling: Sampling = calls[0]["sampling"]
        tables: list[list[_Row]] = [[] for _ in models]
        failures: dict[int, Failure] = {}
        for size in BATCH_SIZES("batch_sizes", calls[0]["batch_sizes"]):
            try:
                rows = _measure_size(size, models, sampling)
            except (InputError, NotOfferedError, TracingError, WithoutValuesError):  # so it is at every size
                raise
            except Exception as error:  # out of memory, most often: the other sizes are fine
                failures[size] = Failure(error)
            else:
                for table, row in zip(tables, rows, strict=True):
                    table.append(row)
        if not any(tables):
            raise next(iter(failures.values())).error
        return [_describe(table, failures, model) for table, model in zip(tables, models, strict=True)]


class _SweptModel(NamedTuple):
    """A model of a sweep: the arguments of `ComputeBatchSweep` that are its own."""

    profiler: Profiler
    run_options: RunOptions
    split: str | None
    call: Callable[..., Any] | None
    include_weights: bool
    optimizer: Any


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


def _measure_size(size: int, models: Sequence[_SweptModel], sampling: Sampling) -> list[_Row]:
    """Return the row of each model at a size."""
    others = [OtherSize.make(model.profiler, size, split=model.split, call=model.call) for model in models]
    timed_calls = [
        TimedCall(
            other.profiler.model, other.profiler.backend, other.make_inputs("sweep of batch sizes"), model.run_options
        )
        for other, model in zip(others, models, strict=True)
    ]
    times = measure_in_turn(timed_calls, sampling)
    peaks = map(_find_peak, others, models)
    return [_Row(size, timed.time, peak) for timed, peak in zip(times, peaks, strict=True)]


def _find_peak(other: OtherSize, model: _SweptModel) -> Outcome:
    """Return the peak bytes of the timed pass, or why they are not known; nothing if no function computes them."""
    key = "training_memory" if model.run_options.training else "memory_footprint"
    if not other.profiler.status_contains(key):
        return Outcome()
    try:
        return other.compute(key, include_weights=model.include_weights, optimizer=model.optimizer)
    except (TracingError, MemoryError):
        raise
    except Exception as error:  # the time is known all the same
        return Outcome.of(Failure(error))


def _describe(table: Sequence[_Row], failures: Mapping[int, Failure], model: _SweptModel) -> Any:
    """Return a sweep with notes on its sizes; partial if the model failed at some, or not all of a memory is known."""
    sizes_of_gaps: dict[str, list[int]] = defaultdict(list)
    for row in table:
        for text in row.memory.missing:
            sizes_of_gaps[text].append(row.size)
    missing = [
        f"batch size {size}: {type(failure.error).__name__}: {error_line(failure.error)}"
        for size, failure in failures.items()
    ]
    missing += [f"{_name_sizes('memory at batch size', sizes)}: {text}" for text, sizes in sizes_of_gaps.items()]
    noisy = [row.size for row in table if row.time.is_noisy]
    busy = [row.size for row in table if row.time.conditions is not None and row.time.conditions.busy]
    notes = [
        str(model.run_options),
        _name_sizes("noisy at batch size", noisy),
        _name_sizes("the machine was busy at batch size", busy),
    ]
    return qualify(SweepTable.of(row.make() for row in table), missing, notes)


def _name_sizes(what: str, sizes: Sequence[int]) -> str:
    """Return a text on some sizes; empty if there are none."""
    return f"{what} {', '.join(map(str, sorted(sizes)))}" if sizes else ""
