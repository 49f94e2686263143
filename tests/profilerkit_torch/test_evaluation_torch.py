"""The evaluation functions on models whose answers are known."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tiny import Call
from torch import nn

from profilerkit import InputError, ProfilerKitWarning
from profilerkit_torch import (
    ComputeEvalMetric,
    TorchForwardPass,
    TorchProfiler,
    get_accuracy,
    get_missclass,
    get_topk,
)

#: The model gives its input as scores, so the inputs are the answers. Three batches, the last one short.
SCORES = torch.tensor([[9.0, 1, 0], [0, 9, 1], [1, 0, 9], [9, 1, 0], [0, 9, 1]])
TARGETS = torch.tensor([0, 1, 2, 1, 0])  # right, right, right; second guess; third guess
Batch = tuple[torch.Tensor, torch.Tensor]
BATCHES: list[Batch] = [(SCORES[:2], TARGETS[:2]), (SCORES[2:4], TARGETS[2:4]), (SCORES[4:], TARGETS[4:])]


def test_several_inputs_by_a_pattern() -> None:
    triples = [(targets, scores, scores) for scores, targets in BATCHES]
    pattern = TorchForwardPass(model_input_pattern=("_", 1, 0))
    splits = TorchProfiler.enable_forward_pass_data_splits({"test": triples}, pattern)
    model = Call(lambda self, first, second: first + second)
    assert get_accuracy(model, splits["test"]) == pytest.approx(60)


def test_the_model_runs_in_inference_mode_called_directly_too() -> None:
    seen: list[tuple[bool, bool]] = []

    def note(self: nn.Module, x: torch.Tensor) -> torch.Tensor:
        seen.append((self.training, torch.is_grad_enabled()))
        return x

    model = Call(note)
    get_accuracy(model, BATCHES[:1])
    profiler = TorchProfiler(model, {"test": BATCHES[:1]})
    profiler.register_profiler_function(ComputeEvalMetric(get_accuracy))
    profiler.compute_status("eval_metric")
    assert seen == [(False, False), (False, False)]
    assert model.training


@pytest.mark.parametrize("output", [torch.tensor(1.0), {"scores": torch.ones(2, 3)}, (torch.ones(2, 3),)])
def test_what_is_no_tensor_of_scores(output: Any) -> None:
    class Odd(nn.Module):
        def forward(self, x: Any) -> Any:
            return output

    for evaluate in (get_missclass, get_accuracy, get_topk):
        with pytest.raises(InputError, match="the model gives .* for a batch, not one tensor with a score for each"):
            evaluate(Odd(), [(torch.ones(2, 4), torch.zeros(2, dtype=torch.long))])


class Squashed(nn.Sequential):
    """Has a forward function of its own."""

    def forward(self, x: Any) -> Any:
        return self[0](x).sigmoid()


def test_a_sequence_with_a_forward_function_of_its_own_may_give_anything() -> None:
    """A sigmoid of -1 and 1 is below and above one half; 0.27 and 0.73 behind a linear layer are both above nought."""
    linear = nn.Linear(1, 1, bias=False)
    nn.init.ones_(linear.weight)
    scores, targets = torch.tensor([[-1.0], [1.0]]), torch.tensor([0, 1])
    with pytest.warns(ProfilerKitWarning, match="not known whether the model's scores are probabilities"):
        assert get_accuracy(Squashed(linear), [(scores, targets)]) == 100
    assert get_accuracy(nn.Sequential(nn.Sequential(linear)), [(scores.sigmoid(), targets)]) == 50


class SquashedCall(nn.Sequential):
    def __call__(self, x: torch.Tensor) -> Any:
        return super().__call__(x).sigmoid()


def squash(module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
    return output.sigmoid()


@pytest.mark.parametrize(
    "way", ["hook of the layer", "hook of the sequence", "forward", "forward of the layer", "call"]
)
def test_a_linear_layer_whose_result_the_users_code_changes_may_give_anything(way: str) -> None:
    """A sigmoid behind a linear layer gives 0.27 and 0.73 of -1 and 1: one below and one above one half."""
    linear = nn.Linear(1, 1)
    nn.init.ones_(linear.weight)
    nn.init.zeros_(linear.bias)
    model = SquashedCall(linear) if way == "call" else nn.Sequential(linear)
    changed: Any = linear if way.endswith("layer") else model
    if way.startswith("hook"):
        changed.register_forward_hook(squash)
    elif way.startswith("forward"):
        forward = changed.forward
        changed.forward = lambda x: forward(x).sigmoid()
    batches = [(torch.tensor([[-1.0], [1.0]]), torch.tensor([0, 1]))]
    with pytest.warns(ProfilerKitWarning, match="not known whether the model's scores are probabilities"):
        assert get_accuracy(model, batches) == 100


def test_a_scripted_model_may_give_anything() -> None:
    """Its layers are not those of its classes any more: of the scores -1 and 1 both are right as logits."""
    model = torch.jit.script(nn.Sequential(nn.Identity()))
    assert get_accuracy(model, [(torch.tensor([[-1.0], [1.0]]), torch.tensor([0, 1]))]) == 100
