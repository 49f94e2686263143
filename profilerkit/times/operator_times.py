"""The time of each operator in each layer: what a backend measures, and the table made of it.

The table's columns: ``operator``, ``layer``, ``phase``, ``calls``, ``seconds``, ``share``, ``macs``, ``flops``,
``flops_per_second`` and ``missing``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from ..errors import by_likeness
from ..trace.cross_check import ObservedRun
from ..trace.table import Table
from .measurement import Measurement

__all__ = ["CalledOperator", "KernelTime", "OperatorTime", "OperatorTimeTable", "OperatorTimes"]

#: The columns of the table as it is, by operator and layer.
COLUMNS = ("operator", "layer", "phase", "calls", "seconds", "share", "macs", "flops", "flops_per_second", "missing")
#: The views of the table: the columns that rows are put together by, beside their phase.
VIEWS: Mapping[str, tuple[str, ...]] = {
    "operator": ("operator",),
    "layer": ("layer",),
    "both": ("operator", "layer"),
    "kernel": ("kernel",),
}


@dataclass(frozen=True, slots=True)
class CalledOperator:
    """One call of an operator, with the operators that it called itself.

    ``is_free`` says that it moves, views or chooses data alone, and does no arithmetic. ``layer`` is the path of the
    layer that it belongs to in the static trace, where that is another than the one it was timed in: a runtime may fuse
    operators of several layers.
    """

    name: str
    inside: tuple[CalledOperator, ...] = ()
    is_free: bool = False
    layer: str | None = None


@dataclass(frozen=True, slots=True)
class KernelTime:
    """Seconds of a kernel of an operator, by its own name, without the kernels that it called, for each pass."""

    name: str
    calls: int
    seconds: tuple[float, ...]


@dataclass(frozen=True)
class OperatorTime:
    """Seconds of an operator in one layer, in each of several passes: of all its calls, and of what they called.

    ``calls`` is how often the last pass called it; ``called`` are those calls with what each called inside, each with
    its place in the order of the layer's calls (the same place where the order is not known). Where the profiler does
    not tell what it called, ``called`` is None, and its work is what the static trace has for operators of its name in
    its layer. ``phase`` is "forward" or "backward".
    """

    operator: str
    layer: str
    phase: str
    calls: int
    seconds: tuple[float, ...]
    kernels: tuple[KernelTime, ...] = ()
    called: tuple[tuple[int, CalledOperator], ...] | None = None


@dataclass(frozen=True)
class OperatorTimes:
    """The result of a backend's profiler: the operators, and by phase the seconds of each whole pass.

    ``layers`` are the paths of the layers that ran, by phase. ``notes`` say what the times leave out, in words.
    ``name_of`` returns what the profiler calls an operator of the backend's static traces. ``remarks`` say how to read
    the times, which miss nothing by them. ``runs`` are what was seen of forward passes, to be compared with the trace.
    """

    operators: tuple[OperatorTime, ...]
    whole: Mapping[str, tuple[float, ...]]
    layers: Mapping[str, frozenset[str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    name_of: Callable[[str], str] = field(default=str, compare=False)
    remarks: tuple[str, ...] = ()
    runs: tuple[ObservedRun, ...] = ()


@dataclass(frozen=True, slots=True)
class Work:
    """MACs and FLOPs of a row, None where they are not known; ``missing`` says why."""

    macs: int | None
    flops: int | None
    missing: str = ""


class OperatorTimeTable(Table):
    """One row for each operator in each layer, the slowest first. The table also keeps the samples.

    Args:
        times: The measured times.
        work: The MACs and FLOPs of each operator of ``times``, in their order.
        layer_work: The MACs and FLOPs of each layer without those inside it, by phase and path.
    """

    def __init__(
        self,
        times: OperatorTimes,
        work: Sequence[Work],
        layer_work: Mapping[tuple[str, str], Work],
        view: str = "both",
    ) -> None:
        _require_equal_passes(times)
        self.times: OperatorTimes = times
        self.view: str = view
        self._work, self._layer_work = tuple(work), dict(layer_work)
        self._samples: list[tuple[float, ...]] = []
        rows = sorted(self._group(), key=lambda row: -median(row[1]))
        total = sum(median(samples) for _, samples in rows)
        for row, samples in rows:
            seconds = row["seconds"] = median(samples)
            row["share"] = seconds / total if total else 0.0
            if "flops" in row:
                row["flops_per_second"] = row["flops"] / seconds if row["flops"] is not None and seconds else None
                row["missing"] = row.pop("missing")  # the last column
            self._samples.append(samples)
        super().__init__(row for row, _ in rows)

    def by(self, view: str) -> OperatorTimeTable:
        """Return sums of the rows: by "operator", by "layer", by "both" (unchanged), or by "kernel".

        By layer the work is that of all the operators that the layer itself has in the static trace. Kernels are what
        the operators call inside, by their own names and with their own time; what each of them works is not known, so
        this view has no counts. Raises `ValueError` for another view.
        """
        if view not in VIEWS:
            raise ValueError(f"no view by {view!r}; nearest first there are: {', '.join(by_likeness(view, VIEWS))}")
        return OperatorTimeTable(self.times, self._work, self._layer_work, view)

    def samples(self, index: int) -> tuple[float, ...]:
        """Return the seconds of a row in each pass."""
        return self._samples[index]

    def measurement(self, index: int) -> Measurement:
        """Return the seconds of a row as a `Measurement`: its median, interval, percentiles and noise."""
        return Measurement(self._samples[index])

    @property
    def whole_seconds(self) -> Mapping[str, float]:
        """Seconds of a whole pass under the profiler, by phase: the median."""
        return {phase: median(samples) for phase, samples in self.times.whole.items()}

    @property
    def outside_seconds(self) -> Mapping[str, float]:
        """Seconds of a pass in which no operator ran, by phase: Python code, the framework's own work, waiting.

        It is negative if operators of several threads or streams ran at the same time.
        """
        outside = {}
        for phase, whole in self.times.whole.items():
            inside = _sums(op.seconds for op in self.times.operators if op.phase == phase) or [0.0] * len(whole)
            outside[phase] = median(all_of_it - part for all_of_it, part in zip(whole, inside, strict=True))
        return outside

    def _group(self) -> Iterator[tuple[dict[str, Any], tuple[float, ...]]]:
        if self.view == "kernel":
            yield from self._kernels()
            return
        groups: dict[tuple[str, ...], list[int]] = {}
        for index, op in enumerate(self.times.operators):
            key = (*(getattr(op, column) for column in VIEWS[self.view]), op.phase)
            groups.setdefault(key, []).append(index)
        for key, indices in groups.items():
            members = [self.times.operators[index] for index in indices]
            work = self._layer_work.get((key[-1], key[0])) if self.view == "layer" else None
            yield (
                {
                    **dict(zip((*VIEWS[self.view], "phase"), key, strict=True)),
                    "calls": sum(member.calls for member in members),
                    "seconds": 0.0,
                    "share": 0.0,
                    **_work_columns(_add_work([self._work[index] for index in indices]) if work is None else work),
                },
                tuple(_sums(member.seconds for member in members)),
            )

    def _kernels(self) -> Iterator[tuple[dict[str, Any], tuple[float, ...]]]:
        groups: dict[tuple[str, str], list[KernelTime]] = {}
        for op in self.times.operators:
            for kernel in op.kernels:
                groups.setdefault((kernel.name, op.phase), []).append(kernel)
        for (name, phase), kernels in groups.items():
            calls = sum(kernel.calls for kernel in kernels)
            row = {"kernel": name, "phase": phase, "calls": calls, "seconds": 0.0, "share": 0.0}
            yield row, tuple(_sums(kernel.seconds for kernel in kernels))

    def top(self, k: int = 5, by: str = "seconds") -> list[Mapping[str, Any]]:
        """Return the ``k`` rows with the most of a column; rows that have none of it come last."""
        if self._rows and (by not in self._rows[0] or isinstance(self._rows[0][by], str)):
            numbers = [name for name, value in self._rows[0].items() if not isinstance(value, str)]
            raise ValueError(f"no column of numbers {by!r}; this view has: {', '.join(by_likeness(by, numbers))}")
        return sorted(self._rows, key=lambda row: (row[by] is None, -(row[by] or 0)))[:k]

    def __getitem__(self, index: Any) -> Any:
        return Table(self._rows[index]) if isinstance(index, slice) else self._rows[index]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.times, self._work, self._layer_work, self.view)


def _work_columns(work: Work) -> dict[str, Any]:
    return {"macs": work.macs, "flops": work.flops, "flops_per_second": None, "missing": work.missing}


def _add_work(works: Sequence[Work]) -> Work:
    """Return the work of several rows together; of some that is not known, none."""
    missing = "; ".join(dict.fromkeys(work.missing for work in works if work.missing))
    return Work(_sum_known(work.macs for work in works), _sum_known(work.flops for work in works), missing)


def _sum_known(numbers: Iterable[int | None]) -> int | None:
    total = 0
    for number in numbers:
        if number is None:
            return None
        total += number
    return total


def _sums(samples: Iterable[tuple[float, ...]]) -> list[float]:
    """Add samples up, pass by pass."""
    return [sum(values) for values in zip(*samples, strict=True)]


def _require_equal_passes(times: OperatorTimes) -> None:
    for phase, whole in times.whole.items():
        lengths = {len(whole), *(len(op.seconds) for op in times.operators if op.phase == phase)}
        if len(lengths) > 1 or 0 in lengths:
            raise ValueError(
                f"the operators were timed {phase} in {', '.join(map(str, sorted(lengths)))} passes; all must have the "
                "same number of them, and at least one"
            )
