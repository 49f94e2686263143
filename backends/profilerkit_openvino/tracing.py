"""The static pass: a walk over the graph in its order, with the shapes that OpenVINO itself infers for the inputs.

The weights are shared with the model and not read; nothing is run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from profilerkit import ModelInputs, ModelTrace
from profilerkit.backend_kit.failures import explain_failure
from profilerkit.backend_kit.graph_traces import describe_constants, trace_work
from profilerkit.backend_kit.graph_work import Body, Executed, Work, count_first, note_apart
from profilerkit.backend_kit.numpy_data import Declared, bind_inputs
from profilerkit.backend_kit.scoped_calls import layer_records, list_by_layer
from profilerkit.costs import Shape
from profilerkit.trace.bounds import Branch, Choice
from profilerkit.trace.records import TensorInfo

from .costs import OPERATORS, Call, Shapes
from .layers import Layers, find_layers
from .runtime import openvino
from .weights import dtype_name, find_weighted, is_made_of_constants, list_inner, list_weights, read_constant

__all__ = ["VIEWS", "bind", "declare", "name_model", "name_operator", "read_layers", "trace_model", "walk_model"]

#: Operators whose output is their first input in another shape.
VIEWS = frozenset({"Reshape", "Squeeze", "Unsqueeze", "Identity"})
_LENGTHS = "the lengths of the sequences of {!r} depend on values: all are counted as the longest possible"
_DEARER = "the condition of the If {!r} depends on values: the most expensive of its branches is counted"
_MAY_STOP = "the Loop {!r} may stop before its limit: it is counted up to that"
_MAY_NOT_RUN = "the Loop {!r}, whose number of turns is not known, may not run at all: it is counted once"


@dataclass(eq=False)
class Value:
    """A value of the graph: its number, whether it follows from the file and shapes alone, its shape and size."""

    number: int
    constant: bool
    info: TensorInfo
    shape: Shape | None
    bytes: int

    @classmethod
    def read(cls, number: int, constant: bool, output: Any) -> Value:
        """Return the value of an output of a node."""
        partial, element = output.get_partial_shape(), output.get_element_type()
        if partial.is_static:
            shape = Shape(partial.to_shape())
            return cls(
                number,
                constant,
                TensorInfo(tuple(shape), dtype_name(element)),
                shape,
                -(-shape.numel * element.bitwidth // 8),
            )
        sizes = tuple(dim.get_length() if dim.is_static else -1 for dim in partial) if partial.rank.is_static else ()
        return cls(number, constant, TensorInfo(sizes, dtype_name(element)), None, 0)


#: The values that nodes have made, by the name of the node and the index of the output.
Values = dict[tuple[str, int], Value]


def declare(model: Any) -> list[Declared]:
    """Return the inputs that a model declares, by the names of its parameters."""
    declared = []
    for node in model.get_parameters():
        partial = node.get_output_partial_shape(0)
        dims = [dim.get_length() if dim.is_static else None for dim in partial] if partial.rank.is_static else None
        declared.append(
            Declared(node.get_friendly_name(), dims, dtype_name(node.get_output_element_type(0)) or "string")
        )
    return declared


def bind(model: Any, inputs: ModelInputs) -> dict[str, Any]:
    """Return the arrays of a call by the names of the model's parameters; raises as `bind_inputs` does."""
    return bind_inputs(declare(model), inputs.own_call())


def name_model(model: Any) -> str:
    """Return the name of a model; "Model" for one that OpenVINO has numbered, which differs from run to run."""
    name = str(model.get_friendly_name())
    return "Model" if re.fullmatch(r"Model\d+", name) else name


def read_layers(model: Any) -> Layers:
    """Return the layers of a model."""
    nodes = model.get_ordered_ops()
    return find_layers(nodes, find_weighted(nodes), name_model(model))


def trace_model(model: Any, inputs: ModelInputs | None) -> ModelTrace:
    """Trace one call; without inputs, or where they do not fit, the trace holds the layers alone."""
    layers = read_layers(model)
    weights = list_by_layer(list_weights(model.get_ordered_ops(), layers.chains))
    if inputs is None:
        return ModelTrace(layer_records(layers.types, weights))
    try:
        walk, entries, outputs = walk_model(model, inputs, layers)
    except Exception as error:  # whatever a damaged file leads to
        failure = explain_failure(error, inputs, "openvino", __package__ or "")
        return ModelTrace(layer_records(layers.types, weights), failure=failure)
    notes = describe_constants(walk.constants)
    if layers.unnamed:
        notes.append(
            f"{layers.unnamed} of the operators lost the names of their layers when the converter fused them with "
            "others: each counts in the layer that reads its result"
        )
    method = "shapes inferred by OpenVINO"
    return trace_work(walk.work, layers.chains, layers.types, weights, entries, outputs, VIEWS, method, tuple(notes))


def walk_model(model: Any, inputs: ModelInputs, layers: Layers) -> tuple[Walk, list[Value], list[Value]]:
    """Go over the graph for a call; return the walk, the values that the call gives, and the outputs."""
    bound = bind(model, inputs)
    shaped = model.clone()
    for parameter, array in zip(shaped.get_parameters(), bound.values(), strict=True):
        parameter.set_partial_shape(openvino.PartialShape(list(array.shape)))
    shaped.validate_nodes_and_infer_types()  # `reshape` would rewrite the graph too
    walk = Walk([chain[-1].path for chain in layers.chains])
    values: Values = {}
    entries = []
    for node in shaped.get_parameters():
        entries.append(Value.read(next(walk.numbers), False, node.output(0)))
        values[node.get_name(), 0] = entries[-1]
    walk.go_over(shaped.get_ordered_ops(), values, 1, is_top=True)
    return walk, entries, [_read(result, values)[0] for result in shaped.get_results()]


def name_operator(node: Any) -> str:
    """Return the type of a node, with the set it is of unless that is one of OpenVINO's own."""
    kind, version = node.get_type_info().name, str(node.get_type_info().version_id or "")
    return kind if version.startswith("opset") or not version else f"{version}::{kind}"


def _read(node: Any, values: Mapping[tuple[str, int], Value]) -> list[Value]:
    """Return the values that a node reads."""
    return [values[source.get_node().get_name(), source.get_index()] for source in node.input_values()]


@dataclass
class Walk:
    """A walk over a graph, and over the graphs inside its nodes.

    Attributes:
        paths: The path of the layer of each node of the model's own graph.
        work: What runs, so far.
        constants: How many operators depend on constants and shapes alone.
        node: The index of the node of the model's own graph that is gone over.
        numbers: The numbers of values.
    """

    paths: Sequence[str]
    work: Work = field(default_factory=Work)
    constants: int = 0
    node: int = 0
    numbers: count[int] = field(default_factory=count)

    def go_over(self, nodes: Sequence[Any], values: Values, times: int, is_top: bool = False) -> None:
        """Go over nodes in order; ``values`` are those of the parameters, and gain what the nodes make."""
        for index, node in enumerate(nodes):
            if is_top:
                self.node = index
            if node.get_type_name() == "Parameter":
                continue
            inputs = _read(node, values)
            constant = is_made_of_constants(node, [value.constant for value in inputs])
            outputs = [Value.read(next(self.numbers), constant, output) for output in node.outputs()]
            values.update({(node.get_name(), index): value for index, value in enumerate(outputs)})
            if constant:
                self.constants += node.get_type_name() != "Constant"
            elif node.get_type_name() == "If":
                self._go_over_branches(node, inputs, outputs, values, times)
            elif list_inner(node):
                self._go_over_loop(node, inputs, outputs, times)
            elif node.get_type_name() not in ("Result", "Assign"):
                self._note(node, inputs, outputs, times)

    def _note(self, node: Any, inputs: Sequence[Value], outputs: Sequence[Value], times: int) -> None:
        """Note what one node does, and what it costs."""
        name = name_operator(node)
        cost, missing = OPERATORS.price(_describe_call(name, node, inputs, outputs))
        macs, flops = cost.macs * times, cost.flops * times
        lengths = {"LSTMSequence": 3, "GRUSequence": 2, "RNNSequence": 2}.get(name)
        if lengths is not None and not inputs[lengths].constant:
            every = Branch.of([(self.paths[self.node], macs, flops)])
            self.work.choices.append(Choice((every, Branch({})), 0, _LENGTHS.format(node.get_friendly_name())))
        self.work.executed.append(Executed(name, self.node, inputs, outputs, times, macs, flops, missing))

    def _go_over_body(self, body: Any, values: Values, times: int) -> Body[Value]:
        """Go over a graph inside a node; return what it does, without adding it, and what it returns."""
        with note_apart(self) as work:
            self.go_over(body.get_ordered_ops(), values, times)
        return Body(work, [_read(result, values)[0] for result in body.get_results()])

    def _go_over_branches(
        self, node: Any, inputs: Sequence[Value], outputs: Sequence[Value], values: Values, times: int
    ) -> None:
        """Go over both branches of an ``If``, and count the more expensive one; where a constant decides, that one."""
        bodies = []
        for index, graph in enumerate(list_inner(node)):
            inner = {
                (graph.get_parameters()[entry.body_parameter_index].get_name(), 0): inputs[entry.input_index]
                for entry in node.get_input_descriptions(index)
            }
            body = self._go_over_body(graph, inner, times)
            entries = {entry.output_index: entry.body_value_index for entry in node.get_output_descriptions(index)}
            bodies.append(Body(body.work, [body.outputs[entries[output]] for output in range(len(outputs))]))
        condition = read_constant(node.input_value(0).get_node())
        if condition is not None:
            first = bodies[0 if condition.all() else 1]
            self.work.add(first.work)
        else:
            first, second = sorted(bodies, key=lambda body: body.work.price, reverse=True)
            reason = _DEARER.format(node.get_friendly_name())
            self.work.add(count_first(first, second, self.node, self.paths[self.node], reason))
        for index, (output, result) in enumerate(zip(outputs, first.outputs, strict=True)):  # made in the branch
            values[node.get_name(), index] = Value(result.number, False, output.info, output.shape, output.bytes)

    def _go_over_loop(self, node: Any, inputs: Sequence[Value], outputs: Sequence[Value], times: int) -> None:
        """Go over the body of a ``Loop`` or ``TensorIterator`` once, for all of its turns."""
        body, name = list_inner(node)[0], node.get_type_name()
        turns, reason, missing = _count_turns(node)
        parameters = {parameter.get_name(): parameter for parameter in body.get_parameters()}
        inner: Values = {}
        for entry in node.get_input_descriptions():
            if type(entry).__name__.startswith("Invariant"):
                inner[body.get_parameters()[entry.body_parameter_index].get_name(), 0] = inputs[entry.input_index]
        fresh = {
            (key, 0): Value.read(next(self.numbers), False, parameter.output(0))
            for key, parameter in parameters.items()
            if (key, 0) not in inner
        }
        begin = Executed(name, self.node, inputs, tuple(fresh.values()), times * turns)
        self.work.executed.append(begin)
        made = self._go_over_body(body, {**inner, **fresh}, times * turns)
        work = made.work
        if reason:
            words = reason.format(node.get_friendly_name())
            work = count_first(Body(work, ()), Body(Work(), ()), self.node, self.paths[self.node], words)
        self.work.add_loop(work)
        self.work.executed.append(Executed(name, self.node, made.outputs, outputs, times, missing=missing))


def _count_turns(node: Any) -> tuple[int, str, str]:
    """Return how often the body of a loop is counted, why it may run less often, and what is missing, in words."""
    turns = node.get_num_iterations()
    if turns >= 0:
        return turns, "", ""
    limit = read_constant(node.input_value(0).get_node()) if node.get_type_name() == "Loop" else None
    if limit is not None and int(limit.item()) >= 0:
        return int(limit.item()), _MAY_STOP, ""
    return 1, _MAY_NOT_RUN, f"{node.get_type_name()} of an unknown number of turns"


def _describe_call(name: str, node: Any, inputs: Sequence[Value], outputs: Sequence[Value]) -> Call:
    """Return one run of a node as formulas take it."""
    return Call(
        name,
        Shapes([value.shape for value in inputs]),
        Shapes([value.shape for value in outputs]),
        tuple(value.info.dtype for value in inputs),
        tuple(value.info.dtype for value in outputs),
        node.get_attributes(),
        value=lambda index: read_constant(node.input_value(index).get_node()),
    )
