"""Execution time, throughput and memory over several batch sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from profilerkit import InputError, JointFunction, Metric, NotOfferedError, Profiler, TracingError
from profilerkit.arguments.checks import BATCH_SIZES, Check
from profilerkit.backend import Backend, RunOptions
from profilerkit.count_text import format_count
from profilerkit.error_text import error_line
from profilerkit.errors import WithoutValuesError
from profilerkit.inputs import ModelInputs
from profilerkit.piping.function import Keys
from profilerkit.piping.input_source import find_batch_size
from profilerkit.piping.outcome import qualify
from profilerkit.piping.quantity import format_number
from profilerkit.times.batch_sweep import BatchSweep as Sweep
from profilerkit.times.sampling import Sampling

from .execution_time import TimedCall, measure_in_turn

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
    ) -> Any:
        """Return the `BatchSweep`; a lower bound where the model fails at some of the sizes.

        Args:
            profiler: The model's profiler, which provides the inputs.
            model: The model.
            backend: The model's backend.
            run_options: How to run it; a compiled model is compiled for each size. In training, the memory is that of
                training steps too.
            sampling: How often it is run at each size.
            batch_sizes: The batch sizes of ``batch_sweep``. Default: 1, 2, 4, 8, 16 and 32. ``batch_size`` with several
                numbers sets them too.
            split: The data split that inputs are read from, where they come from data.
        """
        arguments = {
            "profiler": profiler,
            "model": model,
            "backend": backend,
            "batch_sizes": batch_sizes,
            "split": split,
        }
        return self.alone(**arguments, run_options=run_options, sampling=sampling)

    def measure_together(self, calls: Sequence[Mapping[str, Any]]) -> Sequence[Any]:
        """Return the sweeps of several models: at each size they are measured in turn."""
        sizes = BATCH_SIZES("batch_sizes", calls[0]["batch_sizes"])
        tables: list[list[dict[str, Any]]] = [[] for _ in calls]
        failures: dict[int, Exception] = {}
        for size in sizes:
            try:
                rows = list(_measure_size(size, calls))  # of all models or of none
            except (InputError, NotOfferedError, TracingError, WithoutValuesError):  # no size is better than another
                raise
            except Exception as error:  # out of memory, most often: the other sizes are fine
                failures[size] = error
            else:
                for table, row in zip(tables, rows, strict=True):
                    table.append(row)
        if len(failures) == len(sizes):
            raise failures[sizes[0]]
        return [_describe(Sweep.of(table), sizes[0], failures, call) for table, call in zip(tables, calls, strict=True)]


def _measure_size(size: int, calls: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the row of each model at a size, computed by clones: the profilers remember values of their own inputs."""
    twins = [_Twin(call["profiler"].clone(), call, size) for call in calls]
    timed_calls = [
        TimedCall(call["model"], call["backend"], twin.make_inputs(), call["run_options"])
        for twin, call in zip(twins, calls, strict=True)
    ]
    for twin, timed in zip(twins, measure_in_turn(timed_calls, calls[0]["sampling"]), strict=True):
        yield {
            "batch_size": size,
            "execution_time": timed.time,
            "throughput": size / timed.time.median,
            "memory_footprint": twin.find_peak(),
        }


class _Twin(NamedTuple):
    """A clone of a model's profiler for one batch size, and the arguments of the call."""

    profiler: Profiler
    call: Mapping[str, Any]
    size: int

    @property
    def arguments(self) -> dict[str, Any]:
        """What decides the inputs of the clone."""
        split = self.call["split"]
        return {"batch_size": self.size, **({} if split is None else {"split": split})}

    def make_inputs(self) -> ModelInputs:
        """Return inputs of the size; raises `InputError` if the model takes them as another number of samples."""
        inputs = ModelInputs.of(self.profiler.compute_status("inputs", **self.arguments))
        samples = find_batch_size(inputs, self.call["backend"], self.call["model"])
        if samples in (None, self.size):
            return inputs
        raise InputError(
            f"no sweep of batch sizes: the model takes the inputs for batch size {self.size}, {inputs!r}, as "
            f"{format_count(samples, 'sample')}; give a callable that builds inputs from the batch size, with the "
            "batch in the dimension where the model has it"
        )

    def find_peak(self) -> Any:
        """Return the peak bytes of what is timed; None if they are unknown, or no function computes them."""
        key = "training_memory" if self.call["run_options"].training else "memory_footprint"
        if not self.profiler.status_contains(key):
            return None
        try:
            return self.profiler.compute_status(key, **self.arguments)
        except (TracingError, MemoryError):
            raise
        except Exception:  # the report says why, beside the memory at the first size
            return None


def _describe(sweep: Sweep, first: int, failures: Mapping[int, Exception], call: Mapping[str, Any]) -> Any:
    """Return a sweep with notes on its sizes, as a lower bound if the model failed at some of them."""
    noisy = [row["batch_size"] for row in sweep if row["execution_time"].is_noisy]
    conditions = [(row["batch_size"], row["execution_time"].conditions) for row in sweep]
    busy = [size for size, machine in conditions if machine is not None and machine.busy]
    notes = (
        str(call["run_options"]),
        f"noisy at batch size {', '.join(map(str, noisy))}" if noisy else "",
        f"the machine was busy at batch size {', '.join(map(str, busy))}" if busy else "",
        f"what is not in this table is for a batch of {first}, the first size",
    )
    missing = [f"batch size {size}: {type(error).__name__}: {error_line(error)}" for size, error in failures.items()]
    return qualify(sweep, missing, notes)
