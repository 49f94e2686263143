"""After a training step is traced, the model, its gradients, its hooks and the process are what they were."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from time_limits import join
from tiny import BACKEND, ByValue, Call, ones
from torch import nn
from torch.nn.modules import module as torch_module
from torch.nn.modules.module import register_module_full_backward_hook

from profilerkit import ModelInputs, profile


class Refusing(ByValue):
    """Its backward pass raises."""

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        raise ValueError("no")


def refuse_meta(y: torch.Tensor) -> torch.Tensor:
    """Do as a kernel of an extension does, which asks for the device beneath torch's functions."""
    with torch._C.DisableTorchFunction():
        if y.is_meta:
            raise NotImplementedError("only on the CPU")
    return y


#: What the model does with its output, and how it is traced then.
ENDS: dict[str, tuple[Callable[[torch.Tensor], Any], str]] = {
    "on meta tensors": (lambda y: y, "meta tensors"),
    "on fake tensors": (refuse_meta, "fake tensors"),
    "for real": (ByValue.apply, "a real run"),
    "failing": (Refusing.apply, ""),
}


def model_ending(end: str) -> nn.Module:
    layers = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))
    finish = ENDS[end][0]
    return Call(lambda self, x: finish(self.layers(x)), layers=layers)


def trace(model: nn.Module, end: str, x: torch.Tensor | None = None) -> None:
    found = BACKEND.trace_training(model, ModelInputs(ones(3, 4) if x is None else x))
    assert found.method == ENDS[end][1]
    assert (found.failure is None) == (end != "failing")


@pytest.mark.parametrize("end", ENDS)
def test_no_gradient_appears_and_none_is_added_to(end: str) -> None:
    model = model_ending(end)
    parameters = list(model.parameters())
    parameters[0].grad = torch.ones_like(parameters[0])
    kept = parameters[0].grad
    trace(model, end)
    assert parameters[0].grad is kept
    assert torch.equal(kept, torch.ones(4, 4))
    assert all(parameter.grad is None for parameter in parameters[1:])
    assert list(map(id, model.parameters())) == list(map(id, parameters))


@pytest.mark.parametrize("end", ENDS)
def test_values_statistics_flags_and_random_numbers_stay(end: str) -> None:
    model = model_ending(end)
    model.layers[1].eval()  # type: ignore[union-attr,index]
    values = {name: value.clone() for name, value in model.state_dict().items()}
    flags, random = [module.training for module in model.modules()], torch.get_rng_state()
    trace(model, end)
    assert all(torch.equal(value, values[name]) for name, value in model.state_dict().items())
    assert [module.training for module in model.modules()] == flags
    assert torch.equal(random, torch.get_rng_state())
    assert torch.is_grad_enabled()
    assert torch.autograd.is_multithreading_enabled()


@pytest.mark.parametrize("end", ENDS)
def test_no_hook_for_gradients_is_called_and_all_are_there_afterwards(end: str) -> None:
    model, called = model_ending(end), list[Any]()
    note = lambda *given: called.append(given)  # noqa: E731
    first = next(model.parameters())
    first.register_hook(note)
    first.register_post_accumulate_grad_hook(note)
    for module in model.modules():
        module.register_full_backward_hook(note)
        module.register_full_backward_pre_hook(note)
    everywhere = register_module_full_backward_hook(note)
    try:
        trace(model, end)
        assert called == []
        assert list(torch_module._global_backward_hooks.values()) == [note]
    finally:
        everywhere.remove()
    assert [len(module._backward_hooks) for module in model.modules()] == [1] * 6
    model.layers(ones(3, 4).requires_grad_()).sum().backward()  # type: ignore[operator]
    assert len(called) > 4


def test_an_input_that_needs_a_gradient_gets_none() -> None:
    for end in ENDS:
        x = ones(3, 4).requires_grad_()
        trace(model_ending(end), end, x)
        assert x.grad is None
        assert x.requires_grad


@pytest.mark.filterwarnings("ignore:.torch.jit.:DeprecationWarning")
def test_parameters_of_scripted_modules_keep_gradients_and_hooks() -> None:
    """Nothing can stand in for them: the step is a real one, on the model's own parameters."""
    model, called = torch.jit.script(nn.Linear(4, 2)), list[Any]()
    model.weight.grad = kept = torch.ones(2, 4)
    model.weight.register_hook(called.append)
    model.bias.register_post_accumulate_grad_hook(called.append)
    trace(model, "for real")
    assert called == []
    assert model.weight.grad is kept
    assert model.bias.grad is None
    assert torch.equal(kept, torch.ones(2, 4))
    model(ones(3, 4)).sum().backward()
    assert len(called) == 2


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_the_callers_grad_mode_changes_nothing(mode: Any) -> None:
    model = nn.Linear(4, 2)
    with mode():
        found = BACKEND.trace_training(model, ModelInputs(ones(5, 4)))
        assert not torch.is_grad_enabled()
        assert torch.is_inference_mode_enabled() == (mode is torch.inference_mode)
    assert found.macs == 2 * 5 * 8


def test_parameters_on_the_meta_device_get_no_gradient() -> None:
    model = nn.Linear(4, 2, device="meta")
    trace(model, "on meta tensors")
    assert model.weight.grad is None
    assert model.weight.is_meta


def test_what_a_model_notes_of_its_gradients_is_taken_back() -> None:
    """As models that explain themselves do: they keep the gradient of an activation."""

    def noting(self: Any, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.linear(x)
        y.register_hook(self.seen.append)
        return y.relu()

    model: Any = Call(noting, linear=nn.Linear(4, 4))
    model.seen = []
    trace(model, "on meta tensors")
    assert model.seen == []


def test_a_step_can_be_traced_in_another_thread() -> None:
    """Torch numbers the nodes of the graph in each thread for itself."""
    macs: list[int] = []
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2))

    def work() -> None:
        found = BACKEND.trace_training(model, ModelInputs(ones(5, 4)))
        macs.extend(row["own_backward_macs"] for row in found.table)

    thread = threading.Thread(target=work)
    thread.start()
    join(thread)
    assert macs == [0, 5 * 32, 2 * 5 * 16]


class Writing(nn.Module):
    """Writes to a tensor of its own what depends on a weight; asks for a value, so that its step is traced for real."""

    def __init__(self, place: str) -> None:
        super().__init__()
        self.place = place
        self.weight = nn.Parameter(torch.ones(2))
        self.register_buffer("buffer", torch.zeros(2))
        self.attribute = torch.zeros(2)
        self.items = [torch.zeros(2)]
        self.named = {"kept": torch.zeros(2)}
        self.inner = nn.Module()
        self.inner.register_buffer("buffer", torch.zeros(2), persistent=False)

    def written(self) -> torch.Tensor:
        tensor: torch.Tensor = eval(self.place, {"self": self})
        return tensor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.weight * x
        if y.sum() > 0:
            y = y * 1
        self.written().copy_(y)
        return y


@pytest.mark.parametrize(
    "place",
    ["self.buffer", "self.attribute", "self.items[0]", "self.named['kept']", "self.inner.buffer"],
)
def test_what_a_step_writes_to_needs_no_gradient_afterwards(place: str) -> None:
    model = Writing(place)
    found = profile(model, ones(2), metrics=["training_macs", "training_flops"])
    assert found["training_flops"] > 0
    assert model.written().grad_fn is None
    assert not model.written().requires_grad
    assert model.written().tolist() == [0, 0]
    copy.deepcopy(model)  # torch refuses that for tensors with a graph
