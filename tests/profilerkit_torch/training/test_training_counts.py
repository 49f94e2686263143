"""MACs and FLOPs of a training step, against what each product and each gradient costs in closed form.

A linear layer of n x i -> o costs n*i*o MACs forward, as many for the gradient of its weight, and as many for that of
its input, where somebody needs one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tiny import BACKEND, Call, ones, step, trace_complete_step
from torch import nn
from torch.utils.checkpoint import checkpoint

from profilerkit import ModelInputs, ModelTrace

N = 5


def count_macs(found: ModelTrace, phase: str) -> dict[str, int]:
    """Return the MACs of each layer that has any, in one phase."""
    work: dict[str, int] = {}
    for op in found.operators:
        if op.phase == phase and op.macs:
            work[op.layer] = work.get(op.layer, 0) + op.macs
    return work


# Products -----------------------------------------------------------------------------------------------------------


def test_a_linear_layer_costs_its_product_and_one_for_its_weight() -> None:
    """Nobody needs the gradient of the input. The bias takes a sum: one addition for each element of the gradient."""
    found = trace_complete_step(nn.Linear(4, 3), ones(N, 4))
    assert found.macs == 2 * N * 4 * 3
    assert found.flops == (2 * N * 4 * 3 + N * 3) + (2 * N * 4 * 3 + N * 3)


def test_the_second_of_two_linear_layers_costs_three_products() -> None:
    found = trace_complete_step(nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2)), ones(N, 4))
    assert count_macs(found, "forward") == {"0": N * 32, "1": N * 16}
    assert count_macs(found, "backward") == {"0": N * 32, "1": 2 * N * 16}


def test_an_input_that_needs_a_gradient_costs_one_product_more() -> None:
    assert trace_complete_step(nn.Linear(4, 3), ones(N, 4).requires_grad_()).macs == 3 * N * 4 * 3


def test_a_convolution() -> None:
    """2 x 8 x 6 x 6 outputs of 3 x 3 x 3 products each; the second convolution has its input's gradient too."""
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Conv2d(8, 4, 3, bias=False))
    first, second = 2 * 8 * 6 * 6 * 27, 2 * 4 * 4 * 4 * 72
    assert trace_complete_step(model, ones(2, 3, 8, 8)).macs == 2 * first + 3 * second


def test_grouped_and_transposed_convolutions() -> None:
    model = nn.Sequential(nn.ConvTranspose2d(3, 8, 2, stride=2), nn.Conv2d(8, 8, 3, groups=8))
    first, second = 2 * 3 * 4 * 4 * 8 * 4, 2 * 8 * 6 * 6 * 9
    assert trace_complete_step(model, ones(2, 3, 4, 4)).macs == 2 * first + 3 * second


def test_an_embedding_has_no_products_and_its_head_has_three() -> None:
    model = nn.Sequential(nn.Embedding(10, 6), nn.Linear(6, 4))
    assert step(model, torch.zeros(2, 7, dtype=torch.int64)).macs == 3 * 2 * 7 * 6 * 4


def fused(x: torch.Tensor) -> torch.Tensor:
    return nn.functional.scaled_dot_product_attention(x, x, x)


def spelt_out(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x @ x.transpose(-1, -2), -1) @ x


@pytest.mark.parametrize("attention", [fused, spelt_out])
def test_attention_costs_two_products_forward_and_four_backward(attention: Callable[..., torch.Tensor]) -> None:
    """Each of b*h*l*l*e. A fused kernel makes the scores again, by convention at no cost, and keeps none."""
    model = Call(lambda self, x: attention(self.project(x)), project=nn.Linear(8, 8))
    product, projection = 2 * 4 * 16 * 16 * 8, 2 * 4 * 16 * 8 * 8
    found = trace_complete_step(model, ones(2, 4, 16, 8))
    assert count_macs(found, "forward") == {"": 2 * product, "project": projection}
    assert count_macs(found, "backward") == {"": 4 * product, "project": projection}
    kept = [op for op in found.operators if any(info.shape[-2:] == (16, 16) for info in op.outputs)]
    assert bool(kept) == (attention is spelt_out)


ENCODER: dict[str, Any] = {"d_model": 16, "nhead": 2, "dim_feedforward": 32, "dropout": 0.0}
#: Models without dropout and batch statistics, in which training mode is no different from inference.
WITHOUT_MODES: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "layers": (nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 2), nn.LogSoftmax(-1)), (N, 8)),
    "images": (
        nn.Sequential(
            *(
                nn.Conv2d(3, 8, 3, padding=1),
                nn.GroupNorm(2, 8),
                nn.SiLU(),
                nn.MaxPool2d(2),
                nn.Upsample(scale_factor=2),
            ),
            *(nn.ConvTranspose2d(8, 4, 2, 2), nn.InstanceNorm2d(4), nn.Hardswish(), nn.AdaptiveAvgPool2d(2)),
        ),
        (2, 3, 8, 8),
    ),
    "attention": (
        nn.TransformerEncoder(nn.TransformerEncoderLayer(**ENCODER), 2, enable_nested_tensor=False),
        (7, 2, 16),
    ),
    "lstm": (nn.LSTM(8, 16, 2, bidirectional=True), (5, 2, 8)),
    "gru": (nn.GRU(8, 16, 2), (5, 2, 8)),
    "rnn": (nn.RNN(8, 16), (5, 2, 8)),
}


@pytest.mark.parametrize("name", WITHOUT_MODES)
def test_the_forward_pass_costs_what_it_does_in_inference(name: str) -> None:
    """Layer by layer, though autograd shows other operators than inference mode does."""
    model, shape = WITHOUT_MODES[name]
    found = step(model, ones(*shape))
    inference = BACKEND.trace(model, ModelInputs(ones(*shape))).table
    for unit in ("macs", "flops"):
        forward = {row["path"]: row[f"own_forward_{unit}"] for row in found.table}
        assert forward == {row["path"]: row[f"own_{unit}"] for row in inference}
    assert all(row["own_forward_macs"] + row["own_backward_macs"] == row["own_macs"] for row in found.table)
    assert all(row["forward_flops"] + row["backward_flops"] == row["flops"] for row in found.table)


# What needs no gradient ---------------------------------------------------------------------------------------------


def frozen(model: nn.Module, *indices: int) -> nn.Module:
    for index in indices:
        model[index].requires_grad_(False)  # type: ignore[index]
    return model


@pytest.mark.parametrize(
    ("which", "products"),
    [
        ((), {"0": 2, "1": 3, "2": 3}),
        ((0,), {"0": 1, "1": 2, "2": 3}),  # no gradient reaches the first, and the second need not pass one on
        ((0, 1), {"0": 1, "1": 1, "2": 2}),
        ((2,), {"0": 2, "1": 3, "2": 2}),  # the last hands a gradient on, but has none for its weight
        ((0, 1, 2), {"0": 1, "1": 1, "2": 1}),
    ],
)
def test_frozen_layers(which: tuple[int, ...], products: dict[str, int]) -> None:
    model = frozen(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)), *which)
    found = trace_complete_step(model, ones(N, 4))
    assert {row["path"]: row["own_macs"] / (N * 16) for row in found.table if row["path"]} == products


def test_a_model_without_trainable_weights_costs_its_forward_pass_and_says_so() -> None:
    found = trace_complete_step(nn.Linear(4, 3).requires_grad_(False), ones(N, 4))
    assert found.macs == N * 12
    assert found.notes == ("no output depends on a trainable weight, so that there is no backward pass",)
    assert "backward_macs" not in found.table[0]


def test_a_detached_branch_and_unused_weights_get_no_gradient_and_are_named() -> None:
    model = Call(lambda self, x: self.a(x).detach() + self.b(x), a=nn.Linear(4, 4), b=nn.Linear(4, 4, bias=False))
    found = trace_complete_step(model, ones(N, 4))
    assert count_macs(found, "backward") == {"b": N * 16}
    assert found.notes == ("no output depends on these trainable weights, which get no gradient: a.weight, a.bias",)


def test_many_unused_weights_are_not_all_named() -> None:
    unused = {f"unused{index}": nn.Linear(2, 2) for index in range(4)}
    (note,) = trace_complete_step(Call(lambda self, x: self.used(x), used=nn.Linear(2, 2), **unused), ones(1, 2)).notes
    assert note.endswith("unused1.weight, unused1.bias, unused2.weight and 3 more")


# How outputs and layers are put together ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "packed",
    [
        lambda a, b: (a, b),
        lambda a, b: {"a": [a], "b": {"c": (b,)}},
        lambda a, b: {"logits": a, "hidden": b, "indices": a.argmax(-1)},
        lambda a, b: {a, b},
        lambda a, b: SimpleNamespace(a=a, b=[b]),
    ],
)
def test_all_outputs_are_differentiated(packed: Callable[..., Any]) -> None:
    model = Call(lambda self, x: packed(self.a(x), self.b(x)), a=nn.Linear(4, 4), b=nn.Linear(4, 4))
    assert trace_complete_step(model, ones(N, 4)).macs == 4 * N * 16


def test_a_loss_that_the_model_returns_is_differentiated_alone() -> None:
    model = Call(lambda self, x: {"loss": self.a(x).sum(), "extra": self.b(x)}, a=nn.Linear(4, 4), b=nn.Linear(4, 4))
    found = trace_complete_step(model, ones(N, 4))
    assert count_macs(found, "backward") == {"a": N * 16}
    assert "b.weight, b.bias" in found.notes[0]


def test_a_shared_layer_gets_the_gradients_of_both_calls_and_their_sum() -> None:
    shared = nn.Linear(4, 4)
    found = trace_complete_step(nn.Sequential(shared, nn.ReLU(inplace=True), shared), ones(N, 4))
    assert found.table["0"]["own_macs"] == 5 * N * 16, "all but the first call's input"
    assert {op.call for op in found.operators if op.layer == "0" and op.phase == "backward"} == {0, 1}
    sums = [op for op in found.operators if op.operator.startswith("aten.add") and op.phase == "backward"]
    assert [(op.layer, op.flops) for op in sums] == [("0", 4), ("0", 16)]


def test_functions_in_a_layer_belong_to_it_backwards_too() -> None:
    block = Call(lambda self, x: self.linear(x) @ x.transpose(-1, -2), linear=nn.Linear(4, 4))
    found = trace_complete_step(nn.Sequential(nn.Linear(4, 4), block), ones(N, 4))
    assert count_macs(found, "forward") == {"0": N * 16, "1.linear": N * 16, "1": N * N * 4}
    assert count_macs(found, "backward") == {"0": N * 16, "1.linear": 2 * N * 16, "1": 2 * N * N * 4}


def _apply(function: Any, *given: torch.Tensor) -> Any:
    return function.apply(*given)


class OwnProduct(torch.autograd.Function):
    """A product whose gradients are its own; for the weight it takes two products instead of one."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        x, weight = ctx.saved_tensors
        return gradients[0] @ weight.t(), x.t() @ gradients[0] + x.t() @ gradients[0]


def test_a_custom_autograd_function_costs_what_it_does() -> None:
    model = Call(lambda self, x: _apply(OwnProduct, self.linear(x), self.weight), linear=nn.Linear(4, 4))
    model.weight = nn.Parameter(ones(4, 3))
    found = trace_complete_step(model, ones(N, 4))
    assert count_macs(found, "backward") == {"": 3 * N * 12, "linear": N * 16}


def test_gradients_that_a_model_computes_itself_are_part_of_its_forward_pass() -> None:
    """Forces: the gradient of an energy by the positions, which is trained on in turn."""

    def forces(self: Any, x: torch.Tensor) -> torch.Tensor:
        x = x.detach().requires_grad_()
        return torch.autograd.grad(self.linear(x).square().sum(), x, create_graph=True)[0]

    found = trace_complete_step(Call(forces, linear=nn.Linear(4, 4, bias=False)), ones(N, 4))
    assert count_macs(found, "forward") == {"linear": N * 16, "": N * 16}
    assert sum(count_macs(found, "backward").values()) == 4 * N * 16, "of both products, by the weight and its input"


# Checkpoints --------------------------------------------------------------------------------------------------------


def make_checkpointed(**options: Any) -> nn.Module:
    return Call(
        lambda self, x: self.last(checkpoint(self.block, self.first(x), **options)),
        first=nn.Linear(4, 8),
        block=nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)),
        last=nn.Linear(8, 2),
    )


def test_a_checkpoint_computes_its_block_again_in_the_backward_pass() -> None:
    found = trace_complete_step(make_checkpointed(use_reentrant=True), ones(N, 4))
    assert count_macs(found, "forward") == {"first": N * 32, "block.0": N * 64, "block.2": N * 64, "last": N * 16}
    again = {"block.0": 3 * N * 64, "block.2": 3 * N * 64}
    assert count_macs(found, "backward") == {"first": N * 32, **again, "last": 2 * N * 16}
    assert [row["calls"] for row in found.table] == [1] * 7, "a layer that computes again was not called twice"


def test_a_checkpoint_that_stops_early_leaves_out_what_nobody_needs() -> None:
    """The last product of the block is not made again: its inputs are all that its gradients need."""
    found = trace_complete_step(make_checkpointed(use_reentrant=False), ones(N, 4))
    assert count_macs(found, "backward") == {
        "first": N * 32,
        "last": 2 * N * 16,
        "block.0": 3 * N * 64,
        "block.2": 2 * N * 64,
    }
    if "early_stop" in inspect.signature(checkpoint).parameters:  # torch 2.9 and newer
        whole = trace_complete_step(make_checkpointed(use_reentrant=False, early_stop=False), ones(N, 4))
        assert whole.macs - found.macs == N * 64


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_functions_that_a_checkpoint_repeats_are_computed_again(use_reentrant: bool) -> None:
    """No layer runs them: a product of the checkpoint itself, whose tanh needs its output on the way back."""

    def work(self: Any, x: torch.Tensor) -> Any:
        return checkpoint(lambda x: torch.tanh(x @ self.weight), x, use_reentrant=use_reentrant)

    model = Call(work)
    model.weight = nn.Parameter(ones(4, 3))
    found = trace_complete_step(model, ones(N, 4).requires_grad_())
    again = sum(operator.macs for operator in found.operators if operator.recomputed)
    assert (found.macs, again) == (4 * N * 4 * 3, N * 4 * 3)


# Training mode ------------------------------------------------------------------------------------------------------


def flags_seen(model: nn.Module) -> list[bool]:
    seen: list[bool] = []
    model.register_forward_pre_hook(lambda module, args: seen.extend(m.training for m in module.modules()))
    step(model, ones(N, 4))
    return seen


def test_a_model_in_eval_mode_is_traced_in_training_mode() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).eval()
    assert flags_seen(model) == [True] * 3
    assert not any(module.training for module in model.modules())


def test_a_model_in_training_keeps_what_is_frozen() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).train()
    model[1].eval()
    assert flags_seen(model) == [True, True, False]


def test_dropout_is_on() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    """Scale the mask and apply it; apply it to the gradient."""
    row = trace_complete_step(model, ones(N, 4)).table["1"]
    assert (row["forward_flops"], row["backward_flops"]) == (2 * N * 4, N * 4)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
@pytest.mark.parametrize(("layout", "backward"), [("coo", 8 * 5 * 16), ("csr", 32 * 5)])
def test_a_trained_sparse_matrix_costs_what_it_stores(layout: str, backward: int) -> None:
    """32 of 8 x 16 stored, times 5 columns; the gradient is made in full for COO, and masked afterwards."""
    dense = torch.zeros(8, 16)
    dense.view(-1)[::4] = 1
    layer = nn.Module()
    layer.weight = nn.Parameter(dense.to_sparse() if layout == "coo" else dense.to_sparse_csr())
    found = trace_complete_step(Call(lambda self, x: torch.sparse.mm(self.layer.weight, x), layer=layer), ones(16, 5))
    assert found.macs == 32 * 5 + backward
    assert found.method == "a real run"
