"""Every model with every call; everything that can go wrong meanwhile; all that a caller may be in the middle of."""

from __future__ import annotations

import pytest
from attack_cases import Allowed, Case
from attack_sampling import WHOLE, sample

from .allowed import ALLOWED, surprises
from .cases import IN_A_PROCESS_OF_THEIR_OWN, WITH_CONTEXTS, WITH_FAULTS, WITH_NOTHING_WRONG, light
from .harness import differences_alone

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


@pytest.mark.parametrize("case", IN_A_PROCESS_OF_THEIR_OWN if WHOLE else [], ids=str)
def test_nothing_differs_where_the_process_could_end(case: Case) -> None:
    assert not surprises(case)


@pytest.mark.parametrize("entry", sample(ALLOWED, 5), ids=lambda entry: str(entry.example))
def test_what_is_allowed_still_differs(entry: Allowed) -> None:
    """In a process of its own: what torch.compile writes to the environment, it writes once in a process."""
    assert any(entry.covers(entry.example, item) for item in differences_alone(entry.example)), entry.reason
