"""Reductions, cumulative ones, and scattered sums: which operator goes to which formula."""

from __future__ import annotations

from collections.abc import Callable

from profilerkit.costs import elementwise, reduction

from .registry import Cost, OpCall, Shape, register_op_cost, register_reduction


def _register_over_axes(name: str, formula: Callable[[int], Cost]) -> None:
    @register_op_cost(name)
    def over_axes(call: OpCall) -> Cost:
        """Return the cost for each input element; none if no axis is reduced.

        Gradients of operators that broadcast sum over the axes that were broadcast, often none.
        """
        axes = call.value(1) if call.has_floats else None
        reduces = call.has_floats and (axes is None or axes.size > 0)
        return formula(call.inputs[0].numel if reduces else 0)


_OVER_AXES: tuple[tuple[str, Callable[[int], Cost]], ...] = (
    *(("Sum", reduction.total), ("Mean", reduction.total), ("Max", reduction.extreme), ("Min", reduction.extreme)),
    *(("Prod", reduction.multiply), ("EuclideanNorm", reduction.norm)),
)
for _name, _formula in _OVER_AXES:
    _register_over_axes(_name, _formula)

register_reduction(reduction.total, "BiasAddGrad", "Cumsum")
register_reduction(reduction.multiply, "Cumprod")
register_reduction(reduction.total, "MirrorPadGrad", "TileGrad")  # the gradients of copies are summed
register_reduction(reduction.norm, "L2Loss")
register_reduction(reduction.log_sum_exp, "CumulativeLogsumexp")
register_reduction(elementwise.adjust_contrast, "AdjustContrast", "AdjustContrastv2")
_SEGMENT: dict[Callable[[int], Cost], str] = {
    reduction.extreme: "SegmentMax SegmentMaxV2 SegmentMin SegmentMinV2 UnsortedSegmentMax UnsortedSegmentMin",
    reduction.multiply: "SegmentProd SegmentProdV2 UnsortedSegmentProd",
    reduction.total: "SegmentMean SegmentSum SegmentSumV2 UnsortedSegmentSum",
}
for _segment, _names in _SEGMENT.items():
    register_reduction(_segment, *_names.split())

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


def _register_scattering(name: str, updates: int) -> None:
    @register_op_cost(name)
    def count(call: OpCall) -> Cost:
        """One addition, product or comparison for each element of the updates."""
        return reduction.scatter(call.inputs[updates].numel if call.has_floats else 0)


for _name in _SCATTERED.split():
    _register_scattering(_name, 2)
_register_scattering("ScatterNd", 1)  # sums the values of equal indices
_register_scattering("AssignAdd", 1)
_register_scattering("AssignSub", 1)
_register_scattering("AssignAddVariableOp", 1)
_register_scattering("AssignSubVariableOp", 1)
_register_scattering("Bincount", 2)  # of weights; without them it counts in integers
_register_scattering("DenseBincount", 2)
_register_scattering("RaggedBincount", 3)
_register_scattering("SparseBincount", 4)


def _register_segments(name: str) -> None:
    @register_op_cost(name)
    def segments(call: OpCall) -> Cost:
        """One addition for each element of each row that is looked up."""
        data, indices = call.inputs[0], call.inputs[1]
        return reduction.scatter(indices.numel * Shape(data[1:]).numel)


for _name in ("SparseSegmentMean", "SparseSegmentSqrtN", "SparseSegmentSum"):
    for _variant in (_name, f"{_name}WithNumSegments", f"{_name}Grad", f"{_name}GradV2"):
        _register_segments(_variant)


for _name in _SPARSE.split():
    _register_scattering(_name, 1)
