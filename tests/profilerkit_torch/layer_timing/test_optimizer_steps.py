"""Which stretches of time are steps of optimizers, and which of them are their closures', by a clock that counts."""

from __future__ import annotations

import itertools
from contextlib import suppress

import pytest
import torch

from profilerkit_torch.layer_timing.optimizer_steps import OptimizerSteps, Stretch


@pytest.mark.parametrize("failing", [(), (1,), (2,), (1, 2), (1, 3)])
def test_closures_are_those_of_the_steps_that_came_to_their_end(failing: tuple[int, ...]) -> None:
    """The clock is read where a step begins, a closure begins, ends, and the step ends: once for each.

    A step that raises has no end: neither it nor its closure is part of the time of updates.
    """
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight])
    clock = itertools.count()
    steps = OptimizerSteps(optimizer, lambda: next(clock), lambda phase: None)

    def compute(number: int) -> torch.Tensor:
        if number in failing:
            raise ArithmeticError("half-way")
        loss = weight.sum()
        loss.backward()
        return loss

    with steps.follow():
        for number in (1, 2, 3):
            with suppress(ArithmeticError):
                optimizer.step(lambda number=number: compute(number))

    updates, closures, now = [], [], 0
    for number in (1, 2, 3):
        if number not in failing:
            updates.append(Stretch(now, now + 3))
            closures.append(Stretch(now + 1, now + 2))
        now += 3 if number in failing else 4
    assert (steps.updates, steps.closures) == (updates, closures)
