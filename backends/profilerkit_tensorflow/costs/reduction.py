"""Reductions, cumulative ones, and sums over the places that indices name."""

from __future__ import annotations

from .registry import Cost, OpCall, Shape, register_op_cost, register_reduction


def _register_over_axes(name: str, operations: int) -> None:
    @register_op_cost(name)
    def reduction(call: OpCall) -> Cost:
        """Return the operations for each input element; none where no axis is to be reduced.

        Gradients of operators that broadcast sum over the axes that were broadcast, often none.
        """
        axes = call.value(1) if call.has_floats else None
        reduces = call.has_floats and (axes is None or axes.size > 0)
        return Cost(0, operations * call.inputs[0].numel if reduces else 0)


_SEGMENTS = """
    SegmentMax SegmentMaxV2 SegmentMean SegmentMin SegmentMinV2 SegmentProd SegmentProdV2 SegmentSum SegmentSumV2
    UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum
"""

for _name in ("Sum", "Mean", "Max", "Min", "Prod"):
    _register_over_axes(_name, 1)
_register_over_axes("EuclideanNorm", 2)  # square, add

register_reduction(1, "BiasAddGrad", "Cumprod", "Cumsum")
register_reduction(1, "MirrorPadGrad", "TileGrad")  # what was copied adds up
register_reduction(2, "L2Loss")  # square, add
register_reduction(4, "CumulativeLogsumexp")  # maximum, subtract, exp, add
register_reduction(1, *_SEGMENTS.split())
register_reduction(4, "AdjustContrast", "AdjustContrastv2")  # mean; subtract, multiply, add

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
    def scattering(call: OpCall) -> Cost:
        """One addition, product or comparison for each element that is brought in."""
        return Cost(0, call.inputs[updates].numel if call.has_floats else 0)


for _name in _SCATTERED.split():
    _register_scattering(_name, 2)
_register_scattering("ScatterNd", 1)  # adds up where an index comes twice
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
        return Cost(0, indices.numel * Shape(data[1:]).numel)


for _name in ("SparseSegmentMean", "SparseSegmentSqrtN", "SparseSegmentSum"):
    for _variant in (_name, f"{_name}WithNumSegments", f"{_name}Grad", f"{_name}GradV2"):
        _register_segments(_variant)


for _name in _SPARSE.split():
    _register_scattering(_name, 1)
