"""Errors whose causes lead back to themselves are read once each: JAX makes circles, and ``raise error from error``."""

from __future__ import annotations

from profilerkit.backend_kit.failures import explain_failure, note_layer
from profilerkit.errors import FailureCode, classify
from profilerkit.process.containment import collect_notes, describe_origin


def circle() -> tuple[ValueError, ValueError]:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__context__ = second, first
    return first, second


def test_a_failure_without_a_layer_is_explained() -> None:
    failure = explain_failure(circle()[0], None, "torch", "profilerkit_torch")
    assert "first" in str(failure)


def test_the_layer_of_a_cause_is_named() -> None:
    first, second = circle()
    note_layer(second, "blocks.1")
    assert "blocks.1" in str(explain_failure(first, None, "torch", "profilerkit_torch"))


def test_notes_of_a_circle_are_collected_once() -> None:
    first, second = circle()
    first.add_note("one")
    second.add_note("two")
    assert collect_notes(first) == ["one", "two"]


def test_an_error_that_is_its_own_cause_is_the_models() -> None:
    error = ValueError("again")
    error.__cause__ = error
    assert describe_origin(error) == ""
    assert classify(error) is FailureCode.MODEL
