"""Evaluation functions for classifiers and losses, over a loader.

Each takes the model and a loader, and is weighted by samples: a short last batch counts for what it holds. The model
is run as it is handed over; `ComputeEvalMetric` puts it into inference mode and on the device first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from profilerkit import DataLoader, InputError, ModelInputs
from profilerkit.backend import DeviceLike

from .data import TorchDataLoader, TorchForwardPass, as_tensor
from .keras_layers import called_as_keras_does
from .timing import resolve_device

__all__ = ["EvalLossFunction", "get_accuracy", "get_missclass", "get_topk"]

Transform = Callable[[Any, Any], tuple[Any, Any]]


def get_missclass(
    model: torch.nn.Module, data_loader: Iterable[Any], device: DeviceLike = None, transform: Transform | None = None
) -> float:
    """Return the per cent of samples whose predicted class is not the target.

    Args:
        model: Gives scores of shape ``(batch, classes, ...)``; with one class, or of shape ``(batch,)``, a score above
            zero is class 1.
        data_loader: Batches of inputs and targets: class indices, of shape ``(batch, ...)`` or ``(batch, 1)``.
        device: Where the inputs go; where the model is unless given.
        transform: Called with inputs and targets of each batch before the model is.
    """
    wrong = total = 0
    for output, target, _ in _outputs(model, data_loader, device, transform):
        predicted = _predicted(output)
        expected = target.reshape(predicted.shape).to(predicted.device)
        wrong += int((predicted != expected).sum())
        total += expected.numel()
    return 100.0 * wrong / _counted(total)


def get_accuracy(
    model: torch.nn.Module, data_loader: Iterable[Any], device: DeviceLike = None, transform: Transform | None = None
) -> float:
    """Return the per cent of samples whose predicted class is the target; see `get_missclass` for the arguments."""
    return 100.0 - get_missclass(model, data_loader, device, transform)


class _GetTopk:
    """Callable with a model and a loader; called without, it returns itself for other values of k."""

    __name__ = "get_topk"

    def __init__(self, topk: Sequence[int] = (1, 5)) -> None:
        self.topk = tuple(topk)
        if not self.topk or any(k < 1 for k in self.topk):
            raise ValueError(f"topk={topk!r}: give numbers of guesses from 1, such as (1, 5)")

    def __call__(
        self,
        model: torch.nn.Module | None = None,
        data_loader: Iterable[Any] | None = None,
        device: DeviceLike = None,
        topk: Sequence[int] | None = None,
        transform: Transform | None = None,
    ) -> Any:
        """Return the per cent of samples whose target is among the k highest scores, by name: ``{"top-1": ...}``."""
        wanted = _GetTopk(topk) if topk is not None else self
        if model is None or data_loader is None:
            return wanted
        hits = dict.fromkeys(wanted.topk, 0)
        total = 0
        for output, target, _ in _outputs(model, data_loader, device, transform):
            if output.shape[1] < max(wanted.topk):
                raise ValueError(f"top-{max(wanted.topk)} needs as many classes, but the model gives {output.shape[1]}")
            ranked = output.topk(max(wanted.topk), dim=1).indices
            right = ranked == target.reshape(-1, 1).to(ranked.device)
            for k in wanted.topk:
                hits[k] += int(right[:, :k].any(dim=1).sum())
            total += target.shape[0]
        return {f"top-{k}": 100.0 * count / _counted(total) for k, count in hits.items()}


get_topk = _GetTopk()


class EvalLossFunction:
    """Evaluates a loss: the mean over samples of what ``loss_fn(output, target)`` returns for each batch.

    A loss that is a dict of parts counts as their sum.
    """

    def __init__(self, loss_fn: Callable[[Any, Any], Any]) -> None:
        self.loss_fn = loss_fn
        self.__name__ = f"EvalLossFunction({getattr(loss_fn, '__name__', type(loss_fn).__name__)})"

    def __call__(
        self,
        model: torch.nn.Module,
        data_loader: Iterable[Any],
        device: DeviceLike = None,
        transform: Transform | None = None,
    ) -> float:
        """Return the mean loss."""
        loss = 0.0
        total = 0
        for output, target, samples in _outputs(model, data_loader, device, transform):
            value = self.loss_fn(output, target)
            loss += float(sum(value.values()) if isinstance(value, dict) else value) * samples
            total += samples
        return loss / _counted(total)


def _outputs(
    model: torch.nn.Module, data_loader: Iterable[Any], device: DeviceLike, transform: Transform | None
) -> Iterator[tuple[Any, Any, int]]:
    """Yield the model's output, the target and the number of samples of each batch."""
    target_device = resolve_device(model, device)
    loader = data_loader if isinstance(data_loader, DataLoader) else TorchDataLoader(data_loader, _default_pass())
    with torch.no_grad():
        for batch in loader:
            inputs = loader.forward_pass.extract_model_inputs(batch)
            target = as_tensor(loader.forward_pass.extract_targets(batch))
            if transform is not None:
                inputs, target = transform(inputs[0] if _is_single(inputs) else inputs, target)
            placed = ModelInputs.of(inputs).map(lambda leaf: _on(leaf, target_device))
            called = called_as_keras_does(model, placed)
            samples = _first_dimension([target, *placed.leaves()])
            yield model(*called.args, **called.kwargs), _on(target, target_device), samples


def _predicted(output: torch.Tensor) -> torch.Tensor:
    """Return the class of each sample: the one with the highest score, or whether a single score is above zero."""
    if output.dim() == 1:
        return (output > 0).long()
    return (output > 0).long().flatten(1).squeeze(1) if output.shape[1] == 1 else output.argmax(dim=1)


def _first_dimension(candidates: Iterable[Any]) -> int:
    """Return the length of the first tensor that has one: of the target, or of an input; 1 where none has."""
    tensors = (value for value in candidates if isinstance(value, torch.Tensor) and value.dim() > 0)
    return next((tensor.shape[0] for tensor in tensors), 1)


def _default_pass() -> TorchForwardPass:
    return TorchForwardPass(model_input_pattern=(0, "_"))


def _is_single(inputs: Any) -> bool:
    return isinstance(inputs, tuple) and len(inputs) == 1


def _on(value: Any, device: torch.device) -> Any:
    return value.to(device) if isinstance(value, torch.Tensor) else value


def _counted(total: int) -> int:
    if total == 0:
        raise InputError("the data split has no samples to evaluate on")
    return total
