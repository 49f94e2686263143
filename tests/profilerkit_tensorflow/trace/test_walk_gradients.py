"""Training steps of models that are more than a row of layers: gradients through functions, loops and branches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
from one_product import ONE, W, X
from small import own_macs, trace_complete, trace_complete_step

from profilerkit import profile
from profilerkit.backend_kit.graph_traces import NO_BACKWARD_PASS


def test_in_training_a_called_function_computes_the_gradients_that_are_used() -> None:
    """The input is no variable: its gradient, which the function's gradient has too, is for nobody."""

    class Model(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.kernel = tf.Variable(W)

        @tf.function  # type: ignore[untyped-decorator]
        def __call__(self, x: Any) -> Any:
            return x @ self.kernel

    class Twice(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = Model(), Model()

        def __call__(self, x: Any) -> Any:
            return self.second(self.first(x))

    assert own_macs(trace_complete_step(Twice(), X)) == {"first": 2 * ONE, "second": 3 * ONE}


def test_custom_gradients() -> None:
    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def product(x: Any, kernel: Any) -> Any:
        def gradient(dy: Any) -> Any:
            return dy, tf.transpose(x) @ dy @ W  # one product more than the real one

        return x @ kernel, gradient

    class Model(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.kernel = tf.Variable(W)

        def __call__(self, x: Any) -> Any:
            return product(x, self.kernel)

    assert trace_complete(Model(), X).macs == ONE
    assert trace_complete_step(Model(), X).macs == ONE + 3 * 2 * 3 + 3 * 3 * 3


class Scaled(tf.Module):  # type: ignore[misc]
    """Multiplies with a matrix of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = tf.Variable(W)

    def __call__(self, x: Any) -> Any:
        return tf.tanh(x @ self.kernel)


class Winding(tf.Module):  # type: ignore[misc]
    """Calls its layers in a loop, and one of them in a branch."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = Scaled(), Scaled()

    def __call__(self, x: Any) -> Any:
        x = tf.while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, self.b(self.a(y))), (0, x))[1]
        return tf.cond(tf.reduce_sum(x) > 0, lambda: self.a(x), lambda: 2.0 * x)


class InAFunction(Winding):
    """Does so in a called function, and twice."""

    @tf.function  # type: ignore[untyped-decorator]
    def __call__(self, x: Any) -> Any:
        return super().__call__(super().__call__(x))


@pytest.mark.parametrize(("build", "calls"), [(Winding, 1), (InAFunction, 2)])
def test_layers_own_their_gradients_in_loops_branches_and_functions(build: Any, calls: int) -> None:
    """A loop does not know that its first input is no variable: it computes that gradient too."""
    forward = {"a": calls * (4 + 1) * ONE, "b": calls * 4 * ONE}
    assert own_macs(trace_complete(build(), X)) == forward
    assert own_macs(trace_complete_step(build(), X)) == {path: 3 * macs for path, macs in forward.items()}


class TwoCalls(tf.Module):  # type: ignore[misc]
    """Two layers whose call is a function each, one of them called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = InAFunction(), InAFunction()

    def __call__(self, x: Any) -> Any:
        return self.b(self.a(self.b(x)))


def test_layers_inside_called_layers_own_their_gradients() -> None:
    found = own_macs(trace_complete_step(TwoCalls(), X))
    assert found == {"a.a": 30 * ONE, "a.b": 24 * ONE, "b.a": 60 * ONE, "b.b": 48 * ONE}


class Einsum(tf.Module):  # type: ignore[misc]
    """The tangent of an einsum of two weights, whose gradient needs the einsum; ``again`` wraps it."""

    def __init__(self, equation: str, *shapes: tuple[int, ...], again: Any = lambda function: function) -> None:
        super().__init__()
        self.factors = [tf.Variable(tf.ones(shape)) for shape in shapes]
        self.product = again(lambda x, a, b: x * tf.tanh(tf.einsum(equation, a, b)))

    def __call__(self, x: Any) -> Any:
        return self.product(x, *(tf.convert_to_tensor(factor) for factor in self.factors))


@pytest.mark.parametrize(
    ("equation", "shapes", "macs"),
    [
        ("ij,jk->ik", ((5, 8), (8, 3)), 5 * 8 * 3),
        ("ij,j->i", ((5, 8), (8,)), 5 * 8),  # whose gradient by the matrix is i,j->ij
        ("i,i->", ((5,), (5,)), 5),
        ("ij,jk->ik", ((1, 8), (8, 3)), 8 * 3),  # of one row: the gradient by the second factor sums one product
        ("...ab,abc->...c", ((2, 6, 3), (6, 3, 4)), 2 * 6 * 3 * 4),
        ("aij,jk->ik", ((7, 5, 8), (8, 3)), 5 * 8 * 3),  # a is summed first
        ("i,j->ij", ((5,), (8,)), 0),  # sums nothing, and so its gradients are no products
        ("ij,ij->ij", ((5, 8), (5, 8)), 0),
    ],
)
def test_gradients_of_an_einsum_take_as_many_macs_by_both_factors(
    equation: str, shapes: tuple[tuple[int, ...], ...], macs: int
) -> None:
    model, x = Einsum(equation, *shapes), tf.ones(())
    assert trace_complete(model, x).macs == macs
    assert trace_complete_step(model, x).macs == 3 * macs


@pytest.mark.parametrize(
    ("equation", "shapes", "macs"), [("i,j->ij", ((5,), (8,)), 0), ("ij,j->i", ((5, 8), (8,)), 40)]
)
def test_an_einsum_that_a_gradient_computes_again_is_no_gradient(
    equation: str, shapes: tuple[tuple[int, ...], ...], macs: int
) -> None:
    model = Einsum(equation, *shapes, again=tf.recompute_grad)
    assert trace_complete_step(model, tf.ones(())).macs == 4 * macs


# What is of the forward pass, and what is of the gradients ------------------------------------------------------------


class Recomputed(Scaled):
    """Computes its product again for the gradient."""

    def __call__(self, x: Any) -> Any:
        return tf.recompute_grad(super().__call__)(x)


@pytest.mark.parametrize(
    ("build", "forward", "backward"), [(Winding, 9, 18), (InAFunction, 18, 36), (TwoCalls, 54, 108), (Recomputed, 1, 2)]
)
def test_what_the_gradients_take_is_backward(build: Any, forward: int, backward: int) -> None:
    """Whatever graph it is in: a function's, a loop's, a branch's, or one that a gradient computes again."""
    operators = trace_complete_step(build(), X).operators
    macs = {phase: sum(op.macs for op in operators if op.phase == phase) for phase in ("forward", "backward")}
    assert macs == {"forward": forward * ONE, "backward": backward * ONE}


def test_what_the_model_does_itself_is_forward_whatever_its_name() -> None:
    def model(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            energy = tf.tanh(tf.add_n([x, x]))
        return 2.0 * tape.gradient(energy, x)

    kernel = tf.Variable(W)
    operators = trace_complete_step(lambda x: model(x @ kernel), X).operators
    first = {kind: next(op.phase for op in operators if op.operator == kind) for kind in ("AddN", "TanhGrad", "MatMul")}
    assert first == dict.fromkeys(first, "forward")
    assert operators[-1].phase == "backward"


class Applied(tf.Module):  # type: ignore[misc]
    """Applies a function to a product with a trainable matrix."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.kernel, self.function = tf.Variable(W), function

    def __call__(self, x: Any) -> Any:
        return self.function(x @ self.kernel)


@pytest.mark.parametrize(
    "function",
    [lambda y: tf.argmax(y, -1), lambda y: {"large": y > 0}, tf.stop_gradient, lambda y: [tf.stop_gradient(y), y > 0]],
    ids=["integers", "truth values", "floats", "both"],
)
def test_a_step_without_gradients_costs_its_forward_pass_and_says_so(function: Callable[[Any], Any]) -> None:
    found = trace_complete_step(Applied(function), X)
    assert found.macs == ONE
    assert {operator.phase for operator in found.operators} == {"forward"}
    assert NO_BACKWARD_PASS in found.notes


@pytest.mark.parametrize("mode", ["graph", "eager"])
def test_a_step_without_gradients_runs(mode: str) -> None:
    options: Any = {"metrics": ["execution_time"], "training": True, "mode": mode, "num_iters": 2, "warmup": 0}
    report = profile(Applied(lambda y: tf.argmax(y, -1)), X, **options)
    assert report["execution_time"].median > 0


def test_outputs_of_complex_numbers_have_gradients() -> None:
    """The input is no variable: the only gradient is that of the matrix, by one more product."""
    found = trace_complete_step(Applied(lambda y: tf.complex(y, y)), X)
    assert found.macs == 2 * ONE
    assert NO_BACKWARD_PASS not in found.notes
