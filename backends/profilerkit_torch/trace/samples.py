"""What torch's layers take as one sample, and as a batch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy as is_unsized

from profilerkit import ModelInputs, ModelTrace
from profilerkit.backend_kit import samples
from profilerkit.backend_kit.samples import InputLayout

from ..compat.modules import read_buffers, read_parameters
from ..model.modules import list_layers, list_modules
from ..model.wrapped import find_inner_model
from .tracing import trace_model

__all__ = ["count_samples"]

_SEQUENCES = (nn.RNNBase, nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
#: A normalization of each channel of each sample.
_NORMALIZATIONS = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)
#: Layers that may say what a sample is, whatever is around them.
_TELLING = (*_SEQUENCES, *_CONVOLUTIONS, *_NORMALIZATIONS, nn.RNNCellBase, nn.Linear, nn.LayerNorm, nn.RMSNorm)
#: Files of layers that treat channels and samples alike.
_ALIKE = (nn.modules.pooling, nn.modules.padding)
_FUNCTION = re.compile(r"aten\.conv(?:_transpose)?([123])d\.")


def count_samples(model: nn.Module, inputs: ModelInputs, trace: ModelTrace | None = None) -> int | None:
    """Return the number of samples in the inputs, None if no layer says it.

    A model without a ``trace`` is traced only if one of its layers may take them as anything but a batch along the
    first dimension.
    """
    shapes = [tuple(leaf.shape) for leaf in inputs.leaves() if isinstance(leaf, torch.Tensor) and not leaf.is_nested]
    inner = find_inner_model(model)
    modules = list_modules(inner)
    layouts = _find_layouts(modules)
    user_layers = [module for module in modules if not type(module).__module__.startswith("torch.nn.")]
    is_doubtful = any(samples.may_have_no_batch_first(layout, shapes) for layout in set(layouts.values()))
    if not is_doubtful and not any(_has_kernel(module, shapes) for module in user_layers):
        return None
    try:
        trace = trace or trace_model(model, inputs)
    except MemoryError:
        raise
    except Exception:  # the trace of the profile says why
        return None
    by_path = {path: layouts[id(module)] for path, module in list_layers(inner) if id(module) in layouts}
    number = samples.count_samples(trace, by_path, shapes, _count_listed(inputs))
    return 1 if number is None and _begins_with_single_sample(trace, shapes) else number


def _count_listed(inputs: ModelInputs) -> int:
    """Return how many tensors the list has that is an input of the model; 1 if none is a list of tensors."""
    lists = [value for value in (*inputs.args, *inputs.kwargs.values()) if isinstance(value, (list, tuple))]
    return next((len(one) for one in lists if one and all(isinstance(leaf, torch.Tensor) for leaf in one)), 1)


# What layers take -----------------------------------------------------------------------------------------------------


def _find_layouts(modules: Sequence[nn.Module]) -> dict[int, InputLayout]:
    """Return by ``id`` the input layouts of the layers that show what a sample is.

    Pooling and padding treat channels and samples alike: they decide only in a model without parameters.
    """
    has_parameters = any(tensor is not None for module in modules for tensor in read_parameters(module).values())
    telling = {kind for kind in set(map(type, modules)) if issubclass(kind, _TELLING)}
    layouts: dict[int, InputLayout] = {}
    for module in modules:
        if type(module) in telling:
            layout = _find_layout(module)
        else:
            layout = None if has_parameters else _read_layout(module, *_ALIKE)
        if layout is not None:
            layouts[id(module)] = layout
    return layouts


def _find_layout(module: nn.Module) -> InputLayout | None:
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
    return _read_layout(module, nn.modules.instancenorm)


def _read_layout(module: nn.Module, *files: ModuleType) -> InputLayout | None:
    """Return what a layer takes whose class is from one of these files of torch's: they end in their dimensions."""
    names = [file.__name__ for file in files]
    for base in type(module).__mro__:
        if base.__module__ in names and base.__name__.endswith(("1d", "2d", "3d")):
            return InputLayout(rank=int(base.__name__[-2]) + 1)
    return None


# Convolutions that are no layer's -------------------------------------------------------------------------------------


def _has_kernel(module: nn.Module, shapes: Iterable[tuple[int, ...]]) -> bool:
    """Return whether a layer of the user's has a weight for a convolution of one sample that has such a shape."""
    tensors = (*read_parameters(module).values(), *read_buffers(module).values())
    ranks = {tensor.dim() - 1 for tensor in tensors if tensor is not None and not is_unsized(tensor)}
    return any(1 < len(shape) < 5 and len(shape) in ranks for shape in shapes)


def _begins_with_single_sample(trace: ModelTrace, shapes: Iterable[tuple[int, ...]]) -> bool:
    """Return whether the first convolution, which is no layer's, makes one sample of an input of such a shape."""
    for operator in trace.operators:
        convolution = _FUNCTION.match(operator.operator)
        if convolution is not None:
            rank = int(convolution[1]) + 1
            return len(operator.outputs[0].shape) == rank and any(len(shape) == rank for shape in shapes)
    return False
