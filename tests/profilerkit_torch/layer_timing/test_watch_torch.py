"""Watched training loops: what is measured, to the second by a clock of the test's own; and that nothing changes."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
import torch
from tiny import Call
from torch import nn
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks
from waiting import CLOCK, Busy, X

from profilerkit import InputError, Measurement
from profilerkit.times.watching import Watch
from profilerkit_torch import TorchProfiler, watch
from profilerkit_torch.layer_timing.clocks import HostClock
from profilerkit_torch.layer_timing.step_recorder import TorchStepRecorder
from profilerkit_torch.running.measured_memory import PhaseMemory


class SlowSGD(torch.optim.SGD):
    """Takes seconds for a step."""

    def step(self, closure: Any = None) -> Any:
        CLOCK.now += 7
        return super().step(closure)


def watch_by_clock(model: nn.Module, optimizer: Any = None, at_step: Any = (1, 2)) -> Watch:
    recorder = TorchStepRecorder(model, optimizer, HostClock(CLOCK.read))
    return Watch(TorchProfiler(model)._report_steps, recorder, at_step)


def train(model: nn.Module, optimizer: Any, watched: Watch, steps: int = 4, accumulate: int = 1) -> None:
    with watched:
        for step in range(steps):
            CLOCK.now += 100 * (step + 1)  # loading data
            for _ in range(accumulate):
                model(X).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            watched.step()


@pytest.mark.parametrize("given", [True, False])
def test_each_part_of_a_step_has_its_seconds(given: bool) -> None:
    torch.optim.SGD([torch.ones(1)])  # from then on torch calls hooks for the base class's step too
    model = nn.Sequential(Busy(1, 10), Busy(2, 20))
    optimizer = SlowSGD(model.parameters(), lr=0.1)
    watched = watch_by_clock(model, optimizer if given else None)
    train(model, optimizer, watched)
    records = watched.steps.steps
    assert list(records) == [1, 2]
    for step, record in records.items():
        assert (record.forward, record.backward, record.optimizer) == (3, 30, 7)
        assert record.other == 100 * (step + 1)
        assert record.seconds == 100 * (step + 1) + 40
    report = watched.report()
    table = report["layer_times"]
    assert [row["forward_seconds"] for row in table] == [3, 1, 2]
    assert [row["backward_seconds"] for row in table] == [30, 10, 20]
    assert report["step_time"].samples == (240, 340)
    assert report.batch_size == 2


def test_several_calls_of_a_step_are_added_up() -> None:
    model = Busy(1, 10)
    optimizer = SlowSGD(model.parameters(), lr=0.1)
    watched = watch_by_clock(model, at_step=1)
    train(model, optimizer, watched, accumulate=3)
    (record,) = watched.steps.steps.values()
    assert (record.forward, record.backward, record.optimizer) == (3, 30, 7)
    assert watched.report()["layer_times"].samples("") == (1, 1, 1)  # each call is a pass


@pytest.mark.parametrize(("calls", "seconds"), [(3, 3), (4, None)])
def test_a_step_of_more_calls_than_are_kept_has_no_sum_of_them(
    monkeypatch: pytest.MonkeyPatch, calls: int, seconds: int | None
) -> None:
    """Three are kept here. The sum of the last ones alone would pass for the whole step, and their number for all."""
    monkeypatch.setattr("profilerkit_torch.layer_timing.step_recorder._KEPT", 3)
    model = Busy(1, 10)
    optimizer = SlowSGD(model.parameters(), lr=0.1)
    watched = watch_by_clock(model, at_step=(1, 2))
    train(model, optimizer, watched, accumulate=calls)
    for record in watched.steps.steps.values():
        assert (record.forward, record.optimizer, record.calls) == (seconds, 7, seconds)
        assert record.backward == (None if seconds is None else 10 * seconds)
    if seconds is None:
        reason = "the model was called more than 3 times in a step: so many times are not kept"
        assert watched.steps.explain_absence("forward") == watched.steps.explain_absence("backward") == reason


def test_only_the_given_optimizer_counts() -> None:
    model, other = Busy(1, 10), Busy(1, 1)
    mine, theirs = (SlowSGD(item.parameters(), lr=0.1) for item in (model, other))
    for given, seconds in ((mine, 7), (None, 14)):
        watched = watch_by_clock(model, given, 0)
        with watched:
            model(X).sum().backward()
            mine.step()
            theirs.step()
            watched.step()
        assert watched.steps.steps[0].optimizer == seconds


class Wrapped(torch.optim.Optimizer):
    """Wraps an optimizer as accelerate does: it is one of torch's by its class, and has no hooks of its own."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer

    def step(self, closure: Any = None) -> Any:
        return self.optimizer.step(closure)


def test_the_steps_of_a_wrapped_optimizer_are_seen() -> None:
    model = Busy(1, 10)
    optimizer = Wrapped(SlowSGD(model.parameters(), lr=0.1))
    watched = watch_by_clock(model, optimizer, 0)
    with watched:
        model(X).sum().backward()
        optimizer.step()
        watched.step()
    assert watched.steps.steps[0].optimizer == 7
    assert "no optimizer made a step" in watched.steps.reasons["optimizer"]


def test_a_step_with_gradients_of_gradients_has_no_backward_time() -> None:
    model, x = nn.Linear(3, 1), torch.ones(2, 3).requires_grad_()
    with watch(model, at_step=0) as watched:
        (gradient,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        gradient.pow(2).sum().backward()
        watched.step()
    status = watched.report(["backward_time"]).statuses["backward_time"]
    assert status.missing == (
        "with create_graph=True gradients have gradients, whose time is in no layer or a wrong one",
    )


def test_a_forward_pass_alone_says_what_there_was_not() -> None:
    model = Busy(1, 10)
    watched = watch_by_clock(model, at_step=0)
    with watched, torch.no_grad():
        model(X)
        watched.step()
    report = watched.report()
    assert report["forward_time"].samples == (1,)
    assert report.statuses["backward_time"].missing[0].startswith("no backward pass came through the model")
    assert report.statuses["optimizer_time"].missing[0].startswith("no optimizer made a step")


def test_a_model_that_was_not_called_is_said() -> None:
    watched = watch_by_clock(Busy(1, 10), at_step=0)
    with watched:
        watched.step()
    report = watched.report()
    assert report.statuses["forward_time"].missing[0].startswith("the model was not called")
    assert report.statuses["layer_times"].missing[0].startswith("the model was not called")


def network() -> nn.Module:
    layers = [nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(inplace=True), nn.Dropout(0.3), nn.Linear(16, 3)]
    return nn.Sequential(*layers)


def train_network(optimizer_class: type[torch.optim.Optimizer], at_step: Any) -> tuple[list[Any], Any, Watch | None]:
    """Return everything that a run leaves: weights, buffers, gradients, the optimizer's state and random numbers."""
    torch.manual_seed(1)
    model = network()
    optimizer = optimizer_class(model.parameters(), lr=0.05)  # type: ignore[call-arg]
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    watched = watch(model, at_step=at_step)
    losses = []
    with watched:
        for _ in range(6):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(torch.randn(8, 6)), torch.randint(0, 3, (8,)))
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
            watched.step()
    held = [*model.state_dict().values(), *(parameter.grad for parameter in model.parameters()), torch.get_rng_state()]
    return [losses, optimizer.state_dict()["param_groups"], *held], model, watched


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_the_run_is_bitwise_that_of_an_unwatched_one(optimizer: type[torch.optim.Optimizer]) -> None:
    random.seed(3)
    plain, *_ = train_network(optimizer, None)
    observed, model, watched = train_network(optimizer, (0, 2, 3, 4))
    assert watched is not None and len(watched.steps.steps) == 4
    assert observed[:2] == plain[:2]
    for ours, theirs in zip(observed[2:], plain[2:], strict=True):
        assert torch.equal(ours, theirs)
    expected = random.Random(3).random()
    watched.report()
    assert random.random() == expected
    require_nothing_left(model)


def require_nothing_left(model: nn.Module) -> None:
    assert not _global_optimizer_pre_hooks and not _global_optimizer_post_hooks
    for module in model.modules():
        hooks = (module._forward_hooks, module._forward_pre_hooks, module._forward_pre_hooks_with_kwargs)
        assert not any(hooks)
        assert "_call_impl" not in module.__dict__
    copy.deepcopy(model)


@pytest.mark.parametrize("where", ["model", "loss", "optimizer"])
def test_errors_go_on_and_nothing_is_left(where: str) -> None:
    def work(self: Any, x: torch.Tensor) -> torch.Tensor:
        if where == "model":
            raise ValueError("mine")
        return self.inner(x)  # type: ignore[no-any-return]

    class Failing(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            raise ValueError("mine")

    model = Call(work, inner=nn.Linear(2, 2))
    optimizer = (Failing if where == "optimizer" else torch.optim.SGD)(model.parameters(), lr=0.1)
    hooks = len(optimizer._optimizer_step_pre_hooks), len(optimizer._optimizer_step_post_hooks)
    with pytest.raises(ValueError, match="mine"), watch(model, optimizer, 0) as watched:
        loss = model(torch.ones(1, 2)).sum()
        if where == "loss":
            raise ValueError("mine")
        loss.backward()
        optimizer.step()
        watched.step()
    assert watched.steps.steps == {}
    assert (len(optimizer._optimizer_step_pre_hooks), len(optimizer._optimizer_step_post_hooks)) == hooks
    require_nothing_left(model)


def test_hooks_are_there_in_the_chosen_steps_alone() -> None:
    model = nn.Linear(2, 2)
    seen = []
    with watch(model, at_step=1) as watched:
        for _ in range(3):
            seen.append(
                (len(model._forward_pre_hooks), "_call_impl" in model.__dict__, len(_global_optimizer_pre_hooks))
            )
            watched.step()
    assert seen == [(0, False, 0), (1, True, 1), (0, False, 0)]


def test_the_counts_are_those_of_what_the_model_was_called_with() -> None:
    model = nn.Linear(3, 5)
    watched = TorchProfiler(model, inputs=torch.ones(1, 3)).watch(at_step=None)
    watched.start()
    model(input=torch.ones(7, 3)).sum().backward()
    watched.stop()
    report = watched.report()
    assert report["macs"] == 7 * 3 * 5
    assert isinstance(report["step_time"], Measurement)
    assert model.training and model.weight.grad is not None


def test_the_memory_of_training_has_the_state_of_the_optimizer_that_stepped() -> None:
    model = nn.Linear(3, 5)
    found = {}
    for kind in (torch.optim.SGD, torch.optim.Adam):
        optimizer = kind(model.parameters())
        with watch(model, at_step=0) as watched:
            model(torch.ones(7, 3)).sum().backward()
            optimizer.step()
            watched.step()
        found[kind.__name__] = watched.report()["training_memory_parts"]["optimizer_state"]
    assert found == {
        "SGD": 0,
        "Adam": 2 * (15 + 5) * 4 + 2 * 4,
    }  # two moments of each weight, a count of steps for each


def test_an_optimizer_without_hooks_is_said() -> None:
    class Own:
        def step(self) -> None:
            """Do nothing."""

    watched = watch(nn.Linear(2, 2), Own(), 0)
    with watched:
        watched.step()
    said = watched.report(["optimizer_time"]).statuses["optimizer_time"].missing
    assert said == ("the optimizer Own is no torch.optim.Optimizer, so that its steps cannot be seen",)
    with pytest.raises(InputError, match="optimizer=0.1: give what updates the weights, such as a torch.optim.Optim"):
        watch(nn.Linear(2, 2), 0.1)


@pytest.mark.parametrize("devices", [1, 2])
def test_memory_is_what_the_allocators_say_at_the_end_of_each_part(
    devices: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No device is needed for the arithmetic: the peak is told where it has risen. Devices of a model are added up."""
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 70)
    memory = PhaseMemory([torch.device("cuda", index) for index in range(devices)])
    readings = {"forward": (50, 80), "backward": (40, 90), "optimizer": (60, 90), "step": (20, 90)}
    for part, (now, peak) in readings.items():
        monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device, now=now: now)
        monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device, peak=peak: peak)
        memory.note(part)
    assert memory.figures == {
        "forward_end": devices * 50,
        "forward_peak": devices * 80,
        "backward_end": devices * 40,
        "backward_peak": devices * 90,
        "optimizer_end": devices * 60,
        "step_end": devices * 20,
    }


@pytest.mark.parametrize("by_name", [False, True])
def test_the_passes_in_a_closure_are_not_the_optimizers(by_name: bool) -> None:
    """Lightning and L-BFGS compute the gradients in the optimizer's step: 1 s forward, 10 s backward, 7 s its own."""

    class Closing(SlowSGD):
        def step(self, closure: Any = None) -> Any:
            loss = closure()
            super().step()
            return loss

    model = Busy(1, 10)
    optimizer = Closing(model.parameters(), lr=0.1)
    watched = watch_by_clock(model, at_step=0)

    def closure() -> Any:
        loss = model(X).sum()
        loss.backward()
        return loss

    with watched:
        loss = optimizer.step(closure=closure) if by_name else optimizer.step(closure)
        watched.step()
    assert torch.is_tensor(loss), "the optimizer returns what the closure did"
    (record,) = watched.steps.steps.values()
    assert (record.forward, record.backward, record.optimizer) == (1, 10, 7)
