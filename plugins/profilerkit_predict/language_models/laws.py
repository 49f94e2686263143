"""The laws that multiply-accumulates follow, from two traced passes: the prefill of a prompt, and a step after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from profilerkit.trace.records import ModelTrace, OpRecord

from .growth import is_index
from .records import Law, Term

__all__ = ["Passes", "Stride", "Terms", "find_laws", "find_root_call", "find_terms", "split_phases"]

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


class Stride(NamedTuple):
    """Entries of a cache that stand for several tokens each.

    Attributes:
        tokens: For how many.
        most_attended: How many of them a query attends to at most, where an indexer chooses them; None for all.
    """

    tokens: int
    most_attended: int | None = None


class Passes(NamedTuple):
    """The operators of a prefill and of a step of one token after it, and what their work may follow.

    Attributes:
        prefill: Those of the pass over the prompts.
        decode: Those of the step.
        batch: The sequences of both.
        prompt: The tokens of each prompt.
        windows: How many tokens a layer attends to, by its path or one around it; None for all.
        strides: Which entries the cache has that stand for several tokens.
    """

    prefill: Sequence[OpRecord]
    decode: Sequence[OpRecord]
    batch: int
    prompt: int
    windows: Mapping[str, int | None]
    strides: tuple[Stride, ...] = ()


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
    batch, prompt, window = passes.batch, passes.prompt, _find_window(layer, passes.windows)
    if second % batch:
        return ()
    rate = second // batch
    if first == rate * batch * prompt:
        return (Term(Law.TOKEN, rate),)
    if first == second:
        return (Term(Law.LAST, rate),)
    keys = prompt + 1 if window is None else min(prompt + 1, window)
    if rate % keys == 0 and first == batch * prompt * prompt * (rate // keys):
        return (Term(Law.PAIR, rate // keys, window),)
    if rate % (prompt + 1) == 0 and first == batch * prompt * (rate // (prompt + 1)):
        return (Term(Law.KEY, rate // (prompt + 1)),)
    return _find_entries(first, rate, layer, passes, keys)


def _find_entries(first: int, rate: int, layer: str, passes: Passes, keys: int) -> tuple[Term, ...]:
    """Return the terms of attention to entries, alone as an indexer's or beside the keys of tokens; none for neither.

    ``rate`` is the work of a sequence in the step, which sees so many keys of tokens.
    """
    prompt = passes.prompt
    for stride in passes.strides:
        limit = None if is_index(layer) else stride.most_attended
        before, after = prompt // stride.tokens, (prompt + 1) // stride.tokens
        for prompt_keys, step_keys in ((0, 0), (prompt, keys)):
            unit, rest = divmod(rate, step_keys + after) if before else (0, 1)
            if rest == 0 and first == passes.batch * prompt * unit * (prompt_keys + before):
                entries = Term(Law.ENTRY, unit, stride=stride.tokens, most_attended=limit)
                window = _find_window(layer, passes.windows)
                return (Term(Law.PAIR, unit, window), entries) if prompt_keys else (entries,)
    return ()


def _find_window(layer: str, windows: Mapping[str, int | None]) -> int | None:
    path = layer
    while path:
        if path in windows:
            return windows[path]
        path = path.rpartition(".")[0]
    return windows.get("")
