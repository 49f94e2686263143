"""Evaluation functions for classifiers and losses, over a loader.

Each takes the model and a loader. The model runs in inference mode, without gradients, and is restored;
`profilerkit_metrics.scoring` judges the results, for every framework alike.

The scores of a batch are ``(batch, classes)``. If a sample has scores at several places, such as each pixel of an
image, models of torch return ``(batch, classes, ...)`` and models of Keras ``(batch, ..., classes)``. The arrays for
`profilerkit_metrics.scoring` always have the classes last.
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

from .compat.modules import call_hooks
from .data import TorchDataLoader, TorchForwardPass, as_tensor
from .model.keras_layers import adapt_to_keras
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
    reader = BatchReader(data_loader, transform, as_tensor, torch.is_tensor, wrap=_wrap_loader)
    target_device = resolve_device(model, device)
    with preserve(model, tensor_values=True), torch.no_grad():
        set_inference_flags(list_modules(model))
        yield _run_batches(model, reader, target_device)


_functions = EvaluationFunctions(score_batches)
get_accuracy: ScoreFunction = _functions.get_accuracy
get_missclass: ScoreFunction = _functions.get_missclass
get_topk: GetTopk = _functions.get_topk


class EvalLossFunction(LossEvaluation):
    """Evaluates a loss: the mean over samples of ``loss_fn(output, target)`` for each batch.

    A loss of several values counts as their mean, a dict of parts as their sum.
    """

    batches: Batches = staticmethod(score_batches)

    @staticmethod
    def mean(value: Any) -> float:
        """Return the mean of the result of a loss."""
        return float(torch.as_tensor(value, dtype=torch.float64).mean())


# The batches ----------------------------------------------------------------------------------------------------------


def _wrap_loader(loader: Any) -> DataLoader:
    return TorchDataLoader(loader, TorchForwardPass(model_input_pattern=(0, "_")))


def _run_batches(model: nn.Module, reader: BatchReader, device: torch.device) -> Iterator[ScoredBatch]:
    """Yield the model's outputs and the targets of each batch."""
    probabilities = _gives_probabilities(model)
    for batch in reader.loader:
        inputs, target, samples = reader.read(batch)
        placed_inputs = adapt_to_keras(model, inputs.map(lambda leaf: _move(leaf, device)))
        placed_target = map_leaves(target, lambda leaf: _move(leaf, device))
        output = model(*placed_inputs.args, **placed_inputs.kwargs)
        has_places = isinstance(output, torch.Tensor) and output.dim() > 2
        class_axis = 1 if has_places and not is_keras(model) else -1  # where each class has a score
        yield ScoredBatch(
            output=output,
            target=placed_target,
            samples=samples,
            scores=partial(_read_scores, output, class_axis=class_axis),
            targets=partial(_read_targets, placed_target, output=output, class_axis=class_axis),
            probabilities=probabilities,
        )


def _move(value: Any, device: torch.device) -> Any:
    return value.to(device) if isinstance(value, torch.Tensor) else value


def _read_scores(output: Any, *, class_axis: int) -> Any:
    """Return a model's output as an array with the classes last: ``(batch, ..., classes)``, or ``(batch,)``.

    Raises `InputError` if the output is not one tensor with a row for each sample.
    """
    if not isinstance(output, torch.Tensor) or output.dim() == 0:
        raise InputError(f"the model gives {shown(output)} for a batch, not one tensor with a score for each sample")
    return _make_array(output.movedim(class_axis, -1))


def _read_targets(target: Any, *, output: Any, class_axis: int) -> Any:
    """Return the targets as an array: class indices ``(batch, ...)``, or a number for each class, the classes last.

    Targets of the same shape as the output have a number for each class, one-hot or a probability, as
    ``torch.nn.CrossEntropyLoss`` takes them: their classes are in the same axis as the classes of the output.
    """
    tensor = torch.as_tensor(target)
    has_classes = isinstance(target, torch.Tensor) and isinstance(output, torch.Tensor) and target.shape == output.shape
    return _make_array(tensor.movedim(class_axis, -1) if has_classes and tensor.dim() else tensor)


def _make_array(tensor: torch.Tensor) -> Any:
    """Return a tensor as an array; numpy has no bfloat16."""
    on_cpu = tensor.detach().cpu()
    return (on_cpu.float() if on_cpu.dtype is torch.bfloat16 else on_cpu).numpy()


# The kind of a model's scores -----------------------------------------------------------------------------------------


def _gives_probabilities(model: Any) -> bool | None:
    """Return whether the scores of a model are probabilities, by its last layer; None if the layer does not decide it.

    The result of a sigmoid is a probability, the result of a linear layer is not. Unknown are the results of other
    activations, of layers of the user, of other forward functions than ``nn.Sequential``'s, and of hooks.
    """
    last = model
    while _runs_as(last, nn.Sequential) and len(last):
        last = last[-1]
    if is_keras(last):
        return ends_in_sigmoid(last)
    if _runs_as(last, nn.Sigmoid):
        return True
    return False if _runs_as(last, nn.Linear) else None


def _runs_as(layer: Any, kind: type[nn.Module]) -> bool:
    """Return whether a call of a layer only runs the ``forward`` of a class: the user's code changes nothing."""
    forward = getattr(type(layer), "forward", None)  # a scripted module's class does not show it
    has_that_forward = forward is kind.forward and "forward" not in vars(layer)
    _, hooks = call_hooks(layer)
    return has_that_forward and type(layer).__call__ is nn.Module.__call__ and not hooks
