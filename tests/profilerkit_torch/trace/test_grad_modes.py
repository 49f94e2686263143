"""A model that asks for the modes of a pass, or computes gradients in its forward pass, is counted as it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from fuzz_oracle import count_run
from tiny import Call
from torch import nn
from torch.autograd import forward_ad
from torch.nn import functional as F

from profilerkit import ModelInputs, ModelTrace, profile
from profilerkit_torch import TorchBackend
from profilerkit_torch.trace.inference_pass import below_autograd

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # in rules of torch.func

Question = Callable[[torch.Tensor, nn.Parameter], Any]

#: What is true of a run without gradients.
OF_A_RUN: dict[str, Question] = {
    "inference mode": lambda x, w: not torch.is_inference_mode_enabled(),
    "grad mode": lambda x, w: not torch.is_grad_enabled(),
    "a tensor of inference mode": lambda x, w: not (x + 1).is_inference(),
    "the same by a function": lambda x, w: not torch.is_inference(x * w),
    "the version of an input": lambda x, w: x._version == 0,
    "versions": lambda x, w: (x + 1).add_(1)._version == 1,
    "a view": lambda x, w: x[:2]._is_view(),
    "a view that a transform makes": lambda x, w: torch.func.hessian(lambda t: t.square().sum())(x)._is_view(),
    "the base of a view": lambda x, w: x[:2]._base is x,
    "needs a gradient": lambda x, w: w.requires_grad and not (x * w).requires_grad,
    "leaf": lambda x, w: (x * w).is_leaf and (x * w).grad_fn is None,
    "inside of inference mode": lambda x, w: _inside(torch.inference_mode, lambda: bool((x + 1).is_inference())),
    "inside of gradients": lambda x, w: _inside(torch.enable_grad, lambda: (x * w).requires_grad),
    "inference mode switched off": lambda x, w: _inside(
        lambda: torch.inference_mode(False), lambda: (x * w).requires_grad
    ),
    "asked in a try": lambda x, w: _try(lambda: _inside(torch.enable_grad, lambda: (x * w).requires_grad)),
    "a view in a try": lambda x, w: _try(lambda: bool(x[:2]._is_view())),
}


def _inside(mode: Callable[[], Any], question: Callable[[], Any]) -> Any:
    with mode():
        return question()


def _try(question: Callable[[], Any]) -> Any:
    try:
        return question()
    except Exception:
        return False


class Asking(nn.Module):
    """Goes through a wide layer where the answer is true."""

    def __init__(self, question: Question) -> None:
        super().__init__()
        self.narrow, self.wide = nn.Linear(8, 8), nn.Linear(8, 16)
        self.scale = nn.Parameter(torch.ones(8))
        self.question = question

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = (self.wide if self.question(x, self.scale) else self.narrow)(x)
        return result


def _macs(trace: ModelTrace, layer: str = "") -> int:
    assert trace.failure is None, trace.failure
    return sum(operator.macs for operator in trace.operators if operator.layer.startswith(layer))


@pytest.mark.parametrize("name", OF_A_RUN)
@pytest.mark.parametrize("values", ["with values", "without values"])
def test_a_question_about_modes_is_answered_as_in_a_run(name: str, values: str) -> None:
    with torch.device("meta" if values == "without values" else "cpu"):
        model = Asking(OF_A_RUN[name]).eval()
    trace = TorchBackend().trace(model, ModelInputs(torch.randn(4, 8)))
    assert (_macs(trace, "wide"), _macs(trace, "narrow")) == (4 * 8 * 16, 0)
    assert (trace.method, trace.notes) == ("meta tensors", ())


def _ask_unknown_first(question: Question) -> Question:
    return lambda x, w: bool((x > -100).all()) and question(x, w)


@pytest.mark.parametrize("name", OF_A_RUN)
def test_a_real_run_is_in_the_modes_of_a_run(name: str) -> None:
    model = Asking(_ask_unknown_first(OF_A_RUN[name])).eval()
    trace = TorchBackend().trace(model, ModelInputs(torch.randn(4, 8)))
    assert (_macs(trace, "wide"), _macs(trace, "narrow"), trace.method) == (4 * 8 * 16, 0, "a real run")


def _energy(x: torch.Tensor) -> torch.Tensor:
    return (x @ x.mT).sum()


def _differentiate(x: torch.Tensor) -> Any:
    with torch.enable_grad():
        leaf = x.detach().requires_grad_(True)
        return torch.autograd.grad(_energy(leaf), leaf)


def _backward(x: torch.Tensor) -> Any:
    with torch.enable_grad():
        leaf = x.detach().requires_grad_(True)
        _energy(leaf).backward()
        return leaf.grad


def _dual(x: torch.Tensor) -> Any:
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(_energy(forward_ad.make_dual(x, x))).tangent
        assert tangent is not None
        return tangent


#: Gradients that a model computes itself, of the sum of x x^T: 4 rows of 8.
GRADIENTS: dict[str, Callable[[torch.Tensor], Any]] = {
    "autograd.functional.jacobian": lambda x: torch.autograd.functional.jacobian(_energy, x),
    "autograd.functional.vjp": lambda x: torch.autograd.functional.vjp(_energy, x),
    "autograd.functional.hvp": lambda x: torch.autograd.functional.hvp(_energy, x, x),
    "autograd.grad": _differentiate,
    "autograd.grad in a try": lambda x: _try(lambda: _differentiate(x)),
    "backward": _backward,
    "func.grad": torch.func.grad(_energy),
    "func.jvp": lambda x: torch.func.jvp(_energy, (x,), (x,)),
    "forward mode": _dual,
    "forward mode in a try": lambda x: _try(lambda: _dual(x)),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_the_forward_pass_are_counted(name: str) -> None:
    """The product has 4 * 8 * 4 MACs, and each of its two factors a gradient of as many, or a tangent."""
    model, x = Call(lambda self, x: GRADIENTS[name](x * 2)).eval(), torch.randn(4, 8)
    real = count_run(model, (x,)).macs
    assert real in (3 * 128, 5 * 128, 7 * 128, 9 * 128)
    trace = TorchBackend().trace(model, ModelInputs(x))
    assert (_macs(trace), trace.uncounted) == (real, {})


def test_operators_come_whole_and_no_tensor_is_of_inference_mode() -> None:
    layer, x = nn.Linear(8, 8), torch.randn(4, 8)
    with below_autograd():
        y = layer(x)
        assert not (y.requires_grad or y.is_inference() or torch.is_grad_enabled())
    assert torch.is_grad_enabled()
    assert layer(x).requires_grad
    trace = TorchBackend().trace(layer, ModelInputs(x))
    assert [operator.operator for operator in trace.operators] == ["aten.linear.default"]


def attend(self: Any, x: torch.Tensor) -> torch.Tensor:
    """Attention, behind a question that a pass without autograd cannot answer."""
    return x if x._is_view() else F.scaled_dot_product_attention(x, x, x)


def test_attention_needs_no_scores_in_a_pass_with_autograd_either() -> None:
    """In and out are 2 heads x 1,024 tokens x 8 numbers of 4 bytes, and a number a query; scores would be 8 MiB."""
    metrics = ["macs", "memory_footprint"]
    x = torch.zeros(1, 2, 1024, 8)
    report = profile(Call(attend), x, metrics=metrics)
    assert report["macs"] == 2 * 2 * 1024 * 1024 * 8
    assert report["memory_footprint"] <= 2 * x.nbytes + 2 * 1024 * 4


def test_attention_that_drops_scores_makes_them_on_the_cpu_in_a_pass_with_autograd_too() -> None:
    """The CPU's kernel takes no dropout: 2 heads have scores of 1,024 x 1,024 tokens, of 4 bytes each."""

    def drop(self: Any, x: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(x * self.weight, attend(self, x), x, dropout_p=0.5)

    report = profile(
        Call(drop, weight=nn.Parameter(torch.ones(8))), torch.zeros(1, 2, 1024, 8), metrics=["memory_footprint"]
    )
    assert report["memory_footprint"] >= 2 * 1024 * 1024 * 4


def test_an_input_that_is_a_view_is_one_in_a_run_to_be_timed() -> None:
    asked: list[bool] = []

    def ask(self: Any, x: torch.Tensor) -> torch.Tensor:
        asked.append(x._base is not None)
        return x + 1

    profile(Call(ask), torch.zeros(4, 2).t(), metrics=["macs", "execution_time"], num_iters=2, warmup=1)
    assert asked
    assert all(asked)
