"""Every model with every call; everything that can go wrong meanwhile; all that a caller may be in the middle of."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

import pytest
import torch
from attack_cases import NO_FAULT, Case, quiet
from attack_sampling import sample

from .allowed import surprises
from .calls import CALLS
from .cases import WITH_CONTEXTS, WITH_FAULTS, WITH_NOTHING_WRONG, light
from .harness import find_case_differences, is_around, made
from .subjects import Subject

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # what the models themselves warn of
    pytest.mark.usefixtures("torch_settings_put_back"),
]


@pytest.mark.parametrize("case", sample(light(WITH_NOTHING_WRONG), 25), ids=str)
def test_nothing_differs(case: Case) -> None:
    assert not surprises(case)


@pytest.mark.parametrize("case", sample(WITH_FAULTS, 20), ids=str)
def test_nothing_differs_where_something_goes_wrong(case: Case) -> None:
    assert not surprises(case)


@pytest.mark.parametrize("case", sample(light(WITH_CONTEXTS), 20), ids=str)
def test_nothing_differs_for_a_caller_in_the_middle_of_something(case: Case) -> None:
    assert not surprises(case)


@pytest.mark.parametrize("model", ["plain", "slots", "random_generators", "running_statistics", "step_counter"])
def test_what_a_plain_call_changes_is_found(model: str) -> None:
    """Each of these changes in a plain call, which is made here in the place of a profile."""
    found = find_case_differences(Case(model, "static_profile"), Subject.__call__)
    assert [item for item in found if item.fact.startswith(("model", "process")) and not is_around(item.fact)]


#: What is done to an ordinary model or the process, and the fact that must be named.
DAMAGE: dict[str, tuple[Callable[[Subject], Any], str]] = {
    "a version alone": (lambda s: s.model[0].weight.detach().add_(0), "model*weight* version"),
    "a gradient": (lambda s: s().sum().backward(), "model*weight*.grad"),
    "a flag": (lambda s: s.model[1].eval(), "model._modules*.training"),
    "a hook": (lambda s: s.model[0].register_forward_hook(id), "model*_forward_hooks keys"),
    "the input": (lambda s: s.args[0].add_(1), "inputs* values"),
    "the default dtype": (lambda s: torch.set_default_dtype(torch.float64), "process default dtype"),
    "the environment": (lambda s: os.environ.update(PLANTED="1"), "process environment"),
    "a warnings filter": (lambda s: warnings.simplefilter("error"), "process warnings filters"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_found_by_name(name: str) -> None:
    damage, fact = DAMAGE[name]
    found = [item.fact for item in find_case_differences(Case("plain", "static_profile"), damage)]
    assert any(fnmatchcase(difference, fact) for difference in found), found


@pytest.mark.parametrize("call", sample(list(CALLS), 6))
def test_every_call_gets_through_with_an_ordinary_model(call: str) -> None:
    """A call that always raised would change nothing, and every case of it would pass."""
    with made("plain", NO_FAULT) as (subject, _, _), quiet():
        CALLS[call].do(subject)
