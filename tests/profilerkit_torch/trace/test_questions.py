"""A model that asks its tensors where they are, for an address or for values takes the way of a run in the trace."""

from __future__ import annotations

import ctypes
import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from fuzz_oracle import count_run
from slow_ones import slow_ones
from tiny import Call
from torch import nn

from profilerkit import ModelFailedError, ModelInputs, ModelTrace, profile
from profilerkit_torch import TorchBackend
from profilerkit_torch.trace import tracing

#: Names that torch does not export for checkers of types.
_torch: Any = torch
to_dlpack = _torch.to_dlpack
Question = Callable[[torch.Tensor], Any]

#: Of the device: each is true of a tensor on the CPU, and the trace can answer it on shapes alone.
OF_DEVICE: dict[str, Question] = {
    "device": lambda x: x.device == torch.device("cpu"),
    "device.type": lambda x: x.device.type == "cpu",
    "is_cpu": lambda x: x.is_cpu,
    "is_cuda": lambda x: not x.is_cuda,
    "is_meta": lambda x: not x.is_meta,
    "is_mps": lambda x: not x.is_mps,
    "is_xpu": lambda x: not x.is_xpu,
    "get_device": lambda x: x.get_device() == -1,
    "torch.get_device": lambda x: torch.get_device(x) == -1,
    "__cuda_array_interface__": lambda x: not hasattr(x, "__cuda_array_interface__"),
    "cpu": lambda x: x.cpu() is x,
    "to": lambda x: x.to("cpu") is x,
    "to device": lambda x: x.to(device=x.device) is x,
    "zeros there": lambda x: torch.zeros(2, device=x.device).is_cpu,
    "a type by dtype": lambda x: x.type(torch.float32) is x,
    "the type of a real one": lambda x: x.type_as(torch.zeros(1)) is x,
    "the type of what is made": lambda x: x.type_as(_torch.FloatTensor(1)) is x,
    "as_tensor": lambda x: torch.as_tensor(x) is x,
    "as_tensor there": lambda x: torch.as_tensor(x, device=x.device) is x,
    "as_tensor on the CPU": lambda x: torch.as_tensor(x, device="cpu") is x,
    "asarray": lambda x: torch.asarray(x, device=x.device) is x,
    "like": lambda x: torch.zeros_like(x, device=x.device).device.type == "cpu",
}
#: By old names of types or by DLPack, which meta tensors do not know: fake tensors do.
OF_TYPE: dict[str, Question] = {
    "from_dlpack": lambda x: int(_torch.from_dlpack(torch.arange(4, device=x.device)).sum()) == 6,
    "type": lambda x: x.type() == "torch.FloatTensor",
    "__dlpack_device__": lambda x: x.__dlpack_device__() == (1, 0),
    "a type by name": lambda x: x.type("torch.FloatTensor") is x,
    "a type by class": lambda x: x.type(_torch.FloatTensor) is x,
    "its own type": lambda x: (x * 2).type(x.type()).type() == "torch.FloatTensor",
    "another type": lambda x: x.type("torch.DoubleTensor").type() == "torch.DoubleTensor",
    "another type by class": lambda x: x.type(_torch.HalfTensor).is_cpu,
    "FloatTensor": lambda x: _torch.FloatTensor(3).type() == x.type(),
    "new": lambda x: x.new(2).type() == x.type() and x.new(2).is_cpu,
}
#: Of values that depend neither on weights nor on floating-point inputs.
OF_KNOWN_VALUES: dict[str, Question] = {
    "item": lambda x: torch.arange(5, device=x.device).sum().item() == 10,
    "bool": lambda x: bool((torch.ones(x.shape[0], device=x.device) == 1).all()),
    "int": lambda x: int(torch.full((2,), 3, device=x.device)[1]) == 3,
    "nonzero": lambda x: len(torch.eye(3, device=x.device).nonzero()) == 3,
    "mask": lambda x: x[torch.arange(len(x), device=x.device) > 0].shape[0] == len(x) - 1,
    "masked_select": lambda x: x.masked_select(torch.eye(4, 8, device=x.device) > 0).numel() == 4,
    "unique": lambda x: len(torch.zeros(9, device=x.device).unique()) == 1,
    "equal": lambda x: torch.equal(x.new_zeros(3), torch.zeros(3, device=x.device)),
    "repeat": lambda x: (
        torch.arange(3, device=x.device).repeat_interleave(torch.arange(3, device=x.device)).numel() == 3
    ),
    "tolist": lambda x: torch.tensor([1, 2], device=x.device).tolist() == [1, 2],
    "new_tensor": lambda x: x.new_tensor([1, 2], dtype=torch.int64).tolist() == [1, 2],
    "FloatTensor": lambda x: float(_torch.FloatTensor([1, 2, 3]).sum()) == 6,
    "LongTensor": lambda x: x[:, _torch.LongTensor([0, 1])].shape[1] == 2,
    "as_tensor": lambda x: torch.as_tensor([1, 2], device=x.device).tolist() == [1, 2],
    "numpy": lambda x: int(torch.arange(4, device=x.device).numpy().sum()) == 6,
    "to_dlpack": lambda x: to_dlpack(torch.arange(4, device=x.device)) is not None,
    "view": lambda x: int(_written_through_a_view(x, 7).sum()) == 14,
    "an expanded mask": lambda x: not (1 - torch.ones(1, 512, device=x.device).long().expand(512, 512).float()).any(),
    "triu": lambda x: bool(torch.ones(3, 3, device=x.device).triu(1)[0, 1] == 1),
    "repr": lambda x: repr(torch.arange(3, device=x.device)) == "tensor([0, 1, 2])",
    "str": lambda x: "[1., 1.]" in str(torch.ones(2, device=x.device)),
    "format": lambda x: f"{torch.full((), 2, device=x.device):03d}" == "002",
}
#: What stand-ins cannot answer: a real run is counted.
OF_A_RUN: dict[str, Question] = {
    "isinstance": lambda x: isinstance(x, _torch.FloatTensor),
    "isinstance of a GPU's": lambda x: not isinstance(x, _torch.cuda.FloatTensor),
    "isinstance of others": lambda x: (
        not isinstance(x, (_torch.DoubleTensor, _torch.LongTensor, _torch.sparse.FloatTensor))
    ),
    "isinstance of what is made": lambda x: isinstance(torch.arange(3, device=x.device), _torch.LongTensor),
    "isinstance of a number": lambda x: not isinstance(x.shape[0], _torch.FloatTensor),
    "the type for its device": lambda x: isinstance(x, _torch.cuda.FloatTensor if x.is_cuda else _torch.FloatTensor),
    "data_ptr": lambda x: x.data_ptr() != 0,
    "aligned": lambda x: x.data_ptr() % 16 == 0,
    "untyped_storage": lambda x: x.untyped_storage().data_ptr() != 0,
    "storage": lambda x: x._typed_storage()._data_ptr() != 0,
    **(
        {"const_data_ptr": lambda x: _torch.Tensor.const_data_ptr(x) != 0}
        if hasattr(_torch.Tensor, "const_data_ptr")
        else {}  # torch 2.6
    ),
    "what is at its address": lambda x: math.isfinite(ctypes.c_float.from_address(x.data_ptr()).value),
    "pickle": lambda x: len(pickle.loads(pickle.dumps(x))) == 4,
    "pickle with an attribute": lambda x: len(pickle.loads(pickle.dumps(_label(x * 2)))) == 4,
    "is_pinned": lambda x: not x.is_pinned(),
    "is_shared": lambda x: not x.is_shared(),
    "to_dlpack": lambda x: to_dlpack(x) is not None,
    "torch.to_dlpack": lambda x: _torch.to_dlpack(x) is not None,
    "to_dlpack of its module": lambda x: _torch.utils.dlpack.to_dlpack(x) is not None,
    "from_dlpack": lambda x: float(_torch.from_dlpack(x.abs()).sum()) >= 0,
    "item": lambda x: x.abs().sum().item() >= 0,
    "bool": lambda x: bool(x.abs().sum() >= 0),
    "int": lambda x: int(x.abs().sum()) >= 0,
    "nonzero": lambda x: len((x.abs() >= 0).nonzero()) > 0,
    "where": lambda x: len(torch.where(x.abs() >= 0)[0]) > 0,
    "mask": lambda x: len(x[x.abs() >= 0]) > 0,
    "masked_select": lambda x: x.masked_select(x.abs() >= 0).numel() > 0,
    "unique": lambda x: len(x.unique()) > 0,
    "equal": lambda x: torch.equal(x, x),
    "allclose": lambda x: torch.allclose(x, x),
    "tolist": lambda x: float(x.abs().sum().tolist()) >= 0,  # type: ignore[arg-type]
    "numpy": lambda x: x.abs().sum().numpy() >= 0,
    "written with what is unknown": lambda x: float(_written_through_a_view(x, x[0, 0].abs() + 1).sum()) > 0,
    "a real tensor written with what is unknown": lambda x: float(_written(torch.zeros(4), x[0, 0].abs() + 1)) > 0,
    "tolist of such a one": lambda x: sum(_written_all(torch.zeros(4), x[0, 0].abs() + 1).tolist()) > 0,
    "numpy of such a one": lambda x: _written_all(torch.zeros(4), x[0, 0].abs() + 1).numpy().sum() > 0,
}
#: What a model does by the text of a tensor.
OF_TEXT: dict[str, Question] = {
    "repr": lambda x: "meta" not in repr(x) and "Fake" not in repr(x),
    "str": lambda x: "size=" not in str(x),
    "format": lambda x: float(f"{x[0, 0].abs()}".removeprefix("tensor(").removesuffix(")")) >= 0,
    "percent": lambda x: "device" not in "%s" % (x * 2),
    "repr of a written one": lambda x: "0., 0.]" not in repr(_written_all(torch.zeros(4), x[0, 0].abs() + 1)),
}


def _label(x: torch.Tensor) -> torch.Tensor:
    x.label = "x"  # type: ignore[attr-defined]
    return x


def _written_through_a_view(x: torch.Tensor, value: Any) -> torch.Tensor:
    made = torch.zeros(4, device=x.device)
    made[:2] = value
    return made


def _written_all(made: torch.Tensor, value: Any) -> torch.Tensor:
    made[:] = value
    return made


def _written(made: torch.Tensor, value: Any) -> torch.Tensor:
    made[:2] = value
    return made.sum()


class Branching(nn.Module):
    """Goes through a layer twice as wide where the answer is true."""

    def __init__(self, question: Question) -> None:
        super().__init__()
        self.narrow, self.wide = nn.Linear(8, 8), nn.Linear(8, 16)
        self.question = question

    def answer(self, x: torch.Tensor) -> Any:
        return self.question(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = (self.wide if self.answer(x) else self.narrow)(x)
        return result


class Trying(Branching):
    def answer(self, x: torch.Tensor) -> Any:
        try:
            return self.question(x)
        except Exception:
            return False


def _helper(question: Question, *tensors: torch.Tensor) -> list[Any]:
    return [question(tensor) for tensor in tensors]


class Helped(Branching):
    def answer(self, x: torch.Tensor) -> Any:
        return all(_helper(self.question, x * 2, x))


def make_hooked(question: Question) -> nn.Module:
    """A model of torch's own modules alone: the question is asked in a hook."""
    model, wide = nn.Sequential(nn.Linear(8, 8)), nn.Linear(8, 16)
    model[0].wide = wide
    model[0].register_forward_hook(lambda module, args, output: wide(args[0]) if question(args[0]) else output)
    return model


WAYS: dict[str, Callable[[Question], nn.Module]] = {
    "plain": Branching,
    "try": Trying,
    "helper": Helped,
    "hook": make_hooked,
}
QUESTIONS = {
    **{f"device: {name}": (question, "meta tensors") for name, question in OF_DEVICE.items()},
    **{f"type: {name}": (question, "fake tensors") for name, question in OF_TYPE.items()},
    **{f"known: {name}": (question, "meta tensors") for name, question in OF_KNOWN_VALUES.items()},
    **{f"run: {name}": (question, "a real run") for name, question in OF_A_RUN.items()},
    **{f"text: {name}": (question, "a real run") for name, question in OF_TEXT.items()},
}


def _macs(trace: ModelTrace) -> int:
    assert trace.failure is None
    return sum(operator.macs for operator in trace.operators if operator.phase == "forward")


#: The questions that are asked in every way by the quick tests.
ASKED_IN_EVERY_WAY = ("device: is_cpu", "known: item", "run: data_ptr", "text: format")


@pytest.mark.parametrize(
    ("name", "way"),
    [
        pytest.param(
            *(name, way),
            marks=pytest.mark.slow if way != "plain" and name not in ASKED_IN_EVERY_WAY else (),
        )
        for name in QUESTIONS
        for way in WAYS
    ],
)
def test_a_question_is_answered_as_in_a_run(name: str, way: str) -> None:
    question, method = QUESTIONS[name]
    model, x = WAYS[way](question).eval(), torch.randn(4, 8)
    real = count_run(model, (x,)).macs
    assert real in (512, 768)  # 4 rows of 8 by 16, with the 4 of 8 by 8 before a hook: the answer is yes
    trace = TorchBackend().trace(model, ModelInputs(x))
    assert (_macs(trace), trace.method, trace.uncounted) == (real, method, {})
    assert bool(trace.notes) == (method == "a real run")
    assert _macs(TorchBackend().trace_training(model, ModelInputs(x))) == real


@pytest.fixture
def only_fake_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise NotImplementedError("no meta tensors here")

    monkeypatch.setattr(tracing, "_on_meta", refuse)


@pytest.mark.usefixtures("only_fake_tensors")
@pytest.mark.parametrize("way", slow_ones(["plain", "try"], ["try"]))
@pytest.mark.parametrize("name", QUESTIONS)
def test_fake_tensors_answer_as_a_run_does_too(name: str, way: str) -> None:
    question, method = QUESTIONS[name]
    trace = TorchBackend().trace(WAYS[way](question).eval(), ModelInputs(torch.randn(4, 8)))
    assert _macs(trace) == 4 * 8 * 16
    assert trace.method == {"meta tensors": "fake tensors"}.get(method, method)


def go_round(self: Any, x: torch.Tensor) -> torch.Tensor:
    """Once more through a layer than an integer buffer says, which is one larger then."""
    self.rounds += 1
    for _ in range(int(self.rounds)):
        x = self.layer(x)
    return x


@pytest.mark.usefixtures("only_fake_tensors")
def test_integers_of_inputs_and_buffers_are_known_on_fake_tensors() -> None:
    def run(self: Any, x: torch.Tensor, mask: torch.Tensor) -> Any:
        x = go_round(self, x)
        mask[0] = 0
        return self.layer(x[mask.bool()])

    model: Any = Call(run, layer=nn.Linear(8, 8), rounds=nn.Buffer(torch.tensor(2)))
    mask = torch.tensor([1, 0, 1, 1])
    trace = TorchBackend().trace(model, ModelInputs(torch.randn(4, 8), mask))
    assert (_macs(trace), trace.method) == (3 * 4 * 8 * 8 + 2 * 8 * 8, "fake tensors")
    assert (int(model.rounds), mask.tolist()) == (2, [1, 0, 1, 1])


@pytest.mark.usefixtures("only_fake_tensors")
@pytest.mark.parametrize("name", OF_KNOWN_VALUES)
def test_fake_tensors_for_a_model_without_values_know_small_values(name: str) -> None:
    with torch.device("meta"):
        model = Branching(OF_KNOWN_VALUES[name])
    trace = TorchBackend().trace(model, ModelInputs(torch.randn(4, 8)))
    assert (_macs(trace), trace.method) == (512, "fake tensors")


@pytest.mark.parametrize("name", [name for name in OF_TEXT if name != "format"])  # that one reads a number out of it
def test_a_model_without_values_that_formats_tensors_is_counted_with_a_note(name: str) -> None:
    with torch.device("meta"):
        model = Branching(lambda x: bool(OF_TEXT[name](x)) or True)
    trace = TorchBackend().trace(model, ModelInputs(torch.randn(4, 8)))
    assert (_macs(trace), trace.method) == (512, "meta tensors")
    (note,) = trace.notes
    assert "formats tensors as text" in note
    assert "__format__" in note or "__repr__" in note


@pytest.mark.parametrize(
    ("ask", "method"),
    [
        (lambda x: type(x) is torch.Tensor, "a real run"),
        (lambda x: x.__class__ == torch.Tensor, "a real run"),
        (lambda x: isinstance(x, torch.Tensor) and x.device.type == "cpu", "fake tensors"),
    ],
    ids=["type", "class", "no question for a type"],
)
def test_the_type_of_a_fake_tensor_is_not_that_of_a_run(ask: Question, method: str) -> None:
    """Two products of 4 rows, 8 by 16; in an autocast block of its own a model is counted on fake tensors."""

    class Casting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(8, 16), nn.Linear(8, 16)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y: torch.Tensor = self.first(x)
            return y + self.second(x) if ask(y) else y.softmax(-1)

    trace = TorchBackend().trace(Casting(), ModelInputs(torch.randn(4, 8)))
    assert (_macs(trace), trace.method) == (2 * 4 * 8 * 16, method)


@pytest.mark.parametrize("question", ["is_cpu", "device.type"])
def test_the_operator_table_agrees(question: str) -> None:
    report = profile(Branching(OF_DEVICE[question]), torch.randn(4, 8), metrics=["macs", "operator_table"])
    assert report["macs"] == 512
    assert sum(row["macs"] or 0 for row in report["operator_table"] if row["phase"] == "forward") == 512


@pytest.mark.parametrize(
    "way", ["try", pytest.param("plain", marks=pytest.mark.slow), pytest.param("helper", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("name", OF_A_RUN)
def test_a_model_without_values_that_asks_for_them_is_not_counted(name: str, way: str) -> None:
    with torch.device("meta"):
        model = WAYS[way](OF_A_RUN[name])
    trace = TorchBackend().trace(model, ModelInputs(torch.randn(4, 8)))
    assert isinstance(trace.failure, ModelFailedError)
    assert not trace.operators


def test_the_message_says_what_was_asked_and_what_to_do() -> None:
    with torch.device("meta"):
        model = Branching(OF_A_RUN["data_ptr"])
    message = str(TorchBackend().trace(model, ModelInputs(torch.randn(4, 8))).failure)
    assert "Tensor.data_ptr" in message
    assert "give it weights with values" in message


@pytest.mark.parametrize("name", [*OF_DEVICE, *OF_KNOWN_VALUES])
def test_a_model_on_the_meta_device_answers_as_one_on_the_cpu(name: str) -> None:
    question = {**OF_DEVICE, **OF_KNOWN_VALUES}[name]
    with torch.device("meta"):
        model = Branching(question)
    assert _macs(TorchBackend().trace(model, ModelInputs(torch.randn(4, 8)))) == 512


def test_integer_buffers_keep_their_values_and_the_users_are_not_written_to() -> None:
    model: Any = Call(go_round, layer=nn.Linear(8, 8), rounds=nn.Buffer(torch.tensor(2)))
    trace = TorchBackend().trace(model, ModelInputs(torch.randn(4, 8)))
    assert (_macs(trace), trace.method) == (3 * 4 * 8 * 8, "meta tensors")
    assert int(model.rounds) == 2


def test_random_numbers_are_not_known() -> None:
    model = Branching(lambda x: bool(torch.rand(3, device=x.device).sum() >= 0))
    trace = TorchBackend().trace(model, ModelInputs(torch.randn(4, 8)))
    assert (_macs(trace), trace.method) == (512, "a real run")


def test_values_above_a_mebibyte_are_not_kept() -> None:
    model = Branching(lambda x: bool((torch.ones(2**18 + 1, device=x.device) == 1).all()))
    trace = TorchBackend().trace(model, ModelInputs(torch.randn(4, 8)))
    assert (_macs(trace), trace.method) == (512, "a real run")


def test_layers_of_torch_stay_on_shapes_alone() -> None:
    transformer = nn.Transformer(16, 2, 1, 1, 32, batch_first=True)
    source = torch.randn(2, 5, 16)
    for model, inputs in (
        (transformer, ModelInputs(source, source)),
        (nn.LSTM(16, 8, batch_first=True), ModelInputs(source)),
        (nn.MultiheadAttention(16, 2, batch_first=True), ModelInputs(source, source, source)),
    ):
        assert TorchBackend().trace(model, inputs).method == "meta tensors"
