"""Which layer call a node that ran belongs to, and whether it is of the forward pass or of the gradients.

A node's name is a path through calls, loops and branches. Along that path through the program's function
graphs (`function_bodies`) lies the operator that it stands for; whose that is, `operator_owners` finds.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import tensorflow as tf

from ..trace.ownership import Owner, is_gradient_name
from ..trace.program import Program
from .events import PassTimes
from .operator_owners import (
    Body,
    OperatorOwners,
    find_call,
    find_called,
    find_forward_graph,
    is_compiled,
)

__all__ = ["NodeOwners", "NodePlace", "XlaCall", "count_graph_runs", "find_fused", "split_path"]


@dataclass(frozen=True, slots=True)
class NodePlace:
    """Where a node belongs: its layer call, the body that it ran in, and whether it computes gradients.

    ``merged`` are the other layers whose operators its kernel runs too, ``parts`` the types of those of its own layer.
    ``type`` is the traced operator's, or what ran.
    """

    owner: Owner
    body: Body
    backward: bool
    type: str
    merged: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()


class XlaCall(NamedTuple):
    """A call of a function that XLA compiles: the path of the calling layer, and whether it computes gradients."""

    layer: str
    is_gradient: bool


class NodeOwners:
    """Finds the owners of the nodes of one program."""

    def __init__(self, program: Program) -> None:
        ownership, graph = program.calls.ownership, program.graph
        forward_end = program.calls.forward_end
        main = Body(graph, ownership.root, len(graph.get_operations()) if forward_end is None else forward_end)
        main.forward = main
        self._owners = OperatorOwners(ownership)
        self._bodies: dict[tuple[str, ...], Body] = {(): main}

    def locate(self, times: PassTimes) -> dict[str, NodePlace]:
        """Return where each node of a pass belongs, by the name under which it ran."""
        # The first level of each path is the call of it all.
        paths = {executed: split_path(executed)[1:] for executed in times.nodes}
        ran: dict[tuple[str, ...], set[str]] = {}
        for path in paths.values():
            ran.setdefault(path[:-1], set()).update(path[-1:])
        return {
            executed: self._locate(path, times.nodes[executed].op_type, ran[path[:-1]])
            for executed, path in paths.items()
        }

    def _locate(self, path: tuple[str, ...], executed_type: str, ran: set[str]) -> NodePlace:
        """Return where a node belongs, by its path, its type, and the names of all nodes that ran in its body."""
        body = self._find_body(path[:-1])
        name = path[-1] if path else ""
        operator = body.operators.get(name)
        if operator is None:
            owner = self._owners.find_in_scope(name.rpartition("/")[0], body) or body.owner
            return NodePlace(owner, body, any(map(is_gradient_name, path)), executed_type)
        *fused, kernel = find_fused(operator, executed_type, ran)
        owner = self._owners.find(kernel, body)
        parts = [*fused, *_list_padding(kernel, executed_type)]
        paths = [self._owners.find(part, body).path for part in parts]
        others = tuple(sorted(set(paths) - {owner.path}))
        own_types = tuple(part.type for part, path in zip(parts, paths, strict=True) if path == owner.path)
        return NodePlace(owner, body, body.is_gradient(kernel.name), kernel.type, others, own_types)

    def find_compiled(self) -> set[XlaCall]:
        """Return the calls of functions compiled by XLA, whose nodes are not seen, in bodies that `locate` has met."""
        compiled = set()
        for body in self._bodies.values():
            for name, operator in body.operators.items():
                if operator.type.endswith("PartitionedCall") and is_compiled(body.graph, find_called(operator, "f")):
                    compiled.add(XlaCall(self._owners.find(operator, body).path, body.is_gradient(name)))
        return compiled

    def _find_body(self, callers: tuple[str, ...]) -> Body:
        """Return the body that a path of calls leads to, as far as the graphs have that path."""
        if callers not in self._bodies:
            self._bodies[callers] = self._enter(self._find_body(callers[:-1]), callers[-1])
        return self._bodies[callers]

    def _enter(self, outer: Body, caller: str) -> Body:
        """Return the body of a call in another body, which is returned itself where its graph has no such call."""
        call = find_call(outer, caller)
        if call is None:
            return outer
        owner = self._owners.find(call.operator, outer)
        if not outer.is_gradient(call.operator.name):
            return Body(call.graph, owner, len(call.graph.get_operations()))
        forward = find_forward_graph(outer.graph, call.function, call.graph)
        if forward is None:
            return Body(call.graph, owner, 0)
        return Body(call.graph, owner, 0, Body(forward, owner, len(forward.get_operations())))


def _list_padding(kernel: Any, executed_type: str) -> list[Any]:
    """Return the padding that is fused into a convolution."""
    return [tensor.op for tensor in kernel.inputs if "PadWith" in executed_type and tensor.op.type == "Pad"]


def count_graph_runs(times: PassTimes, places: Mapping[str, NodePlace]) -> dict[int, int]:
    """Return how often each function's graph ran in a pass, by its ``id``: a loop's body in every round."""
    body_runs: Counter[Body] = Counter()
    for executed, node in places.items():
        body_runs[node.body] = max(body_runs[node.body], times.nodes[executed].calls)
    graph_runs: Counter[int] = Counter()
    for body, runs in body_runs.items():
        graph_runs[id(body.graph)] += runs
    return dict(graph_runs)


# From the names under which nodes run back to the operators of the traced graph ---------------------------------------

# Before a graph runs, TensorFlow inlines the functions it calls, lowers its loops and branches, and lets its optimizer
# (grappler) rewrite it. What that does to names, as observed with TensorFlow 2.21:
#
# ================================= ===================================================================== in the traced
# graph when it runs =================================
# ===================================================================== ``mm`` in a called function
# ``scope/PartitionedCall/mm``, ``StatefulPartitionedCall_1/mm``: the call's name first ``while/mul`` in a loop's body
# ``while/body/_4/while/mul``; its condition ``while/cond/_3/while/Less`` ``cond/Relu`` in a branch
# ``cond/then/_0/cond/Relu``, ``cond/else/_1/cond/Relu`` ``case0`` in a ``tf.switch_case``
# ``switch_case/indexed_case/branch0/_8/case0`` gradients of a loop
# ``gradient_tape/while/while_grad/body/_9/gradient_tape/while/gradients/...`` ``c/add_1``, sums rewritten
# ``c/ArithmeticOptimizer/AddOpsRewrite_add_1``, ``.../AddOpsRewrite_Leaf_0_add_1`` ``mt/mm`` after a transpose
# ``mt/ArithmeticOptimizer/FoldTransposeIntoMatMul_mm`` ``Sqrt`` of ``Exp``, a chain ``Sqrt/unary_ops_composition``: the
# name of the last one a cast that was added ``x-0-CastToBf16-0-AutoMixedPrecision``: the name of the neighbour it
# serves ================================= =====================================================================
#
# The number after ``body/`` and the like differs from trace to trace and has no meaning. Each level is put before the
# next, so that the names of nested calls are paths. Also undone, from TensorFlow's source alone: ``ConstantFolding/``,
# ``Func/.../input/_3`` (a call's arguments), ``HoistCommonFactor``, and ``LayoutOptimizer`` and ``/_12`` (transfers)
# with a GPU.
#
# A fused kernel has the name of the *last* operator it stands for: convolution, bias and activation run as one
# ``_FusedConv2D`` (``_MklNativeFusedConv2D`` with oneDNN) named ``re_lu/Relu``, and the convolution's and the bias'
# names do not run at all. If these belong to two layers, the name leads to the wrong one; `find_fused` finds the right
# one. A rewrite that keeps the name changes the type alone: a division by a constant runs as ``Mul``, ``Log`` of one
# plus something as ``Log1p``.

#: What was added to a neighbor's name: a cast, or a change of the layout.
_ADDED_SUFFIX = re.compile(r"-\d+-.*(?:AutoMixedPrecision|LayoutOptimizer)$")
_DTYPE = r"(?:float|double|half|bfloat16|bool|u?int\d+|complex\d+)"
#: What a rewrite of sums and products puts in front of the last part of a name.
_REWRITE = re.compile(
    rf"ArithmeticOptimizer/(?:HoistCommonFactor_(?:Mul|Add)_|[A-Z][A-Za-z0-9]*_(?:(?:Leaf|Internal)_\d+_|{_DTYPE}_)?)"
)
#: What is put around the name of a node that has become simpler because some of its inputs are constants.
_FOLDED_PREFIX = "ConstantFolding/"
_FOLDED_SUFFIX = re.compile(r"(?:_recip|_const_axis|_partial_split_\d+|-folded(?:-\d+)?)$")
#: An argument or a result of an inlined call: the name of the call stands inside.
_ARGUMENT = re.compile(r"^Func/(.+)/(?:input|output|input_control_node|output_control_node)/_\d+$")
#: What is behind the name of a node that stands for a chain, or that moves a value between devices.
_SUFFIX = re.compile(r"(?:/unary_ops_composition|/_\d+)$")
#: The separator of two levels of a path: a branch of a loop or of a condition, or a call.
_LEVEL = re.compile(
    r"(?P<branch>/(?:body|cond|then|else|branch\d+))/_\d+/|(?P<call>(?:^|(?<=/)|/)(?:Stateful)?PartitionedCall(?:_\d+)?)/"
)

#: The types of fused kernels, and what these are called whose type has another name than the operator's.
_FUSED = re.compile(r"_(?:Mkl)?(?:Native)?(?:PadWith)?Fused(?P<kernel>[A-Z]\w*)")
_FUSED_NORMALIZATIONS = {"BatchNormEx": "FusedBatchNormV3", "BatchNormGradEx": "FusedBatchNormGradV3"}
#: The most operators of a fused kernel; operators further back belong to another.
_MOST_FUSED = 8


def split_path(executed_name: str) -> tuple[str, ...]:
    """Return the calls, loop bodies and branches that lead to a node which ran, outermost first, and its own name last.

    Each is the name in its own function graph; a loop's or a condition's has its branch behind it: ``while/body``,
    ``while/cond``, ``cond/then``, ``cond/else``, ``indexed_case/branch0``. What the module's table lists is undone. The
    names alone do not show what else a fused kernel stands for (see `find_fused`), or that a scope called
    ``PartitionedCall`` was named by the user.

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
    """Return a name without what the optimizer put in: the levels of calls, loops and branches stay."""
    name = _REWRITE.sub("", _ADDED_SUFFIX.sub("", name))
    if name.startswith(_FOLDED_PREFIX):
        name = _FOLDED_SUFFIX.sub("", name.removeprefix(_FOLDED_PREFIX))
    argument = _ARGUMENT.match(name)
    return argument[1] if argument else _SUFFIX.sub("", name)


def find_fused(operation: tf.Operation, executed_type: str, ran: Container[str] = ()) -> list[tf.Operation]:
    """Return the operators that a node which ran stands for: from the one whose name it has back to its main one.

    That is the given one alone unless the kernel is a fused one, which spends its time in the main one: for
    ``_FusedConv2D`` under the name of a ReLU it is the convolution that feeds it, the nearest operator of type
    ``Conv2D`` on the way back. ``ran`` has the original names of what ran on its own, which is no part of a fused
    kernel; it decides where a sum has two convolutions before it. If there is none, the given operator is returned.
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
