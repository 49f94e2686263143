"""What torch's layers take as one sample, and as a batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn

from profilerkit import ModelInputs
from profilerkit.backend_kit import samples
from profilerkit.backend_kit.samples import InputLayout

from ..model.modules import list_layers, list_parameters
from ..model.wrapped import inner_model
from .tracing import trace_model

__all__ = ["count_samples"]

_SEQUENCES = (nn.RNNBase, nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


def count_samples(model: nn.Module, inputs: ModelInputs) -> int | None:
    """Return the number of samples in the inputs, None if no layer says it.

    A model is traced only if one of its layers may take them as anything but a batch along the first dimension.
    """
    shapes = list(_shapes(inputs.leaves()))
    layers = list(list_layers(inner_model(model)))
    has_parameters = bool(list_parameters(model))
    layouts = {path: layout for path, module in layers if (layout := _layout(module, has_parameters)) is not None}
    if not any(samples.may_have_no_batch_first(layout, shapes) for layout in layouts.values()):
        return None
    try:
        return samples.count_samples(trace_model(model, inputs), layouts, shapes)
    except MemoryError:
        raise
    except Exception:  # the trace of the profile says why
        return None


def _layout(module: nn.Module, has_parameters: bool) -> InputLayout | None:
    if isinstance(module, _SEQUENCES):
        attention: Any = getattr(module, "self_attn", module)
        return InputLayout(2, 0 if attention.batch_first else 1, is_sequence=True)
    if isinstance(module, _CONVOLUTIONS):
        return InputLayout(len(module.kernel_size) + 1)
    if isinstance(module, nn.RNNCellBase):
        return InputLayout(1)
    if isinstance(module, nn.Linear):
        return InputLayout(1, only_single=True)
    # Pooling treats channels and samples alike: it decides only where nothing learned comes after it.
    return None if has_parameters else _pooling_layout(type(module))


def _pooling_layout(kind: type) -> InputLayout | None:
    names = (base.__name__ for base in kind.__mro__ if base.__module__ == nn.modules.pooling.__name__)
    dimensions = next((int(name[-2]) for name in names if name[-2:] in ("1d", "2d", "3d")), None)
    return None if dimensions is None else InputLayout(dimensions + 1)


def _shapes(leaves: Iterable[Any]) -> Iterator[tuple[int, ...]]:
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor) and not leaf.is_nested:
            yield tuple(leaf.shape)
