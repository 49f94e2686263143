"""Normalization layers and their gradients: which operator goes to which formula.

Each function gets the arguments of its operators, with shapes in place of tensors, and the output's shape as ``out``.
Unused arguments are there for their position.
"""

from __future__ import annotations

from typing import Any

from profilerkit.costs import normalization

from .families import register_by_name, register_op_costs, register_per_element
from .registry import Cost, Shape, register_op_cost


@register_by_name(
    "aten::batch_norm aten::native_batch_norm aten::_native_batch_norm_legit aten::_native_batch_norm_legit_functional",
    "aten::cudnn_batch_norm aten::miopen_batch_norm",
)
def batch_norm(*, x: Shape, weight: Shape | None, bias: Shape | None, training: bool, out: Any, **_: Any) -> Cost:
    """Return the cost with known statistics, or in training with the statistics of the batch."""
    if not training:
        return normalization.normalize_with_known_statistics(x.numel)
    return normalization.normalize(x.numel, weight is not None, bias is not None)


register_per_element(
    {
        """
        _native_batch_norm_legit_no_training _batch_norm_no_update batch_norm_elemt quantized_batch_norm
        """: normalization.normalize_with_known_statistics,
        # Mean and variance: the operations for each channel are left out.
        "batch_norm_stats batch_norm_update_stats": normalization.statistics,
        # All three gradients: these kernels run in training alone, and compute them always.
        "cudnn_batch_norm_backward miopen_batch_norm_backward": normalization.batch_norm_gradient,
    }
)
# Of a batch norm over several devices: the sums of gradients that devices exchange, and the work of each on the sums.
register_per_element({"batch_norm_backward_reduce": normalization.batch_norm_gradient_sums}, argument=1)
register_per_element({"batch_norm_backward_elemt": normalization.batch_norm_gradient_rest}, argument=1)


@register_by_name(
    "aten::layer_norm aten::native_layer_norm aten::group_norm aten::native_group_norm aten::_batch_norm_with_update",
    "aten::_batch_norm_with_update_functional aten::_native_batch_norm_legit.no_stats",
)
def normalize_by_input(*, x: Shape, weight: Shape | None = None, bias: Shape | None = None, out: Any, **_: Any) -> Cost:
    """Return the cost of a normalization by the input's own statistics."""
    return normalization.normalize(x.numel, weight is not None, bias is not None)


# The means and variances of several devices are joined.
register_per_element(
    {"batch_norm_gather_stats batch_norm_gather_stats_with_counts": normalization.statistics}, argument=1
)


@register_op_costs("aten::renorm", "aten::embedding_renorm")
def renorm(x: Shape, indices_or_power: Any, *_: Any, out: Shape, **__: Any) -> Cost:
    """Return the cost for each element; of an embedding, for each element of the rows looked up by their indices."""
    is_embedding = isinstance(indices_or_power, Shape)
    return normalization.limit_norm(indices_or_power.numel * x[-1] if is_embedding else x.numel)


@register_op_cost("aten::_weight_norm_interface")
def weight_norm(v: Shape, g: Shape, *_: Any, out: Any, **__: Any) -> Cost:
    """Return the cost for each element of v and each norm."""
    return normalization.weight_norm(v.numel, g.numel)


@register_op_costs("aten::rms_norm", "aten::_fused_rms_norm")
def rms_norm(x: Shape, shape: Any, weight: Shape | None = None, *_: Any, out: Any, **__: Any) -> Cost:
    """Return the cost for each element, and for each mean over the last dimensions."""
    means = Shape(x[: len(x) - len(shape)]).numel
    return normalization.rms_norm(x.numel, means, weight is not None)


# Gradients ------------------------------------------------------------------------------------------------------------


@register_by_name("aten::native_batch_norm_backward", "aten::batch_norm_backward")
def batch_norm_gradient(
    *, x: Shape, train: bool = True, update: bool = True, output_mask: Any, out: Any, **_: Any
) -> Cost:
    """Return the cost of the gradients in ``output_mask``; one of the two calls ``train`` ``update``."""
    return normalization.batch_norm_gradient(x.numel, bool(train and update), *output_mask)


@register_by_name("aten::native_group_norm_backward")
def group_norm_gradient(*, x: Shape, output_mask: Any, out: Any, **_: Any) -> Cost:
    """Return the cost of the gradients in ``output_mask``: this norm has its own statistics, too."""
    return normalization.batch_norm_gradient(x.numel, True, *output_mask)


@register_by_name("aten::native_layer_norm_backward")
def layer_norm_gradient(*, x: Shape, weight: Shape | None, output_mask: Any, out: Any, **_: Any) -> Cost:
    """Return the cost of the gradients in ``output_mask``."""
    return normalization.layer_norm_gradient(x.numel, weight is not None, *output_mask)


@register_by_name("aten::_fused_rms_norm_backward")
def rms_norm_gradient(*, x: Shape, rstd: Shape, weight: Shape | None, output_mask: Any, out: Any, **_: Any) -> Cost:
    """Return the cost of the gradients in ``output_mask``, in one kernel or in several by autograd."""
    return normalization.rms_norm_gradient(x.numel, rstd.numel, weight is not None, *output_mask)


@register_op_cost("aten::_weight_norm_interface_backward")
def weight_norm_gradient(dw: Shape, v: Shape, g: Shape, *_: Any, out: Any) -> Cost:
    """Return the cost for each element of v and each norm."""
    return normalization.weight_norm_gradient(v.numel, g.numel)
