"""The evaluation functions on models whose answers are known."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import torch
from tiny import Call
from torch import nn

from profilerkit import Device, InputError
from profilerkit_torch import (
    ComputeEvalMetric,
    EvalLossFunction,
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


def identity() -> nn.Module:
    return nn.Identity()


def test_accuracy_is_weighted_by_samples() -> None:
    """Three of five are right; a mean over batches would say (1 + 0.5 + 0) / 3."""
    assert get_accuracy(identity(), BATCHES) == pytest.approx(60)
    assert get_missclass(identity(), BATCHES) == pytest.approx(40)


def test_topk_by_guesses() -> None:
    assert get_topk(identity(), BATCHES, topk=(1, 2, 3)) == pytest.approx({"top-1": 60, "top-2": 80, "top-3": 100})


def test_topk_configured_beforehand() -> None:
    configured = get_topk(topk=(2,))
    assert configured(identity(), BATCHES) == pytest.approx({"top-2": 80})
    assert configured(identity(), BATCHES, topk=[1]) == pytest.approx({"top-1": 60})
    assert get_topk.topk == (1, 5)


def test_topk_as_a_metric_with_a_secondary_one() -> None:
    profiler = TorchProfiler(identity(), {"test": BATCHES})
    profiler.register_profiler_function(ComputeEvalMetric(get_topk(topk=(1, 2)), "top-1", unit_name="%"))
    profiler.add_secondary_eval_metric("top-2")
    assert profiler.compute_status("eval_metric") == pytest.approx(60)
    assert profiler.compute_status("top-2") == pytest.approx(80)
    assert profiler.compute_status("inference_time") > 0


@pytest.mark.parametrize("topk", [(), (0,), (1, -1)])
def test_topk_needs_numbers_of_guesses(topk: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"give a number of guesses from 1, or several such as \(1, 5\)"):
        get_topk(topk=topk)


def test_topk_needs_as_many_classes() -> None:
    with pytest.raises(ValueError, match="top-5 needs as many classes, but the model gives 3"):
        get_topk(identity(), BATCHES)


def squared(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return ((output - target) ** 2).mean()


LOSSES: list[Batch] = [(torch.tensor([[1.0], [3.0]]), torch.zeros(2, 1)), (torch.tensor([[2.0]]), torch.zeros(1, 1))]


def test_loss_is_the_mean_over_samples() -> None:
    """(1 + 9 + 4) / 3; a mean over batches would say (5 + 4) / 2."""
    assert EvalLossFunction(squared)(identity(), LOSSES) == pytest.approx(14 / 3)


def test_loss_of_parts_is_their_sum() -> None:
    parts = EvalLossFunction(lambda output, target: {"a": squared(output, target), "b": 1.0})
    assert parts(identity(), LOSSES) == pytest.approx(14 / 3 + 1)


@pytest.mark.parametrize("target", [{"boxes": torch.zeros(7)}, [None], torch.tensor(0.0)])
def test_loss_of_targets_without_samples_is_weighted_by_the_inputs(target: Any) -> None:
    """Losses of 5 for two samples and of 2 for one; each batch alike would be (5 + 2) / 2."""
    means = EvalLossFunction(lambda output, target: output.square().mean() if len(output) == 2 else output.mean())
    assert means(identity(), [(scores, target) for scores, _ in LOSSES]) == pytest.approx((5 * 2 + 2 * 1) / 3)


def test_loss_takes_its_name_from_the_function() -> None:
    assert EvalLossFunction(squared).__name__ == "EvalLossFunction(squared)"
    assert EvalLossFunction(nn.MSELoss()).__name__ == "EvalLossFunction(MSELoss)"


def test_loss_as_a_metric() -> None:
    profiler = TorchProfiler(identity(), {"test": LOSSES})
    profiler.register_profiler_function(ComputeEvalMetric(EvalLossFunction(squared)))
    assert profiler.compute_status("eval_metric") == pytest.approx(14 / 3)


def test_one_score_is_a_binary_logit() -> None:
    batches = [(torch.tensor([[2.0], [-1.0], [0.5]]), torch.tensor([1, 0, 0]))]
    assert get_accuracy(identity(), batches) == pytest.approx(200 / 3)


@pytest.mark.parametrize("targets", [torch.tensor([1, 0, 0]), torch.tensor([[1.0], [0.0], [0.0]])])
def test_a_binary_logit_may_be_without_a_dimension_of_its_own(targets: torch.Tensor) -> None:
    """Above zero are the first and the third; of the targets only the first is one."""
    batches = [(torch.tensor([2.0, -1.0, 0.5]), targets)]
    assert get_accuracy(identity(), batches) == pytest.approx(200 / 3)
    assert get_missclass(identity(), batches) == pytest.approx(100 / 3)


def test_targets_may_have_a_dimension_of_one() -> None:
    batches = [(scores, targets[:, None]) for scores, targets in BATCHES]
    assert get_accuracy(identity(), batches) == pytest.approx(60)
    assert get_topk(identity(), batches, topk=(2,)) == pytest.approx({"top-2": 80})


def test_every_pixel_of_a_segmentation_counts() -> None:
    scores = torch.zeros(1, 2, 2, 2)
    scores[0, 1, 0] = 1.0  # class 1 in the first row, class 0 in the second
    assert get_accuracy(identity(), [(scores, torch.tensor([[[1, 1], [0, 1]]]))]) == pytest.approx(75)


def test_transform_sees_each_batch_first() -> None:
    """Guesses and targets shifted alike agree as before; guesses that are shifted alone do not."""

    def both(inputs: torch.Tensor, targets: torch.Tensor) -> Any:
        return inputs.roll(1, dims=1), (targets + 1) % 3

    def guesses(inputs: torch.Tensor, targets: torch.Tensor) -> Any:
        return inputs.roll(1, dims=1), targets

    assert get_accuracy(identity(), BATCHES, transform=both) == pytest.approx(60)
    # The guesses 0 1 2 0 1 become 1 2 0 1 2, for the targets 0 1 2 1 0: the fourth alone is right.
    assert get_accuracy(identity(), BATCHES, transform=guesses) == pytest.approx(20)


@pytest.mark.parametrize("key", ["label", "labels", "target", "targets", "y"])
def test_mapping_batches(key: str) -> None:
    batches = [{"scores": scores, key: targets} for scores, targets in BATCHES]
    assert get_accuracy(Call(lambda self, *, scores: scores), batches) == pytest.approx(60)


def test_numpy_batches() -> None:
    batches = [(scores.numpy(), targets.numpy()) for scores, targets in BATCHES]
    assert get_accuracy(identity(), batches) == pytest.approx(60)
    named = [{"scores": scores.numpy(), "labels": targets.numpy()} for scores, targets in BATCHES]
    assert get_accuracy(Call(lambda self, *, scores: scores), named) == pytest.approx(60)


def test_several_inputs_by_a_pattern() -> None:
    triples = [(targets, scores, scores) for scores, targets in BATCHES]
    pattern = TorchForwardPass(model_input_pattern=("_", 1, 0))
    splits = TorchProfiler.enable_forward_pass_data_splits({"test": triples}, pattern)
    model = Call(lambda self, first, second: first + second)
    assert get_accuracy(model, splits["test"]) == pytest.approx(60)


def test_native_loaders() -> None:
    dataset = torch.utils.data.TensorDataset(SCORES, TARGETS)
    assert get_accuracy(identity(), torch.utils.data.DataLoader(dataset, batch_size=2)) == pytest.approx(60)


@pytest.mark.parametrize("device", [None, "cpu", Device.CPU])
def test_devices(device: Any) -> None:
    assert get_accuracy(identity(), BATCHES, device=device) == pytest.approx(60)


@pytest.mark.parametrize("function", [get_accuracy, get_missclass, get_topk(topk=(1,)), EvalLossFunction(squared)])
@pytest.mark.parametrize("batches", [[], [(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64))]])
def test_no_samples_are_an_error(function: Any, batches: Iterable[Any]) -> None:
    with pytest.raises(InputError, match="the data split has no samples to evaluate on"):
        function(
            identity(), [(scores, scores if function.__class__ is EvalLossFunction else y) for scores, y in batches]
        )


def test_a_batch_without_targets_is_an_error() -> None:
    with pytest.raises(InputError, match="no targets in a batch of type dict"):
        get_accuracy(Call(lambda self, *, scores: scores), [{"scores": SCORES}])
    with pytest.raises(InputError, match="no targets in a batch of type Tensor"):
        get_accuracy(identity(), [SCORES])


def test_an_iterator_can_be_read_only_once() -> None:
    with pytest.raises(InputError, match="can be read only once"):
        get_accuracy(identity(), iter(BATCHES))


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


def test_results_are_plain_numbers() -> None:
    assert type(get_accuracy(identity(), BATCHES)) is float
    assert type(EvalLossFunction(squared)(identity(), LOSSES)) is float
    assert type(get_missclass(identity(), BATCHES)) is float
    assert {type(value) for value in get_topk(identity(), BATCHES, topk=(1, 2)).values()} == {float}


@pytest.mark.parametrize("output", [torch.tensor(1.0), {"scores": torch.ones(2, 3)}, (torch.ones(2, 3),)])
def test_what_is_no_tensor_of_scores(output: Any) -> None:
    class Odd(nn.Module):
        def forward(self, x: Any) -> Any:
            return output

    for evaluate in (get_missclass, get_accuracy, get_topk):
        with pytest.raises(InputError, match="the model gives .* for a batch, not one tensor with a score for each"):
            evaluate(Odd(), [(torch.ones(2, 4), torch.zeros(2, dtype=torch.long))])


@pytest.mark.parametrize("returned", [None, 1, (1, 2, 3), "ab"])
def test_a_transform_that_returns_anything_else(returned: Any) -> None:
    loader = [(torch.ones(2, 4), torch.zeros(2, dtype=torch.long))]
    with pytest.raises(InputError, match="transform returned .*; return the inputs and the targets"):
        get_accuracy(nn.Linear(4, 3), loader, transform=lambda inputs, targets: returned)
