"""Evaluation functions for classifiers and losses, over a loader.

Each takes the model and a loader. The model runs in inference mode, without gradients, and comes back as it was;
what is right and wrong is decided in `profilerkit_metrics.scoring`, for every framework alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn

from profilerkit import ArgumentError, DataLoader, InputError
from profilerkit.arguments.structures import map_leaves
from profilerkit.backend import DeviceLike
from profilerkit.backend_kit.batch_reader import BatchReader, Transform
from profilerkit.backend_kit.keras_kinds import ends_in_sigmoid, is_keras
from profilerkit.error_text import shown
from profilerkit_metrics.evaluation_functions import EvaluationFunctions, GetTopk, LossEvaluation, ScoreFunction
from profilerkit_metrics.scoring import Batches, ScoredBatch

from .data import TorchDataLoader, TorchForwardPass, as_tensor
from .model.keras_preparation import adapt_to_keras
from .model.modules import list_modules, set_inference_flags
from .running.devices import resolve_device
from .untouched.preservation import preserve

__all__ = ["EvalLossFunction", "get_accuracy", "get_missclass", "get_topk"]


@contextmanager
def score_batches(
    model: nn.Module, data_loader: Iterable[Any], device: DeviceLike = None, transform: Transform | None = None
) -> Iterator[Iterable[ScoredBatch]]:
    """Run the model over a loader in inference mode, and restore it."""
    if not isinstance(model, nn.Module):
        raise ArgumentError(f"model={shown(model)}: give a torch.nn.Module")
    reader = BatchReader(data_loader, transform, as_tensor, torch.is_tensor, _wrap_loader)
    target_device = resolve_device(model, device)
    with preserve(model, tensor_values=True), torch.no_grad():
        set_inference_flags(list_modules(model))
        yield _run_batches(model, reader, target_device)


def _wrap_loader(loader: Any) -> DataLoader:
    return TorchDataLoader(loader, TorchForwardPass(model_input_pattern=(0, "_")))


def _run_batches(model: nn.Module, reader: BatchReader, device: torch.device) -> Iterator[ScoredBatch]:
    """Yield the model's outputs and the targets of each batch."""
    probabilities, classes_last = _gives_probabilities(model), is_keras(model)
    for inputs, target, number in map(reader.read, reader.loader):
        placed = adapt_to_keras(model, inputs.map(lambda leaf: _move(leaf, device)))
        output = model(*placed.args, **placed.kwargs)
        placed_target = map_leaves(target, lambda leaf: _move(leaf, device))
        yield _score(output, placed_target, number, probabilities, classes_last)


def _move(value: Any, device: torch.device) -> Any:
    return value.to(device) if isinstance(value, torch.Tensor) else value


def _score(output: Any, target: Any, samples: int, probabilities: bool | None, classes_last: bool) -> ScoredBatch:
    """Return a batch whose scores and targets are arrays with the classes last, made when they are asked for."""
    classes_second = isinstance(output, torch.Tensor) and output.dim() > 2 and not classes_last
    is_one_hot = isinstance(target, torch.Tensor) and isinstance(output, torch.Tensor) and target.shape == output.shape
    return ScoredBatch(
        output,
        target,
        samples,
        partial(_read_scores, output, classes_second),
        partial(_make_array, target, classes_second and is_one_hot),
        probabilities,
    )


def _read_scores(output: Any, classes_second: bool) -> Any:
    """Return a model's output as an array; raises `InputError` where it is not one tensor with a row a sample."""
    if not isinstance(output, torch.Tensor) or output.dim() == 0:
        raise InputError(f"the model gives {shown(output)} for a batch, not one tensor with a score for each sample")
    return _make_array(output, classes_second)


def _make_array(value: Any, classes_second: bool) -> Any:
    """Return an array for a tensor, its classes last; numpy has no bfloat16."""
    tensor = torch.as_tensor(value).detach().cpu()
    if classes_second:
        tensor = tensor.movedim(1, -1)
    return (tensor.float() if tensor.dtype is torch.bfloat16 else tensor).numpy()


def _gives_probabilities(model: Any) -> bool | None:
    """Return whether a model ends in a sigmoid; None where its last layer leaves that open."""
    last = model
    while isinstance(last, nn.Sequential) and len(last):
        last = last[-1]
    if is_keras(last):
        return ends_in_sigmoid(last)
    return {nn.Sigmoid: True, nn.Linear: False}.get(type(last))


_functions = EvaluationFunctions(score_batches)
get_accuracy: ScoreFunction = _functions.get_accuracy
get_missclass: ScoreFunction = _functions.get_missclass
get_topk: GetTopk = _functions.get_topk


class EvalLossFunction(LossEvaluation):
    """Evaluates a loss: the mean over samples of what ``loss_fn(output, target)`` returns for each batch.

    A loss of several values counts as their mean, a dict of parts as their sum.
    """

    batches: Batches = staticmethod(score_batches)

    @staticmethod
    def mean(value: Any) -> float:
        """Return the mean of what a loss returned."""
        return float(torch.as_tensor(value, dtype=torch.float64).mean())
