"""The laws that the work of a model follows, by two traced passes: a prefill, and a step of one token after it.

Each layer's operators are compared between both: their work grows with each token, the last one, each pair of a query
and a key, and so on (`Law`). A backend asks with `Passes`; of the terms follows the work of a step of any length.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from types import MappingProxyType
from typing import NamedTuple

from profilerkit.trace.layer_paths import walk_outwards
from profilerkit.trace.records import LayerCall, ModelTrace, OpRecord

from .formulas import count_attended_entries
from .model_cache import is_index
from .records import Law, Term


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
    call: tuple[str, int], calls: Mapping[str, Sequence[LayerCall]], roots: dict[tuple[str, int], int]
) -> int:
    """Return the index of the call of the model that a layer's call was made in; -1 outside all of them.

    A call is the path of its layer and its index among the layer's calls. ``roots`` keeps the results found before.
    """
    path, index = call
    if path == "":
        return index
    if call not in roots:
        caller = calls[path][index].caller if 0 <= index < len(calls[path]) else None
        roots[call] = -1 if caller is None else find_root_call(caller, calls, roots)
    return roots[call]


def _sum_macs(operators: Iterable[OpRecord]) -> Counter[tuple[str, str]]:
    groups: Counter[tuple[str, str]] = Counter()
    for operator in operators:
        if operator.macs:
            groups[operator.layer, operator.operator] += operator.macs
    return groups


class Passes(NamedTuple):
    """The operators of a prefill and of a step of one token after it, and the laws that their work may follow."""

    #: The operators of the pass over the prompts.
    prefill: Sequence[OpRecord]
    #: The operators of the step.
    decode: Sequence[OpRecord]
    batch: int
    prompt: int
    #: How many tokens a layer attends to, by its path or one around it; None for all.
    windows: Mapping[str, int | None]
    #: For how many tokens entries stand that are for several, in the cache or as an indexer makes them.
    strides: tuple[int, ...] = ()
    #: How many entries a layer attends to at most, by its path or a path around it, if an indexer chooses them.
    limits: Mapping[str, int | None] = MappingProxyType({})
    #: Whether windows are chunks; see `CacheLayer`.
    has_chunks: bool = False


def find_laws(passes: Passes) -> dict[tuple[str, str], tuple[Term, ...]]:
    """Return the terms that the operators of each layer add up to, by its path and the operator; none for no law.

    The operators of a layer are compared between both passes.
    """
    in_prefill, in_step = _sum_macs(passes.prefill), _sum_macs(passes.decode)
    keys = sorted({*in_prefill, *in_step})
    return {key: _find_law(in_prefill[key], in_step[key], key[0], passes) for key in keys}


class Terms(NamedTuple):
    """The terms of a model, and the layers whose work follows no law."""

    terms: tuple[Term, ...]
    strangers: tuple[str, ...]


def find_terms(passes: Passes) -> Terms:
    """Return the terms of a model, equal terms summed; all work that follows no law is one term of `Law.SPLIT`."""
    sums: Counter[Term] = Counter()
    strangers: list[tuple[str, str]] = []
    for key, parts in find_laws(passes).items():
        for term in parts:
            sums[replace(term, rate=0)] += term.rate
        if not parts:
            strangers.append(key)
    terms = [replace(term, rate=rate) for term, rate in sorted(sums.items(), key=str)]
    if strangers:
        in_prefill, in_step = _sum_macs(passes.prefill), _sum_macs(passes.decode)
        rate = sum(in_step[key] for key in strangers) // passes.batch
        prefill_rate = Fraction(sum(in_prefill[key] for key in strangers), passes.batch * passes.prompt)
        terms.append(Term(Law.SPLIT, rate, prefill_rate=prefill_rate))
    return Terms(tuple(terms), tuple(dict.fromkeys(layer for layer, _ in strangers)))


def _find_law(prefill: int, step: int, layer: str, passes: Passes) -> tuple[Term, ...]:
    """Return the terms that the work of a layer's operator in both passes is exactly; none if no law has both.

    In the prefill a sequence has ``prompt`` new tokens; in the step one, after ``prompt`` in its cache. Attention over
    tokens is computed as written: in the prefill the whole square, in the step one query with the keys of its window.
    """
    batch, prompt = passes.batch, passes.prompt
    rate, rest = divmod(step, batch)
    if rest:
        return ()
    if prefill == batch * prompt * rate:
        return (Term(Law.TOKEN, rate),)
    if prefill == step:
        return (Term(Law.LAST, rate),)
    window = _find_around(layer, passes.windows)
    keys = _count_keys(prompt, window)
    if rate % keys == 0 and prefill == batch * prompt * prompt * (rate // keys):
        limit = _find_limit(layer, passes) if window is None else None
        is_chunked = passes.has_chunks and window is not None
        return (Term(Law.PAIR, rate // keys, window, most_attended=limit, is_chunked=is_chunked),)
    if rate % (prompt + 1) == 0 and prefill == batch * prompt * (rate // (prompt + 1)):
        return (Term(Law.KEY, rate // (prompt + 1)),)
    return _find_entries(prefill, rate, layer, passes)


def _find_entries(prefill: int, rate: int, layer: str, passes: Passes) -> tuple[Term, ...]:
    """Return the terms of attention to entries, alone as an indexer's or beside the keys of tokens; none for neither.

    ``rate`` is the work of a sequence in the step.
    """
    batch, prompt = passes.batch, passes.prompt
    window = _find_around(layer, passes.windows)
    for stride in passes.strides:
        entries = Term(Law.ENTRY, 0, stride=stride, most_attended=_find_limit(layer, passes))
        in_prompt, in_step = prompt // stride, (prompt + 1) // stride
        if not in_prompt:
            continue
        unit, rest = divmod(rate, in_step)
        if not rest and prefill == batch * count_attended_entries(prompt, 0, stride) * unit:
            return (replace(entries, rate=unit, is_causal=True),)
        if not rest and prefill == batch * prompt * in_prompt * unit:
            return (replace(entries, rate=unit),)
        unit, rest = divmod(rate, _count_keys(prompt, window) + in_step)
        if not rest and prefill == batch * prompt * (prompt + in_prompt) * unit:
            return (Term(Law.PAIR, unit, window), replace(entries, rate=unit))
    return ()


def _count_keys(prompt: int, window: int | None) -> int:
    """Return how many keys of tokens the step after a prompt sees, with the key of its own token."""
    return prompt + 1 if window is None else min(prompt + 1, window)


def _find_limit(layer: str, passes: Passes) -> int | None:
    """Return how many entries a layer attends to at most; None for an indexer, which goes through all."""
    return None if is_index(layer) else _find_around(layer, passes.limits)


def _find_around(layer: str, values: Mapping[str, int | None]) -> int | None:
    """Return the value of a layer, or of the nearest one around it that has one; None for none."""
    return next((values[path] for path in walk_outwards(layer) if path in values), None)
