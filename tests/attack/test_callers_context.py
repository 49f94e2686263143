"""Whatever the caller has switched on around a call: the weights stay, and the report is the one from outside."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from attack_sampling import sample
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch._subclasses.functional_tensor import FunctionalTensorMode
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

import profilerkit_torch
from profilerkit import ModelInputs, compare, profile
from profilerkit_torch import ComputeEvalMetric, TorchBackend, TorchProfiler, get_accuracy

BACKEND = TorchBackend()


class Doubling(TorchDispatchMode):
    """A mode that makes other numbers of everything, and says how much it saw."""

    seen = 0

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen += 1
        result = func(*args, **(kwargs or {}))
        return result * 2 if isinstance(result, torch.Tensor) and result.is_floating_point() else result


class OnMeta(TorchDispatchMode):
    """A mode whose results have no values: what is plain in type need not be a twin."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return result.to("meta") if isinstance(result, torch.Tensor) else result


class Passing(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


@contextmanager
def default_device() -> Iterator[None]:
    torch.set_default_device("meta")
    try:
        yield
    finally:
        torch.set_default_device(None)


@contextmanager
def several() -> Iterator[None]:
    with Passing(), torch.device("meta"), FakeTensorMode(allow_non_fake_inputs=True), Doubling():
        yield


CONTEXTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "fake": FakeTensorMode,
    "fake, others allowed": lambda: FakeTensorMode(allow_non_fake_inputs=True),
    "device meta": lambda: torch.device("meta"),
    "default device meta": default_device,
    "dispatch mode": Doubling,
    "dispatch mode to meta": OnMeta,
    "function mode": Passing,
    "functional": FunctionalTensorMode,
    "inference_mode": torch.inference_mode,
    "no_grad": torch.no_grad,
    "save_on_cpu": torch.autograd.graph.save_on_cpu,
    "anomaly": lambda: torch.autograd.detect_anomaly(check_nan=False),
    "several": several,
}


class Model(nn.Module):
    """Writes to a buffer, keeps a tensor, makes one, and gives its weight other data: all of it is to be put back."""

    steps: torch.Tensor
    table: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.bn = nn.BatchNorm1d(3)
        self.register_buffer("steps", torch.zeros(1))
        self.table = torch.arange(3.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.steps += 1
        self.table.add_(1)
        self.layer.weight.data = self.layer.weight.data * 1
        out: torch.Tensor = self.bn(self.layer(x)) + torch.zeros(3) + self.table
        return out


X = torch.ones(2, 4)
TARGET = torch.zeros(2, dtype=torch.long)


def make_profiling(*metrics: str, **arguments: Any) -> Callable[[nn.Module], Any]:
    def run(model: nn.Module) -> Any:
        report = profile(model, X, metrics=metrics, **arguments)
        return {name: (status.shown, status.outcome_of) for name, status in shown(report).items()}

    return run


def shown(report: Any) -> dict[str, Any]:
    class Shown:
        def __init__(self, status: Any) -> None:
            self.shown, self.outcome_of = status.value, str(status.completeness)

    return {key: Shown(status) for key, status in report.statuses.items()}


def evaluate(model: nn.Module) -> Any:
    profiler = TorchProfiler(model, {"test": [(X, TARGET)]})
    profiler.register_profiler_function(ComputeEvalMetric(get_accuracy))
    return profiler.compute_status("eval_metric")


def compare_two(model: nn.Module) -> Any:
    return [
        report.statuses["macs"].value for report in compare(model, nn.Linear(4, 2), inputs=X, metrics=["macs"]).reports
    ]


def time_model(model: nn.Module) -> Any:
    report = profile(model, X, metrics=["execution_time", "layer_times"], num_iters=2, warmup=0, passes=1)
    assert not [status for status in report.statuses.values() if "failed" in str(status.completeness)], report
    return sorted(report.statuses)


def watch_layers(model: nn.Module) -> Any:
    with BACKEND.time_layers(model):
        pass
    return BACKEND.fingerprint(model) is not None


#: By name: a public call, which returns what is the same each time.
CALLS: dict[str, Callable[[nn.Module], Any]] = {
    "static": make_profiling("macs", "flops", "memory_footprint", "model_size", "total_params"),
    "training": make_profiling("training_macs", "training_memory"),
    "measured memory": make_profiling("measured_memory"),
    "nonzero": make_profiling("sparsity", "effective_macs"),
    "times": time_model,
    "evaluation": evaluate,
    "compare": compare_two,
    "status": lambda model: TorchProfiler(model, inputs=X).register_defaults().compute_status("macs"),
    "shapes": lambda model: profile(model, input_shape=(4,), batch_size=2, metrics=["macs"]).statuses["macs"].value,
    "watching": watch_layers,
}


def facts(model: nn.Module) -> list[Any]:
    held: dict[str, Any] = {**dict(model.named_parameters()), **dict(model.named_buffers()), "table": model.table}
    return [
        (name, id(t), type(t), type(t.data), t.data_ptr(), t.device, t.dtype, t.tolist(), t.requires_grad, t.grad)
        for name, t in held.items()
    ]


def process() -> Any:
    return (
        [id(mode) for mode in _get_current_dispatch_mode_stack()],
        [id(mode) for mode in _get_current_function_mode_stack()],
        torch.is_inference_mode_enabled(),
        torch.is_grad_enabled(),
    )


@pytest.fixture(scope="module")
def outside() -> dict[str, Any]:
    torch.manual_seed(0)
    model = Model()
    return {name: call(model) for name, call in CALLS.items()}


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize(("context", "call"), sample([(context, call) for context in CONTEXTS for call in CALLS], 26))
def test_weights_stay_and_the_report_is_that_from_outside(context: str, call: str, outside: dict[str, Any]) -> None:
    torch.manual_seed(0)
    model = Model()
    before = facts(model)
    versions = [parameter._version for parameter in model.parameters()]
    with CONTEXTS[context]():
        around = process()
        found = CALLS[call](model)
        assert process() == around
    assert facts(model) == before
    assert [parameter._version for parameter in model.parameters()] == versions
    model(X).sum().backward()  # and it can be trained
    if (context, call) != ("save_on_cpu", "training"):  # which keeps copies: the memory is that of such a step
        assert found == outside[call]


def test_a_mode_of_the_callers_sees_nothing_of_a_profile() -> None:
    model = nn.Linear(4, 3)
    with Doubling() as mode:
        profile(model, X, metrics=["macs", "training_macs"])
    assert mode.seen == 0


class PassingToo(Passing):
    """Another one of the caller's, inside the first."""


def test_the_users_code_runs_under_the_users_function_modes() -> None:
    """A default device is such a mode, which a model on an accelerator may need. That of a static pass is on top."""
    seen: set[tuple[str, ...]] = set()

    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.add(tuple(type(mode).__name__ for mode in _get_current_function_mode_stack()))
            return x

    with Passing() as outer, PassingToo() as inner:
        profile(Model(), X, metrics=["macs", "execution_time"], num_iters=2, warmup=0)
        assert _get_current_function_mode_stack() == [outer, inner]
    assert ("Passing", "PassingToo") in seen  # timed
    assert {modes[:2] for modes in seen} == {("Passing", "PassingToo")}


def test_the_report_is_that_from_outside_under_autocast_too() -> None:
    model = nn.Linear(4, 4)
    before = model.weight.tolist()
    with torch.autocast("cpu", torch.bfloat16):
        assert profile(model, X, metrics=["macs"]).statuses["macs"].value == 2 * 4 * 4
        model(X).sum().backward()
    assert model.weight.grad is not None
    assert model.weight.tolist() == before


def test_inside_torchs_profiler() -> None:
    model = nn.Linear(4, 4)
    with torch.profiler.profile(), torch.profiler.record_function("mine"):
        assert profile(model, X, metrics=["macs"]).statuses["macs"].value == 2 * 4 * 4


def test_a_model_of_fake_tensors_is_counted_in_its_mode_and_outside() -> None:
    mode = FakeTensorMode()
    with mode:
        model, x = nn.Linear(4, 3), torch.ones(2, 4)
        assert BACKEND.trace(model, ModelInputs(x)).macs == 2 * 4 * 3
    assert BACKEND.trace(model, ModelInputs(x)).macs == 2 * 4 * 3
    assert all(type(parameter.data).__name__ == "FakeTensor" for parameter in model.parameters())


def test_data_is_given_to_a_tensor_in_one_place_alone() -> None:
    """`tensor_state._restore_data`, whose second argument is an alias; nothing else may take a tensor's data away.

    `exposed_memory` reads the bytes of a storage through a tensor of its own, and `stand_ins` puts its own into one;
    `known_values` makes a tensor that looks at known values.
    """
    places = set()
    for path in Path(profilerkit_torch.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            targets = node.targets if isinstance(node, ast.Assign) else ()
            written = any(isinstance(target, ast.Attribute) and target.attr == "data" for target in targets)
            called = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "set_"
            if written or called:
                places.add(path.name)
    assert places == {"exposed_memory.py", "known_values.py", "stand_ins.py", "tensor_state.py"}
