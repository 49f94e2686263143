"""Calls of a backend's package that work, for the test that gives each of their arguments wrong values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np
from frameworks import Framework

from profilerkit import profile
from profilerkit.costs import Cost

__all__ = ["formula", "layer_formula", "list_calls"]

#: A callable, and arguments with which it works; what is itself callable makes the argument, anew for each call.
Call = tuple[Callable[..., Any], Mapping[str, Any]]

#: The arguments of `profile` that mean something else to each backend.
_OPTIONS: Mapping[str, Any] = {"call": None, "device": None, "ignore": (), "mode": None, "training": False}


def formula(*arguments: Any, out: Any = None) -> Cost:
    return Cost(1, 2)


def layer_formula(layer: Any, inputs: Any, outputs: Any, training: Any = False) -> Cost:
    return Cost(1, 2)


def list_calls(framework: Framework) -> dict[str, Call]:
    """Return by its name each public call, those of the framework alone too."""
    costs = import_module(f"{framework.package.__name__}.costs")

    def model() -> Any:
        return framework.dense(4, 3)

    def batches() -> Any:
        return [(framework.tensor(np.ones((2, 4), np.float32)), framework.tensor(np.zeros(2, np.int64)))]

    def call_profile(**given: Any) -> Any:
        options = {**framework.quick_options, **given}
        return profile(model(), framework.inputs(2, 4), metrics=framework.quick_metrics, **options)

    def register(op: Any, formula: Any, override: Any) -> Any:
        with costs.scoped_costs():
            return costs.register_op_cost(op, formula, override=override)

    def register_by_decorator(op: Any, formula: Any) -> Any:
        with costs.scoped_costs():
            return costs.register_op_cost(op)(formula)

    evaluation = {"model": model, "data_loader": batches, "device": None, "transform": None}
    names = [item.__name__ for item in (framework.profiler, framework.forward_pass, framework.loader)]
    profiler = {"model": model, "data_splits": None, "name": None, "inputs": None, "input_shape": None, "backend": None}
    return {
        "profile": (call_profile, {**_OPTIONS, **framework.profile_arguments}),
        names[0]: (framework.profiler, profiler),
        names[1]: (framework.forward_pass, {"model_input_pattern": (0, "_"), "expecting_common_inputs": True}),
        names[2]: (framework.loader, {"native": batches, "forward_pass": None}),
        "get_accuracy": (framework.get_accuracy, {**evaluation, "threshold": None}),
        "get_missclass": (framework.get_missclass, {**evaluation, "threshold": None}),
        "get_topk": (framework.get_topk, {**evaluation, "topk": (1, 2)}),
        "EvalLossFunction": (framework.EvalLossFunction, {"loss_fn": lambda: framework.squared}),
        "register_op_cost": (register, {"op": "mylib::x", "formula": lambda: formula, "override": False}),
        "register_op_cost()": (register_by_decorator, {"op": "mylib::x", "formula": lambda: formula}),
        **framework.own_calls(),
    }
