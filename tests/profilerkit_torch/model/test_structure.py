"""A profiler notices every change of a model: profile, change, profile again, and it says what a new profiler says."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import pytest
import torch
from structure_changes import StructureChanges
from tiny import Call
from torch import nn
from torch.nn.utils import parametrize

from profilerkit_torch import ComputeComplexity, TorchProfiler
from profilerkit_torch.model.structure import read_structure

CHANGES_OF = StructureChanges(
    TorchProfiler,
    lambda text: [{"none": "tanh", "zeros": "circular", "nearest": "bilinear"}.get(text, f"{text}?")],
)
profiler_of, counts = CHANGES_OF.make_profiler, CHANGES_OF.counts


#: Every family of torch.nn that has attributes, with inputs.
LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    **{
        f"Conv{n}d": (partial(getattr(nn, f"Conv{n}d"), 4, 8, 3, padding=1, stride=1), (1, 4, *(8,) * n))
        for n in (1, 2, 3)
    },
    **{
        f"ConvTranspose{n}d": (partial(getattr(nn, f"ConvTranspose{n}d"), 4, 8, 3, padding=1), (1, 4, *(8,) * n))
        for n in (1, 2, 3)
    },
    **{
        f"{kind}Pool{n}d": (partial(getattr(nn, f"{kind}Pool{n}d"), 2), (1, 4, *(8,) * n))
        for kind in ("Max", "Avg")
        for n in (2,)
    },
    **{
        f"Adaptive{kind}Pool{n}d": (partial(getattr(nn, f"Adaptive{kind}Pool{n}d"), 2), (1, 4, *(8,) * n))
        for kind in ("Max", "Avg")
        for n in (2,)
    },
    "LPPool2d": (partial(nn.LPPool2d, 2, 2), (1, 4, 8, 8)),
    "Upsample": (partial(nn.Upsample, scale_factor=2), (1, 4, 8, 8)),
    "PixelShuffle": (partial(nn.PixelShuffle, 2), (1, 16, 8, 8)),
    "Unfold": (partial(nn.Unfold, 2), (1, 4, 8, 8)),
    "ZeroPad2d": (partial(nn.ZeroPad2d, 1), (1, 4, 8, 8)),
    "Linear": (partial(nn.Linear, 8, 4), (2, 8)),
    "BatchNorm2d": (partial(nn.BatchNorm2d, 4), (2, 4, 8, 8)),
    "InstanceNorm2d": (partial(nn.InstanceNorm2d, 4, track_running_stats=True), (2, 4, 8, 8)),
    "GroupNorm": (partial(nn.GroupNorm, 2, 4), (2, 4, 8, 8)),
    "LayerNorm": (partial(nn.LayerNorm, 8), (2, 8)),
    "RMSNorm": (partial(nn.RMSNorm, 8), (2, 8)),
    "LocalResponseNorm": (partial(nn.LocalResponseNorm, 3), (2, 8, 4)),
    "Dropout": (partial(nn.Dropout, 0.5), (2, 8)),
    "Softmax": (partial(nn.Softmax, -1), (2, 8)),
    "GELU": (nn.GELU, (2, 8)),
    "Flatten": (nn.Flatten, (2, 8, 4)),
    "Threshold": (partial(nn.Threshold, 0.5, 1.0), (2, 8)),
    "LSTM": (partial(nn.LSTM, 8, 4), (3, 2, 8)),
    "GRU": (partial(nn.GRU, 8, 4), (3, 2, 8)),
}


@cache
def attributes_that_count(name: str) -> int:
    make, shape = LAYERS[name]
    return CHANGES_OF.attributes_that_count(make, torch.zeros(shape))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in ("LSTM", "GRU") else []) for name in LAYERS]
)
def test_every_plain_attribute_of_every_layer(name: str) -> None:
    attributes_that_count(name)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["Conv2d", "ConvTranspose1d", "MaxPool2d", "AdaptiveAvgPool2d", "Upsample", "Unfold"])
def test_the_attributes_above_change_counts(name: str) -> None:
    assert attributes_that_count(name)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(8, 8)
        self.act: nn.Module = nn.ReLU()
        self.repeats = [1]
        self.config = type("Config", (), {})()
        self.config.again = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(sum(self.repeats) + self.config.again):
            x = self.act(self.body(x))
        return x


def _patch(net: Net) -> None:
    net.body.forward = lambda input: input @ input.mT @ input  # type: ignore[method-assign]


def _hook(net: Net) -> None:
    net.body.register_forward_hook(lambda module, args, output: output.softmax(-1))


def _frozen_class(net: Net) -> None:
    net.act.__class__ = nn.Softmax
    net.act.dim = -1  # type: ignore[assignment]


def _widen(net: Net) -> None:
    net.body.weight.data = torch.zeros(16, 8)
    net.body.bias.data = torch.zeros(16)
    net.repeats[:] = [1]


class _Squared(nn.Module):
    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight @ weight


CHANGES: dict[str, Callable[[Net], Any]] = {
    "a module replaced": lambda net: setattr(net, "act", nn.Softmax(-1)),
    "a module replaced in the registry": lambda net: net._modules.__setitem__("act", nn.GELU()),
    "a list changed in place": lambda net: net.repeats.append(2),
    "an attribute of an object": lambda net: setattr(net.config, "again", 3),
    "forward patched on an instance": _patch,
    "a hook": _hook,
    "the class of a module": _frozen_class,
    "a parameter's data": _widen,
    "a parameter removed": lambda net: setattr(net.body, "bias", None),
    "a parametrization": lambda net: parametrize.register_parametrization(net.body, "weight", _Squared()),
    "a dtype": lambda net: net.double(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_structure(change: str) -> None:
    dtype = torch.float64 if change == "a dtype" else torch.float32
    CHANGES_OF.assert_noticed(Net(), torch.zeros(4, 8, dtype=dtype), CHANGES[change])


GLOBAL = {"again": 1}


def _close_over(held: dict[str, int]) -> type[nn.Module]:
    def again() -> int:
        return held["again"]

    class Read(nn.Module):
        number = 1

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(held["again"] * self.number * self.static() * self.through):
                x = x.softmax(-1)
            return _repeat(x)

        static = staticmethod(again)
        through = property(lambda self: again())

    return Read


def _repeat(x: torch.Tensor) -> torch.Tensor:
    for _ in range(GLOBAL["again"]):
        x = x + 1
    return x


def _replace(net: nn.Module) -> None:
    type(net).forward = lambda self, x: x.softmax(-1) @ x.mT


OF_CODE: dict[str, Callable[[nn.Module, dict[str, int]], Any]] = {
    "an attribute of the class": lambda net, held: setattr(type(net), "number", 2),
    "a variable that methods close over": lambda net, held: held.update(again=2),
    "a global variable of a function": lambda net, held: GLOBAL.update(again=2),
    "a method of the class": lambda net, held: _replace(net),
}


@pytest.mark.parametrize("change", OF_CODE)
@pytest.mark.parametrize("inherits", [False, True])
def test_a_change_of_what_the_code_reads(change: str, inherits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(GLOBAL, "again", 1)
    held = {"again": 1}
    kind = _close_over(held)
    model = type("Inherits", (kind,), {})() if inherits else kind()
    CHANGES_OF.assert_noticed(nn.Sequential(model), torch.zeros(8, 8), lambda net: OF_CODE[change](net[0], held))


def test_the_values_of_the_issue_by_hand() -> None:
    conv = nn.Conv2d(3, 4, 3, padding=1, bias=False)
    profiler = profiler_of(conv, torch.zeros(1, 3, 6, 6))
    assert counts(profiler)[0] == 6 * 6 * 4 * 3 * 9
    conv.stride = (2, 2)
    assert counts(profiler)[0] == 3 * 3 * 4 * 3 * 9


INPUTS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "an entry of a dict": ({"input": torch.zeros(1, 8)}, lambda d: d.update(input=torch.zeros(100, 8))),
    "an item of a list": ([torch.zeros(1, 8)], lambda one: one.__setitem__(0, torch.zeros(100, 8))),
    "a tensor's size": (torch.zeros(1, 8), lambda x: x.resize_(100, 8)),
    "a tensor's data": (torch.zeros(1, 8), lambda x: setattr(x, "data", torch.zeros(100, 8))),
}


@pytest.mark.parametrize("change", INPUTS)
def test_inputs_changed_in_place(change: str) -> None:
    inputs, apply = INPUTS[change]
    profiler = profiler_of(nn.Linear(8, 2), inputs)
    assert counts(profiler)[0] == 8 * 2
    apply(inputs)
    assert counts(profiler)[0] == 100 * 8 * 2


def repeat(self: Any, x: torch.Tensor, times: Any) -> torch.Tensor:
    """As many times through a layer of 64 MACs as the second input says, and the buffer besides."""
    times = times[0]["deep"][0]["er"] if isinstance(times, list) else times
    for _ in range(int(times) + int(self.more)):
        x = self.layer(x)
    return x


def make_repeating() -> Any:
    return Call(repeat, layer=nn.Linear(8, 8, bias=False), more=nn.Buffer(torch.tensor(0)))


#: A second input that says 2, and how to have it say 5 without a write that torch counts.
TIMES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "an integer through data": (lambda: torch.tensor(2), lambda times: times.data.fill_(5)),
    "an integer through numpy": (lambda: torch.tensor(2), lambda times: times.numpy().fill(5)),
    "a number through numpy": (lambda: torch.tensor(2.0), lambda times: times.numpy().fill(5)),
    "what is nested deeply": (
        lambda: [{"deep": [{"er": 2}]}],
        lambda times: times[0]["deep"][0].update(er=5),
    ),
}


@pytest.mark.parametrize("change", TIMES)
def test_values_of_inputs_that_torch_does_not_see_written(change: str) -> None:
    make, apply = TIMES[change]
    times = make()
    profiler = profiler_of(make_repeating(), [torch.zeros(1, 8), times])
    assert counts(profiler)[0] == 2 * 64
    apply(times)
    assert counts(profiler)[0] == 5 * 64


@pytest.mark.parametrize("write", [lambda b: b.data.fill_(3), lambda b: b.numpy().fill(3)], ids=["data", "numpy"])
def test_an_integer_of_the_model_that_torch_does_not_see_written(write: Callable[[Any], Any]) -> None:
    model = make_repeating()
    profiler = profiler_of(model, [torch.zeros(1, 8), 2])
    assert counts(profiler)[0] == 2 * 64
    write(model.more)
    assert counts(profiler)[0] == 5 * 64


def test_whether_an_input_has_a_gradient() -> None:
    def run(self: Any, x: torch.Tensor) -> Any:
        again = getattr(x, "again", 0) + x.requires_grad
        return self.layer(self.layer(x) if again else x)

    for change in (lambda x: x.requires_grad_(), lambda x: setattr(x, "again", 1)):
        x = torch.zeros(1, 8)
        profiler = profiler_of(Call(run, layer=nn.Linear(8, 8, bias=False)), x)
        assert counts(profiler)[0] == 64
        change(x)
        assert counts(profiler)[0] == 2 * 64


def test_inputs_can_be_resized_after_they_were_looked_at() -> None:
    """``tensor.numpy()`` would share their memory with an array, and forbid it."""
    x = torch.zeros(1, 8)
    assert counts(profiler_of(nn.Linear(8, 2), x))[0] == 16
    assert x.resize_(100, 8).shape == (100, 8)


def test_batches_of_a_split_changed_in_place() -> None:
    batches = [(torch.zeros(1, 8), torch.zeros(1))]
    profiler = TorchProfiler(nn.Linear(8, 2), {"train": batches})
    profiler.register_profiler_function(ComputeComplexity())
    assert profiler.compute_status("total_params") == 18
    assert profiler.compute_status("macs") == 16
    batches[0] = (torch.zeros(1, 3, 8), torch.zeros(1))
    assert profiler.compute_status("macs") == 48


def test_what_did_not_change_is_remembered() -> None:
    CHANGES_OF.assert_remembered(Net(), {"x": torch.zeros(4, 8)}, lambda net: net.train(not net.training))


def test_training_flags_count_where_they_differ() -> None:
    net = nn.Sequential(nn.Dropout(), nn.BatchNorm1d(4))
    before = read_structure(net, flags=False)
    net.eval()
    assert read_structure(net, flags=False) == before
    net[1].train()
    assert read_structure(net, flags=False) != before


@pytest.mark.parametrize(
    "change",
    [
        lambda norm: norm.weight.requires_grad_(False),
        lambda norm: norm.weight.detach().zero_(),
        lambda norm: setattr(norm.weight, "data", norm.weight.data.clone()),  # which counts as no write
        lambda norm: norm.num_batches_tracked.data.add_(1),  # nor does this, and a model may go by its integers
        lambda norm: norm.double(),
    ],
)
def test_what_is_done_to_a_tensor_is_noticed(change: Callable[[nn.Module], Any]) -> None:
    norm = nn.BatchNorm1d(4)
    before = read_structure(norm)
    assert read_structure(norm) == before
    change(norm)
    assert read_structure(norm) != before


def test_a_structure_is_one_walk() -> None:
    """Counted in values written down: linear in the modules, and no more than some dozens for each."""
    lengths = [len(read_structure(nn.Sequential(*(nn.Conv2d(3, 3, 3) for _ in range(n))))) for n in (100, 200, 400)]
    assert lengths[2] - lengths[1] == 2 * (lengths[1] - lengths[0])
    assert lengths[0] < 100 * 200
