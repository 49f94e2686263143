"""Times of a graph that a runtime has rewritten: the nodes that ran, and the operators of the file behind each.

A backend makes a `RanNode` of each node of the graph as run; these functions sum all nodes (`RanGraph`) by operator and
by layer. The time of a node that is fused of several layers belongs to the layer with most of its arithmetic.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..times.layer_times import LayerTime
from ..times.operator_times import CalledOperator, KernelTime, OperatorTime, OperatorTimes, OrderedCall
from .graph_work import Executed
from .named_layers import Scopes

__all__ = ["RanGraph", "RanNode", "explain_fusions", "make_node", "time_layers", "time_operators"]

_FORWARD = "forward"


@dataclass(frozen=True)
class RanNode:
    """A node of the graph that was run.

    Attributes:
        name: Its name in that graph.
        operator: The runtime's name of its operator.
        layer: The path of the layer that its time belongs to: the layer with most of its work.
        others: The paths of further layers whose work it does, because the runtime has fused them.
        called: The operators of the static trace whose work it does, inside a call that has no name of its own.
        seconds: Its seconds in each pass.
    """

    name: str
    operator: str
    layer: str
    others: tuple[str, ...]
    called: CalledOperator
    seconds: tuple[float, ...] = ()


@dataclass(frozen=True)
class RanGraph:
    """A graph that was run several times.

    Attributes:
        nodes: The nodes that ran, in the order of the graph.
        whole: The seconds of each whole pass.
        layers: The layers of the original graph.
    """

    nodes: Sequence[RanNode]
    whole: Sequence[float]
    layers: Scopes


def make_node(
    name: str,
    operator: str,
    covered: Sequence[Executed],
    paths: Sequence[str],
    near: int | None = None,
) -> RanNode:
    """Return a node with the operators of the written graph that it covers.

    Args:
        name: Its name.
        operator: Its operator.
        covered: The operators whose work it does.
        paths: The layer of each node of the written graph.
        near: The index of the written node in whose layer it is if it covers none; None for the model itself.
    """
    layer = "" if near is None else paths[near]
    if covered:
        layer = _find_busiest_layer(covered, paths)
    others = tuple(dict.fromkeys(path for op in covered if (path := paths[op.node]) != layer))
    inside = tuple(CalledOperator(op.operator, layer=paths[op.node]) for op in covered)
    is_free = not covered and near is not None  # the runtime has added it, to copy or convert the result of that node
    called = CalledOperator("", inside, is_free)  # the node itself has no counterpart in the trace
    return RanNode(name, operator, layer, others, called)


def _find_busiest_layer(operators: Sequence[Executed], paths: Sequence[str]) -> str:
    """Return the layer with most of the arithmetic of these operators; the first of several."""
    flops: Counter[str] = Counter()
    for op in operators:
        flops[paths[op.node]] += op.flops
    return max(flops, key=flops.__getitem__)


def time_operators(ran: RanGraph) -> OperatorTimes:
    """Return the seconds of each operator in each layer, with the operators of the static trace that it does."""
    indices_by_group: dict[tuple[str, str], list[int]] = {}
    for index, node in enumerate(ran.nodes):
        indices_by_group.setdefault((node.operator, node.layer), []).append(index)
    remarks = dict.fromkeys(
        f"{node.operator} of {_name_layer(node.layer)} does the work of {_list_paths(node.others)} too: the runtime "
        "has fused them"
        for node in ran.nodes
        if node.others
    )
    times = tuple(_sum_times(ran.nodes, indices) for indices in indices_by_group.values())
    return OperatorTimes(
        times, {_FORWARD: tuple(ran.whole)}, {_FORWARD: frozenset(ran.layers.types)}, remarks=tuple(remarks)
    )


def _sum_times(nodes: Sequence[RanNode], indices: Sequence[int]) -> OperatorTime:
    """Return the time of the nodes at these indices, which are all of one operator in one layer."""
    first = nodes[indices[0]]
    seconds = tuple(map(sum, zip(*(nodes[index].seconds for index in indices), strict=True)))
    return OperatorTime(
        first.operator,
        first.layer,
        _FORWARD,
        calls=len(indices),
        seconds=seconds,
        kernels=(KernelTime(first.operator, len(indices), seconds),),  # the runtime tells of no kernels inside a node
        called=tuple(OrderedCall(index, nodes[index].called) for index in indices),
    )


def time_layers(ran: RanGraph) -> tuple[LayerTime, ...]:
    """Return the forward seconds of each layer's own operators; the time between operators is the model's own."""
    calls = Counter(scope.path for scope in {scope for chain in ran.layers.chains for scope in chain})
    seconds_by_layer: dict[str, list[Sequence[float]]] = defaultdict(list)
    for node in ran.nodes:
        seconds_by_layer[node.layer].append(node.seconds)
    # The time between operators; below 0 if some ran at the same time.
    seconds_by_layer[""].append(
        [whole - sum(node.seconds[index] for node in ran.nodes) for index, whole in enumerate(ran.whole)]
    )
    nothing = (0.0,) * len(ran.whole)
    times = []
    for path, kind in ran.layers.types.items():
        passes = zip(nothing, *seconds_by_layer[path], strict=True)
        seconds = tuple(max(sum(parts), 0.0) for parts in passes)
        # The text of the model itself is about the whole, of which nothing is missing: other layers name fusions.
        missing = explain_fusions(path, ran.nodes) if path else ""
        count = max(calls[path], 1)  # also of a layer that no node is in
        times.append(LayerTime(path, kind, count, seconds, missing=missing))
    return tuple(times)


def explain_fusions(path: str, nodes: Sequence[RanNode]) -> str:
    """Return in words what of a layer's time belongs to other layers, and which of its work is timed elsewhere."""
    guests = dict.fromkeys(other for node in nodes if node.layer == path for other in node.others)
    hosts = dict.fromkeys(node.layer for node in nodes if path in node.others)
    parts = []
    if guests:
        parts.append(f"has the time of {_list_paths(guests)} too, which the runtime has fused with it")
    if hosts:
        parts.append(f"is fused into {_list_paths(hosts)}, which has the time")
    return "; ".join(parts)


def _name_layer(path: str) -> str:
    return f"layer {path!r}" if path else "the model itself"


def _list_paths(paths: Iterable[str]) -> str:
    return ", ".join(repr(path) if path else "the model itself" for path in paths)
