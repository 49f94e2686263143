"""Layers of attention that torch runs as one kernel: their memory is that of the kernel, as the allocator has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tiny import Call
from torch import nn
from torch_threads import one_thread

from profilerkit import ModelInputs, profile

BATCH, WIDTH, HEADS = 4, 64, 4


class Attention(nn.Module):
    """Self-attention with masks of booleans or none."""

    def __init__(self, weights: bool = False, mask: bool = False, padding: bool = False, **options: Any) -> None:
        super().__init__()
        self.layer = nn.MultiheadAttention(WIDTH, **{"num_heads": HEADS, "batch_first": True, **options})
        self.options = {"need_weights": weights}
        self.has_mask, self.has_padding = mask, padding

    def forward(self, x: torch.Tensor) -> Any:
        rows = x.shape[1]
        mask = torch.ones(rows, rows, dtype=torch.bool).triu(1) if self.has_mask else None
        padding = torch.zeros(len(x), rows, dtype=torch.bool) if self.has_padding else None
        return self.layer(x, x, x, attn_mask=mask, key_padding_mask=padding, **self.options)[0]


class Encoder(nn.Module):
    """A layer of an encoder, twice: the second begins while the output of the first is alive."""

    def __init__(self, mask: bool = False, padding: bool = False, **options: Any) -> None:
        super().__init__()
        sizes: dict[str, Any] = {"nhead": HEADS, "dim_feedforward": 4 * WIDTH, "dropout": 0.0, "batch_first": True}
        self.layer = nn.TransformerEncoderLayer(WIDTH, **{**sizes, **options})
        self.has_mask, self.has_padding = mask, padding

    def forward(self, x: torch.Tensor) -> Any:
        rows = x.shape[1]
        mask = torch.ones(rows, rows, dtype=torch.bool).triu(1) if self.has_mask else None
        padding = torch.zeros(len(x), rows, dtype=torch.bool) if self.has_padding else None
        return self.layer(self.layer(x, mask, padding), mask, padding)


class Derived(nn.MultiheadAttention):
    """A class of the user's that runs torch's code."""


def derived_attention() -> Attention:
    model = Attention()
    model.layer = Derived(WIDTH, HEADS, batch_first=True)
    return model


def make_product() -> Call:
    """Return a linear layer of the user's: weights, and no other attribute of torch's layer."""
    weight, bias = nn.Parameter(torch.randn(4 * WIDTH, WIDTH)), nn.Parameter(torch.zeros(4 * WIDTH))
    return Call(lambda self, x: nn.functional.linear(x, self.weight, self.bias), weight=weight, bias=bias)


def with_linear(layer: nn.Module) -> Encoder:
    model = Encoder()
    setattr(model.layer, "linear1", layer)  # noqa: B010 - its type is that of torch's layer
    return model


def with_hook(model: Encoder) -> Encoder:
    model.layer.linear1.register_forward_hook(lambda module, args, output: None)
    return model


def with_other_epsilon(model: Encoder) -> Encoder:
    model.layer.norm2.eps = 1e-3
    return model


FAST: dict[str, Callable[[], nn.Module]] = {
    "attention": Attention,
    "attention with weights": lambda: Attention(weights=True),
    "attention with padding": lambda: Attention(padding=True),
    "attention with a mask": lambda: Attention(mask=True),
    "attention with both, and weights": lambda: Attention(weights=True, mask=True, padding=True),
    "attention of a derived class": derived_attention,
    "encoder": Encoder,
    "encoder with padding": lambda: Encoder(padding=True),
    "encoder with a mask": lambda: Encoder(mask=True),
    "encoder, norms first, with both": lambda: Encoder(mask=True, padding=True, norm_first=True),
    "encoder with GELU, norms first": lambda: Encoder(norm_first=True, activation="gelu"),
    "narrow encoder": lambda: Encoder(dim_feedforward=8),
    "encoder with a linear layer of the user's": lambda: with_linear(make_product()),
    "encoder in double": lambda: Encoder().to(torch.float64),
}
#: What keeps torch from the one kernel, each by itself.
SLOW: dict[str, Callable[[], nn.Module]] = {
    "attention of three heads": lambda: Attention(num_heads=1),
    "attention with the batch second": lambda: Attention(batch_first=False),
    "encoder of one head": lambda: Encoder(nhead=1),
    "encoder with SiLU": lambda: Encoder(activation=nn.functional.silu),
    "encoder with the batch second": lambda: Encoder(batch_first=False),
    "encoder without a bias": lambda: Encoder(bias=False),
    "encoder with a hook": lambda: with_hook(Encoder()),
    "encoder with two epsilons": lambda: with_other_epsilon(Encoder()),
}


def compare(model: nn.Module, rows: int) -> tuple[float, float]:
    """Return the predicted memory of a pass and the allocator's."""
    model.eval()
    x = torch.randn(BATCH, rows, WIDTH).to(next(model.parameters()).dtype)
    with one_thread():  # the kernel of attention on the CPU has a buffer for each
        report = profile(model, ModelInputs(x), metrics=["memory_footprint", "measured_memory"])
    return report["memory_footprint"], report["measured_memory"]


#: The same, where the parts take memory that is no subject here.
MORE_SLOW: dict[str, Callable[[], nn.Module]] = {
    "attention with a row of zeros more": lambda: Attention(add_zero_attn=True),
    "attention with keys of its own": lambda: Attention(add_bias_kv=True),
}


@pytest.mark.parametrize("rows", [16, 192])
@pytest.mark.parametrize("name", [*FAST, *SLOW])
def test_the_memory_is_that_of_what_torch_runs(name: str, rows: int) -> None:
    """With 16 rows the network decides, with 192 the scores; 1 % are means, deviations and masks of single rows."""
    predicted, measured = compare({**FAST, **SLOW}[name](), rows)
    assert predicted == pytest.approx(measured, rel=0.01)


def test_the_scores_are_on_the_cpu_alone() -> None:
    """Inputs of 4 x 192 x 64 numbers: the input, queries, keys and values, and scores of 4 x 4 x 192 x 192.

    On the meta device, which stands for an accelerator, there are none: the input, queries, keys and values, what the
    attention gives, and the output.
    """
    unit = BATCH * 192 * WIDTH * 4
    weights = sum(parameter.nbytes for parameter in Attention().parameters())
    scores = BATCH * HEADS * 192 * 192 * 4
    assert compare(Attention(), 192)[0] == weights + unit + 3 * unit + scores
    with torch.device("meta"):
        model, x = Attention().eval(), torch.empty(BATCH, 192, WIDTH)
    footprint = profile(model, ModelInputs(x), metrics=["memory_footprint"])["memory_footprint"]
    assert footprint == weights + unit + 3 * unit + 2 * unit


def test_an_encoder_applies_its_activation_in_place() -> None:
    """Two layers on an accelerator: the input, the first output, what attention gives, four times that, the output."""
    unit = BATCH * 16 * WIDTH * 4
    with torch.device("meta"):
        model, x = Encoder().eval(), torch.empty(BATCH, 16, WIDTH)
    weights = sum(parameter.nbytes for parameter in model.parameters())
    footprint = profile(model, ModelInputs(x), metrics=["memory_footprint"])["memory_footprint"]
    assert footprint == weights + unit + (1 + 1 + 4 + 1) * unit


@pytest.mark.parametrize("name", MORE_SLOW)
def test_other_layers_keep_the_memory_of_their_parts(name: str) -> None:
    model = MORE_SLOW[name]()
    before = compare(model, 192)[0]
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        assert compare(model, 192)[0] == before
    finally:
        torch.backends.mha.set_fastpath_enabled(True)


def with_norm(layer: nn.Module) -> Encoder:
    model = Encoder()
    setattr(model.layer, "norm1", layer)  # noqa: B010
    return model


@pytest.mark.parametrize(
    "make",
    [
        lambda: with_linear(nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH))),
        lambda: with_norm(nn.Sequential(nn.LayerNorm(WIDTH))),
    ],
    ids=["no weight", "no epsilon"],
)
def test_a_layer_in_the_place_of_torchs_is_counted(make: Callable[[], Encoder]) -> None:
    """Torch's own kernel cannot run with it; on shapes it has the counts and the memory of its parts."""
    plain, wrapped = Encoder().eval(), make().eval()
    x = ModelInputs(torch.randn(BATCH, 16, WIDTH))
    expected, report = (profile(model, x, metrics=["macs", "memory_footprint"]) for model in (plain, wrapped))
    assert report["macs"] == expected["macs"]
    assert report["memory_footprint"] > expected["memory_footprint"]


@pytest.mark.parametrize("norm_first", [False, True], ids=["packed", "not packed"])
@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True", "ignore:The PyTorch API of nested tensors")
def test_samples_that_an_encoder_packs_are_named(norm_first: bool) -> None:
    """With a padding mask torch makes a nested tensor of the samples, but where the norms come first."""
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 2 * WIDTH, batch_first=True, norm_first=norm_first)
    encoder = nn.TransformerEncoder(layer, 2).eval()
    padding = torch.arange(16)[None] >= torch.tensor([16, 12, 16, 9])[:, None]
    inputs = ModelInputs(torch.randn(BATCH, 16, WIDTH), src_key_padding_mask=padding)
    with one_thread():
        report = profile(encoder, inputs, metrics=["memory_footprint", "measured_memory"])
    status = report.status("memory_footprint")
    if norm_first:
        assert (status.missing, status.value) == ((), report["measured_memory"])
    else:
        assert status.missing == ("the nested tensors of TransformerEncoder of unknown size (1 call)",)
        assert status.value < report["measured_memory"]


attend = nn.functional.scaled_dot_product_attention


def attend_and_square(*heads: Any) -> torch.Tensor:
    """Return a number whose gradient is no number that is repeated."""
    return attend(*heads).square().sum()


#: Transforms, each with the part of the memory at most that is the workspace of a kernel.
TRANSFORMS: dict[str, tuple[Callable[..., Any], float]] = {
    "vmap": (lambda *heads: torch.vmap(attend)(*(tensor[:, None] for tensor in heads)), 0),
    "grad": (torch.func.grad(attend_and_square, argnums=(0, 1, 2)), 0.2),
    "vjp": (lambda *heads: torch.func.vjp(attend, *heads)[1](heads[0]), 0.2),
}


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("name", TRANSFORMS)
def test_attention_makes_no_scores_in_a_transform(name: str) -> None:
    """They alone would be 4 heads of 4 samples, of 192 x 192 numbers: twelve times the queries."""
    function, workspace = TRANSFORMS[name]
    model = Call(lambda self, *heads: function(*heads), weight=nn.Parameter(torch.ones(1)))
    heads = ModelInputs(*torch.randn(3, BATCH, HEADS, 192, 16))
    with one_thread():
        report = profile(model, heads, metrics=["memory_footprint", "measured_memory"])
    predicted, measured = report["memory_footprint"], report["measured_memory"]
    assert measured * (1 - workspace) <= predicted <= measured


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_a_layer_that_runs_as_one_kernel_for_each_sample_is_named() -> None:
    attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).eval()
    model = Call(lambda self, x: torch.vmap(lambda y: self.layer(y, y, y, need_weights=False)[0])(x[:, None]))
    model.layer = attention
    report = profile(model.eval(), torch.randn(BATCH, 192, WIDTH), metrics=["memory_footprint", "measured_memory"])
    status = report.status("memory_footprint")
    assert status.missing == ("the kernel of MultiheadAttention in a transform of unknown size (1 call)",)
    assert status.value < report["measured_memory"]


def test_whoever_switches_the_kernels_off_gets_the_parts() -> None:
    """The hidden layer is there before and after its activation; torch's setting is as before afterwards."""
    unit = BATCH * 16 * WIDTH * 4
    model = Encoder()
    weights = sum(parameter.nbytes for parameter in model.parameters())
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        predicted, measured = compare(model, 16)
        assert not torch.backends.mha.get_fastpath_enabled()
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    assert predicted == pytest.approx(measured, rel=0.01)
    assert predicted == weights + unit + (1 + 1 + 4 + 4) * unit
