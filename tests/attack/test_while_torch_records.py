"""Where torch records or transforms what runs nothing is profiled: every public call says so and does no harm."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from attack_sampling import sample
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from profilerkit import ModelInputs, Profiler, TensorSpec, TracingError, compare, profile
from profilerkit_torch import TorchBackend, TorchProfiler, layer_times, watch

BACKEND = TorchBackend()
X = torch.ones(2, 4)
MODEL = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
PROFILER = TorchProfiler(MODEL, inputs=X).register_defaults()


class Inside(nn.Module):
    """Makes a call of ours in its forward pass, and keeps what that raised."""

    def __init__(self, call: Callable[[], Any]) -> None:
        super().__init__()
        errors: list[BaseException] = []
        self.call, self.note = call, errors.append
        self.errors: Callable[[], list[BaseException]] = lambda: errors  # torch.export copies lists

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        try:
            self.call()
        except TracingError as error:
            self.note(error)
        return x + 1


def run_compiled(model: nn.Module) -> None:
    @torch.compile(backend="eager")
    def function(x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        return model(x)  # type: ignore[no-any-return]

    function(X)


#: By what the message names: what runs a module's forward pass while torch records it.
RECORDING: dict[str, Callable[[nn.Module], Any]] = {
    "torch.jit.trace": lambda model: torch.jit.trace(model, X, check_trace=False),
    "torch.export": lambda model: torch.export.export(model, (X,), strict=False),
    "torch.compile": run_compiled,
    "torch.fx.symbolic_trace": torch.fx.symbolic_trace,
    "make_fx": lambda model: make_fx(model)(X),
    "make_fx before the dispatcher": lambda model: make_fx(model, pre_dispatch=True)(X),
    "torch.func.vmap": lambda model: torch.vmap(model)(X),
    "torch.func grad": lambda model: torch.func.grad(lambda x: model(x).sum())(X),
    "torch.func functionalize": lambda model: torch.func.functionalize(model)(X),
}


def enter(context: Any) -> None:
    with context:
        pass


#: The methods of the backend that run, copy or make something of torch's.
METHODS: dict[str, Callable[[], Any]] = {
    "random_tensor": lambda: BACKEND.random_tensor(TensorSpec((4,)), 2),
    "with_batch_size": lambda: BACKEND.with_batch_size(X, 3),
    "trace": lambda: BACKEND.trace(MODEL, ModelInputs(X)),
    "trace_training": lambda: BACKEND.trace_training(MODEL, ModelInputs(X)),
    "optimizer_bytes": lambda: BACKEND.optimizer_bytes(torch.optim.SGD, ()),
    "optimizer_state": lambda: BACKEND.optimizer_state(MODEL),
    "zero_weights": lambda: BACKEND.zero_weights(MODEL),
    "trace_nonzero": lambda: BACKEND.trace_nonzero(MODEL, ModelInputs(X)),
    "measure_memory": lambda: BACKEND.measure_memory(MODEL, ModelInputs(X)),
    "run": lambda: enter(BACKEND.run(MODEL, ModelInputs(X))),
    "layer_times": lambda: BACKEND.layer_times(MODEL, ModelInputs(X), passes=1),
    "operator_times": lambda: BACKEND.operator_times(MODEL, ModelInputs(X), passes=1),
    "time_layers": lambda: BACKEND.time_layers(MODEL),
    "record_steps": lambda: BACKEND.record_steps(MODEL),
    "evaluate": lambda: BACKEND.evaluate(MODEL, lambda: MODEL(X)),
    "preserve": lambda: enter(BACKEND.preserve(MODEL)),
    "apart": lambda: enter(BACKEND.apart()),
}
#: Those that only look, or are told something.
HARMLESS = {
    *("cast", "use_threads", "calibration_cases", "calibration_networks", "device_info", "host_seconds"),
    *("read_recording", "profile_script", "ceiling_work"),
    *(
        "find_input_encoder",
        "generate",
        "language_model",
        "language_model_cache",
        "find_prompt_length",
        "longest_context",
        "with_language_head",
    ),
    *("open_model", "accepts", "resolve_device", "is_tensor", "as_tensor", "model_name", "ranks", "add_costs"),
    *("list_rank_variables", "usual_dtype", "fingerprint", "environment", "example_inputs", "count_samples"),
    "trace_rank",  # called in a process of its own, where nothing records
}
PUBLIC: dict[str, Callable[[], Any]] = {
    "profile": lambda: profile(MODEL, X, metrics=["macs"]),
    "profile times": lambda: profile(MODEL, X, metrics=["execution_time"], num_iters=2),
    "profile a shape": lambda: profile(MODEL, input_shape=(4,), metrics=["macs"]),
    "compare": lambda: compare(MODEL, MODEL, inputs=X, metrics=["macs"]),
    "Profiler": lambda: Profiler(MODEL, inputs=X, backend=BACKEND).register_defaults().compute_status("macs"),
    "compute_status": lambda: PROFILER.compute_status("macs", recompute=True),
    "compute_network_status": lambda: PROFILER.compute_network_status(recompute=True),
    "compare profilers": lambda: PROFILER.compare(PROFILER, print_mode=None),
    "layer_times": lambda: layer_times(MODEL),
    "watch": lambda: watch(MODEL),
    **{f"backend.{name}": call for name, call in METHODS.items()},
}


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    """``torch.compile`` writes to it."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


def test_every_method_of_the_backend_is_known_here() -> None:
    own = [kind for kind in TorchBackend.__mro__ if kind.__module__.startswith("profilerkit_torch.")]  # no protocols
    methods = {name for kind in own for name, value in vars(kind).items() if callable(value) and name[0] != "_"}
    assert methods - {"data_loader", "forward_pass"} == METHODS.keys() | HARMLESS


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("recording", "call"), sample([(item, call) for item in RECORDING for call in PUBLIC], 36))
def test_it_is_refused_and_the_recording_goes_on(recording: str, call: str) -> None:
    model, before = Inside(PUBLIC[call]), [parameter.tolist() for parameter in MODEL.parameters()]
    RECORDING[recording](model)
    assert model.errors(), "it was not refused"
    for error in model.errors():
        words = recording.split(maxsplit=1)[0] if "func" not in recording else "torch.func"
        assert words in str(error)
        assert "profile it before or after, outside of" in str(error)
    assert [parameter.tolist() for parameter in MODEL.parameters()] == before


@pytest.mark.filterwarnings("ignore")
def test_afterwards_it_works_again() -> None:
    torch.jit.trace(Inside(PUBLIC["profile"]), X, check_trace=False)
    assert profile(MODEL, X, metrics=["macs"]).statuses["macs"].value == 2 * (4 * 4 + 4 * 2)
    assert PROFILER.compute_status("macs", recompute=True) == 2 * (4 * 4 + 4 * 2)


def test_a_model_that_transforms_itself_is_profiled() -> None:
    class Transforming(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> Any:
            return torch.vmap(self.layer)(x)

    assert BACKEND.trace(Transforming(), ModelInputs(X)).failure is None
