"""Gives every operator of a profile the layer that it worked for: by ranges, by modules, or by the order of operators.

What a node of the gradient's graph does is of the layer whose operator made it: it has the number that the graph's
sequence had when that began. A node without a number adds to a gradient, right after the one that made it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence

from profilerkit import ModelTrace, ProfileFileError
from profilerkit.errors import by_likeness
from profilerkit.trace.records import OpRecord

from .fused import as_profiled
from .modules import name_layers_by_modules
from .sequence import common_name, find_profiled_name, name_layers_by_operators
from .shapes import require_equal_shapes
from .trace_events import Frame, Kind

__all__ = ["find_passes", "name_layers"]

Window = tuple[float, float]


def find_passes(frames: Sequence[Frame], trace: ModelTrace) -> tuple[list[Window], int]:
    """Return the windows of passes, and how many passes the last one holds: more than 1 if they cannot be told apart.

    A pass is what a range of a step has around it, or from one call of the model to the next.
    """
    steps = [frame.event for frame in frames if frame.event.kind is Kind.PASS]
    if steps:
        inner = [step for step in steps if step.name == steps[-1].name or step.name.startswith("ProfilerStep#")]
        return _without_outer([(step.start, step.end) for step in inner]), 1
    last = max(frame.event.end for frame in frames)
    roots = [frame.event.start for frame in frames if frame.layer == "" and not _is_inside_model(frame)]
    if roots:
        return list(zip(roots, [*roots[1:], last + 1e-9], strict=True)), 1
    first = min(frame.event.start for frame in frames)
    return [(first, last + 1e-9)], _tiles(frames, trace)


def _without_outer(windows: list[Window]) -> list[Window]:
    """Leave out windows around others."""
    ordered = sorted(set(windows), key=lambda window: (window[0], -window[1]))
    following = [*ordered[1:], (float("inf"), float("inf"))]
    return [window for window, after in zip(ordered, following, strict=True) if after[0] >= window[1]]


def _is_inside_model(frame: Frame) -> bool:
    return any(outer.layer == "" for outer in frame.around if outer is not frame)


def _tiles(frames: Sequence[Frame], trace: ModelTrace) -> int:
    """Return how often the products of the trace stand in the profile one after the other."""
    products = [_name(op) for op in trace.operators if op.macs and op.phase == "forward"]
    profiled = len(_outer_operators(frames, frozenset(products)))
    return max(1, round(profiled / len(products))) if products else 1


def _name(operator: OpRecord) -> str:
    return common_name(find_profiled_name(operator.operator))


def _outer_operators(frames: Sequence[Frame], names: frozenset[str]) -> list[Frame]:
    """Return the operators of the forward pass with these names, of nested ones the outermost."""
    return [
        frame
        for frame in frames
        if frame.event.kind is Kind.OPERATOR
        and common_name(frame.event.name) in names
        and not frame.is_backward
        and not any(common_name(outer.event.name) in names for outer in frame.around if outer is not frame)
    ]


def name_layers(frames: Sequence[Frame], trace: ModelTrace) -> tuple[list[Window], str]:
    """Give each frame its layer; return the windows of the passes, and how the layers are known.

    Raises `ProfileFileError` for a profile of another model.
    """
    kinds = {frame.event.kind for frame in frames}
    if Kind.LAYER in kinds:
        _by_ranges(frames, trace)
        by = "ranges that name the layers"
    elif Kind.MODULE in kinds:
        left = name_layers_by_modules(frames, trace)
        by = "calls of modules" + (f", of which {left} have no layer in the model" if left else "")
    else:
        by = "the names and order of operators"
    trace = as_profiled(trace, frames)
    windows, tiles = find_passes(frames, trace)
    if by.startswith("the names"):
        windows = _split_windows(windows, tiles, frames, trace)
        pairs = name_layers_by_operators(frames, windows, trace)
        begin = _begin(pairs[0][0])
        if begin < windows[0][1] and not any(frame.event.kind is Kind.PASS for frame in frames):
            windows = [(begin, windows[0][1]), *windows[1:]]
    else:
        _inherit(frames)
        pairs = list(_first_pairs(frames, windows, trace))
        if not pairs and any(operator.macs for operator in trace.operators):
            raise ProfileFileError(
                "the profile is of another model: in the layers that it names, none of the model's products is found"
            )
    require_equal_shapes(pairs)
    _inherit(frames)
    _name_backward(frames)
    return windows, by


def _split_windows(windows: list[Window], tiles: int, frames: Sequence[Frame], trace: ModelTrace) -> list[Window]:
    """Return windows of one pass each, of one that holds several: they begin where their first products do."""
    if tiles < 2:
        return windows
    name = next(_name(op) for op in trace.operators if op.macs and op.phase == "forward")
    starts = [frame.event.start for frame in _outer_operators(frames, frozenset((name,)))]
    each_has = len(starts) // tiles
    if not each_has:  # the profile has not even the first product of the model so often
        return windows
    begins = [windows[0][0], *(starts[index * each_has] for index in range(1, tiles))]
    return list(zip(begins, [*begins[1:], windows[0][1]], strict=True))


def _begin(first: Frame) -> float:
    """Return when the outermost operator around the first of the model begins: before it, the model was made ready."""
    return min(frame.event.start for frame in first.around if frame.event.kind is Kind.OPERATOR)


def _by_ranges(frames: Sequence[Frame], trace: ModelTrace) -> None:
    names = frozenset(layer.path for layer in trace.layers)
    strangers: dict[str, None] = {}
    for frame in frames:
        if frame.event.kind is Kind.LAYER:
            if frame.event.name in names:
                frame.layer = frame.event.name
            else:
                strangers[frame.event.name] = None
    if strangers:
        first = next(iter(strangers))
        nearest = ", ".join(map(repr, by_likeness(first, names)[:3]))
        raise ProfileFileError(
            f"the profile is of another model: it has {len(strangers)} layers that the model has not, such as "
            f"{first!r}; the model's nearest are {nearest}"
        )


def _inherit(frames: Sequence[Frame]) -> None:
    """Give frames the layer of what they run in, outer ones first; not what runs in a node of the gradient's graph."""
    for frame in frames:
        if frame.layer is None and frame.outer is not None and frame.event.kind is not Kind.NODE:
            frame.layer = frame.outer.layer


def _first_pairs(
    frames: Sequence[Frame], windows: Sequence[Window], trace: ModelTrace
) -> Iterator[tuple[Frame, OpRecord]]:
    """Yield the first product of each name in each layer, in the profile and in the trace."""
    first: dict[tuple[str, str], OpRecord] = {}
    for operator in trace.operators:
        if operator.macs and operator.phase == "forward":
            first.setdefault((operator.layer, _name(operator)), operator)
    for frame in frames:
        inside = windows[0][0] <= frame.event.start < windows[0][1] if windows else True
        if inside and frame.layer is not None and not frame.is_backward:
            key = frame.layer, common_name(frame.event.name)
            if key in first:
                yield frame, first.pop(key)


def _name_backward(frames: Sequence[Frame]) -> None:
    """Give nodes of the gradient's graph, and what they run, the layer of the operator that made them."""
    numbers: list[int] = []
    makers: list[str | None] = []
    latest: defaultdict[tuple[object, object], str | None] = defaultdict(lambda: None)
    for frame in frames:
        number = frame.event.args.get("Sequence number")
        if not isinstance(number, int):
            number = -1
        if frame.event.kind is Kind.NODE:
            if number >= 0:
                at = bisect_right(numbers, number) - 1
                latest[frame.event.thread] = makers[at] if at >= 0 else None
            frame.layer = latest[frame.event.thread]
        elif frame.is_backward:
            if frame.layer is None and frame.outer is not None:
                frame.layer = frame.outer.layer
        elif frame.event.kind is Kind.OPERATOR and number >= 0:
            if numbers and numbers[-1] >= number:
                makers[-1] = frame.layer
            else:
                numbers.append(number)
                makers.append(frame.layer)
