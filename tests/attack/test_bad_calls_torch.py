"""The public calls of profilerkit_torch with wrong values for each argument; see test_bad_calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from attack_sampling import sample
from bad_values import WRONG, complaint

torch = pytest.importorskip("torch")

import profilerkit_torch  # noqa: E402
from profilerkit import profile  # noqa: E402
from profilerkit_torch import (  # noqa: E402
    Cost,
    EvalLossFunction,
    TorchDataLoader,
    TorchForwardPass,
    TorchProfiler,
    get_accuracy,
    get_missclass,
    get_topk,
    layer_times,
    register_module_cost,
    register_op_cost,
    watch,
)
from profilerkit_torch.costs import override, scoped_costs  # noqa: E402

nn = torch.nn


def model() -> Any:
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU())


class Own(nn.Module):  # type: ignore[misc, name-defined]
    """A layer of the user's own, which may have a formula without overriding one."""


def batches() -> list[Any]:
    return [(torch.ones(2, 4), torch.zeros(2, dtype=torch.long))]


def formula(*shapes: Any, out: Any) -> Cost:
    return Cost(1, 2)


def module_formula(module: Any, inputs: Any, outputs: Any) -> Cost:
    return Cost(1, 2)


def profiled(**given: Any) -> Any:
    """Profile with every metric that an argument is for; those of other packages are left out."""
    metrics = ["total_params", "macs", "execution_time", "training_macs", "layer_times", "batch_sweep"]
    quick = {"num_iters": 2, "warmup": 0, "passes": 2, "batch_sizes": (1, 2)}
    return profile(model(), torch.ones(2, 4), metrics=metrics, **{**quick, **given})


def registered(op: Any, formula: Any, override: Any) -> Any:
    with scoped_costs():
        return register_op_cost(op, formula, override=override)


def registered_by_decorator(op: Any, formula: Any) -> Any:
    with scoped_costs():
        return register_op_cost(op)(formula)


def registered_module(module_type: Any, formula: Any, override: Any) -> Any:
    with scoped_costs():
        return register_module_cost(module_type, formula, override=override)


def overridden(formulas: Any) -> None:
    with override(formulas):
        pass


def timed(model: Any, keep: Any) -> Any:
    with layer_times(model, keep) as timer:
        model(torch.ones(2, 4))
    return timer.table


def watched(model: Any, optimizer: Any, at_step: Any) -> Any:
    with watch(model, optimizer, at_step) as found:
        for _ in range(2):
            model(torch.ones(2, 4)).sum().backward()
            found.step()
    return found


def evaluation() -> dict[str, Any]:
    return {"model": model, "data_loader": batches, "device": None, "transform": None}


CASES: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "profile": (
        profiled,
        {
            "autocast": None,
            "backward": True,
            "call": None,
            "compile": False,
            "device": None,
            "ignore": (),
            "mode": None,
            "num_threads": None,
            "optimizer": None,
            "split": None,
            "training": False,
        },
    ),
    "TorchProfiler": (
        TorchProfiler,
        {"model": model, "data_splits": None, "name": None, "inputs": None, "input_shape": None, "backend": None},
    ),
    "TorchForwardPass": (TorchForwardPass, {"model_input_pattern": (0, "_"), "expecting_common_inputs": True}),
    "TorchDataLoader": (TorchDataLoader, {"native": batches, "forward_pass": None}),
    "get_accuracy": (get_accuracy, {**evaluation(), "threshold": None}),
    "get_missclass": (get_missclass, {**evaluation(), "threshold": None}),
    "get_topk": (get_topk, {**evaluation(), "topk": (1, 2)}),
    "EvalLossFunction": (EvalLossFunction, {"loss_fn": lambda: nn.functional.cross_entropy}),
    "register_op_cost": (registered, {"op": "mylib::x", "formula": lambda: formula, "override": False}),
    "register_op_cost()": (registered_by_decorator, {"op": "mylib::x", "formula": lambda: formula}),
    "register_module_cost": (
        registered_module,
        {"module_type": lambda: Own, "formula": lambda: module_formula, "override": False},
    ),
    "costs.override": (overridden, {"formulas": dict}),
    "layer_times": (timed, {"model": model, "keep": 3}),
    "watch": (watched, {"model": model, "optimizer": None, "at_step": 1}),
}
#: Names that need no case, and why.
NO_CASES = {"Cost": "plain data", "Shape": "plain data", "TorchBackend": "an interface for metrics, and no arguments"}


def run(name: str, argument: str = "", value: Any = None) -> Any:
    call, given = CASES[name]
    made = {key: each() if callable(each) else each for key, each in given.items()}
    return call(**{**made, **({argument: value} if argument else {})})


@pytest.mark.parametrize("name", CASES)
def test_the_call_works_as_it_is(name: str) -> None:
    run(name)


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_value_works_or_is_said(name: str) -> None:
    wrong = {}
    for argument, kind in sample([(argument, kind) for argument in CASES[name][1] for kind in WRONG], 8, len(name)):
        value = WRONG[kind]()
        found = complaint(lambda: run(name, argument, value), argument, value)  # noqa: B023
        if found:
            wrong[f"{name}({argument}={kind})"] = found
    assert not wrong, "\n".join(f"{call}: {found}" for call, found in wrong.items())


def test_every_public_name_has_a_case() -> None:
    import profilerkit_metrics

    own = [name for name in profilerkit_torch.__all__ if name not in profilerkit_metrics.__all__]
    assert set(own) == {name for name in CASES if name in own} | set(NO_CASES)
    for name in ("register_op_cost", "register_module_cost", "get_accuracy", "watch"):
        assert set(inspect.signature(getattr(profilerkit_torch, name)).parameters) == set(CASES[name][1])


def test_scalars_of_torch_are_numbers() -> None:
    """A tensor without dimensions is a number, one of truth values is none, and one on the meta device has no value."""
    report = profile(model(), torch.ones(2, 4), batch_size=torch.tensor(3), max_seconds=torch.tensor(0.01))
    assert report["macs"] == 3 * 12
    for wrong in (torch.tensor(True), torch.tensor(2, device="meta"), torch.tensor([2, 0]), torch.tensor(2.5)):
        with pytest.raises(ValueError, match="batch_size="):
            profile(model(), torch.ones(2, 4), batch_size=wrong)
