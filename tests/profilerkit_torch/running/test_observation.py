"""The runs that a profile makes anyway are compared with its static pass: honest models agree, others are noticed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch_architectures
from tiny import BACKEND, Call
from torch import nn
from torch.nn import functional as F

from profilerkit import ModelInputs, Report, RunOptions, profile
from profilerkit.testing.architectures import ARCHITECTURES
from profilerkit.trace import ObservedRun
from profilerkit.trace.observed_runs import explain_contradiction
from profilerkit_torch import register_op_cost
from profilerkit_torch.costs import Cost, scoped_costs
from profilerkit_torch.costs.registry import COSTS

#: Multiply-accumulates of ``Two.narrow`` and ``Two.wide`` for two samples: 2 * 8 * 8 and 2 * 8 * 16.
NARROW, WIDE = 128, 256
X = torch.ones(2, 8)


class Two(nn.Module):
    """A narrow and a wide layer; ``chosen`` says which one runs."""

    def __init__(self, chosen: Callable[[Any, torch.Tensor], bool]) -> None:
        super().__init__()
        self.narrow, self.wide = nn.Linear(8, 8), nn.Linear(8, 16)
        self.chosen = chosen
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        result: torch.Tensor = self.wide(x) if self.chosen(self, x) else self.narrow(x)
        return result


def is_called_by_a_pass() -> bool:
    """Return whether the static pass calls, which no mode can hide from a model."""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_globals.get("__name__") == "profilerkit_torch.trace.static_pass":
            return True
    return False


#: Models whose static pass takes one way and whose runs take the other, or now one and now the other.
PLANTED: dict[str, Callable[[Any, torch.Tensor], bool]] = {
    "the code that calls it": lambda model, x: is_called_by_a_pass(),
    "the first call": lambda model, x: model.calls == 1,
    "later calls": lambda model, x: model.calls > 2,
}


def observe_runs(model: nn.Module, *args: Any, **kwargs: Any) -> list[ObservedRun]:
    with BACKEND.run(model, ModelInputs(*args, **kwargs)) as run:
        run()
        run.observe()
    return run.runs


def difference(model: nn.Module, *args: Any, **kwargs: Any) -> str:
    trace = BACKEND.trace(model, ModelInputs(*args, **kwargs))
    assert trace.failure is None, trace.failure
    return explain_contradiction(trace, observe_runs(model, *args, **kwargs))


def incomplete(report: Report) -> set[str]:
    return {key for key in ("macs", "flops", "memory_footprint") if report.status(key).missing}


@pytest.mark.parametrize("what", PLANTED)
def test_a_model_that_takes_another_way_when_it_is_run_is_noticed(what: str) -> None:
    report = profile(Two(PLANTED[what]), X, max_seconds=0.2)
    assert incomplete(report) == {"macs", "flops", "memory_footprint"}
    assert report["macs"] in (NARROW, WIDE)
    words = " ".join(report.status("macs").missing)
    assert f"has {NARROW + WIDE - report['macs']} MACs in its operators, the static pass {report['macs']}" in words
    assert report.status("total_params").missing == report.status("execution_time").missing == ()


def test_a_depth_that_is_drawn_is_noticed() -> None:
    class Depth(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(10))
            self.drawn = iter([3, 5, 7, 9, 4] * 1000)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers[: next(self.drawn)]:
                x = layer(x)
            return x

    report = profile(Depth(), X, max_seconds=0.2)
    assert report["macs"] == 3 * NARROW
    assert f"the static pass {3 * NARROW}" in report.status("macs").missing[0]


def test_time_is_noticed() -> None:
    start = time.perf_counter()
    ticks = iter(range(10**6))
    late = Two(lambda model, x: next(ticks) > 0 and time.perf_counter() > start)
    report = profile(late, X, max_seconds=0.2)
    assert report["macs"] == NARROW
    assert f"its first run has {WIDE} MACs" in report.status("macs").missing[0]


@pytest.mark.parametrize("metric", ["execution_time", "layer_times", "operator_table", "measured_memory"])
def test_every_metric_that_runs_the_model_notices(metric: str) -> None:
    options: dict[str, Any] = {"passes": 2} if metric in ("layer_times", "operator_table") else {}
    report = profile(Two(PLANTED["the code that calls it"]), X, metrics=["macs", metric], **options)
    assert report["macs"] == WIDE
    assert "other work when it is run" in report.status("macs").missing[0]
    honest = profile(Two(lambda model, x: True), X, metrics=["macs", metric], **options)
    assert (honest["macs"], honest.status("macs").missing) == (WIDE, ())


@pytest.mark.parametrize("options", [{"max_seconds": 1e-6}, {"warmup": 0}, {"warmup": 1}], ids=str)
def test_what_only_later_passes_do_is_noticed_however_few_are_left_out(options: dict[str, Any]) -> None:
    report = profile(Two(PLANTED["later calls"]), X, metrics=["macs", "execution_time"], num_iters=3, **options)
    assert report["macs"] == NARROW
    assert f"a later run has {WIDE} MACs" in report.status("macs").missing[0]


@pytest.mark.parametrize("metric", ["layer_times", "operator_table"])
def test_layers_that_only_later_passes_call_are_noticed(metric: str) -> None:
    report = profile(Two(PLANTED["later calls"]), X, metrics=["macs", metric], passes=2, backward=False)
    (words,) = report.status("macs").missing
    assert "'narrow' 0 times (static pass: 1), 'wide' once (static pass: 0)" in words


@pytest.mark.parametrize("name", torch_architectures.BUILDERS)
def test_architectures_agree(name: str) -> None:
    model = torch_architectures.build(name)
    shapes = ARCHITECTURES[name].input_shape("channels_first")
    if isinstance(shapes, dict):
        inputs = ModelInputs(**{key: BACKEND.random_tensor(spec, 3) for key, spec in shapes.items()})
    else:
        inputs = ModelInputs(*(BACKEND.random_tensor(spec, 3) for spec in shapes))
    trace = BACKEND.trace(model, inputs)
    runs = observe_runs(model, *inputs.args, **inputs.kwargs)
    assert explain_contradiction(trace, runs) == ""
    assert [run.macs for run in runs] == [ARCHITECTURES[name].macs(3)] * 2


KEEP = torch.ones(5, 5, dtype=torch.bool).tril()


def in_inference_mode(model: Any, x: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        return F.linear(x, torch.ones(3, x.shape[-1])) @ torch.ones(3, 2)


def under_autocast(model: Any, x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu"):
        return F.linear(x, torch.ones(3, x.shape[-1]))


def with_gradients(model: Any, x: torch.Tensor) -> torch.Tensor:
    with torch.enable_grad():
        needs = x.detach().requires_grad_()
        return torch.autograd.grad((needs @ needs.mT).sum(), needs)[0]


#: Composite operators, which the static pass sees whole or taken apart, and a run taken apart or fused.
HONEST: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "lstm": (lambda: nn.LSTM(8, 16, 2, batch_first=True), (2, 5, 8)),
    "bidirectional gru": (lambda: nn.GRU(8, 16, bidirectional=True), (5, 2, 8)),
    "projected lstm": (lambda: nn.LSTM(8, 16, proj_size=4), (5, 2, 8)),
    "cell": (lambda: nn.GRUCell(8, 16), (2, 8)),
    "encoder": (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2), (2, 5, 16)),
    "grouped convolution": (lambda: nn.Conv2d(8, 12, 3, padding="same", groups=4, dilation=2), (2, 8, 9, 9)),
    "transposed convolution": (lambda: nn.ConvTranspose1d(8, 12, 3, groups=2, stride=2), (2, 8, 7)),
    "double": (lambda: nn.Sequential(nn.Linear(8, 4)).double(), (2, 8)),
    "attention": (lambda: Call(lambda _, x: F.scaled_dot_product_attention(x, x, x)), (2, 4, 5, 8)),
    "causal": (lambda: Call(lambda _, x: F.scaled_dot_product_attention(x, x, x, is_causal=True)), (2, 4, 5, 8)),
    "masked": (lambda: Call(lambda _, x: F.scaled_dot_product_attention(x, x, x, attn_mask=KEEP)), (2, 4, 5, 8)),
    "narrow values": (lambda: Call(lambda _, x: F.scaled_dot_product_attention(x, x, x[..., :4])), (2, 4, 5, 8)),
    "half": (lambda: Call(lambda _, x: F.scaled_dot_product_attention(x.half(), x.half(), x.half())), (2, 4, 5, 8)),
    "einsum": (lambda: Call(lambda _, x: torch.einsum("bij,bkj->bik", x, x)), (2, 5, 8)),
    "folded matmul": (lambda: Call(lambda m, x: x @ m.a.weight, a=nn.Linear(8, 8)), (2, 5, 8)),
    "bilinear": (lambda: Call(lambda m, x: m.a(x, x), a=nn.Bilinear(8, 8, 3)), (2, 8)),
    "distances": (lambda: Call(lambda _, x: torch.cdist(x, x)), (2, 5, 8)),
    "matrix power": (lambda: Call(lambda _, x: torch.linalg.matrix_power(x, 5)), (4, 4)),
    "complex": (lambda: Call(lambda _, x: torch.complex(x, x) @ torch.complex(x, x).mT), (2, 5, 8)),
    "vmap": (lambda: Call(lambda m, x: torch.vmap(m.a)(x), a=nn.Linear(8, 3)), (2, 5, 8)),
    "inference mode inside": (lambda: Call(in_inference_mode), (2, 8)),
    "autocast inside": (lambda: Call(under_autocast), (2, 8)),
    "gradients inside": (lambda: Call(with_gradients), (2, 8)),
    "script": (lambda: torch.jit.script(nn.Sequential(nn.Linear(8, 8), nn.ReLU())), (2, 8)),
    "compiled": (lambda: torch.compile(nn.Sequential(nn.Linear(8, 8), nn.ReLU()), backend="eager"), (2, 8)),
}


@pytest.mark.filterwarnings("ignore:LSTM with projections", "ignore:.*torch.jit.script.* is deprecated")
@pytest.mark.parametrize("trained", [True, False])
@pytest.mark.parametrize("name", HONEST)
def test_composite_operators_agree_however_they_are_taken_apart(name: str, trained: bool) -> None:
    build, shape = HONEST[name]
    model = build()
    for parameter in model.parameters():
        parameter.requires_grad_(trained)
    x = torch.rand(shape, dtype=torch.double if name == "double" else torch.float)
    assert difference(model, x) == ""
    assert all(run.macs is not None for run in observe_runs(model, x))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_an_encoder_that_leaves_padding_out_is_no_observation() -> None:
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2).eval()
    options = {"src_key_padding_mask": torch.tensor([[False, False, False, True, True], [False] * 5])}
    assert difference(encoder, torch.rand(2, 5, 16), **options) == ""
    assert [run.macs for run in observe_runs(encoder, torch.rand(2, 5, 16), **options)] == [None] * 2


def encoder_layer(**options: Any) -> Callable[[], nn.TransformerEncoderLayer]:
    return lambda: nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, **options)


#: Layers that torch runs as one operator, and what else they are called with.
FUSED: dict[str, tuple[Callable[[], nn.Module], dict[str, Any]]] = {
    "encoder layer": (encoder_layer(), {}),
    "norms first, GELU": (encoder_layer(norm_first=True, activation="gelu"), {}),
    "masked": (encoder_layer(), {"src_mask": torch.zeros(5, 5)}),
    "padded": (encoder_layer(), {"src_key_padding_mask": torch.tensor([[False] * 3 + [True] * 2, [False] * 5])}),
}


@pytest.mark.parametrize("name", FUSED)
def test_fused_layers_are_observed_whole_and_agree(name: str) -> None:
    build, options = FUSED[name]
    model, x = build().eval(), torch.rand(2, 5, 16)
    layer = 4 * 10 * 16 * 16 + 2 * 10 * 5 * 16 + 2 * 10 * 16 * 32
    with BACKEND.run(model, ModelInputs(x, **options)) as run:
        run.observe()
    assert [seen.macs for seen in run.runs] == [layer] * 2
    assert difference(model, x, **options) == ""


@pytest.mark.parametrize("needs_weights", [True, False])
def test_fused_attention_agrees(needs_weights: bool) -> None:
    attention = nn.MultiheadAttention(16, 4, batch_first=True).eval()
    model = Call(lambda m, x: m.a(x, x, x, need_weights=needs_weights), a=attention).eval()
    x = torch.rand(2, 5, 16)
    assert difference(model, x) == ""
    assert [run.macs for run in observe_runs(model, x)] == [4 * 10 * 16 * 16 + 2 * 10 * 5 * 16] * 2


@pytest.mark.parametrize("what", PLANTED)
def test_another_way_through_fused_layers_is_noticed(what: str) -> None:
    """One layer or two of an encoder."""
    model = Two(PLANTED[what])
    for name, depth in (("narrow", 1), ("wide", 2)):
        encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), depth)
        setattr(model, name, encoder)
    report = profile(model.eval(), torch.rand(2, 5, 16), num_iters=3, warmup=3)
    layer = 4 * 10 * 16 * 16 + 2 * 10 * 5 * 16 + 2 * 10 * 16 * 32
    assert report["macs"] in (layer, 2 * layer)
    words = " ".join(report.status("macs").missing)
    assert f"has {3 * layer - report['macs']:,} MACs in its operators, the static pass {report['macs']:,}" in words


@pytest.mark.parametrize("metric", ["layer_times", "operator_table"])
def test_layers_inside_a_fused_one_are_no_contradiction(metric: str) -> None:
    encoder = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval().requires_grad_(False)
    report = profile(encoder, torch.rand(2, 5, 16), metrics=["macs", metric], passes=2, backward=False)
    assert report.status("macs").missing == ()


def test_what_is_hidden_is_no_observation() -> None:
    def looping(_: Any, x: torch.Tensor) -> torch.Tensor:
        result = torch.cond(x.sum() > 0, lambda y: y @ y, lambda y: y * 1, (x,))
        return torch.as_tensor(result)

    assert {run.macs for run in observe_runs(Call(looping), torch.ones(4, 4))} == {None}
    assert {run.macs for run in observe_runs(Call(lambda m, x: m.a(x), a=nn.Linear(8, 8)), X)} == {NARROW}


def test_training_steps_and_compiled_runs_are_not_looked_at() -> None:
    model = nn.Sequential(nn.Linear(8, 8))
    with BACKEND.run(model, ModelInputs(X), RunOptions(training=True)) as run:
        run.observe()
        assert run.runs == []
    with BACKEND.run(model, ModelInputs(X), RunOptions(compile="eager")) as run:
        run.observe()
        assert [seen.macs for seen in run.runs] == [NARROW]  # the first, which is not compiled


@contextmanager
def formula(operator: str, macs: int) -> Iterator[None]:
    with scoped_costs():
        register_op_cost(operator, lambda *_, out: Cost.of_macs(macs), override=True)
        yield


@pytest.mark.parametrize("operator", ["aten::linear", "aten::addmm", "aten::t"])
def test_formulas_of_the_users_for_torchs_operators_are_no_contradiction(operator: str) -> None:
    """The static pass sees ``linear`` and a run ``addmm``: one has the user's formula, the other not."""
    model = nn.Linear(8, 8)
    for macs in (5, 7):
        with formula(operator, macs):
            report = profile(model, X, metrics=["macs", "execution_time"], num_iters=3)
            assert report.status("macs").missing == ()
            assert [run.macs for run in observe_runs(model, X)] == [None] * 2
    assert [run.macs for run in observe_runs(model, X)] == [NARROW] * 2


def test_formulas_that_are_registered_are_in_force_until_they_are_taken_away() -> None:
    with COSTS.scoped():
        register_op_cost("aten::linear", lambda *_, out: Cost.of_macs(5), override=True)
        assert [run.macs for run in observe_runs(nn.Linear(8, 8), X)] == [None] * 2
    assert [run.macs for run in observe_runs(nn.Linear(8, 8), X)] == [NARROW] * 2


def test_layers_that_are_left_out_do_not_contradict() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 16))
    report = profile(model, X, metrics=["macs", "execution_time"], ignore=["1"], num_iters=3)
    assert (report["macs"], report.status("macs").missing) == (NARROW, ())
