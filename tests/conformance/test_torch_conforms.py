"""The torch backend passes the conformance suite."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")
import torch
from torch import nn
from torch_architectures import BUILDERS, DATA_FORMAT, KINDS, Mlp

from profilerkit.testing import BackendConformance
from profilerkit_torch import TorchBackend


class Raising(Mlp):
    def __init__(self, message: str) -> None:
        super().__init__()
        self.message = message

    def forward(self, x: Any) -> Any:
        super().forward(x)
        raise ValueError(self.message)


class Uncounted(Mlp):
    def forward(self, x: Any) -> Any:
        scores = super().forward(x)
        return torch.nn.functional.multilabel_margin_loss(scores, torch.zeros_like(scores, dtype=torch.int64))


class TestTorch(BackendConformance):
    backend, builders, kinds = TorchBackend(), BUILDERS, KINDS
    data_format = DATA_FORMAT

    def snapshot(self, model: Any) -> Any:
        """What attributes lead to, what tensors do not keep in attributes, and the state of the process."""
        facts = super().snapshot(model)
        for name, parameter in model.named_parameters():
            facts[f"{name}.requires_grad"], facts[f"{name}.grad"] = parameter.requires_grad, parameter.grad
        facts["random numbers"] = torch.get_rng_state().tolist()
        facts["settings"] = (torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_num_threads())
        return facts

    def to_numpy(self, tensor: Any) -> Any:
        return tensor.detach().numpy()

    def change_a_parameter(self, model: Any) -> None:
        with torch.no_grad():
            next(model.parameters()).add_(1)

    def low_precision_model(self, dtype: str) -> Any:
        if dtype == "bfloat16":
            return Mlp().bfloat16()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's own, of where its quantization has moved
            return torch.ao.quantization.quantize_dynamic(Mlp(), {nn.Linear}, dtype=torch.qint8)

    def threads(self) -> int:
        return torch.get_num_threads()

    def raising_model(self, message: str) -> Any:
        return Raising(message)

    def uncounted_model(self) -> Any:
        return Uncounted()


CHANGES: dict[str, Callable[[Any], Any]] = {
    "a value": lambda model: model.classifier.weight.data.mul_(2),
    "a parameter": lambda model: setattr(model.classifier, "weight", nn.Parameter(model.classifier.weight.detach())),
    "whether it is trained": lambda model: model.classifier.requires_grad_(False),
    "a gradient": lambda model: setattr(model.classifier.weight, "grad", torch.zeros(10, 16)),
    "a training flag": lambda model: model.dropout.eval(),
    "a hook": lambda model: model.dropout.register_forward_hook(lambda *args: None),
    "a buffer": lambda model: model.register_buffer("late", torch.zeros(1)),
    "a layer": lambda model: setattr(model, "dropout", nn.Identity()),
    "random numbers": lambda model: torch.rand(1),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_is_compared_before_and_after_holds_all_of_a_torch_model(what: str) -> None:
    model, suite = Mlp(), TestTorch()
    before = suite.snapshot(model)
    assert suite.snapshot(model) == before
    CHANGES[what](model)
    assert suite.snapshot(model) != before
