"""The layers that the names of a converted Keras model tell: the table at the top of `keras_scopes`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from profilerkit.backend_kit.keras_scopes import find_keras_layers, find_keras_name


class Node(NamedTuple):
    name: str
    input: Sequence[str] = ()
    output: Sequence[str] = ()
    op_type: str = "MatMul"


def test_names_tell_layers_and_calls() -> None:
    layers = {
        "net_1/dense_1/MatMul": (("dense", 0),),
        "net_1/dense_3/MatMul": (("dense", 1),),
        "net_1/dense_1_2/MatMul": (("dense_1", 0),),
        "net_1/norm_1/moments/mean": (("norm", 0),),
        "net_1/cell_1/mix/MatMul": (("cell", 0),),
        "net_1/cell_1/mix_1/MatMul": (("cell", 0),),
        "net_1/Add": (),
        "Transpose__216": (),
    }
    nodes = [Node(name) for name in layers]
    assert dict(zip(layers, find_keras_layers(nodes), strict=True)) == layers
    assert find_keras_name(nodes) == "net"


def test_scopes_without_numbers_are_names_of_layers() -> None:
    nodes = [Node("net/dense_1/MatMul"), Node("net/dense/MatMul")]
    assert find_keras_layers(nodes) == [(("dense_1", 0),), (("dense", 0),)]


def test_a_node_in_no_layer_is_looked_through() -> None:
    """Between two parts of ``head``: an addition in the model itself, and a node without a name."""
    nodes = [
        Node("net_1/head_1/MatMul", output=["a"]),
        Node("net_1/Add", ["a"], ["b"]),
        Node("Transpose__1", ["b"], ["c"]),
        Node("net_1/head_1/MatMul_1", ["c"], ["d"]),
    ]
    assert [[call.path for call in calls] for calls in find_keras_layers(nodes)] == [["head"], [], ["head"], ["head"]]


def test_models_without_a_common_scope_have_no_name() -> None:
    nodes = [Node("one/dense/MatMul"), Node("other/dense/MatMul")]
    assert find_keras_name(nodes) == ""
    assert [[call.path for call in calls] for calls in find_keras_layers(nodes)] == [
        ["one", "one.dense"],
        ["other", "other.dense"],
    ]
    assert (find_keras_name([]), find_keras_layers([])) == ("", [])
