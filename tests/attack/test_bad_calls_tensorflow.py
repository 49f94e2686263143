"""The public calls of profilerkit_tensorflow with wrong values for each argument; see test_bad_calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attack_sampling import sample
from bad_values import WRONG, complaint

tf = pytest.importorskip("tensorflow")

import profilerkit_metrics  # noqa: E402
import profilerkit_tensorflow  # noqa: E402
from profilerkit import profile  # noqa: E402
from profilerkit_tensorflow import (  # noqa: E402
    Cost,
    EvalLossFunction,
    TFDataLoader,
    TFForwardPass,
    TFProfiler,
    get_accuracy,
    get_missclass,
    get_topk,
    register_layer_cost,
    register_op_cost,
)
from profilerkit_tensorflow.costs import scoped_costs  # noqa: E402


class Doubled(tf.Module):  # type: ignore[misc, name-defined]
    def __call__(self, x: Any) -> Any:
        return tf.matmul(x, tf.ones((4, 3)))


class Own:
    """A layer of the user's own, which may have a formula without overriding one."""


def batches() -> list[Any]:
    return [(tf.ones((2, 4)), tf.zeros((2,), tf.int64))]


def formula(call: Any) -> Cost:
    return Cost(1, 2)


def layer_formula(layer: Any, inputs: Any, outputs: Any, training: Any) -> Cost:
    return Cost(1, 2)


def profiled(**given: Any) -> Any:
    return profile(Doubled(), tf.ones((2, 4)), metrics=["total_params", "macs"], **given)


def registered(op: Any, formula: Any, override: Any) -> Any:
    with scoped_costs():
        return register_op_cost(op, formula, override=override)


def registered_layer(layer_type: Any, formula: Any, override: Any) -> Any:
    with scoped_costs():
        return register_layer_cost(layer_type, formula, override=override)


def evaluation() -> dict[str, Any]:
    return {"model": Doubled, "data_loader": batches, "device": None, "transform": None}


CASES: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "profile": (
        profiled,
        {"batch_size": 2, "call": None, "device": None, "ignore": (), "mode": None, "strict": False, "training": False},
    ),
    "TFProfiler": (TFProfiler, {"model": Doubled, "data_splits": None, "name": None, "inputs": None}),
    "TFForwardPass": (TFForwardPass, {"model_input_pattern": (0, "_"), "expecting_common_inputs": True}),
    "TFDataLoader": (TFDataLoader, {"native": batches, "forward_pass": None}),
    "get_accuracy": (get_accuracy, {**evaluation(), "threshold": None}),
    "get_missclass": (get_missclass, {**evaluation(), "threshold": None}),
    "get_topk": (get_topk, {**evaluation(), "topk": (1, 2)}),
    "EvalLossFunction": (EvalLossFunction, {"loss_fn": lambda: formula}),
    "register_op_cost": (registered, {"op": "MyOp", "formula": lambda: formula, "override": False}),
    "register_layer_cost": (
        registered_layer,
        {"layer_type": lambda: Own, "formula": lambda: layer_formula, "override": False},
    ),
}
#: Names that need no case, and why.
NO_CASES = {
    "Cost": "plain data",
    "OpCall": "plain data",
    "Shape": "plain data",
    "TFBackend": "an interface for metrics, and no arguments",
}


def run(name: str, argument: str = "", value: Any = None) -> Any:
    call, given = CASES[name]
    made = {key: each() if callable(each) else each for key, each in given.items()}
    return call(**{**made, **({argument: value} if argument else {})})


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_value_works_or_is_said(name: str) -> None:
    run(name)
    wrong = {}
    for argument, kind in sample([(argument, kind) for argument in CASES[name][1] for kind in WRONG], 6, len(name)):
        value = WRONG[kind]()
        found = complaint(lambda: run(name, argument, value), argument, value)  # noqa: B023
        if found:
            wrong[f"{name}({argument}={kind})"] = found
    assert not wrong, "\n".join(f"{call}: {found}" for call, found in wrong.items())


def test_every_public_name_has_a_case() -> None:
    own = {name for name in profilerkit_tensorflow.__all__ if name not in profilerkit_metrics.__all__}
    assert own == {name for name in CASES if name in own} | set(NO_CASES)
