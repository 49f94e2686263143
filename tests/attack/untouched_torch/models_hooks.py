"""Models by what is called around them: hooks, replaced methods, overridden methods of ``nn.Module``."""

from __future__ import annotations

import types
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as torch_module
from torch.utils.checkpoint import checkpoint

from .subjects import Subject, subject, x

__all__: list[str] = []


def layers() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))


@subject
def forward_hooks() -> nn.Module:
    model = layers()
    model[0].register_forward_hook(lambda module, args, output: output * 2)
    model[1].register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    model[2].register_forward_hook(lambda module, args, kwargs, output: None, with_kwargs=True, always_call=True)
    model.register_forward_pre_hook(lambda module, args, kwargs: (args, kwargs), with_kwargs=True)
    return model


@subject
def backward_hooks() -> nn.Module:
    model = layers()
    model[0].register_full_backward_hook(lambda module, grad_input, grad_output: None)
    model[2].register_full_backward_pre_hook(lambda module, grad_output: None)
    return model


@subject
def hooks_on_parameters() -> nn.Module:
    model: Any = layers()
    model[0].weight.register_hook(lambda gradient: gradient * 2)
    model[2].weight.register_post_accumulate_grad_hook(Updating())
    return model  # type: ignore[no-any-return]


class Updating:
    """As optimizers that update in the backward pass do."""

    def __call__(self, parameter: torch.Tensor) -> None:
        with torch.no_grad():
            parameter.sub_(0.1)
        parameter.grad = None


@subject
def hooks_for_all_modules() -> Subject:
    handles = [
        torch_module.register_module_forward_hook(lambda module, args, output: None),
        torch_module.register_module_forward_pre_hook(lambda module, args: None),
        torch_module.register_module_full_backward_hook(lambda module, grad_input, grad_output: None),
    ]

    def remove() -> None:
        for handle in handles:
            handle.remove()

    return Subject(layers(), (x(),), close=remove)


@subject
def hook_that_removes_itself() -> nn.Module:
    model = layers()

    def once(module: nn.Module, args: Any, output: Any) -> None:
        handle.remove()

    handle = model[0].register_forward_hook(once)
    return model


@subject
def hook_that_adds_hooks() -> nn.Module:
    model = layers()

    def more(module: nn.Module, args: Any) -> None:
        module.register_forward_hook(lambda module, args, output: None)

    model[0].register_forward_pre_hook(more)
    return model


@subject
def hook_that_keeps_activations() -> Subject:
    model, kept = layers(), dict[str, Any]()
    model[0].register_forward_hook(lambda module, args, output: kept.update(seen=output.detach()))
    return Subject(model, (x(),), watched=(kept,))


@subject
def forward_replaced_on_the_instance() -> nn.Module:
    model = layers()
    held = model[0].forward
    model[0].forward = lambda x: held(x) + 1
    model.forward = types.MethodType(lambda self, x: self[2](self[1](self[0](x))), model)  # type: ignore[method-assign]
    return model


class Calling(nn.Module):
    """Has a ``__call__``, a ``__getattr__`` and a ``__dir__`` of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = layers()
        self.asked = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return super().__call__(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("inner"), name)

    def forward(self, x: torch.Tensor) -> Any:
        return self.inner(x)


@subject
def custom_call_and_getattr() -> nn.Module:
    return Calling()


class Sealed(nn.Module):
    """Takes no further attribute once it is made, and lets none go."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = layers()
        object.__setattr__(self, "sealed", True)

    def __setattr__(self, name: str, value: Any) -> None:
        if self.__dict__.get("sealed"):
            raise AttributeError(f"sealed: {name}")
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"sealed: {name}")

    def forward(self, x: torch.Tensor) -> Any:
        return self.inner(x)


@subject
def sealed() -> nn.Module:
    return Sealed()


class Overriding(nn.Module):
    """Methods of ``nn.Module`` with effects of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = layers()
        self.log: list[str] = []

    def train(self, mode: bool = True) -> Overriding:
        self.log.append(f"train({mode})")
        return super().train(mode)

    def eval(self) -> Overriding:
        self.log.append("eval()")
        return super().eval()

    def to(self, *args: Any, **kwargs: Any) -> Overriding:
        self.log.append("to()")
        return super().to(*args, **kwargs)

    def _apply(self, fn: Any, recurse: bool = True) -> Overriding:
        self.log.append("_apply()")
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        self.log.append("state_dict()")
        return {"all": super().state_dict(*args, **kwargs)}

    def parameters(self, recurse: bool = True) -> Any:
        self.log.append("parameters()")
        return super().parameters(recurse)

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.log.append("zero_grad()")
        super().zero_grad(set_to_none)

    def forward(self, x: torch.Tensor) -> Any:
        return self.inner(x)


@subject
def overridden_methods() -> nn.Module:
    return Overriding()


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = layers(), nn.Dropout()

    def forward(self, x: torch.Tensor) -> Any:
        return self.second(checkpoint(self.first, x, use_reentrant=False))


@subject
def checkpointed() -> nn.Module:
    return Checkpointed()


class Differentiating(nn.Module):
    """Needs gradients while it runs, as models of forces do."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = layers()

    def forward(self, x: torch.Tensor) -> Any:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            energy = self.inner(x).pow(2).sum()
            return torch.autograd.grad(energy, x, create_graph=True)[0]


@subject
def differentiates_in_forward() -> nn.Module:
    return Differentiating()
