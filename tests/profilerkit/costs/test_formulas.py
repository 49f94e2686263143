"""Every formula over plain numbers, by what it is made of."""

from __future__ import annotations

import random
import sys
from types import CodeType, FrameType, FunctionType

import pytest
from formula_cases import CASES, Case, agrees, distinct_constants
from keras_layer_cases import KERAS_LAYERS, NAMED, SPELT_OUT
from linear_algebra_cases import LINEAR_ALGEBRA
from mutation import is_noticed, mutants

from profilerkit.costs import families, keras_layers


@pytest.mark.parametrize(
    "case", [pytest.param(item, id=f"{family}-{place}") for family in CASES for place, item in enumerate(CASES[family])]
)
def test_a_formula_is_made_of_what_its_definition_says(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    assert agrees(case), (case.call(), case.macs, dict(case.takes))
    distinct_constants(monkeypatch)
    assert agrees(case), f"another elementary function than {dict(case.takes)}"


def test_every_family_has_cases() -> None:
    assert set(families()) - {"keras_layers", "linear_algebra"} == set(CASES)


@pytest.mark.parametrize("family", sorted(CASES))
def test_every_formula_of_a_family_is_called_by_a_case(family: str) -> None:
    module = families()[family]
    formulas = [item for item in vars(module).values() if isinstance(item, FunctionType)]
    codes: set[CodeType] = set()

    def note_code(frame: FrameType, event: str, argument: object) -> None:
        codes.add(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(note_code)
    try:
        assert all(agrees(example) for example in CASES[family])
    finally:
        sys.setprofile(before)
    assert [
        item.__name__ for item in formulas if item.__module__ == module.__name__ and item.__code__ not in codes
    ] == []


@pytest.mark.parametrize("place", range(len(LINEAR_ALGEBRA)))
def test_decompositions_are_the_books(place: int) -> None:
    call, flops = LINEAR_ALGEBRA[place]
    assert call() == (0, flops)


@pytest.mark.parametrize("place", range(len(KERAS_LAYERS)))
def test_keras_layers_cost_what_their_definition_says(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    distinct_constants(monkeypatch)
    assert agrees(KERAS_LAYERS[place])


def test_what_keras_spells_out_counts_as_its_operators() -> None:
    assert all(call() is None for call in SPELT_OUT)


def test_every_keras_layer_with_a_formula_has_a_case() -> None:
    assert set(keras_layers.KERAS_LAYER_COSTS) == NAMED


def test_faults_in_the_formulas_are_noticed() -> None:
    """A sample of small faults; ``python tests/support/mutation.py`` plants 500 and lists what nobody saw."""
    chosen = random.Random(1).sample(mutants(), 60)
    unnoticed = [mutant for mutant in chosen if not is_noticed(mutant)]
    assert len(unnoticed) <= 3, [(mutant.module.__name__, mutant.line, mutant.what) for mutant in unnoticed]
