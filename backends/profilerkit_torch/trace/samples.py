"""What torch's layers take as one sample, and as a batch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

import torch
from torch import nn

from profilerkit import ModelInputs, ModelTrace
from profilerkit.backend_kit import samples
from profilerkit.backend_kit.samples import InputLayout
from profilerkit.process.cached import once_for_each

from ..compat.modules import read_buffers, read_parameters
from ..model.modules import list_direct_tensors, list_layers, list_parameters
from ..model.wrapped import inner_model
from .tracing import trace_model

__all__ = ["count_samples"]

_SEQUENCES = (nn.RNNBase, nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
#: A normalization of each channel of each sample.
_NORMALIZATIONS = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)
#: Files of layers that treat channels and samples alike.
_ALIKE = (nn.modules.pooling, nn.modules.padding)
_FUNCTION = re.compile(r"aten\.conv(?:_transpose)?([123])d\.")


def count_samples(model: nn.Module, inputs: ModelInputs, trace: ModelTrace | None = None) -> int | None:
    """Return the number of samples in the inputs, None if no layer says it.

    A model without a ``trace`` is traced only if one of its layers may take them as anything but a batch along the
    first dimension.
    """
    shapes = list(_list_shapes(inputs.leaves()))
    layers = list_layers(inner_model(model))
    modules = [module for _, module in layers]
    has_parameters = bool(list_direct_tensors(modules, read_parameters) or list_parameters(model))
    kinds = {kind for kind in set(map(type, modules)) if not has_parameters or _may_have_layout(kind)}
    layouts: dict[str, InputLayout] = {}
    for path, module in layers:
        layout = _find_layout(module, has_parameters) if type(module) in kinds else None
        if layout is not None:
            layouts[path] = layout
    has_layout = any(samples.may_have_no_batch_first(layout, shapes) for layout in set(layouts.values()))
    user_layers = [module for module in modules if not type(module).__module__.startswith("torch.nn.")]
    if not has_layout and not any(_has_kernel(module, shapes) for module in user_layers):
        return None
    try:
        trace = trace or trace_model(model, inputs)
    except MemoryError:
        raise
    except Exception:  # the trace of the profile says why
        return None
    number = samples.count_samples(trace, layouts, shapes)
    return 1 if number is None and _has_single_convolution(trace, shapes) else number


def _has_kernel(module: nn.Module, shapes: Iterable[tuple[int, ...]]) -> bool:
    """Return whether a layer of the user's has a weight for a convolution of one sample that has such a shape."""
    tensors = (*read_parameters(module).values(), *read_buffers(module).values())
    ranks = {tensor.dim() - 1 for tensor in tensors if tensor is not None}
    return any(1 < len(shape) < 5 and len(shape) in ranks for shape in shapes)


def _has_single_convolution(trace: ModelTrace, shapes: Iterable[tuple[int, ...]]) -> bool:
    """Return whether the first convolution, which is no layer's, makes one sample of an input of such a shape."""
    for operator in trace.operators:
        convolution = _FUNCTION.match(operator.operator)
        if convolution is not None:
            rank = int(convolution[1]) + 1
            return len(operator.outputs[0].shape) == rank and any(len(shape) == rank for shape in shapes)
    return False


@once_for_each
def _may_have_layout(kind: type) -> bool:
    """Return whether a class of layers with weights around may say what a sample is."""
    layers = (nn.RNNCellBase, nn.Linear, nn.LayerNorm, nn.RMSNorm)
    return issubclass(kind, (*_SEQUENCES, *_CONVOLUTIONS, *_NORMALIZATIONS, *layers))


def _find_layout(module: nn.Module, has_parameters: bool) -> InputLayout | None:
    if isinstance(module, _SEQUENCES):
        attention: Any = getattr(module, "self_attn", module)
        return InputLayout(rank=2, batch=0 if attention.batch_first else 1, is_sequence=True)
    if isinstance(module, _CONVOLUTIONS):
        return InputLayout(rank=len(module.kernel_size) + 1)
    if isinstance(module, nn.RNNCellBase):
        return InputLayout(rank=1)
    if isinstance(module, nn.Linear):
        return InputLayout(rank=1, only_single=True)
    if isinstance(module, (nn.LayerNorm, nn.RMSNorm)):
        return InputLayout(rank=len(module.normalized_shape), only_single=True)
    if isinstance(module, _NORMALIZATIONS):
        return _read_layout(module, nn.modules.instancenorm)
    # Pooling treats channels and samples alike: it decides only where nothing learned comes after it.
    if has_parameters:
        return None
    return next(filter(None, (_read_layout(module, file) for file in _ALIKE)), None)


def _read_layout(module: nn.Module, file: ModuleType) -> InputLayout | None:
    """Return what a layer takes whose class in a file of torch's is named after its dimensions."""
    names = (base.__name__ for base in type(module).__mro__ if base.__module__ == file.__name__)
    dimensions = next((int(name[-2]) for name in names if name[-2:] in ("1d", "2d", "3d")), None)
    return None if dimensions is None else InputLayout(rank=dimensions + 1)


def _list_shapes(leaves: Iterable[Any]) -> Iterator[tuple[int, ...]]:
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor) and not leaf.is_nested:
            yield tuple(leaf.shape)
