"""What a report answers in a few lines, and the terms of which a step is made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from .formatting import show_bytes, show_count, show_most, show_rate, show_seconds
from .steps import Resource

if TYPE_CHECKING:
    from profilerkit.devices import DeviceInfo

    from .fitting import Fit
    from .report import LanguageModelReport
    from .serving import Serving
    from .steps import Step, StepTerm

__all__ = [
    "describe_formats",
    "list_answers",
    "list_steps",
    "list_term_rows",
    "list_term_titles",
]


def list_answers(report: LanguageModelReport) -> Iterable[tuple[str, str]]:
    """Yield whether it fits, for how many users, how fast it is and what limits it; nothing without a device."""
    device = report.device
    if device is None:
        return
    if report.fits:
        yield from _list_memory_answers(report.fits[-1], device, report.cost.devices)
    yield "formats", describe_formats(report)
    fastest, most = report.serving[0], report.serving[-1]
    if fastest.time_to_first_token is None:
        return
    yield "first token", _describe_first_token(fastest, most)
    if fastest.time_per_output_token and most.decode_tokens_per_second:
        yield "later tokens", _describe_later_tokens(1 / fastest.time_per_output_token, fastest, most)
    yield "limited by", f"first token: {_name_limit(fastest.prefill)}; later: {_name_limit(fastest.decode)}"


def _describe_first_token(fastest: Serving, most: Serving) -> str:
    """Return the time until the first token of the smallest batch, and of the largest if that is another one."""
    text = f"at least {show_seconds(fastest.time_to_first_token)}, batch {fastest.batch:,}"
    if most == fastest:
        return text
    return f"{text}; {show_seconds(most.time_to_first_token)} for all of {most.batch:,} prompts"


def _describe_later_tokens(rate: float, fastest: Serving, most: Serving) -> str:
    """Return the tokens in a second: ``rate`` of a user in the smallest batch, and of all users in the largest."""
    text = f"at most {show_rate(rate)} tokens/s a user, batch {fastest.batch:,}"
    if most == fastest:
        return text
    return f"{text}; {show_rate(most.decode_tokens_per_second)} for all of batch {most.batch:,}"


def _list_memory_answers(fit: Fit, device: DeviceInfo, devices: int) -> Iterable[tuple[str, str]]:
    """Yield whether a batch fits, and for how many users; nothing of both where the size of the memory is not known."""
    memory = fit.memory
    taken = f"batch {fit.batch:,} takes {show_bytes(memory.total)}"
    if memory.capacity is None:
        yield "fits", f"not known: {taken}, and the memory of {device.name} is not known"
        return
    needed = "no number of" if fit.needed_devices is None else f"{fit.needed_devices:,}"
    verdict = "yes" if memory.fits else f"no, needs {needed} devices"
    sharing = f" on each of {devices}" if devices > 1 else ""
    yield "fits", f"{verdict}: {taken} of {show_bytes(memory.capacity)}{sharing}, with reserve"
    users = f"{show_most(fit.largest_batch)} users" if fit.largest_batch else "not one user"
    yield "users", f"{users} with {fit.context:,} tokens each at the same time"


def describe_formats(report: LanguageModelReport) -> str:
    """Return the formats of weights, activations and cache."""
    stored, dtype = report.cost.cache_format, report.facts.dtype
    others = f"activations and cache {dtype}" if stored is None else f"activations {dtype}, cache {stored.name}"
    return f"weights {report.weights}, {others}"


def _name_limit(step: Step) -> str:
    """Return what binds a step, with the largest of its terms and its share."""
    terms = [term for term in step.terms if term.resource is step.bound_by and term.seconds]
    if len(terms) < 2:
        return str(step.bound_by)
    largest = max(terms, key=lambda term: term.seconds or 0.0)
    share = (largest.seconds or 0.0) / sum(term.seconds or 0.0 for term in terms)
    return f"{step.bound_by} ({largest.name} {100 * share:.0f} %)"


def list_steps(report: LanguageModelReport) -> dict[str, Step]:
    """Return the steps of the largest batch by what they make: a prefill, the last one, and what drafts for it."""
    row, speculation = report.serving[-1], report.speculation
    steps = {"first token": row.prefill, "last token": row.decode}
    if row.draft is not None and speculation is not None:
        steps[f"{speculation.draft_tokens} drafted"] = row.draft.repeat(speculation.draft_tokens)
    return steps


def list_term_titles(report: LanguageModelReport) -> tuple[str, ...]:
    """Return the columns of `list_term_rows`."""
    return ("", *(title for name in list_steps(report) for title in (name, "takes")))


def list_term_rows(report: LanguageModelReport) -> Iterable[tuple[str, ...]]:
    """Yield a row for each term of the steps; of all resources the slowest binds."""
    steps = [{term.name: term for term in step.terms} for step in list_steps(report).values()]
    for name in dict.fromkeys(name for terms in steps for name in terms):
        yield name, *(cell for terms in steps for cell in _write_term(terms.get(name)))


def _write_term(term: StepTerm | None) -> tuple[str, str]:
    if term is None:
        return "-", "-"
    amount = f"{show_count(term.amount)} MACs" if term.resource is Resource.COMPUTE else show_bytes(term.amount)
    return amount, show_seconds(term.seconds)
