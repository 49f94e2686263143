"""Names of torch's that would tell a model of a pass lead to the answers of a run, and come back after it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from time_limits import join
from torch import nn
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.overrides import TorchFunctionMode, has_torch_function, has_torch_function_unary

from profilerkit import ModelInputs, ModelTrace
from profilerkit_torch import TorchBackend
from profilerkit_torch.model.inventory import Inventory
from profilerkit_torch.trace import tracing
from profilerkit_torch.trace.hidden_modes import find_namespaces, hide_modes

FILE = globals()
#: What these names lead to outside of a pass.
ORIGINAL = (has_torch_function, has_torch_function_unary, FakeTensor)
#: Names that torch does not export for checkers of types.
_torch: Any = torch
TO_DLPACK = _torch.to_dlpack
Question = Callable[[Any], Any]
OVERRIDDEN: dict[str, Question] = {
    "by module": lambda x: torch.overrides.has_torch_function((x,)),
    "of one by module": lambda x: bool(torch.overrides.has_torch_function_unary(x)),
    "of several by module": lambda x: torch.overrides.has_torch_function_variadic(x, x),
    "by name": lambda x: has_torch_function((x,)),
    "of one by name": lambda x: bool(has_torch_function_unary(x)),  # looked up when it is called
}
FAKE: dict[str, Question] = {
    "by package": lambda x: isinstance(x, torch._subclasses.FakeTensor),
    "by name": lambda x: isinstance(x, FakeTensor),
    "as transformers asks": lambda x: isinstance(x, getattr(torch, "_subclasses").FakeTensor),  # noqa: B009
}


class Asking(nn.Module):
    def __init__(self, question: Question) -> None:
        super().__init__()
        self.narrow, self.wide = nn.Linear(8, 8), nn.Linear(8, 16)
        self.question = question

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = (self.narrow if self.question(x) else self.wide)(x)
        return result


def _macs(trace: ModelTrace) -> int:
    assert trace.failure is None, trace.failure
    return sum(operator.macs for operator in trace.operators if operator.phase == "forward")


@pytest.fixture(autouse=True)
def names_come_back() -> Iterator[None]:
    yield
    assert (has_torch_function, has_torch_function_unary, FakeTensor) == ORIGINAL
    assert torch.overrides.has_torch_function is ORIGINAL[0]
    assert torch._subclasses.FakeTensor is ORIGINAL[2]
    assert _torch.to_dlpack is TO_DLPACK


@pytest.fixture
def only_fake_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise NotImplementedError("no meta tensors here")

    monkeypatch.setattr(tracing, "_on_meta", refuse)


@pytest.mark.parametrize("name", OVERRIDDEN)
def test_the_modes_of_a_pass_override_nothing(name: str) -> None:
    model, inputs = Asking(OVERRIDDEN[name]), ModelInputs(torch.randn(4, 8))
    for trace in (TorchBackend().trace(model, inputs), TorchBackend().trace_training(model, inputs)):
        assert (_macs(trace), trace.method) == (512, "meta tensors")


@pytest.mark.parametrize("name", OVERRIDDEN)
def test_nor_do_those_of_a_real_run(name: str) -> None:
    model = Asking(lambda x: bool(x.sum() > 10**6) or OVERRIDDEN[name](x))
    inputs = ModelInputs(torch.randn(4, 8))
    for trace in (TorchBackend().trace(model, inputs), TorchBackend().trace_training(model, inputs)):
        assert (_macs(trace), trace.method) == (512, "a real run")


def test_a_mode_of_the_users_overrides_functions_in_the_trace_too() -> None:
    class Users(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    with Users():
        trace = TorchBackend().trace(Asking(OVERRIDDEN["by module"]), ModelInputs(torch.randn(4, 8)))
    assert _macs(trace) == 256


def test_a_subclass_overrides_functions_in_the_trace_too() -> None:
    class Kind(torch.Tensor):
        pass

    model = Asking(lambda x: has_torch_function((x.as_subclass(Kind),)))
    assert _macs(TorchBackend().trace(model, ModelInputs(torch.randn(4, 8)))) == 256


@pytest.mark.usefixtures("only_fake_tensors")
@pytest.mark.parametrize("name", FAKE)
def test_the_fake_tensors_of_a_pass_are_none(name: str) -> None:
    trace = TorchBackend().trace(Asking(FAKE[name]), ModelInputs(torch.randn(4, 8)))
    assert (_macs(trace), trace.method) == (512, "fake tensors")


def test_fake_tensors_of_others_are_some_and_torch_gets_the_truth() -> None:
    passes, others = FakeTensorMode(), FakeTensorMode()
    of_pass, of_others = passes.from_tensor(torch.ones(2)), others.from_tensor(torch.ones(2))
    by_torch: dict[str, Any] = {"__name__": "torch.somewhere", "torch": torch}
    exec("def asked(x): return isinstance(x, torch._subclasses.FakeTensor)", by_torch)
    with hide_modes(find_namespaces(Inventory(Asking(FAKE["by name"]))), passes):
        assert [isinstance(x, FakeTensor) for x in (of_pass, of_others, torch.ones(2))] == [False, True, False]
        assert issubclass(type(of_pass), FakeTensor)
        assert FakeTensor.from_tensor is ORIGINAL[2].from_tensor
        assert by_torch["asked"](of_pass)
    assert isinstance(of_pass, FakeTensor)


def test_names_are_themselves_again_after_an_error() -> None:
    class Failing(Asking):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert FILE["has_torch_function"] is not ORIGINAL[0]
            raise ValueError("no")

    failure = TorchBackend().trace(Failing(OVERRIDDEN["by name"]), ModelInputs(torch.randn(4, 8))).failure
    assert "ValueError: no" in str(failure)
    assert FILE["has_torch_function"] is ORIGINAL[0]


def test_another_thread_gets_the_truth_meanwhile() -> None:
    class Mode(TorchFunctionMode):
        pass

    answers: list[bool] = []

    def ask() -> None:
        answers.append(has_torch_function((torch.ones(1),)))
        with Mode():
            answers.append(has_torch_function((1,)))

    def question(x: torch.Tensor) -> bool:
        thread = threading.Thread(target=ask)
        thread.start()
        join(thread)
        return False

    assert _macs(TorchBackend().trace(Asking(question), ModelInputs(torch.randn(4, 8)))) == 512
    assert answers == [False, True]
