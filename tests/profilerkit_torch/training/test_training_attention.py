"""On meta tensors attention runs in a training step as it does on the model's device: by one kernel, or spelt out."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from tiny import BACKEND, Call, ones
from torch import nn

from profilerkit import ModelInputs

SHAPE = (2, 4, 16, 8)


#: What models call, and what exported programs call.
FUNCTIONS = (
    nn.functional.scaled_dot_product_attention,
    torch.ops.aten.scaled_dot_product_attention,
    torch.ops.aten.scaled_dot_product_attention.default,
)


def largest(
    device: str = "cpu", inputs: tuple[torch.Tensor, ...] = (), function: Any = FUNCTIONS[0], **options: Any
) -> int:
    """Return the most elements that one tensor of the attention has in a training step."""

    def attend(self: Any, *masks: torch.Tensor) -> Any:
        heads = self.weight.expand(SHAPE) * 1
        given = {**options, "attn_mask": masks[0]} if masks else options
        return function(heads, heads, heads, **given)

    model = Call(attend)
    model.weight = nn.Parameter(torch.ones(8, device=device))
    found = BACKEND.trace_training(model, ModelInputs(*inputs))
    assert found.failure is None
    assert found.method == "meta tensors"
    sizes = [torch.Size(info.shape).numel() for op in found.operators for info in op.outputs]
    return max(sizes)


HEADS, SCORES = 2 * 4 * 16 * 8, 2 * 4 * 16 * 16
MASK = torch.ones(2, 1, 16, 16, dtype=torch.bool)


@pytest.mark.parametrize(
    ("options", "inputs"),
    [({}, ()), ({"is_causal": True}, ()), ({"scale": 0.5}, ()), ({}, (MASK,)), ({}, (MASK.float(),))],
)
@pytest.mark.parametrize("function", FUNCTIONS, ids=str)
def test_one_kernel_keeps_no_scores(function: Any, options: dict[str, Any], inputs: tuple[torch.Tensor, ...]) -> None:
    assert largest(inputs=inputs, function=function, **options) == HEADS


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_one_kernel_for_each_sample_keeps_no_scores_either() -> None:
    """All heads together are the largest, as without `torch.vmap`, which calls the kernel of the CPU in a loop."""
    attend = torch.vmap(FUNCTIONS[0])
    assert largest(function=lambda *heads: attend(*(tensor[:, None] for tensor in heads))) == HEADS


def test_dropout_is_spelt_out_on_the_cpu_alone() -> None:
    """The CPU has no kernel that drops out; a model on the meta device is taken to be trained on an accelerator."""
    assert largest(dropout_p=0.1) == SCORES
    assert largest("meta", dropout_p=0.1) == HEADS


@pytest.mark.parametrize(("dropout", "forward", "backward"), [(0.0, 6, 5), (0.1, 8, 6)])
def test_dropout_in_a_kernel_costs_what_it_costs_elsewhere(dropout: float, forward: int, backward: int) -> None:
    """A mask and a scale, two multiplications for each score, and one in the gradient; 16 and 32 MACs for each score.

    On the meta device, where the kernel of an accelerator stands in.
    """
    attend = partial(nn.functional.scaled_dot_product_attention, dropout_p=dropout)
    model = Call(lambda self: attend(self.heads, self.heads, self.heads))
    model.heads = nn.Parameter(torch.ones(SHAPE, device="meta"))
    kernels = [op for op in BACKEND.trace_training(model, ModelInputs()).operators if "attention" in op.operator]
    assert [op.macs for op in kernels] == [16 * SCORES, 32 * SCORES]
    assert [op.flops - 2 * op.macs for op in kernels] == [forward * SCORES, backward * SCORES]


def test_a_mask_that_is_trained_needs_the_scores() -> None:
    assert largest(inputs=(MASK.float().requires_grad_(),)) == SCORES


@pytest.mark.parametrize("batch_first", [True, False])
def test_multi_head_attention_goes_the_same_way(batch_first: bool) -> None:
    layer = nn.MultiheadAttention(16, 2, batch_first=batch_first)
    model = Call(lambda self, x: self.attention(x, x, x, need_weights=False)[0], attention=layer)
    found = BACKEND.trace_training(model, ModelInputs(ones(3, 9, 16)))
    kernels = [op.operator for op in found.operators if "flash_attention" in op.operator]
    assert len(kernels) == 2, "one forward, one backward"


def test_torchs_functions_are_as_they_were() -> None:
    before = (nn.functional.scaled_dot_product_attention, nn.functional.multi_head_attention_forward)
    names = dict(vars(nn.functional))
    largest()
    assert before == (nn.functional.scaled_dot_product_attention, nn.functional.multi_head_attention_forward)
    assert vars(nn.functional) == names


@pytest.mark.parametrize(
    ("mask", "per_score"), [(None, 6), (torch.ones(16, 16, dtype=torch.bool), 6), (torch.zeros(16, 16), 7)]
)
@pytest.mark.parametrize("by_values", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_a_mask_of_booleans_costs_nothing_in_training_either(
    mask: torch.Tensor | None, per_score: int, by_values: bool, dropout: float
) -> None:
    """Torch makes numbers of it first; on meta tensors and in a real run, by one kernel and spelt out."""

    def forward_flops(mask: torch.Tensor | None) -> int:
        def attend(self: Any) -> torch.Tensor:
            heads = self.weight.expand(SHAPE) * 1
            if by_values:
                assert heads.sum().item() != 1.5
            return nn.functional.scaled_dot_product_attention(heads, heads, heads, mask, dropout_p=dropout)

        model = Call(attend)
        model.weight = nn.Parameter(torch.ones(8))
        trace = BACKEND.trace_training(model, ModelInputs())
        assert trace.failure is None
        return sum(op.flops for op in trace.operators if op.phase == "forward")

    assert forward_flops(mask) - forward_flops(None) == (per_score - 6) * SCORES
