"""Ways in which a model changes itself that are easy to miss, and how each comes back."""

import random
import sys
import threading
from array import array
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from source_tree import ROOT
from time_limits import join, run_python
from tiny import Call
from torch import nn

from profilerkit import ModelChangedWarning, ModelInputs, profile
from profilerkit_torch import ComputeEvalMetric, TorchBackend, TorchProfiler
from profilerkit_torch.trace.tracing import trace_model
from profilerkit_torch.untouched.process_state import _note_accelerators

X = torch.ones(1, 2)
EXAMPLES = ROOT / "examples"


class Custom(nn.Module):
    """A weight of ones, and whatever the test does in forward."""

    cache: dict[str, torch.Tensor] = {}  # noqa: RUF012 - models do keep tensors so

    def __init__(self, do: Callable[[Any], Any]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.calls = 0
        self.do = do

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.do(self)
        return x * self.weight


def time_model(model: nn.Module) -> None:
    profile(model, X, metrics=["execution_time"], num_iters=2, warmup=0)


def run_static(model: nn.Module) -> None:
    profile(model, X, metrics=["macs"])


def evaluate(model: nn.Module) -> None:
    profiler = TorchProfiler(model, {"test": [X]})
    profiler.register_profiler_function(ComputeEvalMetric(lambda network, loader: float(network(X).sum())))
    profiler.compute_status("eval_metric")


@pytest.mark.parametrize("run", [time_model, run_static, evaluate])
def test_other_data_given_to_a_parameter(run: Callable[[nn.Module], None]) -> None:
    def swap(model: Any) -> None:
        model.weight.data = model.weight.data * 2

    model = Custom(swap)
    pointer = model.weight.data_ptr()
    run(model)
    assert model.weight.tolist() == [1, 1]
    assert model.weight.data_ptr() == pointer


def test_a_write_after_the_first_pass_is_warned_of() -> None:
    def late(model: Any) -> None:
        if model.calls > 1:
            model.weight.mul_(2)

    with pytest.warns(ModelChangedWarning, match="changed the parameters weight in place"):
        time_model(Custom(late))


def test_gradients_that_the_model_adds_to() -> None:
    def learn(model: Any) -> None:
        with torch.enable_grad():
            (model.weight * 3).sum().backward()

    model = Custom(learn)
    model.weight.grad = gradient = torch.zeros(2)
    time_model(model)
    assert model.weight.grad is gradient
    assert gradient.tolist() == [0, 0]


class Slot:
    """An object that holds one value, in a slot."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


#: How a model may hold a value, and how it reads it.
HOLDERS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "attribute": (lambda value: value, lambda held: held),
    "list": (lambda value: [value], lambda held: held[0]),
    "tuple in a dict": (lambda value: {"a": (value,)}, lambda held: held["a"][0]),
    "slot": (Slot, lambda held: held.value),
    "object": (lambda value: SimpleNamespace(value=value), lambda held: held.value),
}


@pytest.mark.parametrize("run", [time_model, run_static, evaluate])
@pytest.mark.parametrize("holder", HOLDERS)
def test_random_generators_of_the_models_own(holder: str, run: Callable[[nn.Module], None]) -> None:
    put, get = HOLDERS[holder]

    def draw(generators: Any) -> list[float]:
        of_torch, of_python, of_numpy, old = generators
        return [torch.rand((), generator=of_torch).item(), of_python.random(), of_numpy.random(), old.random()]

    def make() -> list[Any]:
        return [torch.Generator().manual_seed(3), random.Random(3), np.random.default_rng(3), np.random.RandomState(3)]

    def forward(model: Any) -> None:
        torch.rand(2, generator=get(model.held)[0])
        for generator in get(model.held)[1:]:
            generator.random()

    model: Any = Custom(forward)
    model.held = put(make())
    run(model)
    assert draw(get(model.held)) == draw(make())


class Counted(Custom):
    """A model whose class holds its values."""

    held: Any


@pytest.mark.parametrize("run", [time_model, run_static, evaluate])
@pytest.mark.parametrize("holder", HOLDERS)
def test_the_values_of_a_tensor_that_the_class_of_a_model_holds(holder: str, run: Callable[[nn.Module], None]) -> None:
    put, get = HOLDERS[holder]

    def forward(model: Any) -> None:
        get(model.held).add_(1)

    Counted.held = put(torch.zeros(2))
    run(Counted(forward))
    assert get(Counted.held).tolist() == [0, 0]


@pytest.mark.parametrize("run", [time_model, run_static, evaluate])
def test_a_slot_of_an_object_that_the_class_of_a_model_holds(run: Callable[[nn.Module], None]) -> None:
    def forward(model: Any) -> None:
        model.held.value += 1

    Counted.held = Slot(0)
    run(Counted(forward))
    assert Counted.held.value == 0


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("run", [time_model, run_static, evaluate])
@pytest.mark.parametrize("holder", HOLDERS)
def test_arrays_and_bytes_that_a_pass_changes_in_place(
    holder: str, run: Callable[[nn.Module], None], fails: bool
) -> None:
    put, get = HOLDERS[holder]

    def forward(model: Any) -> None:
        numbers, text, signed = (get(held) for held in model.held)
        numbers += 1
        text.extend(b"d")
        signed.append(3)
        if fails:
            raise ValueError("no")

    numbers, text, signed = np.zeros(3), bytearray(b"abc"), array("i", [1, 2])
    model: Any = Custom(forward)
    model.held = [put(value) for value in (numbers, text, signed)]
    with pytest.raises(ValueError, match="no") if fails and run is evaluate else nullcontext():
        run(model)
    assert all(get(held) is value for held, value in zip(model.held, (numbers, text, signed), strict=True))
    assert (numbers.tolist(), bytes(text), signed.tolist()) == ([0, 0, 0], b"abc", [1, 2])


def test_a_large_array_is_left_as_the_model_changed_it() -> None:
    model: Any = Custom(lambda self: self.seen.__setitem__(0, 1))
    model.seen = np.zeros(2**20 + 1, dtype=np.int8)  # more than 1 MiB
    run_static(model)
    assert model.seen[0] == 1


@pytest.mark.parametrize("run", [time_model, run_static])
def test_an_array_of_the_class(run: Callable[[nn.Module], None]) -> None:
    class Counting(Custom):
        seen = np.zeros(2)

    run(Counting(lambda self: np.add(self.seen, 1, out=self.seen)))
    assert Counting.seen.tolist() == [0, 0]


def test_an_array_in_an_object_among_the_inputs() -> None:
    cache = SimpleNamespace(seen=np.zeros(2), text=bytearray())

    def forward(self: Any, x: torch.Tensor, cache: Any) -> torch.Tensor:
        cache.seen += 1
        cache.text += b"a"
        return x * 2

    trace_model(Call(forward), ModelInputs(X, cache))
    assert (cache.seen.tolist(), bytes(cache.text)) == ([0, 0], b"")
    profile(Call(forward), (X, cache), metrics=["execution_time"], num_iters=2, warmup=0)
    assert (cache.seen.tolist(), bytes(cache.text)) == ([0, 0], b"")


@pytest.mark.parametrize("run", [time_model, run_static])
def test_containers_of_the_collections_module(run: Callable[[nn.Module], None]) -> None:
    def forward(model: Any) -> None:
        model.counter["b"] += 1
        model.lists["new"].append(2)
        model.lists["old"].append(2)
        model.latest.append(3)
        model.numbers.add(3)

    model: Any = Custom(forward)
    model.counter, model.lists = Counter("a"), defaultdict(list, old=[1])
    model.latest, model.numbers = deque([1, 2], maxlen=2), {1}
    run(model)
    assert (model.counter, model.lists) == (Counter("a"), {"old": [1]})
    assert (model.latest, model.latest.maxlen, model.numbers) == (deque([1, 2]), 2, {1})
    assert model.lists.default_factory is list


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("run", [time_model, run_static])
def test_settings_of_numpy(run: Callable[[nn.Module], None], fails: bool) -> None:
    def switch(model: Any) -> None:
        np.seterr(all="raise")
        np.seterrcall(print)
        np.set_printoptions(precision=2, suppress=True)
        if fails:
            raise ValueError("no")

    def read() -> Any:
        return np.geterr(), np.geterrcall(), np.get_printoptions()

    before = read()
    with np.errstate(), np.printoptions():  # for the next test, should this one fail
        run(Custom(switch))
        assert read() == before


@pytest.mark.parametrize("run", [time_model, run_static])
def test_a_cache_of_the_class(run: Callable[[nn.Module], None]) -> None:
    run(Custom(lambda self: self.cache.setdefault("x", self.weight.new_ones(3))))
    assert Custom.cache == {}


def test_two_threads_with_one_model() -> None:
    model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(20))).train()
    before = [parameter.clone() for parameter in model.parameters()]
    failed: list[Exception] = []

    def work() -> None:
        try:
            for _ in range(5):
                profile(model, torch.ones(1, 8), metrics=["macs"])
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        join(thread)
    assert not failed
    assert all(torch.equal(parameter, value) for parameter, value in zip(model.parameters(), before, strict=True))
    assert model.training


@pytest.mark.slow
def test_the_first_footprint_of_a_process_is_that_of_every_later_one() -> None:
    code = """
import torch
from models import lenet5
from profilerkit import profile
peaks = [profile(lenet5(), torch.zeros(1, 1, 32, 32), metrics=["memory_footprint"])["memory_footprint"] for _ in "abc"]
print(len(set(peaks)))
"""
    done = run_python(code, cwd=EXAMPLES)
    assert done.stdout.strip() == "1"


def test_tensors_held_beside_the_weights_are_in_memory() -> None:
    model: Any = Custom(lambda self: None)
    model.table = torch.ones(1000)
    memory = trace_model(model, _inputs()).memory
    assert memory.weight_bytes == 8 + 4000
    assert memory.peak_bytes(include_weights=False) == 8 + 8  # input and output of two float32 each


def test_an_output_that_grows_is_counted_as_it_is() -> None:
    model = Custom(lambda self: torch.mm(torch.ones(4, 4), torch.ones(4, 4), out=torch.empty(0)))
    assert trace_model(model, _inputs()).memory.peak_bytes(include_weights=False) >= 3 * 64


def _inputs() -> Any:
    from profilerkit import ModelInputs

    return ModelInputs(X)


def test_lazy_parameters_have_a_fingerprint() -> None:
    report = profile(nn.Sequential(nn.LazyLinear(3)), metrics=["macs", "total_params"])
    assert report.status("macs").completeness.value == "failed"
    assert TorchBackend().fingerprint(nn.LazyLinear(3)) is not None


@pytest.mark.parametrize("run", [time_model, run_static, evaluate])
def test_an_attribute_under_another_name_and_an_equal_one(run: Callable[[nn.Module], None]) -> None:
    """What is there afterwards is what was there, under its name and in its place, not what equals it."""

    def change(model: Any) -> None:
        model.found = model.__dict__.pop("sizes")
        model.names = ["a"]

    model: Any = Custom(change)
    model.sizes, model.names = [1, 2], ["a"]
    model.do = lambda self: change(self) if "sizes" in self.__dict__ else None
    before = dict(model.__dict__)
    run(model)
    assert list(model.__dict__) == list(before)
    assert all(model.__dict__[name] is value for name, value in before.items())


@pytest.mark.parametrize("run", [time_model, run_static, evaluate])
def test_a_module_that_lacks_some_of_torchs_containers(run: Callable[[nn.Module], None]) -> None:
    """As those do that were saved by an older torch."""
    model = nn.Sequential(nn.Linear(2, 2))
    del model[0].__dict__["_state_dict_pre_hooks"]
    before = dict(model[0].__dict__)
    run(model)
    assert list(model[0].__dict__) == list(before)
    assert all(model[0].__dict__[name] is value for name, value in before.items())


def test_a_bigger_recursion_limit_is_taken_back_when_the_model_raises() -> None:
    def fail(model: Any) -> None:
        raise ValueError("no")

    limit = sys.getrecursionlimit()
    assert trace_model(Custom(fail), ModelInputs(X)).failure is not None
    assert sys.getrecursionlimit() == limit


@pytest.mark.parametrize("freed_before", [True, False])
def test_memory_that_the_model_frees_is_not_read(freed_before: bool) -> None:
    """FSDP frees gathered weights so; to compare or copy what was there would end the process."""

    def free(self: Any, x: torch.Tensor) -> Any:
        storage = self.gathered.untyped_storage()
        storage.resize_(4 << 20)
        self.gathered.fill_(2)
        y = x * self.gathered[0]
        storage.resize_(0)
        return y

    model: Any = Call(free, gathered=torch.ones(1 << 20))
    if freed_before:
        model.gathered.untyped_storage().resize_(0)
    report = profile(model, torch.ones(2, 3), metrics=["execution_time"], num_iters=2, warmup=1)
    assert len(report["execution_time"].samples) == 2
    assert model.gathered.untyped_storage().nbytes() == 0


def test_marks_of_tensors_inside_a_wrapper_tensor_come_back() -> None:
    """`torch.compile` marks the tensors that a wrapper tensor is made of; so does this model."""
    from torch.testing._internal.two_tensor import TwoTensor

    def mark(self: Any, x: torch.Tensor) -> torch.Tensor:
        if isinstance(self.weight, TwoTensor):
            self.weight.a.mark = "left"
        return x * 2

    model: Any = Call(mark, weight=nn.Parameter(TwoTensor(torch.ones(2, 2), torch.ones(2, 2))))
    profile(model, torch.ones(2, 2), metrics=["macs", "execution_time"], num_iters=1)
    assert not hasattr(model.weight.a, "mark")


def test_the_random_numbers_of_every_accelerator_in_use_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated, as there is none here: XPU is in use, MPS is there, and CUDA is not in use."""
    states: dict[str, Any] = {"xpu": [1, 2], "mps": 3}
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    for name in ("is_available", "is_initialized"):
        monkeypatch.setattr(torch.xpu, name, lambda: True)
    monkeypatch.setattr(torch.xpu, "get_rng_state_all", lambda: states["xpu"])
    monkeypatch.setattr(torch.xpu, "set_rng_state_all", lambda value: states.update(xpu=value))
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.mps, "get_rng_state", lambda: states["mps"])
    monkeypatch.setattr(torch.mps, "set_rng_state", lambda value: states.update(mps=value))
    steps = list(_note_accelerators())
    states.update(xpu=[5, 6], mps=7)
    for step in steps:
        step()
    assert states == {"xpu": [1, 2], "mps": 3}
