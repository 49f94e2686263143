"""Layer times where something raises, and of layers whose calls cannot be seen."""

from __future__ import annotations

import copy
import pickle
import threading
from typing import Any

import pytest
import torch
from time_limits import join
from tiny import Call
from torch import nn
from waiting import CLOCK, Busy, X, fail_backward, make_timer, seconds, time_steps

from profilerkit import profile
from profilerkit_torch import layer_times
from profilerkit_torch.layer_timing.clocks import EventClock, HostClock, WaitingClock, choose_clock
from profilerkit_torch.layer_timing.remarks import find_unseen_layers
from profilerkit_torch.layer_timing.timer import TorchLayerTimer


def test_a_pass_that_raises_is_left_out_and_its_error_goes_on() -> None:
    def work(self: Any, x: torch.Tensor) -> torch.Tensor:
        y = self.a(x)
        if self.fails:
            raise ArithmeticError("half-way")
        return y  # type: ignore[no-any-return]

    model: Any = Call(work, a=Busy(1, 10))
    with make_timer(model) as timer:
        for model.fails in (False, True, False):
            try:
                model(X).sum().backward()
            except ArithmeticError:
                CLOCK.now += 100
    assert timer.table.samples("") == (1, 1)
    assert timer.table.samples("a", "backward_seconds") == (10, 10)
    model.fails = True
    with pytest.raises(ArithmeticError, match="half-way"), timer:
        model(X)
    assert all("_call_impl" not in module.__dict__ for module in model.modules())


def test_a_backward_pass_that_raises_is_left_out() -> None:
    model: Any = Call(lambda self, x: self.b(fail_backward(self.a(x)) if self.fails else self.a(x)))
    model.a, model.b = Busy(1, 10), Busy(2, 20)
    with make_timer(model) as timer:
        for model.fails in (False, True, False):
            try:
                model(X).sum().backward()
            except ArithmeticError:
                CLOCK.now += 100
    assert timer.table.samples("") == (3, 3, 3)
    assert timer.table.samples("", "backward_seconds") == (30, 30)
    model.fails = True
    with pytest.raises(ArithmeticError, match="on the way back"), timer:
        model(X).sum().backward()


def test_gradients_computed_inside_a_layer_are_forward_time_of_it() -> None:
    def energy(self: Any, x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            y = x.detach().clone().requires_grad_()
            (gradient,) = torch.autograd.grad(self.inner(y).sum(), y)
        return gradient

    table = time_steps(nn.Sequential(Call(energy, inner=Busy(1, 10)), Busy(2, 20)))
    assert seconds(table, "forward_seconds") == {"": 13, "0": 11, "0.inner": 1, "1": 2}
    assert seconds(table, "backward_seconds") == {"": 20, "0": 0, "0.inner": 0, "1": 20}


def test_layers_in_another_thread_are_said() -> None:
    def work(self: Any, x: torch.Tensor) -> torch.Tensor:
        thread = threading.Thread(target=self.side, args=(x,))
        thread.start()
        join(thread)
        return self.main(x)  # type: ignore[no-any-return]

    table = time_steps(Call(work, side=Busy(1, 10), main=Busy(2, 20)))
    assert table["side"]["missing"] == "it was called in another thread too, where it is not timed"
    assert table["main"]["missing"] == ""
    assert table[""]["forward_seconds"] == 3, "the model waits for it"


def test_layers_that_one_kernel_took_over_have_no_time_and_say_so() -> None:
    """Torch runs the layer of a transformer as one kernel, which calls neither the attention nor what is inside it."""
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()
    report = profile(layer, torch.ones(2, 3, 4), metrics=["layer_times", "macs"], passes=1, backward=False)
    whole, *inside = report["layer_times"]
    assert whole["own_forward_seconds"] == whole["forward_seconds"] > 0
    assert {row["path"] for row in inside} > {"self_attn", "self_attn.out_proj", "linear1"}
    for row in inside:
        assert (row["forward_seconds"], row["own_forward_seconds"]) == (None, None)
        assert row["missing"].startswith("it was not called; where its weights are used, the layer around it has")
    assert " 0 s" not in str(report)


def test_a_list_of_layers_that_are_not_called_has_no_time() -> None:
    table = time_steps(Call(lambda self, x: self.used(x), used=Busy(1, 10), unused=nn.ModuleList([nn.ReLU()])))
    assert (table["unused"]["forward_seconds"], table["unused.0"]["forward_seconds"]) == (None, None)
    assert table[""]["forward_seconds"] == table["used"]["forward_seconds"] == 1


def test_what_is_not_called_is_said() -> None:
    attention = nn.MultiheadAttention(4, 2)
    x = torch.ones(3, 1, 4)
    row = time_steps(Call(lambda self, x: self.attention(x, x, x)[0], attention=attention), x)["attention.out_proj"]
    assert (row["calls"], row["forward_seconds"], row["backward_seconds"]) == (0, None, None)
    assert row["missing"].startswith("it was not called; where its weights are used, the layer around it has")


@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_inside_torchscript_single_layers_are_not_told_apart() -> None:
    scripted = torch.jit.script(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    with layer_times(nn.Sequential(scripted, nn.Tanh())) as timer:
        timer.layers[0][1](X).sum().backward()
    rows = {row["path"]: row for row in timer.table}
    assert rows["0.0"]["missing"].startswith("it runs inside TorchScript (RecursiveScriptModule), which has the time")
    assert (rows["0"]["calls"], rows["0.0"]["calls"]) == (1, 0)
    assert rows["0"]["forward_seconds"] > 0 and rows["0"]["backward_seconds"] > 0


def test_torchscript_that_a_model_does_not_call_is_said_to_be_so() -> None:
    with layer_times(nn.ModuleList([nn.ReLU(), torch.jit.script(nn.Tanh())])) as timer:
        timer.layers[1][1](X)
    assert [row["missing"].startswith("it was not called") for row in timer.table if row["path"]] == [False, True]


@pytest.mark.parametrize("how", ["compile", "method"])
def test_inside_what_is_compiled_single_layers_are_not_told_apart(how: str) -> None:
    inner: Any = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    if how == "method":
        inner.compile(backend="eager")
    else:
        inner = torch.compile(inner, backend="eager")
    model = nn.Sequential(inner, nn.Tanh())
    model(X)
    with layer_times(model) as timer:
        model(X).sum().backward()
    rows = {row["path"]: row for row in timer.table}
    inside = "0.0" if how == "method" else "0._orig_mod.0"
    assert rows[inside]["missing"].startswith("it runs inside what torch.compile has compiled")
    assert rows["0"]["forward_seconds"] > 0 and rows["0"]["backward_seconds"] > 0


def test_copies_in_threads_of_data_parallel_are_not_told_apart() -> None:
    parallel = nn.DataParallel(nn.Sequential(nn.ReLU()))
    assert find_unseen_layers(parallel) == {}, "without two devices it calls the module itself"
    parallel.device_ids = [0, 1]
    reason = "it runs as a copy in the threads of DataParallel, which has the time: single layers are not told apart"
    assert [words.startswith(reason) for words in find_unseen_layers(parallel).values()] == [True, True]


class Event:
    """Stands in for an event of a device: it notes the tests' clock, tells milliseconds, and who waited for it."""

    waited = 0
    done = False

    def __init__(self, device: torch.device, enable_timing: bool) -> None:
        assert enable_timing

    def record(self, stream: str) -> None:
        assert stream == "stream of cuda:1"
        self.moment = CLOCK.now

    def query(self) -> bool:
        return Event.done

    def synchronize(self) -> None:
        Event.waited += 1

    def elapsed_time(self, other: Event) -> float:
        return (other.moment - self.moment) * 1000


@pytest.mark.parametrize("done", [False, True])
def test_events_of_a_device_are_read_when_it_is_done(done: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Event, "done", done)
    monkeypatch.setattr(Event, "waited", 0)
    model = nn.Sequential(Busy(1, 10), nn.ReLU(inplace=True), Busy(2, 20))
    clock = EventClock(torch.device("cuda:1"), Event, lambda device: f"stream of {device}")
    with TorchLayerTimer(model, clock=clock) as timer:
        for _ in range(3):
            model(X).sum().backward()
        assert (Event.waited > 0) == done, "nothing waits for a device at work"
    table = timer.table
    assert Event.waited > 0
    assert table.samples("") == pytest.approx([3] * 3)
    assert table.samples("", "backward_seconds") == pytest.approx([30] * 3)
    assert seconds(table, "backward_seconds") == pytest.approx({"": 30, "0": 10, "1": 0, "2": 20})
    assert table[""]["overhead_seconds"] is None, "what the host does meanwhile is no time of the device's"


def test_no_moments_are_no_seconds() -> None:
    device = EventClock(torch.device("cuda:1"), Event, lambda device: f"stream of {device}")
    assert [list(clock.seconds([])) for clock in (HostClock(), device)] == [[], []]


def test_the_clock_is_that_of_the_device() -> None:
    cpu, one, two = (torch.device(name) for name in ("cpu", "cuda:0", "cuda:1"))
    assert type(choose_clock([])) is type(choose_clock([cpu])) is HostClock
    clock = choose_clock([two, cpu, one])
    assert isinstance(clock, WaitingClock)
    assert clock.note == "each layer's work was waited for on cuda:0, cuda:1, which takes time of its own"
    waiting = WaitingClock([cpu])
    assert waiting.read() <= waiting.read()
    with TorchLayerTimer(nn.ReLU(), clock=waiting) as timer:
        timer.layers[0][1](X)
    assert timer.table[""]["missing"].startswith("each layer's work was waited for on cpu")


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad])
def test_a_timer_made_where_nothing_has_a_gradient(mode: Any) -> None:
    with mode(), layer_times(nn.ReLU()) as timer:
        timer.layers[0][1](X)
    assert len(timer.table) == 1


def test_a_timer_inside_a_timer() -> None:
    model = nn.Sequential(Busy(1, 10), Busy(2, 20))
    with make_timer(model) as outer:
        with make_timer(model[1]) as inner:
            model(X).sum().backward()
        model(X).sum().backward()
    assert outer.table.samples("1", "backward_seconds") == (20, 20)
    assert outer.table.samples("", "backward_seconds") == (30, 30)
    assert inner.table.samples("", "backward_seconds") == (20,)


def test_copies_made_meanwhile_are_models_of_their_own() -> None:
    model: Any = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with layer_times(model):
        model(X)
        twins = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    with torch.no_grad():
        model[0].weight.zero_()
        model[0].bias.zero_()
    for twin in twins:
        twin[0].weight.data.fill_(1)
        twin[0].bias.data.zero_()
        assert twin(X).tolist() == [2, 2], "not the original's"


def test_a_block_inside_its_own_block_is_refused() -> None:
    timer = layer_times(nn.ReLU())
    with timer, pytest.raises(RuntimeError, match="this timer runs already: leave its block first"), timer:
        pass
    assert len(timer.table) == 0
