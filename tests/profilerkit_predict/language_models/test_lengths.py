"""The tokens of prompts and generations that are chosen for a model, and those that it does not take."""

from __future__ import annotations

import pytest

from profilerkit.errors import InputError
from profilerkit_predict.language_models.facts.prompts import choose_lengths


@pytest.mark.parametrize(
    ("prompt", "new", "limit", "lengths"),
    [
        (None, None, None, (2048, 256)),
        (10**6, None, None, (10**6, 256)),
        (None, 10**6, None, (2048, 10**6)),
        (None, None, 100, (88, 12)),  # an eighth of 100 is 12.5
        (None, None, 2, (1, 1)),
        (90, None, 100, (90, 10)),
        (None, 90, 100, (10, 90)),
    ],
)
def test_usual_lengths_are_shortened_to_what_the_model_takes(
    prompt: int | None, new: int | None, limit: int | None, lengths: tuple[int, int]
) -> None:
    assert choose_lengths(prompt, new, limit, "Toy") == lengths


@pytest.mark.parametrize(
    ("prompt", "new", "limit", "said"),
    [
        (None, None, 1, r"prompt 1 \+ new 1 = 2 tokens are more than the 1 that Toy takes"),
        (100, None, 100, r"prompt 100 \+ new 1 = 101 tokens are more than the 100 that Toy takes"),
        (60, 50, 100, r"prompt 60 \+ new 50 = 110 tokens are more"),
    ],
)
def test_a_refusal_speaks_of_no_request_that_nobody_made(
    prompt: int | None, new: int | None, limit: int, said: str
) -> None:
    with pytest.raises(InputError, match=said) as refused:
        choose_lengths(prompt, new, limit, "Toy")
    assert "requested" not in str(refused.value)
