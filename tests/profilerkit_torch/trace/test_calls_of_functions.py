"""``call=``: methods other than ``forward``, and functions over a model, in every metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from tiny import BACKEND, Call, ones
from torch import nn

from profilerkit import ModelInputs, profile
from profilerkit.backend import RunOptions

LINEAR = 2 * 8 * 8  # MACs of an 8 x 8 linear layer for two samples


class Coder(nn.Module):
    """An encoder of one layer, a decoder of another; called, it is both."""

    calls: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(8, 8, bias=False)
        self.decoder = nn.Linear(8, 3, bias=False)
        self.register_buffer("calls", torch.zeros(1))

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        code: torch.Tensor = self.encoder(x)
        return code

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        decoded: torch.Tensor = self.decoder(self.encode(x))
        return decoded


def encode(model: Any, x: torch.Tensor) -> Any:
    return model.encode(x)


def test_a_method_is_counted_alone() -> None:
    report = profile(Coder(), ones(2, 8), call=encode, metrics=["macs", "total_params", "trace"])
    assert (report["macs"], report["total_params"]) == (LINEAR, 8 * 8 + 8 * 3)
    assert report.inputs == "ModelInputs(Tensor(2, 8)) given to encode"
    table = report["trace"].table
    assert (table[""]["calls"], table["encoder"]["calls"], table["decoder"]["calls"]) == (0, 1, 0)


def test_a_model_called_several_times_has_a_row_for_each_call() -> None:
    def thrice(model: nn.Module, x: torch.Tensor, scale: torch.Tensor) -> Any:
        for length in (2, 3, 5):
            model(x[:length])
        return x @ scale

    inputs = ModelInputs(ones(5, 8), scale=ones(8, 4))
    trace = profile(Coder(), inputs, call=thrice, metrics=["trace"])["trace"]
    a_call = {length: length * (8 * 8 + 8 * 3) for length in (2, 3, 5)}
    rows = [(row["call"], row["macs"], row["own_macs"]) for row in trace.call_table if row["path"] == ""]
    assert rows == [(0, a_call[2], 0), (1, a_call[3], 0), (2, a_call[5], 0), (-1, 5 * 8 * 4, 5 * 8 * 4)]
    assert trace.table[""]["calls"] == 3
    assert trace.macs == sum(a_call.values()) + 5 * 8 * 4
    assert [row["input_shapes"] for row in trace.call_table if row["path"] == "decoder"] == [
        ((2, 8),), ((3, 8),), ((5, 8),)
    ]  # fmt: skip


def test_all_metrics_run_the_function_and_the_model_comes_back() -> None:
    model = Coder()
    calls: list[int] = []

    def counted(model: Any, x: torch.Tensor) -> Any:
        calls.append(len(x))
        return model.encode(x)

    report = profile(model, ones(2, 8), call=counted, batch_size=6, num_iters=6, warmup=0)
    assert report["macs"] == 3 * LINEAR
    assert report["memory_footprint"] > 0
    assert report["execution_time"].median > 0
    assert set(calls) == {6}
    assert len(calls) > 6
    assert (model.calls.item(), model.training) == (0, True)


def test_a_training_step_runs_the_function() -> None:
    model, calls = Coder(), []

    def counted(model: Any, x: torch.Tensor) -> Any:
        calls.append(len(x))
        return model.encode(x)

    inputs = ModelInputs(ones(2, 8)).given_to(counted)
    with BACKEND.run(model, inputs, options=RunOptions(training=True)) as step:
        known = len(calls)
        step()
    assert calls[known:] == [2]
    assert [parameter.grad for parameter in model.parameters()] == [None, None]


def test_a_function_that_raises_is_said() -> None:
    def wrong(model: nn.Module, x: torch.Tensor) -> None:
        raise ValueError("not today")

    status = profile(Coder(), ones(2, 8), call=wrong, metrics=["macs"]).status("macs")
    assert "ValueError: not today" in status.missing[0]
    assert "ModelInputs(Tensor(2, 8)) given to wrong" in status.missing[0]


def test_a_model_that_is_generated_with_costs_what_prefill_and_each_decoded_token_cost() -> None:
    """GPT-2 with a cache: 12 h^2 MACs for each new token and layer, 2 h for each pair of tokens, and the head once.

    The first step has 5 tokens and the attention is the dense one; each later step has one, beside all before it. The
    head is applied to the last token alone, which is all that generating needs.
    """
    transformers = pytest.importorskip("transformers")
    h, layers, words = 16, 2, 50
    config = transformers.GPT2Config(
        n_embd=h, n_layer=layers, n_head=4, vocab_size=words, n_positions=32, bos_token_id=0, eos_token_id=None,
        pad_token_id=0,
    )  # fmt: skip
    model = transformers.GPT2LMHeadModel(config).eval()
    ids = torch.tensor([[1, 2, 3, 4, 5]])
    before = {name: (id(value), value.clone()) for name, value in model.state_dict(keep_vars=True).items()}
    settings, generator = dict(vars(model)), torch.get_rng_state()

    def step(new: int, context: int) -> int:
        return layers * (12 * new * h * h + 2 * new * context * h) + words * h

    def generate(model: Any, ids: torch.Tensor) -> Any:
        return model.generate(ids, max_new_tokens=3, do_sample=False)

    trace = profile(model, ids, call=generate, metrics=["trace"])["trace"]
    assert trace.missing == ()
    assert [row["macs"] for row in trace.call_table if row["path"] == "" and row["call"] >= 0] == [
        step(5, 5), step(1, 6), step(1, 7)
    ]  # fmt: skip
    assert trace.macs == step(5, 5) + step(1, 6) + step(1, 7)
    assert {name: id(value) for name, value in model.state_dict(keep_vars=True).items()} == {
        name: identity for name, (identity, _) in before.items()
    }
    assert all(torch.equal(value, before[name][1]) for name, value in model.state_dict().items())
    assert {name: id(value) for name, value in vars(model).items()} == {
        name: id(value) for name, value in settings.items()
    }
    assert torch.equal(torch.get_rng_state(), generator)


# Inputs and outputs of the user's own types ---------------------------------------------------------------------


@dataclass(frozen=True)
class Frozen:
    x: torch.Tensor
    mask: torch.Tensor | None = None


class Pair(NamedTuple):
    first: torch.Tensor
    rest: list[Frozen]


def test_structures_reach_the_model_as_they_are_and_come_out_as_tensors() -> None:
    seen: list[Any] = []

    def run(self: Any, pair: Pair, *, options: dict[str, Any]) -> Any:
        seen.append((type(pair), type(pair.rest[0]), pair.rest[0].mask, options["flag"]))
        return Pair(self.layer(pair.first), [Frozen(self.layer(pair.rest[0].x))])

    inputs = ModelInputs(Pair(ones(2, 8), [Frozen(ones(2, 8))]), options={"flag": None, "deep": (Frozen(ones(2, 1)),)})
    model = Call(run, layer=nn.Linear(8, 8, bias=False))
    report = profile(model, inputs, batch_size=4, metrics=["macs", "trace", "execution_time"], num_iters=6, warmup=0)
    assert report["macs"] == 2 * 2 * LINEAR
    assert set(seen) == {(Pair, Frozen, None, None)}
    root = report["trace"].table[""]
    assert (root["input_shapes"], root["output_shapes"]) == (((4, 8), (4, 8), (4, 1)), ((4, 8), (4, 8)))
    assert report["trace"].method == "meta tensors"


def test_encodings_and_outputs_of_transformers_are_inputs() -> None:
    transformers = pytest.importorskip("transformers")
    outputs = pytest.importorskip("transformers.modeling_outputs")
    seen: list[Any] = []

    def run(self: Any, encoder_outputs: Any, features: Any) -> Any:
        seen.append((type(encoder_outputs).__name__, encoder_outputs[0].shape, type(features).__name__))
        return outputs.BaseModelOutput(last_hidden_state=self.layer(encoder_outputs.last_hidden_state))

    model = Call(run, layer=nn.Linear(8, 8, bias=False))
    given = ModelInputs(
        outputs.BaseModelOutput(last_hidden_state=ones(2, 8)), transformers.BatchFeature({"pixels": ones(2, 3)})
    )
    found = BACKEND.trace(model, given)
    assert (found.failure, found.macs, found.method) == (None, LINEAR, "meta tensors")
    assert seen == [("BaseModelOutput", (2, 8), "BatchFeature")]
    assert found.table[""]["output_shapes"] == ((2, 8),)
    encoding = transformers.BatchEncoding({"x": ones(2, 8)})
    assert (
        profile(Call(lambda self, x: self.layer(x), layer=nn.Linear(8, 8)), encoding, metrics=["macs"])["macs"]
        == LINEAR
    )
