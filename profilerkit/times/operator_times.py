"""The time of each operator in each layer: the measurements of a backend, and the table made of them.

The table's columns: ``operator``, ``layer``, ``phase``, ``order``, ``calls``, ``seconds``, ``share``, ``macs``,
``flops``, ``flops_per_second`` and ``missing``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, NamedTuple

from ..errors import by_likeness
from ..trace.columns import WORK
from ..trace.observed_runs import ObservedRun
from ..trace.table import Table
from .measurement import Measurement

__all__ = [
    "CalledOperator",
    "KernelTime",
    "OperatorTime",
    "OperatorTimeTable",
    "OperatorTimes",
    "OrderedCall",
    "sum_known",
]

#: The columns of the table by operator and layer.
COLUMNS = ("operator", "layer", "phase", "order", "calls", "seconds", "share", *WORK, "flops_per_second", "missing")
#: The views of the table: the columns by which rows are grouped, besides their phase.
VIEWS: Mapping[str, tuple[str, ...]] = {
    "operator": ("operator",),
    "layer": ("layer",),
    "both": ("operator", "layer"),
    "kernel": ("kernel",),
}


@dataclass(frozen=True, slots=True)
class CalledOperator:
    """One call of an operator.

    Attributes:
        name: The name of the operator, as the profiler has it.
        inside: The operators that it called itself.
        is_free: Whether it only moves, views or chooses data, and does no arithmetic.
        layer: The path of its layer in the static trace, if it was timed in another layer, because a runtime may fuse
            operators of several layers.
    """

    name: str
    inside: tuple[CalledOperator, ...] = ()
    is_free: bool = False
    layer: str | None = None


class OrderedCall(NamedTuple):
    """A call of an operator, and its place in the order of the layer's calls: the same for all if it is not known."""

    order: int
    operator: CalledOperator


@dataclass(frozen=True, slots=True)
class KernelTime:
    """Seconds of a kernel of an operator, by its own name, without the kernels that it called, for each pass."""

    name: str
    calls: int
    seconds: tuple[float, ...]


@dataclass(frozen=True)
class OperatorTime:
    """Seconds of an operator in one layer, in each of several passes: of all its calls, with the operators inside.

    Attributes:
        operator: The name of the operator in the profiler.
        layer: The path of the layer.
        phase: "forward" or "backward".
        calls: How often the last pass called it.
        seconds: The seconds of each pass.
        kernels: The kernels that its calls ran.
        called: The calls of the last pass with the operators inside each; None if the profiler does not tell. Its work
            is then the work of the static trace for operators of its name in its layer.
    """

    operator: str
    layer: str
    phase: str
    calls: int
    seconds: tuple[float, ...]
    kernels: tuple[KernelTime, ...] = ()
    called: tuple[OrderedCall, ...] | None = None


@dataclass(frozen=True)
class OperatorTimes:
    """The result of a backend's profiler: the operators, and by phase the seconds of each whole pass.

    Attributes:
        operators: The operators of one phase after the operators of another, in the order in which the first call of
            each began.
        whole: The seconds of each whole pass, by phase.
        layers: The paths of the layers that ran, by phase.
        notes: Texts about work that the times leave out.
        name_of: Returns the profiler's name for an operator of the backend's static traces.
        remarks: How to read the times, in words; nothing is missing from them.
        runs: The observed forward passes, to be compared with the trace.
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
    """MACs and FLOPs of a row, None if they are not known; ``missing`` says why."""

    macs: int | None
    flops: int | None
    missing: str = ""


class _Member(NamedTuple):
    """An operator or a kernel that goes into a row.

    Attributes:
        identity: The columns that the members of a row have in common: those of the view, and the phase.
        order: The place of the operator among all operators.
        calls: How often the last pass called it.
        seconds: The seconds of each pass.
        work: The work of the operator; None for a kernel.
    """

    identity: dict[str, str]
    order: int
    calls: int
    seconds: tuple[float, ...]
    work: Work | None = None


class _Row(NamedTuple):
    """A row of the table by its columns, and its seconds in each pass."""

    columns: dict[str, Any]
    samples: tuple[float, ...]


class OperatorTimeTable(Table):
    """One row for each operator in each layer, the slowest first. The table also keeps the samples.

    Args:
        times: The measured times.
        work: The MACs and FLOPs of each operator of ``times``, in their order.
        layer_work: The MACs and FLOPs of each layer without the layers inside it, by phase and path.
        view: The grouping of rows, see `by`.
    """

    def __init__(
        self, times: OperatorTimes, work: Sequence[Work], layer_work: Mapping[tuple[str, str], Work], view: str = "both"
    ) -> None:
        _require_equal_passes(times)
        self.times: OperatorTimes = times
        self.view: str = view
        self._work, self._layer_work = tuple(work), dict(layer_work)
        rows = sorted(self._list_rows(), key=lambda row: -row.columns["seconds"])
        total = sum(row.columns["seconds"] for row in rows)
        for row in rows:
            row.columns["share"] = row.columns["seconds"] / total if total else 0.0
        self._samples: list[tuple[float, ...]] = [row.samples for row in rows]
        super().__init__(row.columns for row in rows)

    def by(self, view: str) -> OperatorTimeTable:
        """Return sums of the rows: by "operator", by "layer", by "both" (unchanged), or by "kernel".

        By layer, the work is the sum of the layer's own operators in the static trace. Kernels are the functions that
        operators call inside, with their own names and times; the work of a single kernel is not known, so this view
        has no counts. Raises `ValueError` for another view.
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
            timed = _add_passes(op.seconds for op in self.times.operators if op.phase == phase)
            inside = timed or (0.0,) * len(whole)
            outside[phase] = median(seconds - part for seconds, part in zip(whole, inside, strict=True))
        return outside

    def _list_rows(self) -> Iterator[_Row]:
        """Yield the rows of the view, in the order of the first member of each, without their shares."""
        groups: dict[tuple[str, ...], list[_Member]] = {}
        for member in self._list_members():
            groups.setdefault(tuple(member.identity.values()), []).append(member)
        for members in groups.values():
            samples = _add_passes(member.seconds for member in members)
            columns: dict[str, Any] = dict(members[0].identity)
            if self.view == "both":
                columns["order"] = members[0].order
            columns |= {"calls": sum(member.calls for member in members), "seconds": median(samples), "share": 0.0}
            if self.view != "kernel":
                columns |= _list_work_columns(self._find_work(members), columns["seconds"])
            yield _Row(columns, samples)

    def _list_members(self) -> Iterator[_Member]:
        """Yield the operators, or their kernels in the view of these."""
        for order, (op, work) in enumerate(zip(self.times.operators, self._work, strict=True)):
            if self.view == "kernel":
                for kernel in op.kernels:
                    yield _Member({"kernel": kernel.name, "phase": op.phase}, order, kernel.calls, kernel.seconds)
            else:
                identity = {column: getattr(op, column) for column in (*VIEWS[self.view], "phase")}
                yield _Member(identity, order, op.calls, op.seconds, work)

    def _find_work(self, members: Sequence[_Member]) -> Work:
        """Return the work of operators together; by layer that of the whole layer, if it is known."""
        identity = members[0].identity
        if self.view == "layer" and (identity["phase"], identity["layer"]) in self._layer_work:
            return self._layer_work[identity["phase"], identity["layer"]]
        return _add_work([member.work for member in members if member.work is not None])

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


def _list_work_columns(work: Work, seconds: float) -> dict[str, Any]:
    rate = work.flops / seconds if work.flops is not None and seconds else None
    return {"macs": work.macs, "flops": work.flops, "flops_per_second": rate, "missing": work.missing}


def _add_work(works: Sequence[Work]) -> Work:
    """Return the work of several operators together; None where that of one is not known."""
    missing = "; ".join(dict.fromkeys(work.missing for work in works if work.missing))
    return Work(sum_known(work.macs for work in works), sum_known(work.flops for work in works), missing)


def sum_known(numbers: Iterable[Any]) -> Any:
    """Return the sum of numbers; None if one of them is None, which is not known."""
    listed = list(numbers)
    return None if None in listed else sum(listed)


def _add_passes(samples: Iterable[tuple[float, ...]]) -> tuple[float, ...]:
    """Add samples up, pass by pass."""
    return tuple(sum(values) for values in zip(*samples, strict=True))


def _require_equal_passes(times: OperatorTimes) -> None:
    for phase, whole in times.whole.items():
        lengths = {len(whole), *(len(op.seconds) for op in times.operators if op.phase == phase)}
        if len(lengths) > 1 or 0 in lengths:
            raise ValueError(
                f"the operators were timed {phase} in {', '.join(map(str, sorted(lengths)))} passes; all must have the "
                "same number of them, and at least one"
            )
