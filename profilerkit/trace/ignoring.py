"""Leaving layers out of a trace, by their type or by their path: only the other layers are counted."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

import msgspec

from ..arguments.checks import Check, several
from ..count_text import format_count
from ..error_text import shown
from ..errors import ArgumentError, ArgumentWarning, nearest
from ..process.user_lines import find_stack_level
from .bounds import Branch, Choice
from .layer_paths import walk_outwards
from .records import LayerCall, ModelTrace, OpRecord

__all__ = ["IGNORED", "Ignored", "without_layers"]

#: The argument of `without_layers`: a class of layers, its name, a pattern of paths, or several of these.
Ignored: TypeAlias = "type | str | Iterable[type | str]"
_LAYERS = 'classes of layers, their names or patterns of paths: ignore=[nn.Dropout, "Conv2d", "encoder.layers.*"]'


def _read_ignored(value: Any) -> list[Any]:
    layers = [value] if isinstance(value, (type, str)) else several(value)
    for layer in layers:
        if not (isinstance(layer, type) or (isinstance(layer, str) and layer)):
            raise ArgumentError(f"ignore has {shown(layer)}; give {_LAYERS}")
    return layers


IGNORED = Check(_LAYERS, _read_ignored)


def without_layers(trace: ModelTrace, ignore: Ignored) -> ModelTrace:
    """Return the trace without the layers that match, and without the layers inside them.

    A class, or its name, stands for the layers of exactly this class; any other text is a pattern of paths, as
    `fnmatch` reads them: ``"encoder.layers.*"``. The model itself is never left out. An operator of a layer that is
    left out stays in the list, as an operator of the layer around it that costs nothing, because the memory timeline
    has an entry for each operator: the memory is still the memory of the whole model. A note names the layers that are
    left out; a pattern without a match gives a warning.
    """
    if not ignore:
        return trace
    matches = _find_matches(trace, ignore)
    matched = set().union(*matches.values())
    gone = {layer.path for layer in trace.layers if not matched.isdisjoint(walk_outwards(layer.path))}
    layers = tuple(
        msgspec.structs.replace(layer, calls=tuple(_drop_caller(call, gone) for call in layer.calls))
        for layer in trace.layers
        if layer.path not in gone
    )
    return replace(
        trace,
        layers=layers,
        left_out=(*trace.left_out, *(layer for layer in trace.layers if layer.path in gone)),
        operators=tuple(_make_free(op, gone) if op.layer in gone else op for op in trace.operators),
        uncounted=_count_uncounted(trace, gone),
        choices=_drop_work(trace.choices, gone),
        notes=(*trace.notes, _describe_gone(matches, len(gone))),
    )


def _find_matches(trace: ModelTrace, ignore: Ignored) -> dict[str, list[str]]:
    """Return the paths of the layers that each pattern matches; warns of a pattern without a match."""
    types = {layer.path: layer.type for layer in trace.layers if layer.path}
    matches: dict[str, list[str]] = {}
    for layer in IGNORED("ignore", ignore):
        pattern = layer.__name__ if isinstance(layer, type) else layer
        matches[pattern] = [path for path, kind in types.items() if kind == pattern or fnmatchcase(path, pattern)]
    for pattern, paths in matches.items():
        if not paths:
            _warn_of_unmatched(pattern, trace)
    return matches


def _make_free(op: OpRecord, gone: set[str]) -> OpRecord:
    """Return an operator of a layer that is left out as an operator of the layer around it that costs nothing."""
    return msgspec.structs.replace(
        op,
        layer=next(around for around in walk_outwards(op.layer) if around not in gone),
        call=-1,
        macs=0,
        flops=0,
        bytes_read=0,
        bytes_written=0,
        attended_macs=None,
        is_masked=False,
        product_dtype=None,
        missing="",
    )


def _drop_caller(call: LayerCall, gone: set[str]) -> LayerCall:
    """Return a call without its caller if the caller is left out."""
    if call.caller is None:
        return call
    caller_path, _ = call.caller
    return msgspec.structs.replace(call, caller=None) if caller_path in gone else call


def _count_uncounted(trace: ModelTrace, gone: set[str]) -> Mapping[str, int]:
    """Return the uncounted operators, except those in the layers left out.

    The layers of uncounted operators are known only if each of these operators has a record.
    """
    uncounted = {}
    for name, calls in trace.uncounted.items():
        layers = [op.layer for op in trace.operators if op.missing == name]
        has_all_records = len(layers) == calls
        calls_left = sum(layer not in gone for layer in layers) if has_all_records else calls
        if calls_left:
            uncounted[name] = calls_left
    return uncounted


def _drop_work(choices: Iterable[Choice], gone: set[str]) -> tuple[Choice, ...]:
    """Return the choices without the work of the layers left out."""
    return tuple(
        replace(choice, branches=tuple(_drop_branch_work(branch, gone) for branch in choice.branches))
        for choice in choices
    )


def _drop_branch_work(branch: Branch, gone: set[str]) -> Branch:
    work = {path: counts for path, counts in branch.work.items() if path not in gone}
    return Branch(work, _drop_work(branch.choices, gone))


def _warn_of_unmatched(pattern: str, trace: ModelTrace) -> None:
    alike = nearest(pattern, {name for layer in trace.layers if layer.path for name in (layer.type, layer.path)})
    hint = f"; did you mean {alike!r}?" if alike else "; a layer with several names is known by its first"
    exception = " (the model itself is never left out)" if trace.layers and trace.layers[0].type == pattern else ""
    warnings.warn(
        f"ignore={pattern!r} matches no layer{exception}{hint}", ArgumentWarning, stacklevel=find_stack_level()
    )


def _describe_gone(matches: Mapping[str, Sequence[str]], number: int) -> str:
    """Return the note of layers that are left out: their number, with the layers inside matched layers."""
    numbers = ", ".join(f"{pattern} matches {len(paths)}" for pattern, paths in matches.items())
    return (
        f"left out by ignore=: {format_count(number, 'layer')}, those inside included ({numbers}); "
        "parameters, size, MACs, FLOPs and the table of layers lack them, memory and measured times do not"
    )
