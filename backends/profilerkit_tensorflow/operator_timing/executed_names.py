"""The names under which the nodes of a graph run, and the operators of the traced graph that they stand for.

Before a graph runs, TensorFlow inlines the functions it calls, lowers its loops and branches, and lets its optimizer
(grappler) rewrite it. The effects on names, as observed with TensorFlow 2.21:

- ``mm`` in a called function: ``scope/PartitionedCall/mm``, ``StatefulPartitionedCall_1/mm``: the call's name first.
- ``while/mul`` in a loop's body: ``while/body/_4/while/mul``; in its condition ``while/cond/_3/while/Less``.
- ``cond/Relu`` in a branch: ``cond/then/_0/cond/Relu``, ``cond/else/_1/cond/Relu``.
- ``case0`` in a ``tf.switch_case``: ``switch_case/indexed_case/branch0/_8/case0``.
- gradients of a loop: ``gradient_tape/while/while_grad/body/_9/gradient_tape/while/gradients/...``.
- ``c/add_1``, a sum rewritten: ``c/ArithmeticOptimizer/AddOpsRewrite_add_1``, ``.../AddOpsRewrite_Leaf_0_add_1``.
- ``mt/mm`` after a transposition: ``mt/ArithmeticOptimizer/FoldTransposeIntoMatMul_mm``.
- ``Sqrt`` of ``Exp``, a chain: ``Sqrt/unary_ops_composition``, the name of the last one.
- a cast that was added: ``x-0-CastToBf16-0-AutoMixedPrecision``, the name of the neighbor that it serves.

The number after ``body/`` and the like differs from trace to trace and has no meaning. Each level is put before the
next, so that the names of nested calls are paths. Also undone, from TensorFlow's source alone: ``ConstantFolding/``,
and ``LayoutOptimizer`` and ``/_12`` (transfers) with a GPU. A name with other marks leads to the layer of its scope.
"""

from __future__ import annotations

import re
from collections.abc import Container

import tensorflow as tf

__all__ = ["find_fused", "split_path"]

#: The suffix that is added to a neighbor's name: for a cast, or a change of the layout.
_ADDED_SUFFIX = re.compile(r"-\d+-.*(?:AutoMixedPrecision|LayoutOptimizer)$")
_DTYPE = r"(?:float|double|half|bfloat16|bool|u?int\d+|complex\d+)"
#: The prefix that a rewrite of sums and products puts in front of the last part of a name, or folding in front of all.
_REWRITE = re.compile(rf"^ConstantFolding/|ArithmeticOptimizer/[A-Z][A-Za-z0-9]*_(?:(?:Leaf|Internal)_\d+_|{_DTYPE}_)?")
#: The suffix of a node that stands for a chain, or that moves a value between devices.
_SUFFIX = re.compile(r"(?:/unary_ops_composition|/_\d+)$")
#: The separator of two levels of a path: a branch of a loop or of a condition, or a call.
_LEVEL = re.compile(
    r"(?P<branch>/(?:body|cond|then|else|branch\d+))/_\d+/|(?P<call>(?:^|(?<=/)|/)(?:Stateful)?PartitionedCall(?:_\d+)?)/"
)


def split_path(executed_name: str) -> tuple[str, ...]:
    """Return the calls, loop bodies and branches that lead to a node which ran, outermost first, and its own name last.

    Each is the name in its own function graph; the name of a loop or a condition ends with the branch: ``while/body``,
    ``while/cond``, ``cond/then``, ``cond/else``, ``indexed_case/branch0``. The optimizer's changes are undone. Names
    alone do not show the other operators of a fused kernel (see `find_fused`). A scope that the user has called
    ``PartitionedCall`` is taken for a call.

    >>> split_path("encoder/PartitionedCall/while/body/_4/while/mul")
    ('encoder/PartitionedCall', 'while/body', 'while/mul')
    >>> split_path("norm/ArithmeticOptimizer/AddOpsRewrite_Leaf_0_add_1")
    ('norm/add_1',)
    """
    name = _remove_optimizer_marks(executed_name)
    path = []
    start = 0
    for level in _LEVEL.finditer(name):
        path.append(name[start : level.end("branch" if level["branch"] else "call")])
        start = level.end()
    return (*path, name[start:])


def _remove_optimizer_marks(name: str) -> str:
    """Return a name without the marks of the optimizer: the levels of calls, loops and branches stay."""
    return _SUFFIX.sub("", _REWRITE.sub("", _ADDED_SUFFIX.sub("", name)))


# Fused kernels --------------------------------------------------------------------------------------------------------

# A fused kernel has the name of the *last* operator it stands for: convolution, bias and activation run as one
# ``_FusedConv2D`` (``_MklNativeFusedConv2D`` with oneDNN) named ``re_lu/Relu``, and the convolution's and the bias'
# names do not run at all. If these belong to two layers, the name leads to the wrong one; `find_fused` finds the right
# one. A rewrite that keeps the name changes the type alone: a division by a constant runs as ``Mul``, ``Log`` of one
# plus something as ``Log1p``.

#: The types of fused kernels, and the types of normalizations whose kernels have another name.
_FUSED = re.compile(r"_(?:Mkl)?(?:Native)?(?:PadWith)?Fused(?P<kernel>[A-Z]\w*)")
_FUSED_NORMALIZATIONS = {"BatchNormEx": "FusedBatchNormV3", "BatchNormGradEx": "FusedBatchNormGradV3"}
#: The most operators of a fused kernel; operators further back belong to another.
_MOST_FUSED = 8


def find_fused(operation: tf.Operation, executed_type: str, ran: Container[str] = ()) -> list[tf.Operation]:
    """Return the operators that an executed node stands for: from the operator with its name back to the main one.

    For a kernel that is not fused this is only the given operator. A fused kernel spends its time in the main operator:
    for ``_FusedConv2D`` with the name of a ReLU this is the nearest operator of type ``Conv2D`` before the ReLU.
    ``ran`` has the original names of nodes that ran by themselves, which are no part of a fused kernel; they decide if
    a sum has two convolutions before it. If there is no main operator, the given operator is returned.
    """
    fused = _FUSED.fullmatch(executed_type)
    if fused is None:
        return [operation]
    main_type = _FUSED_NORMALIZATIONS.get(fused["kernel"], fused["kernel"])
    ways, seen = [[operation]], {operation.name}
    for _ in range(_MOST_FUSED):
        longer_ways = []
        for way in ways:
            if way[-1].type == main_type:
                return way
            for maker in [tensor.op for tensor in way[-1].inputs]:
                if maker.name not in seen and maker.name not in ran:
                    seen.add(maker.name)
                    longer_ways.append([*way, maker])
        ways = longer_ways
    return [operation]
