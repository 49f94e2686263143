"""The walk over a traced graph: every operator that runs, with its runs, its layer and its cost.

- Operators that no output needs do not run: the walk reaches back from the outputs (Keras traces one step of a
  recurrent layer more than it runs), and into called functions, of whose outputs only the used ones count.
- The functions of `control_flow` enter calls of functions, loops and conditions.
- If a caller knows more of a shape than the function it calls (a saved model, an ``input_signature`` with None), the
  function's operators are made anew with the caller's shapes (`profilerkit_tensorflow.trace.known_shapes`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from profilerkit.backend_kit.running_order import Body, note_apart

from ..compat.graphs import read_held_tensor
from .folding import Folding
from .known_shapes import Specialized
from .list_shapes import note_elements, read_shape
from .ownership import Owner, Ownership
from .pricing import OperatorPrices, make_layer_operator
from .products import Products
from .running_order import list_read_inputs, list_running_operators
from .tensor_facts import Tensor, is_more_known, static_shape
from .values import LOOKUPS, Executed, Scope, Value, Work

__all__ = ["Handler", "Walk"]

#: Walks over an operator that runs bodies of operators: the walk, the operator, and the scope that it is in.
Handler: TypeAlias = "Callable[[Walk, Any, Scope], None]"

#: Operators that make or hand on a value and run no kernel.
_SILENT = ("NoOp", "Placeholder", "_Arg", "_Retval")
_UNKNOWN_LOOP = "LoopCond (how often a loop of TensorFlow 1 runs is not known; counted once)"


class FormulaUse(NamedTuple):
    """A call of a layer, and the scope that it runs in; None if it was traced in a graph that is not walked."""

    call: Owner
    scope: Scope | None


class Walk:
    """Walks one traced function.

    Attributes:
        ownership: The layers of operators.
        folding: Makes the values, and computes the values that are known before the model runs.
        work: The operators that run, in their order.
        notes: Further facts that a reader of the numbers must know.
        formulas_used: The calls of layers whose cost was added by a formula.
    """

    def __init__(self, ownership: Ownership, handlers: Mapping[str, Handler], forward_end: int | None = None) -> None:
        self.ownership = ownership
        self.folding: Folding = Folding()
        self.work: Work = Work()
        self.notes: set[str] = set()
        self.formulas_used: set[FormulaUse] = set()
        self._handlers = handlers
        #: How many operators the graph has before the first of a gradient; None if it is no training step.
        self._forward_end = forward_end
        self._gradients: set[str] = set()
        self._prices = OperatorPrices(self.folding)
        #: The products among the operators of the body that is walked.
        self._products = Products()
        #: The operators of scopes made anew, if a caller knows more of shapes than the graph.
        self._specialized: dict[Scope, Specialized] = {}

    def run(self, graph: Any, arguments: Sequence[Value]) -> list[Value]:
        """Walk a function's graph with these arguments and return its outputs."""
        if self._forward_end is not None:
            self._gradients = {operator.name for operator in graph.get_operations()[self._forward_end :]}
        return self.walk_body(Scope(graph, list(arguments), None, self.ownership.root))

    def walk_apart(self, scope: Scope) -> Body[Work, Value]:
        """Walk a body and return the work of the walk, without adding it."""
        with note_apart(self) as work:
            outputs = self.walk_body(scope)
        return Body(work, outputs)

    def walk_body(self, scope: Scope) -> list[Value]:
        """Walk the operators of a body that run, and return its outputs."""
        around, self._products = self._products, Products()
        self._set_values(scope, scope.graph.inputs, scope.arguments)
        outputs = [tensor for index, tensor in enumerate(scope.graph.outputs) if scope.needs(index)]
        running = list(list_running_operators(scope.graph, outputs))
        # Set before any operator is walked: an operator with a body asks which of its outputs are used.
        scope.used = {tensor.name for tensor in outputs}
        read = (list_read_inputs(scope.graph, operator) for operator in running)
        scope.used.update(tensor.name for tensors in read for tensor in tensors)
        for operator in running:
            walk_over = self._handlers.get(operator.type, Walk._walk_operator)
            walk_over(self, operator, scope)
        self._specialized.pop(scope, None)
        self._products.note_readers(self.folding.find_value(tensor, scope).number for tensor in outputs)
        self._products.apply()
        self._products = around
        return [self.folding.find_value(tensor, scope) for tensor in scope.graph.outputs]

    # Inputs, outputs and layers of the operators of a body ------------------------------------------------------------

    def read_inputs(self, operator: Any, scope: Scope) -> list[Value]:
        """Return the values that an operator reads."""
        return [self.folding.find_value(tensor, scope) for tensor in operator.inputs]

    def find_owner(self, operator: Any, scope: Scope) -> Owner:
        """Return the layer that an operator belongs to."""
        return self.ownership.find(scope.graph, operator, scope.owner)

    def is_backward(self, operator: Any, scope: Scope) -> bool:
        """Return whether an operator, or the caller of its body, belongs to the gradients in a training step."""
        return scope.is_backward or (scope.outer is None and operator.name in self._gradients)

    def enter(self, body: Any, arguments: Sequence[Value], operator: Any, scope: Scope, *, times: int = 1) -> Scope:
        """Return the scope of a body that an operator runs, so many times in each of its own runs."""
        self._products.note_readers(value.number for value in arguments)
        owner, is_backward = self.find_owner(operator, scope), self.is_backward(operator, scope)
        return Scope(body, list(arguments), scope, owner, scope.times * times, is_backward=is_backward)

    def bind(self, operator: Any, results: Sequence[Value], scope: Scope) -> None:
        """Make these values the operator's outputs; a graph whose gradient was taken may return more of them."""
        self._set_values(scope, operator.outputs, results[: len(operator.outputs)])

    def hand_on(self, value: Value, description: Value, owner: Owner) -> Value:
        """Return a value that a condition or a loop hands on: the bytes of ``value``, the facts of ``description``.

        Its array is not known.
        """
        twin = self.folding.new_value(description.shape, value.dtype, value.tensor)
        twin.elements, twin.length = description.elements, description.length
        self.work.append(Executed.of_handing_on((value,), (twin,), owner))
        return twin

    def hold(self, values: Sequence[Value], owner: Owner) -> None:
        """Keep the inputs of a branch or a loop alive until here."""
        self.work.hold(Executed.of_handing_on(values, (), owner))

    def _set_values(self, scope: Scope, tensors: Sequence[Any], values: Sequence[Value]) -> None:
        """Make these the values of tensors of a scope.

        If more is known about a value's shape than the graph has, the scope's further operators are made anew.
        """
        for tensor, value in zip(tensors, values, strict=True):
            scope.values[tensor.name] = value
            if scope not in self._specialized and is_more_known(value.shape, static_shape(tensor)):
                self._specialized[scope] = Specialized(self.folding)

    # One operator -----------------------------------------------------------------------------------------------------

    def _walk_operator(self, operator: Any, scope: Scope) -> None:
        """Note one operator: its inputs and outputs, its layer and its cost."""
        if operator.type in _SILENT:
            return
        if operator.type == "LoopCond":
            self.work.missed[_UNKNOWN_LOOP] += scope.times
            return
        if operator.type == "Merge" and all(tensor.op.type != "NextIteration" for tensor in operator.inputs):
            self.notes.add("of a condition of TensorFlow 1 all branches are counted")
        inputs = self.read_inputs(operator, scope)
        outputs = self._make_outputs(operator, inputs, scope)
        done = self._note(operator, inputs, outputs, scope)
        if not self._count_by_layer(done, scope):
            self._prices.write_cost(done, operator, inputs, outputs)

    def _make_outputs(self, operator: Any, inputs: Sequence[Value], scope: Scope) -> list[Value]:
        """Return new values for the outputs of an operator, with the shapes that follow from its inputs' shapes."""
        specialized = self._specialized.get(scope)
        tensors = operator.outputs if specialized is None else specialized.find_outputs(operator, inputs)
        outputs = []
        for index, (tensor, declared) in enumerate(zip(tensors, operator.outputs, strict=True)):
            inferred = static_shape(tensor)
            shape = read_shape(operator, index, inputs, inferred)
            value = self.folding.new_value(shape, declared.dtype.name, declared, scope)
            if specialized is not None and shape == inferred:
                specialized.keep(value, tensor)
            outputs.append(value)
        self._set_values(scope, operator.outputs, outputs)
        note_elements(operator, inputs, outputs, self.folding)
        return outputs

    def _note(self, operator: Any, inputs: Sequence[Value], outputs: Sequence[Value], scope: Scope) -> Executed:
        """Add an operator, without its cost, to the work."""
        read: list[Tensor] = [*inputs]
        if operator.type in LOOKUPS:  # it reads the variable behind the handle
            read[0] = Tensor(read[0].number, *read_held_tensor(operator.inputs[0]))
        done = Executed(
            operator=operator.type,
            inputs=read,
            outputs=outputs,
            times=scope.times,
            owner=self.find_owner(operator, scope),
            equation=operator.get_attr("equation").decode() if operator.type == "Einsum" else "",
            is_backward=self.is_backward(operator, scope),
        )
        self.work.append(done)
        self._products.note(done)
        return done

    def _count_by_layer(self, done: Executed, scope: Scope) -> bool:
        """Return whether the formula of a layer stands for an operator; the first of a call adds the cost of it all."""
        layer = done.owner.find_layer_cost()
        if layer is None:
            return False
        calling = scope.find_around(layer.call.graph)
        use = FormulaUse(layer.call, calling)
        if use not in self.formulas_used:
            self.formulas_used.add(use)
            times = scope.times if calling is None else calling.times
            self.work.append(make_layer_operator(layer, times, done.is_backward))
        return True
