"""The walk over a traced graph: every operator that runs, how often, in which layer, and what it costs.

- What no output needs does not run: the walk reaches back from the outputs (Keras traces one step of a recurrent layer
  more than it runs), and into called functions, of whose outputs only the used ones count.
- Called functions and loop bodies are entered, and a body counts as often as its loop runs; of several branches the
  most expensive counts.
- Where a caller knows more of a shape than the function it calls (a saved model, an ``input_signature`` with None), the
  function's operators are made anew with the caller's shapes (`profilerkit_tensorflow.trace.specialization`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from profilerkit.backend_kit.branch_memory import Fork, Side
from profilerkit.trace.bounds import Choice

from ..costs import OpCall, Shapes
from .branches import (
    Tried,
    agree,
    agree_on_constant,
    branch_names,
    make_choice,
    make_fork,
    may_stop_choice,
    may_stop_fork,
    most_expensive,
)
from .dilation import find_cropped_share, find_spread_share
from .einsum_gradients import EinsumGradients
from .folding import Folding
from .graph_access import body_named, forward_function, read_attribute
from .kernel_memory import tensor_bytes
from .lists import note_elements, read_shape
from .loops import counter_after, counter_steps, counts_runs, trip_count
from .ownership import Owner, Ownership
from .pricing import make_layer_operator, price
from .reachable_operators import find_needed_variables, list_running_operators
from .sparse_products import count_as_product, find_weighted_rows
from .specialization import Specialized
from .values import Executed, PartialShape, Scope, Value, static_shape

__all__ = ["Walk"]

CALLS = ("PartitionedCall", "StatefulPartitionedCall")
LOOPS = ("While", "StatelessWhile")
BRANCHES = ("If", "StatelessIf", "Case", "StatelessCase")
#: Operators that make or hand on a value and run no kernel.
_SILENT = ("NoOp", "Placeholder", "_Arg", "_Retval")


class Walk:
    """Walks one traced function; afterwards `executed` holds its operators in the order of their running."""

    def __init__(self, ownership: Ownership) -> None:
        self.ownership = ownership
        self.folding: Folding = Folding()
        self.executed: list[Executed] = []
        #: Ranges of `executed` that a loop runs more than once.
        self.spans: list[tuple[int, int]] = []
        self.uncounted: Counter[str] = Counter()
        #: Where one of several branches is taken, and nobody knows which.
        self.choices: list[Choice] = []
        #: The same, for the bytes alive.
        self.forks: list[Fork] = []
        self.notes: set[str] = set()
        self._specialized: dict[int, Specialized] = {}
        self._formulas_used: set[tuple[int, int]] = set()
        self._einsums = EinsumGradients()

    def run(self, graph: Any, arguments: Sequence[Value]) -> list[Value]:
        """Walk a function's graph with these arguments and return its outputs."""
        return self._walk_body(Scope(graph, list(arguments), None, self.ownership.root))

    def _walk_body(self, scope: Scope) -> list[Value]:
        """Walk the operators of a body that run, and return its outputs."""
        for tensor, value in zip(scope.graph.inputs, scope.arguments, strict=True):
            scope.values[tensor.name] = value
            self._learn(scope, tensor, value)
        outputs = [tensor for index, tensor in enumerate(scope.graph.outputs) if scope.needs(index)]
        running = list(list_running_operators(scope.graph, outputs))
        scope.used = {tensor.name for tensor in outputs}
        scope.used.update(tensor.name for operator in running for tensor in operator.inputs)
        for operator in running:
            kind = operator.type
            if kind in CALLS:
                self._walk_call(operator, scope)
            elif kind in LOOPS:
                self._walk_loop(operator, scope)
            elif kind in BRANCHES:
                self._walk_branches(operator, scope)
            elif kind == "LoopCond":
                self.uncounted["LoopCond (how often a loop of TensorFlow 1 runs is not known; counted once)"] += (
                    scope.times
                )
            elif kind not in _SILENT:
                self._walk_operator(operator, scope)
        return [self.folding.find_value(tensor, scope) for tensor in scope.graph.outputs]

    def _learn(self, scope: Scope, tensor: Any, value: Value) -> None:
        """Have the scope's further operators made anew if more is known about a value's shape than the graph has."""
        if id(scope) not in self._specialized and _knows_more(value.shape, static_shape(tensor)):
            self._specialized[id(scope)] = Specialized(self.folding)

    # One operator ------------------------------------------------------------------------------------------------

    def _walk_operator(self, operator: Any, scope: Scope) -> None:
        """Note one operator: what it reads and makes, its layer and its cost."""
        inputs = [self.folding.find_value(tensor, scope) for tensor in operator.inputs]
        specialized = self._specialized.get(id(scope))
        tensors = operator.outputs if specialized is None else specialized.find_outputs(operator, inputs)
        made = []
        for index, (tensor, declared) in enumerate(zip(tensors, operator.outputs, strict=True)):
            inferred = static_shape(tensor)
            shape = read_shape(operator, index, inputs, inferred)
            value = self.folding.new_value(shape, declared.dtype.name, declared, scope)
            scope.values[declared.name] = value
            if shape != inferred:
                self._learn(scope, declared, value)
            elif specialized is not None:
                specialized.keep(value, tensor)
            made.append(value)
        note_elements(operator, inputs, made, self.folding.constant)
        owner = self.ownership.of(scope.graph, operator.name, scope.owner)
        if operator.type == "Merge" and all(tensor.op.type != "NextIteration" for tensor in operator.inputs):
            self.notes.add("of a condition of TensorFlow 1 all branches are counted")
        done = Executed(
            type=operator.type,
            name=operator.name,
            inputs=tuple(value.key for value in inputs),
            outputs=tuple((value.key, value.shape, value.dtype) for value in made),
            times=scope.times,
            owner=owner,
            input_bytes=sum(tensor_bytes(value.shape, value.dtype) for value in inputs),
            input_dtypes=tuple(value.dtype for value in inputs[:2]),
            equation=operator.get_attr("equation").decode() if operator.type == "Einsum" else "",
        )
        self.executed.append(done)
        scope.executed[operator.name] = done
        if not self._cover(owner, scope):
            self._price(done, operator, inputs, made)
            self._leave_out_padding(done, operator, scope)
            multiplied = scope.executed.get(find_weighted_rows(operator))
            if multiplied is not None:
                count_as_product(multiplied, done)

    def _price(self, done: Executed, operator: Any, inputs: Sequence[Value], made: Sequence[Value]) -> None:
        """Write its cost to an operator, by its formula."""
        call = OpCall(
            type=operator.type,
            inputs=Shapes([value.known_shape for value in inputs]),
            outputs=Shapes([value.known_shape for value in made]),
            input_dtypes=tuple(value.dtype for value in inputs),
            output_dtypes=tuple(value.dtype for value in made),
            attribute=lambda name: read_attribute(operator, name),
            value=lambda index: self.folding.constant(inputs[index]),
            is_gradient_of_einsum=bool(done.equation) and self._einsums.is_gradient(operator, done.equation),
        )
        price(done, call, self.uncounted)

    def _leave_out_padding(self, done: Executed, operator: Any, scope: Scope) -> None:
        """Subtract what a convolution computes on padding that only serves its dilation."""
        of_gradient = find_spread_share(self.folding, operator, scope)
        cropped = find_cropped_share(self.folding, operator, scope)
        if of_gradient is not None:
            done.scale(of_gradient)
        elif cropped is not None and cropped[0] in scope.executed:
            scope.executed[cropped[0]].scale(cropped[1])

    def _cover(self, owner: Owner, scope: Scope) -> bool:
        """Return whether a layer's formula covers an operator; add the formula's cost once for each call."""
        covering = owner.covered_by
        if covering is None or covering.cost is None:
            return False
        where: Scope | None = scope
        while where is not None and where.graph is not covering.graph:
            where = where.outer
        key = (id(covering), id(where))
        if key not in self._formulas_used:
            cost = covering.cost()
            if cost is None:
                covering.cost = None
                return self._cover(owner, scope)
            self._formulas_used.add(key)
            self.executed.append(make_layer_operator(covering, cost, where.times if where is not None else scope.times))
        return True

    # Operators that call further bodies ---------------------------------------------------------------------------

    def _walk_call(self, operator: Any, scope: Scope) -> None:
        """Walk the body of a function that an operator calls."""
        if read_attribute(operator, "_XlaMustCompile"):
            self.notes.add("what functions compiled by XLA allocate inside is not in the memory footprint")
        graph = body_named(scope.graph, operator.get_attr("f").name)
        arguments = [self.folding.find_value(tensor, scope) for tensor in operator.inputs]
        owner = self._find_owner_of_call(operator, graph, scope)
        results = self._walk_body(Scope(graph, arguments, scope, owner, scope.times, scope.find_used_outputs(operator)))
        self._bind(operator, results, scope)

    def _find_owner_of_call(self, operator: Any, graph: Any, scope: Scope) -> Owner:
        """Return the owner of a called function; a gradient's is that of the call that it is the gradient of."""
        forward = forward_function(scope.graph, operator.get_attr("f").name)
        if forward:
            self.ownership.note_gradient(graph, body_named(scope.graph, forward))
            for made in operator.inputs:
                if made.op.type in CALLS and made.op.get_attr("f").name == forward:
                    return self.ownership.of(scope.graph, made.op.name, scope.owner).of_gradient
        return self.ownership.of(scope.graph, operator.name, scope.owner)

    def _bind(self, operator: Any, results: Sequence[Value], scope: Scope) -> None:
        """Make these values the operator's outputs; a graph whose gradient was taken may return more of them."""
        for tensor, value in zip(operator.outputs, results[: len(operator.outputs)], strict=True):
            scope.values[tensor.name] = value
            self._learn(scope, tensor, value)

    def _walk_loop(self, operator: Any, scope: Scope) -> None:
        """Walk the body and the condition of a loop once, for all turns together."""
        body = body_named(scope.graph, operator.get_attr("body").name)
        condition = body_named(scope.graph, operator.get_attr("cond").name)
        first = [self.folding.find_value(tensor, scope) for tensor in operator.inputs]
        owner = self.ownership.of(scope.graph, operator.name, scope.owner)
        tests = Scope(condition, first, scope, owner)
        for tensor, value in zip(condition.inputs, tests.arguments, strict=True):
            tests.values[tensor.name] = value
        steps = counter_steps(self.folding, body, first)
        runs, may_stop = trip_count(self.folding, tests, steps)
        if runs is None:
            self.uncounted[f"{operator.type} (how often it runs is not known; counted once)"] += 1
        if runs == 0:
            self._bind(operator, first, scope)
            return
        start, choices, forks, spans = (len(item) for item in (self.executed, self.choices, self.forks, self.spans))
        needed = find_needed_variables(condition, body, scope.find_used_outputs(operator))
        results = self._iterate(body, first, steps, Scope(body, [], scope, owner, scope.times * (runs or 1), needed))
        self._walk_condition(
            Scope(condition, [], scope, owner, scope.times * (1 if runs is None else runs + 1)), first, results
        )
        self.spans.append((start, len(self.executed)))
        if may_stop or runs is None:
            has_limit = runs is not None
            self.choices[choices:] = may_stop_choice(self.executed[start:], self.choices[choices:], has_limit)
            inside = [(begin - start, end - start) for begin, end in self.spans[spans:]]
            every = Side(self.executed[start:], inside, [fork.shift(-start) for fork in self.forks[forks:]])
            self.forks[forks:] = [may_stop_fork(start, every, first, results, has_limit)]
        turns = [None if may_stop and not counts_runs(tensor) else runs for tensor in body.inputs]
        self._bind(operator, self._make_outputs(first, steps, results, turns, owner), scope)

    def _iterate(self, body: Any, first: Sequence[Value], steps: Sequence[float | None], scope: Scope) -> list[Value]:
        """Walk a loop's body with what is known in every run: of the first values, only those that do not change."""
        begins = list(first)
        while True:
            start, formulas = len(self.executed), set(self._formulas_used)
            for value, step, begin in zip(first, steps, begins, strict=True):
                scope.arguments.append(value if step == 0 else self._hand_on(value, begin, scope.owner))
            tried = self._try(scope)
            results = list(tried.results[: len(first)])
            common = [
                begin.common(value) if scope.needs(index) else begin
                for index, (begin, value) in enumerate(zip(begins, results, strict=True))
            ]
            if all(begin.is_known_as(value) for begin, value in zip(begins, common, strict=True)):
                self._take(tried)
                return results
            begins = common  # a variable that changes its shape from run to run
            del self.executed[start:]
            self._formulas_used = formulas
            scope = Scope(body, [], scope.outer, scope.owner, scope.times, scope.needed_outputs)

    def _walk_condition(self, scope: Scope, first: Sequence[Value], results: Sequence[Value]) -> None:
        """Walk a loop's condition, which runs once more than the body, and keep it if it costs anything."""
        for before, after in zip(first, results, strict=True):
            scope.arguments.append(self._hand_on(before, before.common(after), scope.owner))
        tried = self._try(scope)
        if tried.uncounted or any(tried.price[:2]):
            self._take(tried)

    def _make_outputs(
        self,
        first: Sequence[Value],
        steps: Sequence[float | None],
        results: Sequence[Value],
        turns: Sequence[int | None],
        owner: Owner,
    ) -> list[Value]:
        """Return the loop's outputs: the values of the last run, and the last number of each counter where it is known.

        ``turns`` is how often each of its variables has changed, None where that is not certain.
        """
        final = []
        for before, step, value, runs in zip(first, steps, results, turns, strict=True):
            start = self.folding.constant(before)
            if step == 0:
                value = before
            elif runs is None and self.folding.constant(value) is not None:  # it may not have run at all
                constant = agree_on_constant(self.folding, [before, value])
                value = self._hand_on(value, value, owner)
                value.constant = constant
            elif start is not None and start.size == 1 and step is not None and runs is not None:
                value = self._hand_on(value, value, owner)
                value.constant = counter_after(start, step, runs)
            final.append(value)
        return final

    def _hand_on(self, value: Value, description: Value, owner: Owner) -> Value:
        """Return a loop's variable: a new value with the bytes of ``value`` and the shape of ``description``."""
        twin = self.folding.new_value(description.shape, value.dtype, value.tensor)
        twin.elements, twin.length = description.elements, description.length
        made = ((twin.key, twin.shape, value.dtype),)
        self.executed.append(Executed("Identity", "", (value.key,), made, 1, owner, silent=True))
        return twin

    def _walk_branches(self, operator: Any, scope: Scope) -> None:
        """Walk every branch that may be taken and keep the most expensive one."""
        arguments = [self.folding.find_value(tensor, scope) for tensor in list(operator.inputs)[1:]]
        owner = self.ownership.of(scope.graph, operator.name, scope.owner)
        names = branch_names(operator, self.folding.constant(self.folding.find_value(operator.inputs[0], scope)))
        used = scope.find_used_outputs(operator)
        tried = [
            self._try(Scope(body_named(scope.graph, name), arguments, scope, owner, scope.times, used))
            for name in names
        ]
        taken = most_expensive(tried)
        self._take(replace(taken, choices=make_choice(tried, taken), forks=make_fork(tried, taken, sorted(used))))
        results = list(taken.results)
        for index in sorted(used) if len(tried) > 1 else ():
            common = agree(self.folding, results[index], [branch.results[index] for branch in tried])
            if common is not results[index]:
                results[index] = self._hand_on(results[index], common, owner)
                results[index].constant = common.constant
        self._bind(operator, results, scope)

    def _try(self, scope: Scope) -> Tried:
        """Walk a body and return what that adds, without adding it."""
        kept = self.executed, self.spans, self.uncounted, self.choices, self.forks
        self.executed, self.spans, self.uncounted, self.choices, self.forks = [], [], Counter(), [], []
        try:
            return Tried(self._walk_body(scope), self.executed, self.spans, self.uncounted, self.choices, self.forks)
        finally:
            self.executed, self.spans, self.uncounted, self.choices, self.forks = kept

    def _take(self, tried: Tried) -> None:
        """Add what a walk over a body has returned."""
        before = len(self.executed)
        self.executed += tried.executed
        self.spans += [(start + before, end + before) for start, end in tried.spans]
        self.uncounted += tried.uncounted
        self.choices += tried.choices
        self.forks += [fork.shift(before) for fork in tried.forks]


def _knows_more(shape: PartialShape, declared: PartialShape) -> bool:
    """Return whether a shape has a dimension that is unknown in another."""
    if declared is None or shape is None:
        return declared is None and shape is not None
    return any(size is not None and other is None for size, other in zip(shape, declared, strict=False))
