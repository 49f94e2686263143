"""The work of each layer, without and with the layers inside it, and the two ends of a count that is not exact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from operator import add, attrgetter
from typing import NamedTuple, TypeAlias, TypeVar

from .bounds import Bounds, Choice, Sign
from .columns import COUNTS, WORK, name_ends, read_counts
from .facts import OpRecord, TraceFacts
from .layer_paths import parent_path

__all__ = [
    "IsInside",
    "LayerWork",
    "WorkColumns",
    "WorkSpread",
    "add_inside",
    "compute_spread",
    "find_bounds",
    "list_layer_work",
]

#: The further columns of a training step: the part of each pass.
_PHASES = ("forward_macs", "forward_flops", "backward_macs", "backward_flops")
#: A layer by its path, or a call of a layer by the path and the index of the call.
_Key = TypeVar("_Key", bound=Hashable)
#: The numbers of all columns of work.
_Work: TypeAlias = tuple[int, ...]
#: Returns whether the layer of a path is counted: it is a certain layer, or inside of it.
IsInside: TypeAlias = Callable[[str], bool]


class WorkColumns(NamedTuple):
    """The columns of work in a trace's tables.

    Attributes:
        names: The names of the columns.
        read: Reads the numbers of the columns from an operator's record.
    """

    names: tuple[str, ...]
    read: Callable[[OpRecord], _Work]

    @classmethod
    def choose(cls, operators: Iterable[OpRecord]) -> WorkColumns:
        """Return the columns of operators: in a training step, the parts of both passes are among them."""
        is_step = any(op.phase == "backward" for op in operators)
        return cls((*COUNTS, *_PHASES), _read_step) if is_step else cls(COUNTS, read_counts)

    @property
    def zeros(self) -> _Work:
        """The numbers of a layer or a call that does no work."""
        return (0,) * len(self.names)

    def label(self, work: _Work, prefix: str = "") -> dict[str, int]:
        """Return numbers by the names of their columns."""
        return {f"{prefix}{name}": number for name, number in zip(self.names, work, strict=True)}

    def sum_by(self, find_key: Callable[[OpRecord], _Key], operators: Iterable[OpRecord]) -> dict[_Key, _Work]:
        """Return the work of the operators of each layer, or of each call: ``find_key`` returns that of an operator."""
        sums: dict[_Key, _Work] = {}
        for op in operators:
            key = find_key(op)
            sums[key] = _add(sums.get(key, self.zeros), self.read(op))
        return sums


def _read_step(op: OpRecord) -> _Work:
    """Return the counts of an operator of a training step, and its work in the passes of `_PHASES`."""
    passes = (0, 0, op.macs, op.flops) if op.phase == "backward" else (op.macs, op.flops, 0, 0)
    return (*read_counts(op), *passes)


def _add(work: _Work, more: _Work) -> _Work:
    return tuple(map(add, work, more))


def add_inside(own_work: Mapping[_Key, _Work], around: Mapping[_Key, _Key | None]) -> dict[_Key, _Work]:
    """Return the work of each layer or call with the work inside it; ``around`` has the one around each."""
    work = dict(own_work)
    inside_left = Counter(around.values())
    complete = [key for key in around if key not in inside_left]
    while complete:
        key = complete.pop()
        outer = around[key]
        if outer is None:
            continue
        work[outer] = _add(work[outer], work[key])
        inside_left[outer] -= 1
        if not inside_left[outer]:
            complete.append(outer)
    return work


class LayerWork(NamedTuple):
    """The columns of work of a layer, by their names: with the layers inside, without, and the ends of both."""

    inside: Mapping[str, int | None]
    own_work: Mapping[str, int | None]
    ends: Mapping[str, float | None]


def list_layer_work(trace: TraceFacts) -> dict[str, LayerWork]:
    """Return the work of each layer; it has ends only if some work of the model is not known exactly."""
    columns = WorkColumns.choose(trace.operators)
    paths = [layer.path for layer in trace.layers]
    if trace.failure is not None:
        own_names = [f"own_{name}" for name in columns.names]
        return dict.fromkeys(paths, LayerWork(dict.fromkeys(columns.names), dict.fromkeys(own_names), {}))
    own_sums = {**dict.fromkeys(paths, columns.zeros), **columns.sum_by(attrgetter("layer"), trace.operators)}
    sums = add_inside(own_sums, {path: parent_path(path) for path in paths})
    work = {path: LayerWork(columns.label(sums[path]), columns.label(own_sums[path], "own_"), {}) for path in paths}
    if not (trace.choices or trace.uncounted):
        return work
    doubts = _Doubts.find(trace)
    return {path: _add_ends(layer_work, path, doubts) for path, layer_work in work.items()}


def _add_ends(work: LayerWork, path: str, doubts: _Doubts) -> LayerWork:
    """Return the work of a layer with its ends."""
    inside = _bound_counts(work.inside, "", doubts, _make_inside_test(path))
    own_work = _bound_counts(work.own_work, "own_", doubts, lambda layer: layer == path)
    return LayerWork(inside.counts, own_work.counts, {**inside.ends, **own_work.ends})


class _BoundedCounts(NamedTuple):
    """Counts by column, and the columns with the two ends of MACs and FLOPs."""

    counts: Mapping[str, int | None]
    ends: Mapping[str, float | None]


def _bound_counts(
    counts: Mapping[str, int | None], prefix: str, doubts: _Doubts, is_inside: IsInside
) -> _BoundedCounts:
    """Return counts of some layers with their ends; the names of their columns begin with a prefix.

    In a training step, the part of a pass is None if the work of both passes together lies between two ends.
    """
    exact_counts, ends = dict(counts), dict[str, float | None]()
    for column in WORK:
        name = f"{prefix}{column}"
        counted = counts[name] or 0
        bounds = doubts.bound(column, counted, is_inside)
        ends |= zip(name_ends(name), (bounds.low, bounds.high), strict=True)
        if bounds.sign(counted) is not Sign.EXACT:
            parts = (f"{prefix}forward_{column}", f"{prefix}backward_{column}")
            exact_counts |= {part: None for part in parts if part in counts}
    return _BoundedCounts(exact_counts, ends)


# Ends -----------------------------------------------------------------------------------------------------------------


def find_bounds(trace: TraceFacts, column: str, path: str = "") -> Bounds:
    """Return the two ends of a column for a layer with the layers inside it; the path "" is the model.

    The upper end is unknown if an operator inside has no formula, or runs an unknown number of times.
    """
    if column not in WORK:
        raise ValueError(f"column={column!r}: bounds are known of {' and '.join(map(repr, WORK))}")
    is_inside = _make_inside_test(path)
    counted = sum(getattr(op, column) for op in trace.operators if is_inside(op.layer))
    return _Doubts.find(trace).bound(column, counted, is_inside)


class _Doubts(NamedTuple):
    """The work of a trace that is not known exactly.

    Attributes:
        choices: The branches of which only one runs.
        layers: The layers in which something is not counted; None if there is such work that no operator's record has.
    """

    choices: tuple[Choice, ...]
    layers: Collection[str] | None

    @classmethod
    def find(cls, trace: TraceFacts) -> _Doubts:
        """Return the doubts about a trace."""
        incomplete = [op for op in trace.operators if op.missing]
        has_all_records = trace.uncounted.keys() <= {op.missing for op in incomplete}
        return cls(trace.choices, {op.layer for op in incomplete} if has_all_records else None)

    def bound(self, column: str, counted: int, is_inside: IsInside) -> Bounds:
        """Return the two ends of a count of some layers; a gap in these layers makes the upper end unknown."""
        spread = compute_spread(self.choices, column, is_inside)
        has_gap = self.layers is None or any(map(is_inside, self.layers))
        low = None if spread.below is None else counted - spread.below
        return Bounds(low, None if spread.above is None or has_gap else counted + spread.above)


class WorkSpread(NamedTuple):
    """How much less and how much more work than counted there may be; None if unknown."""

    below: int | None
    above: int | None


def compute_spread(choices: Iterable[Choice], column: str, is_inside: IsInside) -> WorkSpread:
    """Return how much less and how much more work than counted the layers may do whose path ``is_inside``.

    ``column`` is one of `WORK`. Choices are independent of each other, so that their ends add up.
    """
    index = WORK.index(column)
    below = above = 0
    for choice in choices:
        counts, least, most = [], [], []  # the work of each branch
        for branch in choice.branches:
            inner = compute_spread(branch.choices, column, is_inside)
            if inner.below is None or inner.above is None:
                return WorkSpread(None, None)
            count = sum(work[index] for path, work in branch.work.items() if is_inside(path))
            counts.append(count)
            least.append(count - inner.below)
            most.append(count + inner.above)
        if choice.decides_more and max(most):
            return WorkSpread(None, None)
        below += counts[choice.counted] - min(least)
        above += max(most) - counts[choice.counted]
    return WorkSpread(below, above)


def _make_inside_test(path: str) -> IsInside:
    """Return a function that says whether a layer has this path, or is inside the layer with this path."""
    if not path:
        return lambda layer: True
    within = f"{path}."
    return lambda layer: layer == path or layer.startswith(within)
