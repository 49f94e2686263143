"""Names of torch's that would tell a model of a pass lead to the answers of a run, and come back after it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.overrides import TorchFunctionMode, has_torch_function, has_torch_function_unary
from torch.utils._python_dispatch import _get_current_dispatch_mode

from profilerkit import ModelInputs, ModelTrace
from profilerkit_torch import TorchBackend
from profilerkit_torch.trace import tracing
from profilerkit_torch.trace.asked_names import answered_names, namespaces_of

FILE = globals()
#: What these names lead to outside of a pass.
ORIGINAL = (has_torch_function, has_torch_function_unary, FakeTensor)
#: Names that torch does not export for checkers of types.
_torch: Any = torch
TYPES = (_torch.FloatTensor, _torch.cuda.LongTensor, _torch.to_dlpack)
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


MODES: dict[str, Question] = {
    "how many of functions": lambda x: _torch._C._len_torch_function_stack(),
    "the one of functions": lambda x: _torch.overrides._get_current_function_mode(),
    "those of functions": lambda x: _torch.overrides._get_current_function_mode_stack(),
    "whether any of functions": lambda x: _torch._C._is_torch_function_mode_enabled(),
    "how many of dispatch": lambda x: _torch._C._len_torch_dispatch_stack(),
    "the one of dispatch": lambda x: _torch.utils._python_dispatch._get_current_dispatch_mode(),
    "those of dispatch": lambda x: _torch.utils._python_dispatch._get_current_dispatch_mode_stack(),
    "whether any of dispatch": lambda x: _torch.utils._python_dispatch.is_in_torch_dispatch_mode(),
    "by name": lambda x: _get_current_dispatch_mode(),
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
    assert (_torch.FloatTensor, _torch.cuda.LongTensor, _torch.to_dlpack) == TYPES
    assert type(_torch.FloatTensor).__name__ == "tensortype"


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


@pytest.mark.parametrize("name", MODES)
def test_a_model_does_not_see_the_modes_of_a_pass(name: str) -> None:
    question, x = MODES[name], torch.randn(4, 8)
    assert not question(x)
    backend, inputs = TorchBackend(), ModelInputs(x)
    real_run = Asking(lambda x: bool(x.sum() > 10**6) or question(x))
    for model, method in ((Asking(question), "meta tensors"), (real_run, "a real run")):
        for trace in (backend.trace(model, inputs), backend.trace_training(model, inputs)):
            assert (_macs(trace), trace.method) == (512, method)


@pytest.mark.usefixtures("only_fake_tensors")
@pytest.mark.parametrize("name", MODES)
def test_nor_those_of_a_pass_with_fake_tensors(name: str) -> None:
    trace = TorchBackend().trace(Asking(MODES[name]), ModelInputs(torch.randn(4, 8)))
    assert (_macs(trace), trace.method) == (512, "fake tensors")


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


def test_a_mode_of_the_users_is_the_only_one_that_a_model_sees() -> None:
    class Users(TorchFunctionMode):
        pass

    def question(x: torch.Tensor) -> bool:
        stack = torch.overrides._get_current_function_mode_stack()
        assert _torch._C._len_torch_function_stack() == len(stack) == 1
        assert _torch._C._get_function_stack_at(0) is stack[0]
        assert _torch._C._is_torch_function_mode_enabled()
        return isinstance(torch.overrides._get_current_function_mode(), Users)

    class Asks(Asking):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with Users():
                answer = question(x)
            return super().forward(x) if answer else x

    trace = TorchBackend().trace(Asks(lambda x: False), ModelInputs(torch.randn(4, 8)))
    assert (_macs(trace), trace.method) == (512, "meta tensors")


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
    with answered_names(namespaces_of([Asking(FAKE["by name"])]), passes):
        assert [isinstance(x, FakeTensor) for x in (of_pass, of_others, torch.ones(2))] == [False, True, False]
        assert issubclass(type(of_pass), FakeTensor)
        assert FakeTensor.from_tensor is ORIGINAL[2].from_tensor
        assert by_torch["asked"](of_pass)
    assert isinstance(of_pass, FakeTensor)


def test_names_are_themselves_again_after_an_error_and_after_the_last_of_several_passes() -> None:
    class Failing(Asking):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError("no")

    assert TorchBackend().trace(Failing(OVERRIDDEN["by name"]), ModelInputs(torch.randn(4, 8))).failure is not None
    assert FILE["has_torch_function"] is ORIGINAL[0]
    spaces = namespaces_of([Asking(OVERRIDDEN["by name"])])
    first, second = answered_names(spaces), answered_names(spaces)
    first.__enter__()
    answer = FILE["has_torch_function"]
    assert answer is not ORIGINAL[0]
    second.__enter__()
    second.__exit__(None, None, None)
    assert FILE["has_torch_function"] is answer
    first.__exit__(None, None, None)
    assert FILE["has_torch_function"] is ORIGINAL[0]


def test_a_module_that_is_imported_meanwhile_has_the_names_of_torch(tmp_path: Path, monkeypatch: Any) -> None:
    lines = "from torch._subclasses import FakeTensor\nfrom torch.overrides import has_torch_function\n"
    (tmp_path / "imported_in_a_pass.py").write_text(lines)
    monkeypatch.syspath_prepend(tmp_path)

    def question(x: torch.Tensor) -> bool:
        import imported_in_a_pass  # type: ignore[import-not-found]

        return bool(imported_in_a_pass.has_torch_function((x,)))

    try:
        assert _macs(TorchBackend().trace(Asking(question), ModelInputs(torch.randn(4, 8)))) == 512
        module = sys.modules["imported_in_a_pass"]
        assert (module.has_torch_function, module.FakeTensor) == (ORIGINAL[0], ORIGINAL[2])
    finally:
        sys.modules.pop("imported_in_a_pass", None)


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
        thread.join()
        return False

    assert _macs(TorchBackend().trace(Asking(question), ModelInputs(torch.randn(4, 8)))) == 512
    assert answers == [False, True]


class Typed(nn.Module):
    """Uses the types of tensors as models of PyTorch 0.4 do."""

    def __init__(self, used: list[Any]) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.use = used.append

    def forward(self, x: torch.Tensor) -> Any:
        kind: Any = _torch.cuda.FloatTensor if x.is_cuda else _torch.FloatTensor
        grid = torch.arange(8).repeat(2, 1).type(kind)
        self.use((grid.dtype, kind(2, 3).shape, float(kind([1, 2]).sum()), kind.dtype, kind, {_torch.LongTensor: 1}))
        torch.set_default_tensor_type("torch.FloatTensor")
        torch.set_default_tensor_type(_torch.FloatTensor)
        self.use((isinstance(grid, (kind, _torch.LongTensor)), issubclass(kind, _torch.FloatTensor), repr(kind)))
        return self.layer(x) if isinstance(x, kind) else x


@pytest.mark.filterwarnings("ignore:torch.set_default_tensor_type")
def test_types_of_tensors_are_used_as_before() -> None:
    used: list[Any] = []
    x = torch.randn(4, 8)
    trace = TorchBackend().trace(Typed(used), ModelInputs(x))
    assert (_macs(trace), trace.method) == (256, "meta tensors")
    (dtype, shape, total, of_kind, kind, by_kind), (is_instance, is_subclass, text) = used
    assert (dtype, shape, total, of_kind) == (torch.float32, (2, 3), 3.0, torch.float32)
    assert (is_instance, is_subclass, text) == (True, True, "<class 'torch.FloatTensor'>")
    # What is left of them after the pass is as the types themselves.
    assert kind == _torch.FloatTensor
    assert _torch.FloatTensor == kind
    assert hash(kind) == hash(_torch.FloatTensor)
    assert by_kind[_torch.LongTensor] == 1
    assert isinstance(x, kind)
    assert not isinstance(x.to("meta"), kind)


def test_other_threads_have_the_types_too() -> None:
    seen: list[Any] = []

    class Waiting(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            def look() -> None:
                seen.extend((_torch.FloatTensor([1]).tolist(), isinstance(torch.ones(1), _torch.FloatTensor)))
                seen.append(isinstance(torch.ones(1, device="meta"), _torch.FloatTensor))

            thread = threading.Thread(target=look)
            thread.start()
            thread.join()
            return x @ x.mT

    TorchBackend().trace(Waiting(), ModelInputs(torch.randn(4, 8)))
    assert seen == [[1.0], True, False]
