"""A count does not depend on device, grad mode, dtype or how the model is wrapped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tiny import Call, ones, trace_complete
from torch import nn

LINEAR = 2 * 8 * 8  # MACs of an 8 x 8 linear layer for two samples


def linear() -> nn.Linear:
    return nn.Linear(8, 8, bias=False)


def x() -> torch.Tensor:
    return ones(2, 8)


def convolutional() -> nn.Module:
    attention = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    head = Call(lambda self, x: self.layer(x.flatten(2).transpose(1, 2)), layer=attention)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(), head)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("grad_mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_grad_mode_training_flag_and_dtype_change_nothing(training: bool, grad_mode: Any, dtype: torch.dtype) -> None:
    """27 * 8 * 36 for the convolution; four projections, two products and a feed-forward over 36 positions."""
    model = convolutional().train(training).to(dtype)
    with grad_mode():
        found = trace_complete(model, ones(1, 3, 8, 8, dtype=dtype))
    assert found.macs == 27 * 8 * 36 + 4 * 36 * 64 + 2 * 36 * 36 * 8 + 2 * 36 * 8 * 16
    assert found.flops == trace_complete(convolutional(), ones(1, 3, 8, 8)).flops


def test_all_ways_to_run_count_the_same() -> None:
    def asks(self: Any, x: torch.Tensor) -> Any:
        with torch._C.DisableTorchFunction():  # as a kernel of an extension does, beneath torch's functions
            if x.is_meta:
                raise NotImplementedError("only on the CPU")
        return self.inner(x)

    def reads(self: Any, x: torch.Tensor) -> Any:
        float(x.sum())
        return self.inner(x)

    image = ones(1, 3, 8, 8)
    found = [trace_complete(Call(asks, inner=convolutional()), image), trace_complete(convolutional(), image)]
    assert [one.method for one in found] == ["fake tensors", "meta tensors"]
    real = trace_complete(Call(reads, inner=convolutional()), image)
    assert real.macs == found[0].macs == found[1].macs
    assert real.flops - 3 * 64 == found[0].flops == found[1].flops  # the sum it reads is work too
    assert found[0].memory.peak_bytes() == found[1].memory.peak_bytes()


@pytest.mark.filterwarnings("ignore:.*torch.jit")  # importing the compiler warns
@pytest.mark.parametrize("how", ["wrapped", "in place", "inside"])
def test_a_compiled_model_is_counted_as_what_it_was(how: str) -> None:
    model = nn.Sequential(linear(), nn.ReLU())
    compiled: Any
    if how == "wrapped":
        compiled = torch.compile(model)
    elif how == "in place":
        model.compile()
        compiled = model
    else:
        compiled = nn.Sequential(torch.compile(model))  # type: ignore[call-overload]
    found = trace_complete(compiled, x())
    assert (found.macs, found.flops, found.total_params) == (LINEAR, 2 * LINEAR + 16, 64)


@pytest.mark.filterwarnings("ignore:.*torch.jit")
@pytest.mark.parametrize("make", [torch.jit.script, lambda model: torch.jit.trace(model, x())])
def test_a_scripted_model_is_counted_in_a_real_run(make: Callable[[nn.Module], Any]) -> None:
    model = nn.Sequential(linear(), nn.ReLU())
    for scripted in (make(model), nn.Sequential(make(model))):
        found = trace_complete(scripted, x())
        assert (found.macs, found.flops, found.total_params) == (LINEAR, 2 * LINEAR + 16, 64)
        assert "scripted module" in found.notes[0]


def test_parametrised_weights_are_computed_and_counted() -> None:
    class Doubled(nn.Module):
        def forward(self, weight: torch.Tensor) -> torch.Tensor:
            return weight * 2

    layer = linear()
    nn.utils.parametrize.register_parametrization(layer, "weight", Doubled())
    found = trace_complete(layer, x())
    assert (found.total_params, found.flops) == (64, 2 * LINEAR + 64)


@pytest.mark.filterwarnings("ignore:.*torch.ao.quantization", "ignore:.*torch.jit", "ignore:torch.quantize_per_tensor")
def test_weights_that_quantisation_packs_away_are_parameters_still() -> None:
    model = nn.Sequential(nn.Linear(8, 4), nn.ReLU())
    quantised = torch.ao.quantization.quantize_dynamic(model, {nn.Linear})
    found = trace_complete(quantised, x())
    assert (found.total_params, found.trainable_params) == (8 * 4 + 4, 0)
    assert found.size_bytes == 8 * 4 * 1 + 4 * 4  # a byte for each weight, a float for each bias
    assert found.macs == 2 * 8 * 4
