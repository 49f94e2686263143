"""The laws that multiply-accumulates follow, from two traced passes: the prefill of a prompt, and a step after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from types import MappingProxyType
from typing import NamedTuple

from profilerkit.trace.records import ModelTrace, OpRecord

from .formulas import count_attended_entries
from .growth import is_index
from .records import Law, Term

__all__ = ["Passes", "Terms", "find_laws", "find_root_call", "find_terms", "split_phases"]

#: Multiply-accumulates of a layer's operator, by the layer's path and the operator.
Groups = Mapping[tuple[str, str], int]


def split_phases(trace: ModelTrace) -> tuple[tuple[int, ...], ...]:
    """Return for each call of the model the indices of the operators that ran in it, in order."""
    calls = {record.path: record.calls for record in trace.layers}
    roots: dict[tuple[str, int], int] = {}
    phases: list[list[int]] = [[] for _ in calls[""]]
    for index, operator in enumerate(trace.operators):
        root = find_root_call((operator.layer, operator.call), calls, roots)
        if 0 <= root < len(phases):
            phases[root].append(index)
    return tuple(map(tuple, phases))


def find_root_call(
    start: tuple[str, int], calls: Mapping[str, Sequence[object]], roots: dict[tuple[str, int], int]
) -> int:
    """Return the index of the model's own call that a layer's call was made in; -1 outside all of them.

    ``roots`` keeps what was found for calls on the way.
    """
    at: tuple[str, int] | None = start
    trail = []
    root = -1
    while at is not None:
        if at in roots:
            root = roots[at]
            break
        trail.append(at)
        path, index = at
        if path == "":
            root = index
            break
        at = getattr(calls[path][index], "caller", None) if 0 <= index < len(calls[path]) else None
    roots.update(dict.fromkeys(trail, root))
    return root


def _sum_macs(operators: Iterable[OpRecord]) -> Counter[tuple[str, str]]:
    groups: Counter[tuple[str, str]] = Counter()
    for operator in operators:
        if operator.macs:
            groups[operator.layer, operator.operator] += operator.macs
    return groups


class Passes(NamedTuple):
    """The operators of a prefill and of a step of one token after it, and what their work may follow.

    Attributes:
        prefill: Those of the pass over the prompts.
        decode: Those of the step.
        batch: The sequences of both.
        prompt: The tokens of each prompt.
        windows: How many tokens a layer attends to, by its path or one around it; None for all.
        strides: For how many tokens entries stand that are for several, in the cache or as an indexer makes them.
        limits: How many entries a layer attends to at most, by its path or one around it, where an indexer chooses
            them.
        has_chunks: Whether windows are those of chunks; see `CacheLayer`.
    """

    prefill: Sequence[OpRecord]
    decode: Sequence[OpRecord]
    batch: int
    prompt: int
    windows: Mapping[str, int | None]
    strides: tuple[int, ...] = ()
    limits: Mapping[str, int | None] = MappingProxyType({})
    has_chunks: bool = False


def find_laws(passes: Passes) -> dict[tuple[str, str], tuple[Term, ...]]:
    """Return the terms that the operators of each layer add up to, by its path and the operator; none for no law.

    The operators of a layer are compared between both passes.
    """
    first, second = _sum_macs(passes.prefill), _sum_macs(passes.decode)
    return {key: _find_law(first[key], second[key], key[0], passes) for key in sorted({*first, *second})}


class Terms(NamedTuple):
    """The terms of a model, and the layers whose work follows no law."""

    terms: tuple[Term, ...]
    strangers: tuple[str, ...]


def find_terms(passes: Passes) -> Terms:
    """Return the terms of a model, equal ones added up; what follows no law is one that is split."""
    sums: Counter[Term] = Counter()
    strangers: list[tuple[str, str]] = []
    for key, parts in find_laws(passes).items():
        for term in parts:
            sums[replace(term, rate=0)] += term.rate
        if not parts:
            strangers.append(key)
    terms = [replace(term, rate=rate) for term, rate in sorted(sums.items(), key=str)]
    if strangers:
        first, second = (
            sum(_sum_macs(operators)[key] for key in strangers) for operators in (passes.prefill, passes.decode)
        )
        rate = Fraction(first, passes.batch * passes.prompt)
        terms.append(Term(Law.SPLIT, second // passes.batch, None, rate))
    return Terms(tuple(terms), tuple(dict.fromkeys(layer for layer, _ in strangers)))


def _find_law(first: int, second: int, layer: str, passes: Passes) -> tuple[Term, ...]:
    """Return the terms that the work of a layer's operator in both passes is exactly; none if no law has both."""
    batch, prompt, window = passes.batch, passes.prompt, _find_around(layer, passes.windows)
    if second % batch:
        return ()
    rate = second // batch
    if first == rate * batch * prompt:
        return (Term(Law.TOKEN, rate),)
    if first == second:
        return (Term(Law.LAST, rate),)
    keys = prompt + 1 if window is None else min(prompt + 1, window)
    if rate % keys == 0 and first == batch * prompt * prompt * (rate // keys):
        limit = _find_limit(layer, passes) if window is None else None
        is_chunked = passes.has_chunks and window is not None
        return (Term(Law.PAIR, rate // keys, window, most_attended=limit, is_chunked=is_chunked),)
    if rate % (prompt + 1) == 0 and first == batch * prompt * (rate // (prompt + 1)):
        return (Term(Law.KEY, rate // (prompt + 1)),)
    return _find_entries(first, rate, layer, passes, keys)


def _find_entries(first: int, rate: int, layer: str, passes: Passes, keys: int) -> tuple[Term, ...]:
    """Return the terms of attention to entries, alone as an indexer's or beside the keys of tokens; none for neither.

    ``rate`` is the work of a sequence in the step, which sees so many keys of tokens.
    """
    prompt, limit = passes.prompt, _find_limit(layer, passes)
    for stride in passes.strides:
        before, after = prompt // stride, (prompt + 1) // stride
        seen = count_attended_entries(prompt, 0, stride)
        if before and rate % after == 0 and first == passes.batch * seen * (rate // after):
            return (Term(Law.ENTRY, rate // after, stride=stride, most_attended=limit, is_causal=True),)
        for prompt_keys, step_keys in ((0, 0), (prompt, keys)):
            unit, rest = divmod(rate, step_keys + after) if before else (0, 1)
            if rest == 0 and first == passes.batch * prompt * unit * (prompt_keys + before):
                entries = Term(Law.ENTRY, unit, stride=stride, most_attended=limit)
                window = _find_around(layer, passes.windows)
                return (Term(Law.PAIR, unit, window), entries) if prompt_keys else (entries,)
    return ()


def _find_limit(layer: str, passes: Passes) -> int | None:
    """Return how many entries a layer attends to at most; None for an indexer, which goes through all."""
    return None if is_index(layer) else _find_around(layer, passes.limits)


def _find_around(layer: str, values: Mapping[str, int | None]) -> int | None:
    """Return the value of a layer, or of the nearest one around it that has one; None for none."""
    path = layer
    while path:
        if path in values:
            return values[path]
        path = path.rpartition(".")[0]
    return values.get("")
