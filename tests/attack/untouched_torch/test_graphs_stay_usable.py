"""A forward pass that the caller has made before, and whose gradients he asks for afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from attack_cases import NO_FAULT, Case, Difference, find_unexpected, quiet
from attack_sampling import sample

from .allowed import ALLOWED
from .calls import CALLS, list_tensors
from .cases import light
from .facts import digest, inner_tensors
from .harness import made, model_names, swallowed, warm_up
from .subjects import Subject

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # what the models themselves warn of
    pytest.mark.usefixtures("torch_settings_put_back"),
]

CALLED = ("default_profile", "static_profile", "metric_training_time", "metric_training_macs", "evaluation")
CASES = [Case(model, call, NO_FAULT, "outstanding") for model in model_names() for call in CALLED]


def gradients(model: str, do: Callable[[Subject], Any]) -> Any:
    """Return the bits of the gradients that come of a pass when something is done before the backward pass."""
    with made(model, NO_FAULT) as (subject, _, _):
        torch.manual_seed(1)
        try:
            outputs = [output for output in list_tensors(subject()) if output.requires_grad]
        except Exception as error:
            return type(error).__name__
        with swallowed(), quiet():
            do(subject)
        held = [parameter for parameter in subject.model.parameters() if parameter.requires_grad and parameter.is_leaf]
        try:
            torch.set_grad_enabled(True)
            torch.autograd.backward(outputs, [torch.ones_like(output) for output in outputs]) if outputs else None
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        got = [parameter.grad for parameter in held]
        return [None if item is None else [digest(part) for _, part in inner_tensors(item)] for item in got]


@pytest.mark.parametrize("case", sample(light(CASES), 8), ids=str)
def test_the_gradients_are_the_same(case: Case) -> None:
    warm_up(case.call, "none")
    plain, later = gradients(case.model, lambda subject: None), gradients(case.model, CALLS[case.call].do)
    if plain != later:
        assert not find_unexpected(case, [Difference("gradients of a pass from before", plain, later)], ALLOWED)
