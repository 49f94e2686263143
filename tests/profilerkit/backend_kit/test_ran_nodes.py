"""Times of nodes that a runtime has fused: a product and its activation in one node, and a copy beside it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from profilerkit.backend_kit.graph_work import Executed
from profilerkit.backend_kit.named_layers import Scopes
from profilerkit.backend_kit.ran_nodes import RanGraph, make_node, time_layers, time_operators
from profilerkit.backend_kit.scoped_calls import Scope

ROOT = Scope("")
CHAINS = [(ROOT, Scope("dense")), (ROOT, Scope("act")), (ROOT, Scope("dense", 1))]
PATHS = ["dense", "act", "dense"]
PRODUCT, RELU = Executed("MatMul", 0, (), (), flops=20), Executed("Relu", 1, (), (), flops=2)
AGAIN = Executed("MatMul", 2, (), (), flops=20)
FUSED = replace(make_node("fused", "FullyConnected", [RELU, PRODUCT], PATHS), seconds=(3.0, 5.0))
LAST = replace(make_node("last", "FullyConnected", [AGAIN], PATHS), seconds=(1.0, 1.0))
COPY = replace(make_node("copy", "Reorder", [], PATHS, near=1), seconds=(0.5, 0.5))
WHOLE = (6.0, 8.0)
RAN = RanGraph([FUSED, COPY, LAST], WHOLE, Scopes(CHAINS, {"": "Net", "dense": "Linear", "act": "ReLU"}))


def test_a_fused_node_is_of_the_layer_with_most_arithmetic() -> None:
    assert (FUSED.layer, FUSED.others) == ("dense", ("act",))
    assert [(op.name, op.layer) for op in FUSED.called.inside] == [("Relu", "act"), ("MatMul", "dense")]
    assert (COPY.layer, COPY.called.is_free, FUSED.called.is_free) == ("act", True, False)
    assert make_node("strange", "Reorder", [], PATHS).called.is_free is False


@pytest.mark.parametrize(
    ("work", "layer"),
    [
        ([("a", 10), ("a", 10), ("b", 15)], "a"),  # 20 of 35, though the largest operator is of "b"
        ([("b", 15), ("a", 7), ("", 4), ("a", 7)], "b"),
        ([("b", 15), ("", 8), ("a", 7), ("", 8)], ""),
        ([("b", 0), ("a", 0)], "b"),
    ],
)
def test_the_arithmetic_of_a_layer_is_that_of_all_its_operators(work: list[tuple[str, int]], layer: str) -> None:
    covered = [Executed("Add", index, (), (), flops=flops) for index, (_, flops) in enumerate(work)]
    assert make_node("fused", "Fused", covered, [path for path, _ in work]).layer == layer


def test_operators_of_one_name_and_layer_are_one_row() -> None:
    times = time_operators(RAN)
    rows = {(row.operator, row.layer): (row.calls, row.seconds) for row in times.operators}
    assert rows == {("FullyConnected", "dense"): (2, (4.0, 6.0)), ("Reorder", "act"): (1, (0.5, 0.5))}
    assert times.whole == {"forward": WHOLE}
    assert times.remarks == ("FullyConnected of layer 'dense' does the work of 'act' too: the runtime has fused them",)


def test_the_model_itself_is_named_in_words_and_a_remark_stands_once() -> None:
    """A graph may have many nodes of one kind in one layer."""
    paths = ["", "act"]
    swapped = [replace(PRODUCT, node=1), replace(RELU, node=0)]
    host = replace(make_node("host", "Fused", [PRODUCT, RELU], paths), seconds=(1.0,))
    guest = replace(make_node("guest", "Fused", swapped, paths), seconds=(2.0,))
    ran = RanGraph([host, host, guest], (5.0,), Scopes([(ROOT,), (ROOT, Scope("act"))], {"": "Net", "act": "ReLU"}))
    assert time_operators(ran).remarks == (
        "Fused of the model itself does the work of 'act' too: the runtime has fused them",
        "Fused of layer 'act' does the work of the model itself too: the runtime has fused them",
    )
    assert [layer.missing for layer in time_layers(ran)] == [
        "",  # nothing is missing from the whole
        "has the time of the model itself too, which the runtime has fused with it; is fused into the model itself, "
        "which has the time",
    ]


def test_layers_add_up_to_the_whole_pass() -> None:
    times = time_layers(RAN)
    assert [(layer.path, layer.calls, layer.own_forward) for layer in times] == [
        ("", 1, (1.5, 1.5)),
        ("dense", 2, (4.0, 6.0)),
        ("act", 1, (0.5, 0.5)),
    ]
    assert [layer.missing for layer in times] == [
        "",
        "has the time of 'act' too, which the runtime has fused with it",
        "is fused into 'dense', which has the time",
    ]
