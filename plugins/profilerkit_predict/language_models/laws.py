"""The laws that multiply-accumulates follow, from two traced passes: the prefill of a prompt, and a step after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from profilerkit.trace.records import ModelTrace, OpRecord

from .records import Law, Term

__all__ = ["Terms", "find_laws", "find_root_call", "find_terms", "split_phases"]

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


def find_laws(
    prefill: Iterable[OpRecord],
    decode: Iterable[OpRecord],
    *,
    batch: int,
    prompt: int,
    windows: Mapping[str, int | None],
) -> dict[tuple[str, str], Term | None]:
    """Return the law that the operators of each layer follow, by its path and the operator; None for no law.

    The operators of a layer are compared between a prefill of ``prompt`` tokens and a step of one token after it, both
    of ``batch`` sequences. ``windows`` has the tokens that a layer attends to, by its path or one around it.
    """
    first, second = _sum_macs(prefill), _sum_macs(decode)
    return {
        key: _find_law(first[key], second[key], batch, prompt, _find_window(key[0], windows))
        for key in sorted({*first, *second})
    }


class Terms(NamedTuple):
    """The terms of a model, and the layers whose work follows no law."""

    terms: tuple[Term, ...]
    strangers: tuple[str, ...]


def find_terms(
    prefill: Sequence[OpRecord],
    decode: Sequence[OpRecord],
    *,
    batch: int,
    prompt: int,
    windows: Mapping[str, int | None],
) -> Terms:
    """Return the terms of a model, equal ones added up; what follows no law is one that is split.

    The arguments are those of `find_laws`.
    """
    sums: Counter[tuple[Law, int | None]] = Counter()
    strangers: list[tuple[str, str]] = []
    laws = find_laws(prefill, decode, batch=batch, prompt=prompt, windows=windows)
    for key, term in laws.items():
        if term is None:
            strangers.append(key)
        else:
            sums[term.law, term.window] += term.rate
    terms = [Term(law, rate, window) for (law, window), rate in sorted(sums.items(), key=str)]
    if strangers:
        first, second = (sum(_sum_macs(operators)[key] for key in strangers) for operators in (prefill, decode))
        terms.append(Term(Law.SPLIT, second // batch, None, Fraction(first, batch * prompt)))
    return Terms(tuple(terms), tuple(dict.fromkeys(layer for layer, _ in strangers)))


def _find_law(first: int, second: int, batch: int, prompt: int, window: int | None) -> Term | None:
    """Return the law that both numbers follow exactly; None for none."""
    if second % batch:
        return None
    rate = second // batch
    if first == rate * batch * prompt:
        return Term(Law.TOKEN, rate)
    if first == second:
        return Term(Law.LAST, rate)
    keys = prompt + 1 if window is None else min(prompt + 1, window)
    if rate % keys == 0 and first == batch * prompt * prompt * (rate // keys):
        return Term(Law.PAIR, rate // keys, window)
    if rate % (prompt + 1) == 0 and first == batch * prompt * (rate // (prompt + 1)):
        return Term(Law.KEY, rate // (prompt + 1))
    return None


def _find_window(layer: str, windows: Mapping[str, int | None]) -> int | None:
    path = layer
    while path:
        if path in windows:
            return windows[path]
        path = path.rpartition(".")[0]
    return windows.get("")
