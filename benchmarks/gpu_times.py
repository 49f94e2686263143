"""A step of ``make gpu``: measured times beside those of a loop written by hand, with events and with a clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import TYPE_CHECKING, Any

from gpu_results import Result

if TYPE_CHECKING:
    from gpu import Where

STEP = "times"
#: Within this share times by both are to be; of one of a few microseconds that the host takes, a tenth is noise.
WITHIN = 0.10
_ROUNDS, _ROUNDS_OF_STEPS = 60, 30
Made = tuple[Any, tuple[Any, ...]]


def subjects(small: bool) -> dict[str, Callable[[], Made]]:
    """Return the networks by name: of few operators and of many, of the host's time and of the device's."""
    import torch
    from torch import nn

    import models

    def narrow() -> Made:
        return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)), (torch.randn(8, 64),)

    def wide() -> Made:
        width = 64 if small else 8192
        return nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width)), (
            torch.randn(width // 2, width),
        )

    def images(batch: int) -> Callable[[], Made]:
        return lambda: (models.resnet50(), (torch.randn(batch, 3, 224, 224),))

    def encoder() -> Made:
        width, depth = (32, 2) if small else (768, 12)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True, dropout=0.0, dtype=torch.bfloat16)
        model = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        return model, (torch.randn(16, 32 if small else 256, width, dtype=torch.bfloat16),)

    listed = {"narrow layers": narrow, "wide layers": wide, "encoder": encoder}
    return listed if small else {**listed, "ResNet-50": images(1), "ResNet-50, 64": images(64)}


def measure(where: Where, part: int, parts: int) -> Iterator[Result]:
    """Yield our times beside those of the hand-written loops, and what timing layers adds."""
    import torch

    for name, make in subjects(where.is_small).items():
        torch.manual_seed(0)
        model, inputs = make()
        model, inputs = model.to(where.device), tuple(tensor.to(where.device) for tensor in inputs)
        yield from _passes(name, model.eval(), inputs, where)
        yield from _steps(name, model.train(), inputs, where)
        yield from _same_twice(name, model.eval(), inputs, where.device)
        yield from _layers(name, model.eval(), inputs, where)


def forward_call(model: Any, *inputs: Any) -> Callable[[], object]:
    """Return a pass without gradients."""
    import torch

    def call() -> None:
        with torch.no_grad():
            model(*inputs)

    return call


def make_training_call(model: Any, *inputs: Any) -> Callable[[], object]:
    """Return a training step without a loss and an optimizer: the gradients of the sum of the outputs."""
    import torch

    def call() -> None:
        for parameter in model.parameters():
            parameter.grad = None
        outputs = model(*inputs)
        torch.autograd.backward([outputs], [torch.ones_like(outputs)])

    return call


def seconds_by_hand(call: Callable[[], object], device: str, rounds: int = _ROUNDS) -> float:
    """Return the median of a call's seconds: by two events around it where there are any, and one wait after each."""
    import torch

    rounds, samples = min(rounds, 4) if device == "cpu" else rounds, []
    for index in range(rounds + rounds // 4):
        if device == "cpu":
            began = time.perf_counter()
            call()
            taken = time.perf_counter() - began
        else:
            torch.cuda.synchronize()
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            call()
            end.record()
            torch.cuda.synchronize()
            taken = start.elapsed_time(end) / 1000
        if index >= rounds // 4:
            samples.append(taken)
    return median(samples)


def _most_seconds(device: str) -> float:
    return 0.1 if device == "cpu" else 1.0


def _clock(call: Callable[[], object], device: str) -> float:
    """Return the median of a call's seconds by the host's clock, until the device is done."""
    import torch

    samples = []
    for _ in range(4 if device == "cpu" else _ROUNDS):
        began = time.perf_counter()
        call()
        if device != "cpu":
            torch.cuda.synchronize()
        samples.append(time.perf_counter() - began)
    return median(samples)


def _passes(name: str, model: Any, inputs: tuple[Any, ...], where: Where) -> Iterator[Result]:
    from profilerkit import ModelInputs, profile

    call = forward_call(model, *inputs)
    first = seconds_by_hand(call, where.device)
    report: Any = profile(
        model, ModelInputs(*inputs), metrics=["execution_time"], max_seconds=_most_seconds(where.device)
    )
    ours = report["execution_time"]
    second, clocked = seconds_by_hand(call, where.device), _clock(call, where.device)
    note = f"noise {ours.noise:.3f}, {len(ours.samples)} samples; {report.status('execution_time').note}"
    by_hand = min((first, second), key=lambda taken: abs(taken - ours.median))
    within = _judge(first, second, where)
    yield Result(STEP, name, "execution_time", ours.median, by_hand, "events by hand", "s", within, note)
    yield Result(STEP, name, "events by hand, again", first, second, "the same before", "s")
    yield Result(STEP, name, "execution_time", ours.median, clocked, "the host's clock", "s")


def _judge(first: float, second: float, where: Where) -> float | None:
    """Return how near our time must be: not at all where the same loop takes twice two times, as on a busy host."""
    return None if where.is_small or abs(first / second - 1) > WITHIN / 2 else WITHIN


def _steps(name: str, model: Any, inputs: tuple[Any, ...], where: Where) -> Iterator[Result]:
    from profilerkit import ModelInputs, profile

    call = make_training_call(model, *inputs)
    first = seconds_by_hand(call, where.device, _ROUNDS_OF_STEPS)
    report: Any = profile(
        model, ModelInputs(*inputs), metrics=["training_time"], max_seconds=_most_seconds(where.device)
    )
    ours = report["training_time"].median
    second = seconds_by_hand(call, where.device, _ROUNDS_OF_STEPS)
    for parameter in model.parameters():
        parameter.grad = None
    by_hand = min((first, second), key=lambda taken: abs(taken - ours))
    within = _judge(first, second, where)
    yield Result(STEP, name, "training_time", ours, by_hand, "events by hand", "s", within)
    yield Result(STEP, name, "step by hand, again", first, second, "the same before", "s")


def _same_twice(name: str, model: Any, inputs: tuple[Any, ...], device: str) -> Iterator[Result]:
    from profilerkit import ModelInputs, compare

    comparison: Any = compare(
        model, model, inputs=ModelInputs(*inputs), metrics=["execution_time"], max_seconds=_most_seconds(device)
    )
    ratio = comparison.ratio("execution_time")
    note, within = f"between {ratio.low:.4f} and {ratio.high:.4f}", None if device == "cpu" else 0.05
    yield Result(STEP, name, "ratio of a model to itself", ratio.value, 1.0, "1", "", within, note)


def _layers(name: str, model: Any, inputs: tuple[Any, ...], where: Where) -> Iterator[Result]:
    """Compare the layer times with the whole, and a pass that is watched with one that is not."""
    from profilerkit import ModelInputs, profile
    from profilerkit_torch import layer_times

    call = forward_call(model, *inputs)
    plain = seconds_by_hand(call, where.device, _ROUNDS_OF_STEPS)
    with layer_times(model):
        watched = seconds_by_hand(call, where.device, _ROUNDS_OF_STEPS)
    yield Result(STEP, name, "pass with layers timed", watched, plain, "the plain pass", "s")
    report: Any = profile(model, ModelInputs(*inputs), metrics=["layer_times"], passes=2 if where.is_small else 20)
    table = report["layer_times"]
    together = sum(row["own_forward_seconds"] or 0 for row in table)
    whole = next(row["forward_seconds"] for row in table if not row["path"])
    yield Result(
        STEP,
        name,
        "layers' own times together",
        together,
        whole,
        "the whole of the table",
        "s",
        None if where.is_small else 0.05,
    )
    yield Result(STEP, name, "the whole of the layer times", whole, plain, "the plain pass", "s")
