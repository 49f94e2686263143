"""One case: a model, what is called with it, what goes wrong meanwhile, and what the caller is in the middle of."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import keras
import tensorflow as tf
import tf_keras
from attack_cases import NO_CONTEXT, NO_FAULT, Case, Difference, find_differences, quiet
from keras_calls import CALLS
from keras_contexts import CONTEXTS
from keras_faults import plant, pull
from keras_fingerprint import Facts, Same, digest, look_at
from keras_process import PROCESS, SURROUNDINGS, pristine, process_facts
from keras_subjects import Subject, build

__all__ = ["find_case_differences", "made"]


def look(subject: Subject) -> Facts:
    promised, around = process_facts()
    return {**look_at(subject), **promised, **around}


@dataclass
class Plain:
    """What the caller's own calls do to a twin that profilerkit has never seen, and what that twin gives."""

    changed: Facts = field(default_factory=dict)
    output: Any = None


@contextmanager
def made(name: str, fault: str) -> Iterator[Subject]:
    """Build a model and plant a fault; what both did to the process is undone afterwards."""
    with pristine():
        warnings.simplefilter("ignore")
        subject = build(name)
        plant(fault)
        try:
            yield subject
        finally:
            pull()


def find_output(subject: Subject) -> Any:
    """Return the bits of what the model gives now, or the error that it raises."""
    pull()
    keras.utils.set_random_seed(3)
    tf_keras.utils.set_random_seed(3)
    try:
        outputs = subject()
    except Exception as error:
        return type(error).__name__
    return [digest(leaf) for leaf in tf.nest.flatten(outputs)]


@cache
def find_plain(model: str) -> Plain:
    """Return what plain calls change around a model, and what it gives when nobody has profiled it."""
    found = Plain()
    with made(model, NO_FAULT) as subject:
        found.output = find_output(subject)
    with made(model, NO_FAULT) as subject:
        before = look(subject)
        with swallow(), quiet():
            subject()
        found.changed = {
            item.fact: item.after for item in find_differences(before, look(subject)) if is_around(item.fact)
        }
    return found


def is_around(fact: str) -> bool:
    """Say whether a fact is of the world around the model, which its own code may change."""
    return fact.startswith("outside ") or fact.removeprefix("process ") in SURROUNDINGS


def _is_excused(difference: Difference, plain: Plain) -> bool:
    """Say whether a plain call changes this as well, into the same or another of its kind."""
    if difference.fact not in plain.changed:
        return False
    usual = plain.changed[difference.fact]
    return bool(usual == difference.after or (isinstance(usual, Same) and repr(usual) == repr(difference.after)))


@contextmanager
def swallow(kept: list[BaseException] | None = None) -> Iterator[None]:
    """Let nothing through that a fault raises; the test runner's own interrupt comes at no other time."""
    try:
        yield
    except BaseException as error:
        error.__traceback__ = None  # the frames would keep alive what they hold
        if kept is not None:
            kept.append(error)


def find_case_differences(case: Case, do: Callable[[Subject], Any] | None = None) -> list[Difference]:
    """Run a case and return what differs afterwards without being the model's own doing; ``do`` replaces the call."""
    call = do or CALLS[case.call]
    warm_up(case.call)
    plain = find_plain(case.model)
    broken: list[BaseException] = []
    with made(case.model, case.fault) as subject:
        inner: list[Difference] = []
        before = look(subject)

        def inside() -> None:
            first = process_facts()[0]
            with swallow():
                call(subject)
            inner.extend(find_differences(first, process_facts()[0]))

        with swallow(broken), quiet():
            CONTEXTS[case.context](tf.autograph.experimental.do_not_convert(inside))
        found = [*find_differences(before, look(subject)), *inner]
        found = [difference for difference in found if not _is_excused(difference, plain)]
        found += [Difference("the caller's own code", "runs", repr(error)) for error in broken]
        output = find_output(subject)
        if output != plain.output:
            found.append(Difference("output afterwards", plain.output, output))
    if case.context != NO_CONTEXT:  # what building the caller's own surroundings made
        found = [difference for difference in found if difference in inner or not _is_of_names(difference)]
    return found


def _is_of_names(difference: Difference) -> bool:
    moved = ("process keras state", "process python random state", "process numpy random state")
    return difference.fact in (*moved, "process tensorflow random state") or difference.fact.startswith(
        "process strategy"
    )


@cache
def warm_up(call: str) -> None:
    """Run a call once on something harmless: what is imported and started once in a process is no difference."""
    _ = PROCESS, SURROUNDINGS
    with made("sequential", NO_FAULT) as subject, swallow(), quiet():
        CALLS[call](subject)
