"""Graphs inside operators: branches, loops, calls. Each body is a product of 4 x 4, 16 multiply-accumulates a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("ai_edge_litert")
import numpy as np
from litert_models import GraphBuilder, options, write_model

from profilerkit import ModelInputs
from profilerkit.backend_kit.graph_traces import FOLLOWED
from profilerkit.trace import ModelTrace
from profilerkit.trace.bounds import Bounds
from profilerkit_litert import LiteRTBackend, LiteRTModel

F = np.float32
BACKEND = LiteRTBackend()


def products(builder: GraphBuilder, x: int, number: int) -> int:
    weight = builder.constant("w", np.ones((4, 4), F))
    for _ in range(number):
        x = builder.add("FULLY_CONNECTED", [x, weight, -1], (-1, 4), options=options("FullyConnected"))
    return x


class Graphs:
    """A model of several graphs, the main one first."""

    def __init__(self) -> None:
        self.main = GraphBuilder()
        self.graphs = [self.main]
        self.outputs: list[dict[str, int]] = [{}]

    def graph(self, build: Callable[[GraphBuilder], dict[str, int]]) -> int:
        builder = GraphBuilder(self.main.buffers, f"graph_{len(self.graphs)}")
        self.graphs.append(builder)
        self.outputs.append(build(builder))
        return len(self.graphs) - 1

    def body(self, number: int) -> int:
        return self.graph(lambda builder: {"y": products(builder, builder.input("x", (-1, 4)), number)})

    def trace(self, result: int, **inputs: Any) -> ModelTrace:
        self.outputs[0] = {"y": result}
        model = LiteRTModel(write_model(self.graphs, self.outputs, {"serving": 0}))
        trace = BACKEND.trace(model, ModelInputs(**inputs))
        assert trace.failure is None, trace.failure
        return trace


X = np.ones((3, 4), F)


def test_a_branch_that_the_input_chooses_is_counted_alone() -> None:
    graphs = Graphs()
    x, choice = graphs.main.input("x", (-1, 4)), graphs.main.input("choice", (), "bool")
    chosen = options("If", thenSubgraphIndex=graphs.body(1), elseSubgraphIndex=graphs.body(3))
    y = graphs.main.add("IF", [choice, x], (-1, 4), options=chosen)
    trace = graphs.trace(y, x=X, choice=np.asarray(True))
    assert (trace.macs, trace.missing, trace.choices, trace.notes) == (48, (), (), (FOLLOWED,))
    assert trace.total_params == 2 * 16  # one weight in each branch


def test_a_state_that_a_variable_keeps_chooses_no_branch() -> None:
    """In the first call it is false, and later calls find another."""
    graphs = Graphs()
    x, choice = graphs.main.input("x", (-1, 4)), graphs.main.tensor("state", (), "bool", isVariable=True)
    chosen = options("If", thenSubgraphIndex=graphs.body(1), elseSubgraphIndex=graphs.body(3))
    trace = graphs.trace(graphs.main.add("IF", [choice, x], (-1, 4), options=chosen), x=X)
    assert trace.bounds("macs") == Bounds(48, 3 * 48)


def test_of_two_branches_the_dearer_is_counted() -> None:
    graphs = Graphs()
    x = graphs.main.input("x", (-1, 4))
    weight = graphs.main.constant("threshold", np.zeros((), F))
    total = graphs.main.add("SUM", [x, graphs.main.constant("axes", np.array([0, 1], np.int32))], ())
    choice = graphs.main.add("GREATER", [total, weight], (), dtype="bool")
    chosen = options("If", thenSubgraphIndex=graphs.body(1), elseSubgraphIndex=graphs.body(3))
    trace = graphs.trace(graphs.main.add("IF", [choice, x], (-1, 4), options=chosen), x=X)
    assert trace.macs == 3 * 48
    bounds = trace.bounds("macs")
    assert (bounds.low, bounds.high) == (48, 3 * 48)
    assert "the condition of an IF in 'the model' depends on values" in trace.choices[0].reason


@pytest.mark.parametrize("given", [True, False, None])
def test_what_any_branch_may_read_is_alive_until_the_if(given: bool | None) -> None:
    """At the second sum: x (48 bytes), ten copies and their sum, eight copies and their sum, and what is given."""
    graphs = Graphs()
    main, x = graphs.main, graphs.main.input("x", (-1, 4))
    axes = main.constant("axes", np.array([0, 1], np.int32))

    def copy(number: int) -> int:
        copies: int = main.add("CONCATENATION", [x] * number, (-1, 4), options=options("Concatenation", axis=0))
        return copies

    def read(index: int) -> int:
        def body(builder: GraphBuilder) -> dict[str, int]:
            arguments = [builder.input("x", (-1, 4)), builder.input("ten", (-1, 4))]
            last = builder.constant("axes", np.array([0, 1], np.int32))
            source = arguments[index] if index else products(builder, arguments[0], 1)
            return {"y": builder.add("SUM", [source, last], ())}

        return graphs.graph(body)

    given_choice = None if given is None else main.input("choice", (), "bool")
    ten = copy(10)
    first = main.add("SUM", [ten, axes], ())
    second = main.add("SUM", [copy(8), axes], ())
    threshold = main.constant("threshold", np.zeros((), F))
    choice = main.add("GREATER", [first, threshold], (), dtype="bool") if given_choice is None else given_choice
    chosen = options("If", thenSubgraphIndex=read(0), elseSubgraphIndex=read(1))
    made = main.add("IF", [choice, x, ten], (), options=chosen)
    made = main.add("ADD", [made, first], (), options=options("Add"))
    result = main.add("ADD", [made, second], (), options=options("Add"))
    inputs = {"x": X} if given is None else {"x": X, "choice": np.asarray(given)}
    trace = graphs.trace(result, **inputs)
    given_bytes = 0 if given is None else 1
    assert trace.memory.peak_bytes(include_weights=False) == 48 + given_bytes + 480 + 4 + 384 + 4


def test_a_choice_inside_a_branch_that_is_known() -> None:
    """The branch that is taken has one product or three; the other one, of nine, counts for nothing."""
    graphs = Graphs()
    first, second, other = graphs.body(1), graphs.body(3), graphs.body(9)

    def choose_by_values(builder: GraphBuilder) -> dict[str, int]:
        x = builder.input("x", (-1, 4))
        total = builder.add("SUM", [x, builder.constant("axes", np.array([0, 1], np.int32))], ())
        choice = builder.add("GREATER", [total, builder.constant("threshold", np.zeros((), F))], (), dtype="bool")
        chosen = options("If", thenSubgraphIndex=first, elseSubgraphIndex=second)
        return {"y": builder.add("IF", [choice, x], (-1, 4), options=chosen)}

    taken = graphs.graph(choose_by_values)
    x, yes = graphs.main.input("x", (-1, 4)), graphs.main.constant("yes", np.asarray(True))
    chosen = options("If", thenSubgraphIndex=taken, elseSubgraphIndex=other)
    trace = graphs.trace(graphs.main.add("IF", [yes, x], (-1, 4), options=chosen), x=X)
    bounds = trace.bounds("macs")
    assert (trace.macs, bounds.low, bounds.high) == (3 * 48, 48, 3 * 48)


def count_turns(graphs: Graphs, *, grows: bool = False) -> Any:
    """Return the options of ``while i < turns: x = x @ w; i += 1``; a body that grows joins x with itself."""

    def condition(builder: GraphBuilder) -> dict[str, int]:
        i, _, most = builder.input("i", (), "int32"), builder.input("x", (-1, 4)), builder.input("turns", (), "int32")
        return {"y": builder.add("LESS", [i, most], (), dtype="bool")}

    def body(builder: GraphBuilder) -> dict[str, int]:
        i, x, most = builder.input("i", (), "int32"), builder.input("x", (-1, 4)), builder.input("turns", (), "int32")
        x = products(builder, x, 1)
        if grows:
            x = builder.add("CONCATENATION", [x, x], (-1, 4), options=options("Concatenation", axis=0))
        one = builder.constant("one", np.asarray(1, np.int32))
        return {"i": builder.add("ADD", [i, one], (), dtype="int32", options=options("Add")), "x": x, "turns": most}

    return options("While", condSubgraphIndex=graphs.graph(condition), bodySubgraphIndex=graphs.graph(body))


def loop(turns: Any, *, grows: bool = False) -> ModelTrace:
    """Return the trace of such a loop on x."""
    graphs = Graphs()
    main = graphs.main
    x = main.input("x", (-1, 4))
    limit = (
        main.constant("turns", np.asarray(turns, np.int32)) if turns is not None else main.input("turns", (), "int32")
    )
    chosen = count_turns(graphs, grows=grows)
    start = main.constant("start", np.asarray(0, np.int32))
    made = main.add("WHILE", [start, x, limit], (), (-1, 4), (), options=chosen)
    inputs = {"x": X} if turns is not None else {"x": X, "turns": np.asarray(5, np.int32)}
    return graphs.trace(made[1], **inputs)


def test_a_loop_counts_as_often_as_it_runs() -> None:
    trace = loop(7)
    assert (trace.macs, trace.missing) == (7 * 48, ())
    assert [op.macs for op in trace.operators if op.operator == "FULLY_CONNECTED"] == [7 * 48]
    assert trace.layers[0].calls[0].outputs[0].shape == (3, 4)


def test_a_state_with_which_a_loop_begins_is_no_parameter() -> None:
    """The body multiplies with 16 weights; the 12 zeros that it begins with are a buffer."""
    graphs = Graphs()
    main = graphs.main
    main.input("x", (-1, 4))
    start = [main.constant("start", np.asarray(0, np.int32)), main.constant("zeros", np.zeros((3, 4), F))]
    limit = main.constant("turns", np.asarray(2, np.int32))
    made = main.add("WHILE", [*start, limit], (), (-1, 4), (), options=count_turns(graphs))
    trace = graphs.trace(made[1], x=X)
    assert (trace.total_params, sorted(weight.count for weight in trace.buffers)) == (16, [12])
    assert trace.macs == 2 * 48


def test_of_a_loop_that_does_not_run_the_condition_does() -> None:
    """It makes an exponential of each of 12 numbers, beside a comparison that tells that no turn is taken."""
    assert loop(0).macs == 0
    graphs = Graphs()
    main = graphs.main

    def condition(builder: GraphBuilder) -> dict[str, int]:
        i, x = builder.input("i", (), "int32"), builder.input("x", (-1, 4))
        builder.add("EXP", [x], (-1, 4))
        return {"y": builder.add("LESS", [i, builder.constant("none", np.asarray(0, np.int32))], (), dtype="bool")}

    def body(builder: GraphBuilder) -> dict[str, int]:
        return {"i": builder.input("i", (), "int32"), "x": products(builder, builder.input("x", (-1, 4)), 1)}

    chosen = options("While", condSubgraphIndex=graphs.graph(condition), bodySubgraphIndex=graphs.graph(body))
    start = main.constant("start", np.asarray(0, np.int32))
    made = main.add("WHILE", [start, main.input("x", (-1, 4))], (), (-1, 4), options=chosen)
    trace = graphs.trace(made[1], x=X)
    assert (trace.macs, trace.flops, trace.missing) == (0, 12, ())


def test_a_number_of_turns_that_is_given_is_known() -> None:
    assert loop(None).macs == 5 * 48


def test_a_loop_whose_values_grow_is_named() -> None:
    """1 + 2 + 4 rows are multiplied; a body that is gone over once for all turns cannot say so."""
    trace = loop(3, grows=True)
    assert "FULLY_CONNECTED of unknown shape (3 calls)" in trace.missing


def test_a_loop_without_operators_that_never_ends_is_named() -> None:
    """Its condition is a constant, and its body returns what it takes: nothing in it counts the turns."""
    graphs = Graphs()
    main = graphs.main
    x = main.input("x", (-1, 4))

    def condition(builder: GraphBuilder) -> dict[str, int]:
        builder.input("x", (-1, 4))
        return {"y": builder.constant("always", np.asarray(True))}

    def body(builder: GraphBuilder) -> dict[str, int]:
        return {"y": builder.input("x", (-1, 4))}

    chosen = options("While", condSubgraphIndex=graphs.graph(condition), bodySubgraphIndex=graphs.graph(body))
    trace = graphs.trace(main.add("WHILE", [x], (-1, 4), options=chosen), x=X)
    assert trace.missing == ("WHILE of an unknown number of turns (1 call)",)


def test_a_loop_of_unknown_length_is_counted_once_and_named() -> None:
    graphs = Graphs()
    main = graphs.main
    x = main.input("x", (-1, 4))

    def condition(builder: GraphBuilder) -> dict[str, int]:
        value = builder.input("x", (-1, 4))
        total = builder.add("SUM", [value, builder.constant("axes", np.array([0, 1], np.int32))], ())
        return {"y": builder.add("LESS", [total, builder.constant("most", np.asarray(9, F))], (), dtype="bool")}

    chosen = options("While", condSubgraphIndex=graphs.graph(condition), bodySubgraphIndex=graphs.body(1))
    trace = graphs.trace(main.add("WHILE", [x], (-1, 4), options=chosen), x=X)
    assert trace.macs == 48
    assert trace.missing == ("WHILE of an unknown number of turns (1 call)",)


@pytest.mark.parametrize(("sizes", "macs", "flops"), [((2, 3, 4), 0, 2 * 3 * 4 * 6), ((2, -1, 4), 0, 0)])
def test_windows_count_what_joins_two_elements_as_often_as_it_does(
    sizes: tuple[int, ...], macs: int, flops: int
) -> None:
    """A maximum of windows of 1 x 2 x 3 elements, as litert-torch writes a pooling of volumes."""
    graphs = Graphs()

    def join(builder: GraphBuilder) -> dict[str, int]:
        pair = [builder.input(name, ()) for name in ("a", "b")]
        return {"y": builder.add("MAXIMUM", pair, ())}

    chosen = options("StablehloReduceWindow", windowDimensions=[1, 2, 3], bodySubgraphIndex=graphs.graph(join))
    x, start = graphs.main.input("x", (2, 6, 12)), graphs.main.constant("start", np.asarray(0, F))
    made = graphs.main.add("STABLEHLO_REDUCE_WINDOW", [x, start], sizes, options=chosen)
    trace = graphs.trace(made, x=np.ones((2, 6, 12), F))
    assert (trace.macs, trace.flops) == (macs, flops)
    assert trace.missing == (() if flops else ("STABLEHLO_REDUCE_WINDOW of unknown shape (1 call)",))


def test_a_scatter_counts_what_joins_two_elements_once_for_each_update() -> None:
    graphs = Graphs()

    def join(builder: GraphBuilder) -> dict[str, int]:
        pair = [builder.input(name, ()) for name in ("a", "b")]
        return {"y": builder.add("ADD", pair, (), options=options("Add"))}

    chosen = options("StablehloScatter", updateComputationSubgraphIndex=graphs.graph(join))
    x, updates = graphs.main.input("x", (5, 4)), graphs.main.input("updates", (3, 4))
    places = graphs.main.constant("places", np.asarray([[0], [2], [2]], np.int32))
    made = graphs.main.add("STABLEHLO_SCATTER", [x, places, updates], (5, 4), options=chosen)
    trace = graphs.trace(made, x=np.ones((5, 4), F), updates=np.ones((3, 4), F))
    assert (trace.flops, trace.missing) == (3 * 4, ())


def test_what_runs_once_counts_as_nothing() -> None:
    graphs = Graphs()
    x = graphs.main.input("x", (-1, 4))

    def prepare(builder: GraphBuilder) -> dict[str, int]:
        return {"y": products(builder, builder.constant("table", np.ones((8, 4), F)), 1)}

    graphs.main.add("CALL_ONCE", [], options=options("CallOnce", initSubgraphIndex=graphs.graph(prepare)))
    trace = graphs.trace(products(graphs.main, x, 1), x=X)
    assert trace.macs == 48
    assert trace.total_params == 8 * 4 + 2 * 16  # what it prepares is in the file too
    assert "CALL_ONCE prepares variables and tables before the first pass: it counts as nothing" in trace.notes


@pytest.mark.parametrize(
    ("operator", "name", "option"),
    [("CALL", "Call", "subgraph"), ("STABLEHLO_COMPOSITE", "StableHLOComposite", "decompositionSubgraphIndex")],
)
def test_a_call_counts_as_what_it_calls(operator: str, name: str, option: str) -> None:
    graphs = Graphs()
    x = graphs.main.input("x", (-1, 4))
    y = graphs.main.add(operator, [x], (-1, 4), options=options(name, **{option: graphs.body(2)}))
    assert graphs.trace(y, x=X).macs == 2 * 48


def test_a_graph_that_calls_itself_is_an_error() -> None:
    graphs = Graphs()
    x = graphs.main.input("x", (-1, 4))

    def again(builder: GraphBuilder) -> dict[str, int]:
        return {"y": builder.add("CALL", [builder.input("x", (-1, 4))], (-1, 4), options=options("Call", subgraph=1))}

    y = graphs.main.add("CALL", [x], (-1, 4), options=options("Call", subgraph=graphs.graph(again)))
    graphs.outputs[0] = {"y": y}
    model = LiteRTModel(write_model(graphs.graphs, graphs.outputs, {"serving": 0}))
    assert "the graph 'graph_1' calls itself; convert the model again" in str(
        BACKEND.trace(model, ModelInputs(x=X)).failure
    )


def test_graphs_that_double_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty graphs, each of which calls the one before twice, are a million million operators."""
    monkeypatch.setattr("profilerkit_litert.trace.walk._MOST_OPERATORS", 1000)
    graphs = Graphs()
    x, last = graphs.main.input("x", (-1, 4)), graphs.body(1)
    for _ in range(40):

        def twice(builder: GraphBuilder, called: int = last) -> dict[str, int]:
            chosen = options("Call", subgraph=called)
            once = builder.add("CALL", [builder.input("x", (-1, 4))], (-1, 4), options=chosen)
            return {"y": builder.add("CALL", [once], (-1, 4), options=chosen)}

        last = graphs.graph(twice)
    graphs.outputs[0] = {"y": graphs.main.add("CALL", [x], (-1, 4), options=options("Call", subgraph=last))}
    model = LiteRTModel(write_model(graphs.graphs, graphs.outputs, {"serving": 0}))
    assert "call one another for more than 1,000 operators" in str(BACKEND.trace(model, ModelInputs(x=X)).failure)


def test_a_graph_that_is_not_there_is_named() -> None:
    graphs = Graphs()
    y = graphs.main.add("CALL", [graphs.main.input("x", (-1, 4))], (-1, 4), options=options("Call", subgraph=9))
    graphs.outputs[0] = {"y": y}
    model = LiteRTModel(write_model(graphs.graphs, graphs.outputs, {"serving": 0}))
    assert "it has no graph 9" in str(BACKEND.trace(model, ModelInputs(x=X)).failure)


def test_variables_that_nothing_prepares_are_said() -> None:
    """Their values are not in the file: the parameters are a lower bound."""
    graphs = Graphs()
    x = graphs.main.input("x", (-1, 4))
    handle = graphs.main.add("VAR_HANDLE", [], (), dtype="resource", options=options("VarHandle"))
    weight = graphs.main.add("READ_VARIABLE", [handle], (4, 4))
    y = graphs.main.add("FULLY_CONNECTED", [products(graphs.main, x, 1), weight, -1], (-1, 4))
    trace = graphs.trace(y, x=X)
    assert (trace.macs, trace.total_params) == (2 * 48, 16)
    assert trace.unmade_weights == "1 variable, whose values are not in the file"


def test_graphs_in_a_long_row_are_no_error_of_the_interpreter() -> None:
    graphs = Graphs()
    x, last = graphs.main.input("x", (-1, 4)), graphs.body(1)
    for _ in range(1500):

        def call(builder: GraphBuilder, called: int = last) -> dict[str, int]:
            inside = [builder.input("x", (-1, 4))]
            return {"y": builder.add("CALL", inside, (-1, 4), options=options("Call", subgraph=called))}

        last = graphs.graph(call)
    graphs.outputs[0] = {"y": graphs.main.add("CALL", [x], (-1, 4), options=options("Call", subgraph=last))}
    model = LiteRTModel(write_model(graphs.graphs, graphs.outputs, {"serving": 0}))
    assert BACKEND.trace(model, None).total_params == 16
    failure = BACKEND.trace(model, ModelInputs(x=X)).failure
    assert failure is not None
    assert "RecursionError" in str(failure)
