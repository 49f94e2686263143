"""One case: a model, what is called with it, what goes wrong meanwhile, and what the caller is in the middle of."""

from __future__ import annotations

import gc
import importlib
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from attack_cases import NO_CONTEXT, NO_FAULT, NOTHING, Case, Difference, find_differences, quiet
from attack_process import Facts, Same
from torch import nn

from profilerkit import TracingError

from .calls import CALLS, list_tensors
from .contexts import CONTEXTS
from .facts import Address, digest, find_kinds, inner_tensors, walk
from .faults import CURRENT, Fault, Faulty
from .process import SURROUNDINGS, pristine, process_facts
from .subjects import SUBJECTS, Subject, build
from .surroundings import add_promised_facts, clean_code, list_classes, list_files, outside_facts

__all__ = ["find_case_differences", "model_names"]

for _name in ("parameters", "hooks", "state", "process", "programs"):
    importlib.import_module(f"{__package__}.models_{_name}")


def model_names() -> list[str]:
    return list(SUBJECTS)


@dataclass
class Look:
    """All facts at one moment: those that profilerkit answers for, and those of the world around the model."""

    promised: Facts
    around: Facts

    def changes(self, later: Look) -> Iterator[Difference]:
        for before, after in ((self.promised, later.promised), (self.around, later.around)):
            yield from find_differences(before, after)


def look(subject: Subject, classes: list[type]) -> Look:
    """Return all facts; nothing of the model is called for them."""
    promised, around = process_facts()
    met: set[int] = set()
    walk("model", subject.model, promised, met)
    for index, value in enumerate(subject.args):
        walk(f"inputs[{index}]", value, promised, met)
    walk("inputs by name", subject.kwargs, promised, met)
    add_promised_facts(classes, promised, met)
    for index, value in enumerate(subject.watched):
        walk(f"outside watched {index}", value, around, met)
        around[f"outside watched {index} kinds"] = find_kinds(value)
    outside_facts(list_files(classes, list_modules(subject.model)), around, met)
    return Look(promised, around)


# The yardstick: what plain calls of a model that was built alike do ---------------------------------------------------


@dataclass
class Plain:
    """What the caller's own calls change: of a twin that profilerkit has never seen."""

    changed: dict[str, Any] = field(default_factory=dict)
    output: list[Any] | None = None


@contextmanager
def made(name: str, fault: str) -> Iterator[tuple[Subject, Fault | None, list[type]]]:
    """Build a model with a fault inside; what building and running it did to the process is undone afterwards."""
    with ExitStack() as stack:
        stack.enter_context(pristine())
        warnings.simplefilter("ignore")
        subject = build(name)
        stack.callback(CURRENT.clear)
        stack.callback(subject.close)
        planted = None
        if fault != NO_FAULT:
            kind, _, at = fault.partition("@")
            planted = Fault(kind, int(at))
            subject.model = Faulty(subject.model, planted)
        classes = list_classes(list_modules(subject.model))
        stack.enter_context(clean_code(classes, list_files(classes, list_modules(subject.model))))
        yield subject, planted, classes


def list_modules(model: Any) -> list[nn.Module]:
    return list(nn.Module.modules(model)) if isinstance(model, nn.Module) else []


def find_output(subject: Subject) -> list[Any]:
    """Return the bits of what the model returns now, or the error that it raises."""
    torch.manual_seed(1)
    try:
        found = subject()
    except Exception as error:
        return [type(error).__name__]
    return [
        (
            tuple(tensor.shape),
            tensor.dtype,
            tensor.device,
            tensor.requires_grad,
            *tuple(digest(part) for _, part in inner_tensors(tensor)),
        )
        for tensor in list_tensors(found)
    ]


@cache
def find_plain(model: str, fault: str, call: str, context: str = NO_CONTEXT) -> Plain:
    """Return what a plain call changes, and the model's output after it (or at first, where profilerkit runs it).

    The caller's own code is run in the caller's context.
    """
    found = Plain()
    own = CALLS[call].plain if call else None
    with made(model, fault) as (subject, planted, classes):
        before = look(subject, classes)
        for _ in range(1 if own else 3):
            with swallowed():
                CONTEXTS[context](lambda: _run_swallowing(own, subject)) if own else subject()
        found.changed = {change.fact: change.after for change in before.changes(look(subject, classes))}
        if own:
            disarm(planted)
            found.output = find_output(subject)
    if not own:
        with made(model, fault) as (subject, planted, _):
            disarm(planted)
            found.output = find_output(subject)
    return found


def _run_swallowing(own: Callable[[Subject], Any], subject: Subject) -> None:
    with swallowed():
        own(subject)


def disarm(planted: Fault | None) -> None:
    if planted is not None:
        planted.armed = False


class swallowed:
    """Let nothing through that a fault raises; the test runner's own interrupt comes at no other time.

    A class: a generator would be thrown the error, and some of these errors break what throws them.
    """

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> bool:
        with suppress(Exception):
            if error is not None:
                error.__traceback__ = error.__context__ = None  # the frames would keep alive what they hold
        return True


# The case -------------------------------------------------------------------------------------------------------------


def find_case_differences(case: Case, do: Callable[[Subject], Any] | None = None) -> list[Difference]:
    """Run a case and return what differs afterwards without being the model's own doing; ``do`` replaces the call.

    A caller's own code that was refused before it ran is to change nothing.
    """
    called = CALLS[case.call]
    warm_up(case.call, case.context, case.model if case.model.startswith(_STARTS_THINGS) else "plain")
    own = (case.call, case.context) if called.plain else ("",)
    plain = find_plain(case.model, case.fault, *own)
    with made(case.model, case.fault) as (subject, planted, classes):
        inner: list[Difference] = []
        before = look(subject, classes)

        refused: list[TracingError] = []

        def inside() -> None:
            first = process_facts()[0]
            with swallowed():
                try:
                    (do or called.do)(subject)
                except TracingError as error:  # before the caller's own code has run
                    refused.append(error)
            inner.extend(item for item in find_differences(first, process_facts()[0]))

        with swallowed(), quiet():
            CONTEXTS[case.context](inside)
        gc.collect(0)
        after = look(subject, classes)
        found = [*before.changes(after)]
        if refused and called.plain and all(is_around(difference.fact) for difference in found):
            own, plain = ("",), Plain({}, find_plain(case.model, case.fault, "").output)
        found += [part for part in inner if part.fact not in {outer.fact for outer in found}]
        judge = _unlike_plain if called.plain else _not_excused
        found = [difference for difference in found if judge(difference, plain)]
        if called.plain:
            missed = {fact for fact in plain.changed if not is_around(fact)}
            missed -= {change.fact for change in before.changes(after)}
            found += [Difference(fact, plain.changed[fact], "unchanged") for fact in sorted(missed)]
        disarm(planted)
        lost = any(difference.fact.endswith(" address") and difference.after == NOTHING for difference in found)
        output = ["not asked for: the model has lost its values"] if lost else find_output(subject)
        if output != plain.output and not _is_usual(output, case, own):
            found.append(Difference("output afterwards", plain.output, output))
    return found


def _is_usual(output: list[Any], case: Case, own: tuple[str, ...]) -> bool:
    """Ask two more twins: the last bit of a matrix product may depend on where its memory happens to lie."""
    return any(output == find_plain.__wrapped__(case.model, case.fault, *own).output for _ in range(2))


def _identity(value: Any) -> bool:
    if isinstance(value, (list, tuple, dict)) and not isinstance(value, Address):
        return any(map(_identity, value.values() if isinstance(value, dict) else value))
    return isinstance(value, (Same, Address))


def _not_excused(difference: Difference, plain: Plain) -> bool:
    """Say whether a change is profilerkit's: of the world around, what a plain call does not change as well."""
    if difference.fact.endswith(" kinds"):
        usual = plain.changed.get(difference.fact, set())
        return isinstance(difference.after, set) and bool(
            difference.after - (difference.before if difference.before != NOTHING else set()) - usual
        )
    if is_around(difference.fact):
        return find_root(difference.fact) not in {find_root(fact) for fact in plain.changed}
    return not (difference.fact.endswith(" version") and difference.fact in plain.changed)


def is_around(fact: str) -> bool:
    """Say whether a fact is of the world around the model, which its own code may change."""
    own = fact.removeprefix("process ")
    return (
        own in SURROUNDINGS or fact.startswith(("outside ", "globals ")) or " closure " in fact or " defaults" in fact
    )


def find_root(fact: str) -> str:
    """Return what a fact of the world around is about: "outside CACHE['x'] version" is about "outside CACHE"."""
    for word in (" closure ", "outside ", "globals ", " defaults"):
        head, found, rest = fact.partition(word)
        if found:
            return head + found + rest.split("[")[0].split(" ")[0].split(".")[0]
    return fact


def _unlike_plain(difference: Difference, plain: Plain) -> bool:
    """Say whether the caller's own code alone changes this otherwise."""
    if is_around(difference.fact):
        return _not_excused(difference, plain)
    if difference.fact not in plain.changed:
        return True
    expected = plain.changed[difference.fact]
    return not (_identity(expected) or _identity(difference.after)) and expected != difference.after


#: Models that have torch start something once in a process: workers of the compiler, a thread for bars of progress.
_STARTS_THINGS = ("compiled", "exported")


@cache
def warm_up(call: str, context: str, model: str = "plain") -> None:
    """Run a call once before it counts: what is imported and started once in a process is no difference."""
    with made(model, NO_FAULT) as (subject, _, _), swallowed(), quiet():
        CALLS[call].do(subject)
    with made("plain", NO_FAULT) as (subject, _, _), swallowed(), quiet():
        CONTEXTS[context](lambda: None)
