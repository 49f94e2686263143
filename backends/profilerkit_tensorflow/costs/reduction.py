"""Reductions, cumulative ones, and scattered sums: the formulas of the operators."""

from __future__ import annotations

from collections.abc import Callable

from profilerkit.costs import elementwise, reduction

from .registry import Cost, OpCall, Shape, register_op_costs, register_reduction

#: Operators that make one number of several neighbours in a row, by the formula over the elements of their input.
_SEGMENTS: dict[Callable[[int], Cost], str] = {
    reduction.extreme: "SegmentMax SegmentMaxV2 SegmentMin SegmentMinV2 UnsortedSegmentMax UnsortedSegmentMin",
    reduction.multiply: "SegmentProd SegmentProdV2 UnsortedSegmentProd",
    reduction.total: "SegmentMean SegmentSum SegmentSumV2 UnsortedSegmentSum",
}
#: One operation for each value that the sparse tensor holds.
_SPARSE = """
    SparseReduceMax SparseReduceMaxSparse SparseReduceSum SparseReduceSumSparse SparseDenseCwiseAdd SparseDenseCwiseDiv
    SparseDenseCwiseMul SparseTensorDenseAdd
"""
_SCATTERED = """
    ResourceScatterAdd ResourceScatterDiv ResourceScatterMax ResourceScatterMin ResourceScatterMul ResourceScatterSub
    ResourceScatterNdAdd ResourceScatterNdMax ResourceScatterNdMin ResourceScatterNdSub ScatterAdd ScatterDiv ScatterMax
    ScatterMin ScatterMul ScatterSub ScatterNdAdd ScatterNdMax ScatterNdMin ScatterNdSub ScatterNdNonAliasingAdd
    TensorScatterAdd TensorScatterMax TensorScatterMin TensorScatterSub InplaceAdd InplaceSub
"""


def _register_over_axes(formula: Callable[[int], Cost], *names: str) -> None:
    """Register reductions whose axes are the second input."""

    @register_op_costs(*names)
    def over_axes(call: OpCall) -> Cost:
        """Return the cost for each input element; none if no axis is reduced.

        Gradients of operators that broadcast sum over the axes that were broadcast, often none.
        """
        axes = call.value(1) if call.has_floats else None
        reduces = call.has_floats and (axes is None or axes.size > 0)
        return formula(call.inputs[0].numel if reduces else 0)


_register_over_axes(reduction.total, "Sum", "Mean")
_register_over_axes(reduction.extreme, "Max", "Min")
_register_over_axes(reduction.multiply, "Prod")
_register_over_axes(reduction.norm, "EuclideanNorm")

register_reduction(reduction.total, "BiasAddGrad", "Cumsum")
register_reduction(reduction.multiply, "Cumprod")
register_reduction(reduction.total, "MirrorPadGrad", "TileGrad")  # the gradients of copies are summed
register_reduction(reduction.norm, "L2Loss")
register_reduction(reduction.log_sum_exp, "CumulativeLogsumexp")
register_reduction(elementwise.adjust_contrast, "AdjustContrast", "AdjustContrastv2")
for _formula, _names in _SEGMENTS.items():
    register_reduction(_formula, *_names.split())


def _register_scattering(updates: int, *names: str) -> None:
    """Register operators that take an operation for each element of the input of that index."""

    @register_op_costs(*names)
    def count(call: OpCall) -> Cost:
        """One addition, product or comparison for each element of the updates."""
        return reduction.scatter(call.inputs[updates].numel if call.has_floats else 0)


_register_scattering(2, *_SCATTERED.split())
_register_scattering(1, "ScatterNd")  # sums the values of equal indices
_register_scattering(1, "AssignAdd", "AssignSub", "AssignAddVariableOp", "AssignSubVariableOp")
_register_scattering(2, "Bincount", "DenseBincount")  # of weights; without them they count in integers
_register_scattering(3, "RaggedBincount")
_register_scattering(4, "SparseBincount")
_register_scattering(1, *_SPARSE.split())


@register_op_costs(
    *("SparseSegmentMean", "SparseSegmentMeanWithNumSegments", "SparseSegmentMeanGrad", "SparseSegmentMeanGradV2"),
    *("SparseSegmentSqrtN", "SparseSegmentSqrtNWithNumSegments"),
    *("SparseSegmentSqrtNGrad", "SparseSegmentSqrtNGradV2"),
    *("SparseSegmentSum", "SparseSegmentSumWithNumSegments", "SparseSegmentSumGrad", "SparseSegmentSumGradV2"),
)
def segments(call: OpCall) -> Cost:
    """One addition for each element of each row that is looked up."""
    data, indices = call.inputs[0], call.inputs[1]
    return reduction.scatter(indices.numel * Shape(data[1:]).numel)
