"""The walk over a graph of OpenVINO: the operators that run and their costs, also in the graphs inside nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from profilerkit.backend_kit.graph_work import Executed, SizedValue, Work, count_first
from profilerkit.backend_kit.running_order import Body, Turns, note_apart
from profilerkit.trace.bounds import Branch, Choice

from .costs import OPERATORS, Call, Shapes
from .nodes import RECURRENT, dtype_name, is_made_of_constants, list_inner, read_constant

__all__ = ["Values", "Walk", "read_inputs"]

_LENGTHS = "the lengths of the sequences of {!r} depend on values: all are counted as the longest possible"
_DEARER = "the condition of the If {!r} depends on values: the most expensive of its branches is counted"
_MAY_STOP = "the Loop {!r} may stop before its limit: it is counted up to that"
_MAY_NOT_RUN = "the Loop {!r}, whose number of turns is not known, may not run at all: it is counted once"


#: The values that nodes have made, by the name of the node and the index of the output.
Values = dict[tuple[str, int], SizedValue]


def read_inputs(node: Any, values: Mapping[tuple[str, int], SizedValue]) -> list[SizedValue]:
    """Return the values that a node reads."""
    return [values[source.get_node().get_name(), source.get_index()] for source in node.input_values()]


@dataclass
class Walk:
    """A walk over a graph, and over the graphs inside its nodes.

    Attributes:
        paths: The path of the layer of each node of the model's own graph.
        work: The operators that run, so far.
        constants: How many operators depend on constants and shapes alone.
        node: The index of the current node of the model's own graph.
        numbers: The numbers of values.
    """

    paths: Sequence[str]
    work: Work = field(default_factory=Work)
    constants: int = 0
    node: int = 0
    numbers: count[int] = field(default_factory=count)

    def make_value(self, output: Any, *, constant: bool = False) -> SizedValue:
        """Return a new value for an output of a node."""
        partial = output.get_partial_shape()
        dims = tuple(_read_size(dim) for dim in partial) if partial.rank.is_static else None
        return SizedValue(next(self.numbers), dtype_name(output.get_element_type()), dims, constant)

    def walk_model(self, nodes: Sequence[Any], values: Values) -> None:
        """Walk the model's own nodes in order; ``values`` has the model's inputs, and gets the results of nodes."""
        for index, node in enumerate(nodes):
            self.node = index
            self._walk_node(node, values, 1)

    def _walk_node(self, node: Any, values: Values, times: int) -> None:
        kind = node.get_type_name()
        if kind == "Parameter":  # its value is there
            return
        inputs = read_inputs(node, values)
        constant = is_made_of_constants(node, [value.constant for value in inputs])
        outputs = [self.make_value(output, constant=constant) for output in node.outputs()]
        values.update({(node.get_name(), index): value for index, value in enumerate(outputs)})
        if kind in ("Constant", "Result", "Assign"):  # the last two only name the destination of a value
            return
        if constant:
            self.constants += 1
        elif kind == "If":
            self._walk_branches(node, inputs, outputs, values, times)
        elif list_inner(node):
            self._walk_loop(node, inputs, outputs, times)
        else:
            self._note(node, inputs, outputs, times)

    def _note(self, node: Any, inputs: Sequence[SizedValue], outputs: Sequence[SizedValue], times: int) -> None:
        """Note the work and the cost of one node."""
        name = _name_operator(node)
        cost, missing = OPERATORS.price(_describe_call(name, node, inputs, outputs))
        macs, flops = cost.macs * times, cost.flops * times
        lengths = RECURRENT[name].lengths if name in RECURRENT else None
        if lengths is not None and not inputs[lengths].constant:  # it does between nothing and all of the work
            all_work = Branch.of([(self.paths[self.node], macs, flops)])
            self.work.choices.append(Choice((all_work, Branch({})), 0, _LENGTHS.format(node.get_friendly_name())))
        hides = name == "ScaledDotProductAttention" and _hides_scores(node, inputs)
        self.work.append(Executed(name, self.node, inputs, outputs, times, macs, flops, missing, hides))

    def _walk_body(self, graph: Any, values: Values, times: int) -> Body[Work, SizedValue]:
        """Walk a graph inside a node; return its work, without adding it, and its results."""
        with note_apart(self) as work:
            for node in graph.get_ordered_ops():
                self._walk_node(node, values, times)
        return Body(work, [read_inputs(result, values)[0] for result in graph.get_results()])

    def _walk_branches(
        self, node: Any, inputs: Sequence[SizedValue], outputs: Sequence[SizedValue], values: Values, times: int
    ) -> None:
        """Go over both branches of an ``If``; count the branch of a constant condition, else the dearer branch."""
        self.work.hold(Executed("If", self.node, inputs, ()))
        bodies = [self._walk_branch(node, index, inputs, times) for index in range(len(list_inner(node)))]
        condition = read_constant(node.input_value(0).get_node())
        if condition is not None:
            counted = bodies[0 if condition.all() else 1]
            self.work.add(counted.work)
        else:
            counted, other = sorted(bodies, key=lambda body: body.work.price, reverse=True)
            self.work.add(self._count_first(node, counted.work, other.work, _DEARER))
        # An output is the buffer that the branch has made, with the sizes that the node declares.
        for index, (output, result) in enumerate(zip(outputs, counted.outputs, strict=True)):
            values[node.get_name(), index] = SizedValue(result.number, output.dtype, output.dims)

    def _walk_branch(self, node: Any, index: int, inputs: Sequence[SizedValue], times: int) -> Body[Work, SizedValue]:
        """Go over one branch of an ``If``; its results have the order of the node's outputs."""
        graph = list_inner(node)[index]
        parameters = graph.get_parameters()
        values = {
            (parameters[entry.body_parameter_index].get_name(), 0): inputs[entry.input_index]
            for entry in node.get_input_descriptions(index)
        }
        body = self._walk_body(graph, values, times)
        results = {entry.output_index: entry.body_value_index for entry in node.get_output_descriptions(index)}
        return Body(body.work, [body.outputs[results[output]] for output in range(len(node.outputs()))])

    def _walk_loop(self, node: Any, inputs: Sequence[SizedValue], outputs: Sequence[SizedValue], times: int) -> None:
        """Go over the body of a ``Loop`` or ``TensorIterator`` once, for all of its turns.

        The loop is noted as two operators: one before its body, which makes the values that a turn gets, because these
        are alive while the body runs, and one after it.
        """
        [graph], name, turns = list_inner(node), node.get_type_name(), _count_turns(node)
        times_of_body = times * turns.number_to_count
        values = _find_same_in_all_turns(node, graph, inputs)
        made_for_a_turn: Values = {}
        for parameter in graph.get_parameters():
            key = parameter.get_name(), 0
            if key not in values:
                made_for_a_turn[key] = self.make_value(parameter.output(0))
        self.work.append(Executed(name, self.node, inputs, tuple(made_for_a_turn.values()), times_of_body))
        body = self._walk_body(graph, {**values, **made_for_a_turn}, times_of_body)
        work, missing = body.work, ""
        if turns.most is None:
            missing = f"{name} of an unknown number of turns"
            work = self._count_first(node, work, Work(), _MAY_NOT_RUN)
        elif turns.exact is None:
            work = self._count_first(node, work, Work(), _MAY_STOP)
        self.work.add_loop(work)
        self.work.append(Executed(name, self.node, body.outputs, outputs, times, missing=missing))

    def _count_first(self, node: Any, first: Work, second: Work, reason: str) -> Work:
        """Return the work of a node that runs one of two bodies: the first's work; ``reason`` says why the first."""
        return count_first(first, second, self.paths[self.node], reason.format(node.get_friendly_name()))


def _read_size(dim: Any) -> int | None:
    return dim.get_length() if dim.is_static else None


def _find_same_in_all_turns(node: Any, graph: Any, inputs: Sequence[SizedValue]) -> Values:
    """Return the values of the parameters of a loop's body that get an input of the loop, the same in every turn."""
    parameters = graph.get_parameters()
    return {
        (parameters[entry.body_parameter_index].get_name(), 0): inputs[entry.input_index]
        for entry in node.get_input_descriptions()
        if type(entry).__name__.startswith("Invariant")
    }


def _count_turns(node: Any) -> Turns:
    """Return how often the body of a loop runs, as far as OpenVINO or the limit of a ``Loop`` tells."""
    number = node.get_num_iterations()
    if number >= 0:  # -1 if OpenVINO does not know it
        return Turns(number, number)
    limit = read_constant(node.input_value(0).get_node()) if node.get_type_name() == "Loop" else None
    return Turns(0, None if limit is None or int(limit.item()) < 0 else int(limit.item()))


def _hides_scores(node: Any, inputs: Sequence[SizedValue]) -> bool:
    """Return whether a mask takes scores of attention away; a single number only fills its place before a scale."""
    reads_mask = len(inputs) > 3 and (inputs[3].shape is None or inputs[3].shape.numel > 1)
    return reads_mask or bool(node.get_attributes()["causal"])


def _name_operator(node: Any) -> str:
    """Return the type of a node, with its operator set unless the set is OpenVINO's own, like ``opset13``."""
    info = node.get_type_info()
    operator_set = str(info.version_id or "")
    is_own = not operator_set or operator_set.startswith("opset")
    return info.name if is_own else f"{operator_set}::{info.name}"


def _describe_call(name: str, node: Any, inputs: Sequence[SizedValue], outputs: Sequence[SizedValue]) -> Call:
    """Return one run of a node as formulas take it."""
    return Call(
        name,
        Shapes([value.shape for value in inputs]),
        Shapes([value.shape for value in outputs]),
        tuple(value.dtype for value in inputs),
        tuple(value.dtype for value in outputs),
        node.get_attributes(),
        value=lambda index: read_constant(node.input_value(index).get_node()),
    )
