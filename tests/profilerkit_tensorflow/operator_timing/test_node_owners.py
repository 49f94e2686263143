"""Whose a node is that ran, and whether it computes gradients: for real profiles, by nothing but names and graphs."""

from __future__ import annotations

import functools
from typing import Any

import keras
import tensorflow as tf

from profilerkit import ModelInputs
from profilerkit_tensorflow.operator_timing.node_owners import NodeOwners, NodePlace, count_graph_runs
from profilerkit_tensorflow.operator_timing.profiler_session import PassTimes, op_seconds
from profilerkit_tensorflow.trace.program import Program, trace_program
from profilerkit_tensorflow.untouched.preservation import preserve

L = keras.layers


def ran(model: Any, x: Any, training: bool) -> tuple[Program, PassTimes]:
    """The program of a model, and what one pass of it took."""
    with preserve(model, variable_values=True):
        program = trace_program(model, ModelInputs(x), training=training)
        function = tf.function(functools.partial(program.concrete), autograph=False)
        (times,) = op_seconds(lambda: function(x), 1)
    return program, times


def place_nodes(model: Any, x: Any, training: bool = True) -> list[tuple[str, NodePlace]]:
    """Where each node of a pass belongs, with the last part of its name."""
    program, times = ran(model, x, training)
    return list(NodeOwners(program).locate(times).items())


def find_layers(model: Any, x: Any, kind: str, backward: bool = True) -> set[str]:
    """The layers that have a node of a type."""
    return {place.owner.path for _, place in place_nodes(model, x) if place.type == kind and place.backward == backward}


def test_gradients_made_in_the_scope_of_a_layer_are_the_layers() -> None:
    # The tape names the gradients of a softmax and of a mean by the layer's scope, after no operator of the layer's.
    layers = [L.GlobalAveragePooling1D(name="pool"), L.Dense(3, activation="softmax", name="dense")]
    nodes = place_nodes(keras.Sequential([keras.Input((5, 4)), L.Dense(4, name="first"), *layers]), tf.ones([2, 5, 4]))
    sums = {executed: place.owner.path for executed, place in nodes if place.backward and place.type in ("Sum", "Tile")}
    assert set(sums.values()) >= {"pool", "dense"}
    assert "" not in {place.owner.path for _, place in nodes if place.backward}


def test_the_sum_of_two_gradients_is_the_models() -> None:
    inputs = keras.Input((8, 8, 3))
    first = L.Conv2D(4, 3, padding="same", name="first")(inputs)
    other = L.Conv2D(4, 3, padding="same", name="other")(first)
    model = keras.Model(inputs, L.Add(name="add")([first, other]))
    assert find_layers(model, tf.ones([2, 8, 8, 3]), "AddN") == {""}


def test_the_users_own_gradients_are_of_the_forward_pass() -> None:
    class Force(L.Layer):  # type: ignore[misc,name-defined,unused-ignore]
        def call(self, x: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(x)
                energy = tf.tanh(x)
            return tape.gradient(energy, x)

    model = keras.Sequential([keras.Input((4,)), L.Dense(4, name="dense"), Force(name="force")])
    nodes = place_nodes(model, tf.ones([2, 4]))
    assert {place.backward for _, place in nodes if place.type == "TanhGrad"} == {False, True}
    assert {place.owner.path for _, place in nodes if place.type == "TanhGrad"} == {"force"}


def test_in_inference_nothing_is_backward() -> None:
    model = keras.Sequential([keras.Input((4,)), L.Dense(4)])
    assert {place.backward for _, place in place_nodes(model, tf.ones([2, 4]), training=False)} == {False}


class Deep(tf.Module):  # type: ignore[misc,name-defined,unused-ignore]
    """Calls a layer in a loop, in a branch, and in a function that does nothing but call another."""

    def __init__(self) -> None:
        super().__init__(name="deep")
        self.looped, self.branch, self.called = (L.Dense(4) for _ in range(3))
        for layer in (self.looped, self.branch, self.called):
            layer.build((None, 4))

    @tf.function  # type: ignore[untyped-decorator,unused-ignore]
    def loop(self, x: Any) -> Any:
        for _ in tf.range(3):
            x = self.looped(x)
        return x

    @tf.function  # type: ignore[untyped-decorator,unused-ignore]
    def choose(self, x: Any) -> Any:
        if tf.reduce_sum(x) > -1e30:
            x = self.branch(x)
        return x

    @tf.function  # type: ignore[untyped-decorator,unused-ignore]
    def outer(self, x: Any) -> Any:
        return self.inner(x)

    @tf.function  # type: ignore[untyped-decorator,unused-ignore]
    def inner(self, x: Any) -> Any:
        return self.called(x)

    def __call__(self, x: Any) -> Any:
        return self.outer(self.choose(self.loop(x)))


def test_loops_branches_and_functions_lead_to_the_layers_inside() -> None:
    module, x = Deep(), tf.ones([2, 4])
    everyone = {"looped", "branch", "called"}
    assert {
        place.owner.path for _, place in place_nodes(module, x, training=False) if place.type == "MatMul"
    } == everyone
    assert find_layers(module, x, "MatMul") == everyone


def test_a_loops_body_runs_once_a_round() -> None:
    module, x = Deep(), tf.ones([2, 4])
    program, times = ran(module, x, training=False)
    runs = count_graph_runs(times, NodeOwners(program).locate(times))
    called = {call.path: runs.get(id(call.graph), 0) for call in program.calls.ownership.calls if call.path}
    assert called == {"looped": 3, "branch": 1, "called": 1}


def test_the_layers_in_one_kernel_are_named() -> None:
    layers = [L.Conv2D(4, 3, name="conv"), L.ReLU(name="relu")]
    model = keras.Sequential([keras.Input((12, 12, 3)), *layers])
    nodes = place_nodes(model, tf.ones([2, 12, 12, 3]), training=False)
    (convolution,) = (place for _, place in nodes if place.type == "Conv2D")
    assert convolution.owner.path == "conv"
    apart = any(place.type == "Relu" and place.owner.path == "relu" for _, place in nodes)
    assert convolution.merged == (() if apart else ("relu",))


def test_what_the_graph_does_not_know_is_the_models() -> None:
    program = trace_program(keras.Sequential([keras.Input((4,)), L.Dense(4)]), ModelInputs(tf.ones([2, 4])))
    owners = NodeOwners(program)
    assert owners._locate(("nowhere/PartitionedCall", "some/node"), "Mul", set()).owner.path == ""
    assert owners._locate(("cluster_0",), "_XlaRun", set()).backward is False
