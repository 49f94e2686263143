"""The public calls of each backend's package with wrong values for each argument; see test_bad_calls."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from attack_sampling import sample
from bad_calls import list_calls
from bad_values import WRONG, complaint
from frameworks import Framework, framework_named

import profilerkit_metrics
from profilerkit import profile

#: Each call has a value for every argument, also for those that only functions take which it does not request.
pytestmark = pytest.mark.filterwarnings("ignore:nothing that is requested takes:profilerkit.ArgumentWarning")

NAMES = (
    *("profile", "Profiler", "ForwardPass", "DataLoader", "get_accuracy", "get_missclass", "get_topk"),
    *("EvalLossFunction", "register_op_cost", "register_op_cost()"),
)
#: What one backend has alone.
OWN = {
    "torch": ("register_module_cost", "costs.override", "layer_times", "watch"),
    "tensorflow": ("register_layer_cost", "watch"),
}
PREFIX = {"torch": "Torch", "tensorflow": "TF"}
CASES = [
    (backend, PREFIX[backend] + name if name in ("Profiler", "ForwardPass", "DataLoader") else name)
    for backend, own in OWN.items()
    for name in (*NAMES, *own)
]
#: Names that need no case, and why.
NO_CASES = {
    "Cost": "plain data",
    "OpCall": "plain data",
    "Shape": "plain data",
    "TFBackend": "an interface for metrics, and no arguments",
    "TorchBackend": "an interface for metrics, and no arguments",
}


def run(backend: str, name: str, argument: str = "", value: Any = None) -> Any:
    call, given = list_calls(framework_named(backend))[name]
    made = {key: content() if callable(content) else content for key, content in given.items()}
    return call(**{**made, **({argument: value} if argument else {})})


@pytest.mark.parametrize(("backend", "name"), CASES)
def test_a_wrong_value_works_or_is_said(backend: str, name: str) -> None:
    run(backend, name)
    arguments = list_calls(framework_named(backend))[name][1]
    wrong = {}
    for argument, kind in sample([(argument, kind) for argument in arguments for kind in WRONG], 8, len(name)):
        value = WRONG[kind]()
        found = complaint(lambda: run(backend, name, argument, value), argument, value)  # noqa: B023
        if found:
            wrong[f"{name}({argument}={kind})"] = found
    assert not wrong, "\n".join(f"{call}: {found}" for call, found in wrong.items())


def test_every_public_name_has_a_case(framework: Framework) -> None:
    calls = list_calls(framework)
    assert {(framework.name, name) for name in calls} == {case for case in CASES if case[0] == framework.name}
    own = {name for name in framework.package.__all__ if name not in profilerkit_metrics.__all__}
    assert own - NO_CASES.keys() == own & calls.keys()
    for name in own & {"register_op_cost", "register_module_cost", "register_layer_cost", "get_accuracy", "watch"}:
        assert set(inspect.signature(getattr(framework, name)).parameters) == set(calls[name][1])


def test_scalars_of_torch_are_numbers() -> None:
    """A tensor without dimensions is a number, one of truth values is none, and one on the meta device has no value."""
    torch = pytest.importorskip("torch")
    framework = framework_named("torch")
    x = np.ones((2, 4), np.float32)
    report = profile(framework.dense(4, 3), x, batch_size=torch.tensor(3), max_seconds=torch.tensor(0.01))
    assert report["macs"] == 3 * 12
    for wrong in (torch.tensor(True), torch.tensor(2, device="meta"), torch.tensor([2, 0]), torch.tensor(2.5)):
        with pytest.raises(ValueError, match="batch_size="):
            profile(framework.dense(4, 3), x, batch_size=wrong)
