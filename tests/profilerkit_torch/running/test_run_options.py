"""How a model is run to be timed: training steps, autocast, threads; and that nothing of it stays behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tiny import BACKEND, Call, ones
from torch import nn

from profilerkit import InputError, ModelFailedError, ModelInputs, profile
from profilerkit.backend import RunOptions
from profilerkit_torch.running.timed_passes import EventTimedPass


def small() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Dropout(), nn.Flatten(), nn.Linear(16, 2)
    )


X = torch.linspace(0, 1, 2 * 3 * 16).reshape(2, 3, 4, 4)


def process_state() -> dict[str, Any]:
    from torch._dynamo import config

    return {
        "threads": (torch.get_num_threads(), torch.get_num_interop_threads()),
        "gradients": torch.is_grad_enabled(),
        "autocast": (torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")),
        "default": (torch.get_default_dtype(), torch.get_default_device()),
        "random": torch.get_rng_state().tolist(),
        "dynamo": config.save_config(),
    }


@contextmanager
def expect_untouched(model: nn.Module) -> Iterator[None]:
    """Hold a model and the process to be exactly what they were."""
    values = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    modules = [(module, module.training, list(module.__dict__), type(module)) for module in model.modules()]
    tensors = [(tensor, tensor.grad, tensor.requires_grad) for tensor in model.parameters()]
    state = process_state()
    yield
    assert process_state() == state
    assert model.state_dict().keys() == values.keys()
    assert all(torch.equal(tensor, values[name]) for name, tensor in model.state_dict().items())
    assert [(module, module.training, list(module.__dict__), type(module)) for module in model.modules()] == modules
    for tensor, (held, grad, wanted) in zip(model.parameters(), tensors, strict=True):
        assert tensor is held
        assert tensor.grad is grad
        assert tensor.requires_grad == wanted


def run(model: nn.Module, *inputs: Any, times: int = 2, **options: Any) -> None:
    with BACKEND.run(model, ModelInputs(*inputs), options=RunOptions(**options)) as call:
        for _ in range(times):
            call()


EVERY = [
    {},
    {"training": True},
    {"autocast": True},
    {"autocast": "bfloat16", "training": True},
    {"num_threads": 1},
    {"compile": "eager"},
    {"compile": {"backend": "aot_eager", "dynamic": True}, "training": True, "num_threads": 1, "autocast": True},
]


@pytest.mark.slow
@pytest.mark.parametrize("options", EVERY, ids=str)
def test_model_and_process_are_as_before(options: dict[str, Any]) -> None:
    model = small().eval()
    weights = dict(model.named_parameters())
    gradient = torch.ones_like(weights["0.weight"])
    weights["0.weight"].grad = gradient
    weights["5.bias"].requires_grad_(False)
    with expect_untouched(model):
        run(model, X, **options)
    assert torch.equal(gradient, torch.ones_like(gradient))


@pytest.mark.parametrize("options", EVERY, ids=str)
def test_model_and_process_are_as_before_after_an_error(options: dict[str, Any]) -> None:
    calls: list[int] = []

    def fail(self: Any, x: torch.Tensor) -> Any:
        if not torch.compiler.is_compiling():  # which the compiler could not follow
            torch.set_num_threads(1)
        calls.append(1)
        if len(calls) > 1:
            raise RuntimeError("half-way")
        return self.norm(x)

    model = Call(fail, norm=nn.BatchNorm1d(4))
    with expect_untouched(model), pytest.raises((RuntimeError, InputError), match="half-way"):
        run(model, ones(2, 4), **options)


def test_a_training_step_is_forward_in_training_mode_and_backward() -> None:
    seen: list[Any] = []

    def forward(self: Any, x: torch.Tensor) -> Any:
        seen.append((self.training, torch.is_grad_enabled(), self.layer.weight.grad))
        y = self.layer(x)
        y.register_hook(lambda gradient: seen.append(gradient.tolist()))
        return y

    model = Call(forward, layer=nn.Linear(2, 1)).eval()
    with torch.no_grad():
        run(model, ones(3, 2), training=True, times=1)
    # Once to see what it writes to, once as asked: each time it finds no gradients, and the sum's gradient is one.
    assert seen == [(True, True, None), [[1.0]] * 3] * 2
    assert not model.training


def test_parts_that_are_kept_in_eval_mode_stay_so_while_the_rest_is_trained() -> None:
    seen: list[tuple[bool, bool]] = []

    def forward(self: Any, x: torch.Tensor) -> Any:
        seen.append((self.training, self.norm.training))
        return self.norm(x)

    model = Call(forward, norm=nn.BatchNorm1d(4))
    model.train()
    model.norm.eval()  # type: ignore[union-attr]
    run(model, ones(2, 4), training=True, times=1)
    model.eval()
    run(model, ones(2, 4), training=True, times=1)
    model.norm.train()  # type: ignore[union-attr]
    run(model, ones(2, 4), training=True, times=1)
    assert seen == [(True, False)] * 2 + [(True, True)] * 2 + [(False, True)] * 2


@dataclass
class Output:
    logits: torch.Tensor
    further: dict[str, Any]


@pytest.mark.parametrize(
    "wrap",
    [
        lambda y: y,
        lambda y: (y, None),
        lambda y: {"a": [y], "b": 3},
        lambda y: Output(y.detach(), {"kept": (y,)}),
        lambda y: SimpleNamespace(kept=[y]),
        lambda y: [*[None] * 2000, y],
        lambda y: {"loss": y.sum(), "extra": 2 * y},  # a loss is differentiated alone, as it is counted
        lambda y: SimpleNamespace(loss=y.sum(), extra=2 * y),
    ],
)
def test_outputs_of_any_make_have_gradients(wrap: Any) -> None:
    gradients: list[Any] = []
    layer = nn.Linear(2, 1)
    layer.weight.register_hook(lambda gradient: gradients.append(gradient.tolist()))
    run(Call(lambda self, x: wrap(self.layer(x)), layer=layer), ones(3, 2), training=True, times=1)
    assert gradients == [[[3.0, 3.0]]] * 2, "the gradient of the sum over three samples of ones"


def test_a_model_that_trains_nothing_has_no_training_step() -> None:
    model = nn.Linear(2, 1).requires_grad_(False)
    with pytest.raises(InputError, match="none of the model's outputs depends on a weight that is trained"):
        run(model, ones(1, 2), training=True)


def test_inputs_that_want_a_gradient_are_given_none() -> None:
    x = ones(1, 2).requires_grad_()
    run(nn.Linear(2, 1), x, training=True)
    assert x.grad is None


def test_checkpointed_blocks_are_trained() -> None:
    from torch.utils.checkpoint import checkpoint

    for reentrant in (True, False):
        model = Call(
            lambda self, x, reentrant=reentrant: checkpoint(self.second, self.first(x), use_reentrant=reentrant),
            first=nn.Linear(2, 2),
            second=nn.Linear(2, 2),
        )
        run(model, ones(1, 2), training=True)


def test_the_number_of_threads_holds_while_the_model_runs() -> None:
    seen: list[int] = []
    before = torch.get_num_threads()

    def forward(self: Any, x: torch.Tensor) -> Any:
        seen.append(torch.get_num_threads())
        return x

    wanted = before + 1
    run(Call(forward), ones(1), num_threads=wanted)
    assert seen == [wanted] * 3
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("threads", [0, -1, 1.5, True, "2"])
def test_what_is_no_number_of_threads(threads: Any) -> None:
    with pytest.raises(InputError, match=r"num_threads=.*: give a whole number from 1, or None to leave them"):
        RunOptions(num_threads=threads)


@pytest.mark.parametrize("key", ["layer_times", "operator_table", "measured_memory"])
def test_options_that_a_measurement_leaves_out_are_said(key: str) -> None:
    how: dict[str, Any] = {"metrics": [key, "execution_time"], "num_iters": 2}
    report = profile(nn.Linear(4, 2), ones(1, 4), num_threads=1, autocast="bfloat16", training=True, **how)
    left_out = "measured without the options of execution_time: under autocast to bfloat16, on 1 thread"
    assert report.status(key).note.endswith(left_out)
    assert "without the options" not in profile(nn.Linear(4, 2), ones(1, 4), training=True, **how).status(key).note


@pytest.mark.parametrize(
    ("autocast", "dtype"),
    [(True, torch.bfloat16), ("float16", torch.float16), ("torch.bfloat16", torch.bfloat16), (torch.float16,) * 2],
)
def test_autocast_lowers_the_precision_of_each_pass_anew(autocast: Any, dtype: torch.dtype) -> None:
    seen: list[torch.dtype] = []

    def forward(self: Any, x: torch.Tensor) -> Any:
        y = self.layer(x)
        seen.append(y.dtype)
        return y

    run(Call(forward, layer=nn.Linear(2, 2)), ones(1, 2), autocast=autocast)
    assert seen == [dtype] * 3


@pytest.mark.parametrize(
    ("autocast", "message"),
    [
        ("float33", r"autocast='float33': give True, or a dtype such as torch.bfloat16 or 'bfloat16'"),
        ("nn", r"autocast='nn': give True, or a dtype"),
        (16, "autocast=16: give True, or a dtype"),
        (torch.float64, r"autocast=torch.float64: torch \S+ does not support that on cpu"),
    ],
)
def test_what_autocast_does_not_do(autocast: Any, message: str) -> None:
    model = nn.Linear(2, 2)
    with expect_untouched(model), pytest.raises(InputError, match=message):
        run(model, ones(1, 2), autocast=autocast)


def test_a_report_says_how_the_model_was_run() -> None:
    report = profile(
        small(), X, training=True, num_threads=1, autocast="bfloat16", num_iters=3, drop_first=2, metrics=METRICS
    )
    assert len(report["execution_time"].samples) == len(report["training_time"].samples) == 3
    assert len(report["execution_time"].warmup) == 2
    notes = "\n".join(report.notes)
    step = "one training step: the forward pass in training mode, and the gradients"
    assert f"Execution Time, Throughput: {step}, under autocast to bfloat16, on 1 thread" in notes
    assert "Training Time: under autocast to bfloat16, on 1 thread" in notes
    assert report["macs"] == profile(small(), X, metrics="macs")["macs"], "counts are those of the model as it is"


METRICS = ["macs", "execution_time", "throughput", "training_time"]


def test_a_model_that_fails_in_training_alone_says_so() -> None:
    def forward(self: Any, x: torch.Tensor) -> Any:
        if self.training:
            raise RuntimeError("no targets were given")
        return self.layer(x)

    model = Call(forward, layer=nn.Linear(2, 2)).eval()
    run(model, ones(1, 2))
    with expect_untouched(model), pytest.raises(ModelFailedError, match="no targets were given"):
        run(model, ones(1, 2), training=True)


class Events:
    """Stands in for CUDA events: notes what happens, and tells given milliseconds between two of them."""

    noted: list[str]
    milliseconds = 2.5

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        self.noted.append("event")

    def elapsed_time(self, end: Events) -> float:
        self.noted.append("read")
        return self.milliseconds


def test_work_on_cuda_is_timed_by_a_pair_of_events_for_each_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    from contextlib import nullcontext

    from profilerkit.times.sampling import Sampling, measure

    noted: list[str] = []
    Events.noted = noted
    device = torch.device("cuda", 0)
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda used: noted.append(f"wait for {used}"))
    monkeypatch.setattr(torch.cuda, "device", lambda used: nullcontext())
    monkeypatch.setattr(torch.cuda, "Event", Events)
    timed = EventTimedPass(lambda: noted.append("run"), (torch.device("cpu"), device))
    measured = measure(timed, Sampling(num_iters=2, warmup=1))
    assert measured.samples == (0.0025, 0.0025)
    assert measured.warmup == (0.0025,)
    assert noted == ["event", "run", "event", "wait for cuda:0", "read"] * 3
    noted.clear()
    timed()
    assert noted == ["run", "wait for cuda:0"]


@pytest.mark.parametrize(
    ("devices", "suits"),
    [(["cuda:0"], True), (["cpu", "cuda:1"], True), (["cuda:0", "cuda:1"], False), (["cpu"], False), (["mps"], False)],
)
def test_events_are_for_the_work_of_one_cuda_device(devices: list[str], suits: bool) -> None:
    assert EventTimedPass.suits([torch.device(name) for name in devices]) is suits


def test_a_training_step_has_two_parts_and_a_forward_pass_none() -> None:
    noted: list[str] = []
    model = torch.nn.Sequential(torch.nn.Linear(4, 3))
    model.register_forward_hook(lambda *args: noted.append("forward"))
    x = torch.ones(2, 4)
    ticks = iter(range(100))

    def clock() -> float:
        noted.append("clock")
        return float(next(ticks) ** 2)

    with BACKEND.run(model, ModelInputs(x), RunOptions(training=True)) as run:
        noted.clear()
        parts = run.parts(clock)
        assert noted == ["clock", "forward", "clock", "clock"]
        assert parts == {"forward": 1.0, "backward": 3.0}
        assert min(run.parts().values()) > 0
    with BACKEND.run(model, ModelInputs(x)) as run:
        assert run.parts(clock) == {}
