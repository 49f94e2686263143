"""Random modules that leave torch here and there: what torch saw is counted, and what it did not see is said.

Each step has the multiply-accumulates that torch's dispatcher sees of it, and whether it works elsewhere.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from attack_sampling import sample
from torch import nn

from profilerkit import Completeness, ModelInputs, profile

#: A batch of 4 times a matrix of 8 by 8.
PRODUCT = 4 * 8 * 8
SEEDS = range(2_000)


class IntoEmpty(torch.autograd.Function):
    """Multiplies in numpy, and fills memory that torch made empty."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        out = torch.empty(len(x), len(weight))
        out.numpy()[...] = x.detach().numpy() @ weight.detach().numpy().T
        return out


def in_thread(model: Any, x: torch.Tensor) -> torch.Tensor:
    made: list[torch.Tensor] = []
    thread = threading.Thread(target=lambda: made.append(x @ model.fc.weight))
    thread.start()
    thread.join()
    return made[0]


def in_numpy(model: Any, x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.detach().numpy() @ model.fc.weight.detach().numpy())


def in_function(model: Any, x: torch.Tensor) -> Any:
    return IntoEmpty.apply(x, model.fc.weight)  # type: ignore[no-untyped-call]


def in_sparse(stored: int) -> Callable[[Any, torch.Tensor], torch.Tensor]:
    def run(model: Any, x: torch.Tensor) -> torch.Tensor:
        matrix: torch.Tensor = getattr(model, f"sparse{stored}")
        return (matrix @ x.mT).mT

    return run


def by_value(model: Any, x: torch.Tensor) -> torch.Tensor:
    return x if x.sum().item() > 1e9 else x.relu()


Step = tuple[Callable[[Any, torch.Tensor], Any], int, bool]
#: The call, the multiply-accumulates that torch sees, and whether there are more elsewhere.
STEPS: list[Step] = [
    (lambda model, x: model.fc(x), PRODUCT, False),
    (lambda model, x: x.relu(), 0, False),
    (lambda model, x: x * torch.tensor([0.5] * 8), 0, False),
    (by_value, 0, False),
    *((in_sparse(stored), 4 * stored, False) for stored in (3, 20, 60)),
    (in_thread, 0, True),
    (in_numpy, 0, True),
    (in_function, 0, True),
]


class Table:
    """An input that can be called."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x

    def __call__(self) -> int:
        return 0


class Chain(nn.Module):
    def __init__(self, steps: list[Step], *, is_generator: bool) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.steps = steps
        self.is_generator = is_generator
        for stored in (3, 20, 60):
            matrix = torch.zeros(64)
            matrix[:stored] = 0.01
            self.register_buffer(f"sparse{stored}", matrix.view(8, 8).to_sparse())

    def forward(self, table: Table) -> Any:
        x: Any = table.x
        for run, _, _ in self.steps:
            x = run(self, x)
        return (x for _ in range(1)) if self.is_generator else x


@pytest.mark.parametrize("seed", sample(SEEDS, 12))
def test_what_leaves_torch_is_counted_or_said(seed: int) -> None:
    rng = random.Random(seed)
    steps = rng.choices(STEPS, [4, 3, 2, 1, 1, 1, 1, 1, 1, 1], k=rng.randint(1, 7))
    is_generator = rng.random() < 0.1
    model = Chain(steps, is_generator=is_generator)
    record = profile(model, ModelInputs(Table(torch.ones(4, 8))), metrics=["macs"]).status("macs")
    if is_generator:
        assert record.completeness is Completeness.FAILED
        assert "generator" in record.missing[0]
        return
    has_more = any(is_elsewhere for _, _, is_elsewhere in steps)
    assert record.completeness is (Completeness.PARTIAL if has_more else Completeness.COMPLETE), record.missing
    assert record.value == sum(macs for _, macs, _ in steps)
