"""The fingerprint is sharp: damage of every kind, planted in the place of a call, is found and named."""

from __future__ import annotations

import locale
import logging
import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import pytest
import torch
from attack_cases import NO_FAULT, Case, Difference, find_unexpected, quiet
from attack_sampling import sample
from torch import nn
from torch.nn.modules import module as torch_module

from profilerkit_torch import Cost, register_op_cost
from profilerkit_torch.costs.registry import scoped_costs

from . import models_state
from .allowed import ALLOWED
from .calls import CALLS
from .contexts import ALONE, CONTEXTS, Counting
from .faults import FAULTS
from .harness import find_case_differences, find_output, is_around, made
from .models_state import ClassCache, remember
from .subjects import Subject

#: Of the harness itself, and of no promise to users; warnings are those of the models.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

Damage = Callable[[Subject], Any]
_kept: list[Any] = []


def _parameter(subject: Subject) -> Any:
    return next(nn.Module.parameters(subject.model))


def _values(subject: Subject) -> None:
    _parameter(subject).data.view(-1)[3] = torch.nextafter(torch.zeros(()), torch.ones(())).item()


def _negative_zero(subject: Subject) -> None:
    with torch.no_grad():
        subject.model[1].running_mean.mul_(-1)  # 0.0 is -0.0 now, which compares equal


def _replace(subject: Subject) -> None:
    first = subject.model[0]
    first.weight = nn.Parameter(first.weight.detach())


def _reorder(subject: Subject) -> None:
    first = subject.model[0]
    first._parameters["weight"] = first._parameters.pop("weight")


def _delete(subject: Subject) -> None:
    del subject.model._modules["3"]


def _meta_in_global(subject: Subject) -> None:
    models_state.GLOBAL_CACHE["x"] = torch.ones(2, device="meta")


def _meta_remembered(subject: Subject) -> None:
    with torch.device("meta"):
        models_state.scale(5)


def _thread(subject: Subject) -> None:
    event = threading.Event()
    threading.Thread(target=event.wait, name="left behind", daemon=True).start()
    _kept.append(event)


def _one_line(subject: Subject) -> None:
    model = subject.model
    model.forward = model.forward


#: Each damage with the model that it is done to and the name of the fact that tells.
DAMAGE: dict[str, tuple[str, Damage, str]] = {
    "a value": ("plain", _values, "model._modules*weight* values"),
    "the sign of a zero": ("plain", _negative_zero, "model*running_mean* values"),
    "a version alone": ("plain", lambda s: _parameter(s).detach().add_(0), "model*weight* version"),
    "an equal parameter": ("plain", _replace, "model*_parameters*weight*"),
    "other storage": (
        "plain",
        lambda s: setattr(_parameter(s), "data", _parameter(s).data.clone()),
        "model*weight* address",
    ),
    "requires_grad": ("plain", lambda s: _parameter(s).requires_grad_(False), "model*weight* requires_grad"),
    "a gradient": ("plain", lambda s: s().sum().backward(), "model*weight*.grad"),
    "the values of a gradient": (
        "gradients_and_frozen_weights",
        lambda s: s.model[0].weight.grad.add_(1),
        "model*weight*.grad values",
    ),
    "strides": ("plain", lambda s: setattr(_parameter(s), "data", torch.zeros(4, 8).t()), "model*weight* layout"),
    "the type of values": ("plain", lambda s: s.model.double(), "model*weight* layout"),
    "a hook on a parameter": ("plain", lambda s: _parameter(s).register_hook(id), "model*weight* backward hooks"),
    "an attribute of a parameter": ("plain", lambda s: setattr(_parameter(s), "seen", 1), "model*weight*.__dict__*"),
    "a flag": ("plain", lambda s: s.model[1].eval(), "model._modules*.training"),
    "a hook": ("plain", lambda s: s.model[0].register_forward_hook(id), "model*_forward_hooks keys"),
    "a backward hook": ("plain", lambda s: s.model[0].register_full_backward_hook(id), "model*_backward_hooks keys"),
    "an attribute": ("plain", lambda s: setattr(s.model[2], "profiled", True), "model*attributes"),
    "the order of parameters": ("plain", _reorder, "model*_parameters keys"),
    "a child": ("plain", _delete, "model._modules keys"),
    "a class": ("plain", lambda s: setattr(s.model[2], "__class__", nn.Tanh), "model._modules* type"),
    "forward on the instance": ("plain", _one_line, "model attributes"),
    "persistence": ("plain", lambda s: s.model[1]._non_persistent_buffers_set.add("x"), "model*_buffers_set items"),
    "a slot": ("slots", lambda s: setattr(s.model.state, "count", 4), "model.state.count"),
    "a generator": ("random_generators", lambda s: torch.rand(1, generator=s.model.generator), "model.generator state"),
    "a class attribute": ("class_attribute_cache", lambda s: setattr(ClassCache, "calls", 1), "class ClassCache.calls"),
    "a method": ("class_attribute_cache", lambda s: setattr(ClassCache, "forward", id), "class ClassCache*"),
    "a global cache": ("slots", _meta_in_global, "outside GLOBAL_CACHE kinds"),
    "a cached function": ("slots", _meta_remembered, "outside scale kinds"),
    "a default argument": (
        "mutable_default_argument",
        lambda s: remember(torch.ones(1, device="meta")),
        "outside watched 0 kinds",
    ),
    "a closure": (
        "closure_cache",
        lambda s: s.watched[0].update(a=torch.ones(1, device="meta")),
        "*closure kept kinds",
    ),
    "the input": ("plain", lambda s: s.args[0].add_(1), "inputs* values"),
    "torch's random numbers": ("plain", lambda s: torch.rand(1), "process torch random state"),
    "numpy's random numbers": ("plain", lambda s: np.random.rand(), "process numpy random state"),
    "python's random numbers": ("plain", lambda s: random.random(), "process python random state"),
    "the default dtype": ("plain", lambda s: torch.set_default_dtype(torch.float64), "process default dtype"),
    "the default device": ("plain", lambda s: torch.set_default_device("meta"), "process default device"),
    "the grad mode": ("plain", lambda s: torch.set_grad_enabled(False), "process grad mode"),
    "threads of an operator": ("plain", lambda s: torch.set_num_threads(1), "process threads of an operator"),
    "autocast": ("plain", lambda s: torch.set_autocast_enabled("cpu", True), "process autocast"),
    "determinism": ("plain", lambda s: torch.use_deterministic_algorithms(True), "process deterministic"),
    "a cudnn flag": ("plain", lambda s: setattr(torch.backends.cudnn, "benchmark", True), "process cudnn"),
    "the fast path": (
        "plain",
        lambda s: torch.backends.mha.set_fastpath_enabled(not torch.backends.mha.get_fastpath_enabled()),
        "process fast path",
    ),
    "a global hook": (
        "plain",
        lambda s: torch_module.register_module_forward_hook(lambda *args: None),
        "process global hooks",
    ),
    "a patched function": ("plain", lambda s: setattr(nn.functional, "relu", id), "process patched functions"),
    "a patched method": ("plain", lambda s: setattr(nn.Linear, "forward", id), "process patched functions"),
    "a cost formula": (
        "plain",
        lambda s: register_op_cost("a::b", lambda *args, out: Cost(1, 2)),
        "process profilerkit's cost formulas",
    ),
    "a thread": ("plain", _thread, "process threads"),
    "an open file": ("plain", lambda s: _kept.append(open(os.devnull)), "process open files"),  # noqa: PTH123, SIM115
    "the environment": ("plain", lambda s: os.environ.update(PLANTED="1"), "process environment"),
    "the working folder": ("plain", lambda s: os.chdir("/"), "process working folder"),
    "sys.path": ("plain", lambda s: sys.path.append("/planted"), "process sys.path"),
    "the umask": ("plain", lambda s: os.umask(0o77), "process umask"),
    "a signal handler": ("plain", lambda s: signal.signal(signal.SIGUSR2, signal.SIG_IGN), "process signal handlers"),
    "a log level": ("plain", lambda s: logging.getLogger("torch").setLevel(1), "process log levels"),
    "a warnings filter": ("plain", lambda s: warnings.simplefilter("error"), "process warnings filters"),
    "a trace function": ("plain", lambda s: sys.setprofile(lambda *args: None), "process profile function"),
    "the recursion limit": ("plain", lambda s: sys.setrecursionlimit(3456), "process recursion limit"),
}


@pytest.fixture(autouse=True)
def functions_come_back() -> Any:
    """What is planted in torch's own code is the one thing that no case cleans up."""
    relu, forward, own = nn.functional.relu, nn.Linear.forward, ClassCache.__dict__.get("forward")
    with scoped_costs():
        yield
    nn.functional.relu, nn.Linear.forward = relu, forward  # type: ignore[method-assign]
    assert own is None and "forward" not in vars(ClassCache)
    while _kept:
        left = _kept.pop()
        left.set() if isinstance(left, threading.Event) else left.close()
    assert locale.setlocale(locale.LC_ALL)


@pytest.mark.parametrize("name", sample(list(DAMAGE), 25))
def test_damage_is_found_by_name(name: str) -> None:
    model, damage, fact = DAMAGE[name]
    found = [item.fact for item in find_case_differences(Case(model, "static_profile"), damage)]
    assert any(fnmatchcase(difference, fact) for difference in found), found


def test_another_output_is_found_where_nothing_else_tells() -> None:
    """Of a model that asks an object which no fingerprint can look into."""

    def damage(subject: Subject) -> None:
        models_state.SECRET.set(3)

    found = find_case_differences(Case("asks_a_secret", "static_profile"), damage)
    assert [difference.fact for difference in found] == ["output afterwards"]


@pytest.mark.parametrize("mode", ["dispatch_mode", "function_mode"])
def test_a_mode_that_is_gone_inside_is_found(mode: str) -> None:
    """Damage that the end of the caller's own context would hide."""

    def leave(subject: Subject) -> None:
        torch.set_num_threads(1) if mode == "function_mode" else Counting().__enter__()  # type: ignore[no-untyped-call]

    try:
        found = [item.fact for item in find_case_differences(Case("plain", "static_profile", "none", mode), leave)]
    finally:
        while torch._C._len_torch_dispatch_stack():
            torch._C._pop_torch_dispatch_stack(None)
    assert {"process dispatch modes", "process threads of an operator"} & set(found), found


@pytest.mark.parametrize("context", sample([item for item in CONTEXTS if item not in ALONE], 3))
def test_where_nothing_is_done_nothing_differs(context: str) -> None:
    case = Case("slots", "static_profile", "none", context)
    assert not find_unexpected(
        case, find_case_differences(case, lambda subject: None), ALLOWED
    )  # the context itself may


@pytest.mark.parametrize("model", ["plain", "slots", "random_generators", "running_statistics", "step_counter"])
def test_a_plain_call_in_the_place_of_a_profile_is_found(model: str) -> None:
    """Of each of these something changes in a plain call that must not in a profile."""
    assert [
        item for item in find_case_differences(Case(model, "static_profile"), Subject.__call__) if is_promised(item)
    ]


def is_promised(difference: Difference) -> bool:
    return difference.fact.startswith(("model", "process")) and not is_around(difference.fact)


@pytest.mark.parametrize("call", sample(list(CALLS), 6))
def test_every_call_gets_through_with_an_ordinary_model(call: str) -> None:
    """The harness swallows whatever a call raises: one that always raised would find nothing."""
    with made("plain", NO_FAULT) as (subject, _, _), quiet():
        CALLS[call].do(subject)


@pytest.mark.parametrize("fault", sample(FAULTS, 6))
def test_every_fault_comes_at_its_call_and_at_no_other(fault: str) -> None:
    at = int(fault.partition("@")[2])
    later = ("thread", "in_module_hook", "in_gradient_hook", "in_backward", "returns_itself")
    if fault.startswith(later):
        at = 0
    with made("forward_hooks", NO_FAULT) as (subject, _, _):
        usual = find_output(subject)
    with made("forward_hooks", fault) as (subject, _, _):
        for number in range(1, 5):
            try:
                found = find_output(subject)
            except BaseException as error:
                found = [type(error).__name__]
            if number == at:
                assert found != usual
            elif number < at:
                assert found == usual
