"""The work of each layer, without and with the layers inside it, and the two ends of a count that is not exact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from operator import add, attrgetter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from .bounds import WORK, Bounds, IsInside, Sign, compute_spread, name_ends
from .layer_paths import parent_path

if TYPE_CHECKING:
    from .records import ModelTrace, OpRecord

__all__ = [
    "COUNTS",
    "TRAFFIC",
    "LayerWork",
    "WorkColumns",
    "add_inside",
    "find_bounds",
    "list_layer_work",
    "read_counts",
]

#: The columns of bytes that an operator moves.
TRAFFIC = ("bytes_read", "bytes_written")
#: The work in an operator's record.
COUNTS = (*WORK, *TRAFFIC)
#: The further columns of a training step: the part of each pass.
_PHASES = ("forward_macs", "forward_flops", "backward_macs", "backward_flops")
#: A layer by its path, or a call of a layer by the path and the index of the call.
_Key = TypeVar("_Key", bound=Hashable)
#: The numbers of all columns of work.
_Work: TypeAlias = tuple[int, ...]

#: Reads the work in an operator's record.
read_counts = attrgetter(*COUNTS)


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


def list_layer_work(trace: ModelTrace) -> dict[str, LayerWork]:
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
    with_gaps = _find_layers_with_gaps(trace)
    return {path: _add_ends(work[path], path, trace, with_gaps) for path in paths}


# Ends -----------------------------------------------------------------------------------------------------------------


def find_bounds(trace: ModelTrace, column: str, path: str = "") -> Bounds:
    """Return the two ends of a column for a layer with the layers inside it; the path "" is the model.

    The upper end is unknown if an operator inside has no formula, or runs an unknown number of times.
    """
    if column not in WORK:
        raise ValueError(f"column={column!r}: bounds are known of {' and '.join(map(repr, WORK))}")
    is_inside = _make_inside_test(path)
    counted = sum(getattr(op, column) for op in trace.operators if is_inside(op.layer))
    return _bound_count(trace, column, counted, is_inside, _find_layers_with_gaps(trace))


def _add_ends(work: LayerWork, path: str, trace: ModelTrace, with_gaps: Collection[str] | None) -> LayerWork:
    """Return the work of a layer with its ends.

    In a training step, the part of a pass is None if the work of both passes together lies between two ends.
    """
    inside, own_work = dict(work.inside), dict(work.own_work)
    ends: dict[str, float | None] = {}
    for part, counts, is_inside in (("", inside, _make_inside_test(path)), ("own_", own_work, path.__eq__)):
        for column in WORK:
            name = f"{part}{column}"
            counted = counts[name] or 0
            bounds = _bound_count(trace, column, counted, is_inside, with_gaps)
            ends |= zip(name_ends(name), (bounds.low, bounds.high), strict=True)
            if f"{part}forward_{column}" in counts and bounds.sign(counted) is not Sign.EXACT:
                counts |= {f"{part}forward_{column}": None, f"{part}backward_{column}": None}
    return LayerWork(inside, own_work, ends)


def _bound_count(
    trace: ModelTrace, column: str, counted: int, is_inside: IsInside, with_gaps: Collection[str] | None
) -> Bounds:
    """Return the two ends of a count of some layers; a gap in these layers makes the upper end unknown."""
    below, above = compute_spread(trace.choices, column, is_inside)
    has_gap = with_gaps is None or any(map(is_inside, with_gaps))
    low = None if below is None else counted - below
    return Bounds(low, None if above is None or has_gap else counted + above)


def _find_layers_with_gaps(trace: ModelTrace) -> set[str] | None:
    """Return the layers in which something is not counted; None if there is such work that no operator's record has."""
    incomplete = [op for op in trace.operators if op.missing]
    if trace.uncounted.keys() - {op.missing for op in incomplete}:
        return None
    return {op.layer for op in incomplete}


def _make_inside_test(path: str) -> IsInside:
    """Return a function that says whether a layer has this path, or is inside the layer with this path."""
    if not path:
        return lambda layer: True
    within = f"{path}."
    return lambda layer: layer == path or layer.startswith(within)
