"""The model and the process come back as they were, whatever was measured and whether or not the model raised."""

from __future__ import annotations

import copy
import itertools
import random
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import torch
import torch._dynamo  # the pass that imports it first is repeated: tests that count calls would depend on their order
from tiny import BACKEND, Call, ones, trace
from torch import nn

from profilerkit import ModelChangedWarning, ModelInputs, profile
from profilerkit_torch import ComputeEvalMetric, TorchProfiler, get_accuracy
from profilerkit_torch.untouched.tensor_state import KeptValue, write_back_alone


class Cache:
    """A plain object, as models keep their key-value caches in."""

    def __init__(self) -> None:
        self.keys: list[torch.Tensor] = []
        self.length = 0


class Restless(nn.Module):
    """Changes whatever a model can change while it runs; raises half-way if it is told to."""

    steps: torch.Tensor

    def __init__(self, raises: bool = False) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.frozen = nn.BatchNorm1d(4)
        self.bn = nn.BatchNorm1d(4)
        self.head = nn.Linear(4, 3)
        self.register_buffer("steps", torch.zeros(1))
        self.register_buffer("scratch", torch.zeros(2), persistent=False)
        self.rotary = torch.arange(4.0)  # a plain attribute
        self.kept: torch.Tensor | None = None
        self.history: list[Any] = []
        self.nested: dict[str, list[torch.Tensor]] = {"seen": []}
        self.cache = Cache()
        self.raises = raises
        self.layer.weight.grad = torch.full((4, 4), 2.0)
        self.head.requires_grad_(False)
        self.layer.register_forward_hook(lambda module, args, output: None)
        self.layer.register_forward_pre_hook(lambda module, args: None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.steps += 1
        self.rotary.mul_(2)
        x.add_(1)
        y = self.bn(self.frozen(self.layer(x * self.rotary)))
        self.kept = y
        self.history.append(y)
        self.nested["seen"].append(y)
        self.cache.keys.append(y)
        self.cache.length += 1
        self.added = nn.Linear(4, 4)
        self.register_buffer("late", torch.zeros(1))
        self.layer.register_forward_hook(lambda module, args, output: None)
        self.eval() if self.training else self.train()
        self.head.requires_grad_(True)
        torch.rand(1), random.random(), np.random.rand()
        torch.set_grad_enabled(False)
        if self.raises:
            raise RuntimeError("half-way")
        out: torch.Tensor = self.head(y)
        return out


def restless(raises: bool = False) -> Restless:
    model = Restless(raises).train()
    model.frozen.eval()
    return model


Fact = tuple[str, Any]


def facts(model: nn.Module) -> list[Fact]:
    """Note what must stay: identities as ids, values as copies."""
    found: list[Fact] = [("keys", tuple(model.state_dict()))]
    for path, module in model.named_modules():
        found.append((f"{path} is", (id(module), type(module), module.training)))
        for name, value in module.__dict__.items():
            if isinstance(value, (dict, list, set)):
                items = value.items() if isinstance(value, dict) else enumerate(value)
                found.append((f"{path}.{name} holds", [(key, id(item)) for key, item in items]))
            found.append((f"{path}.{name}", id(value)))
    if isinstance(model, Restless):
        found.append(("nested", [*model.nested["seen"], *model.cache.keys, model.cache.length]))
        found.append(("plain attribute", model.rotary.tolist()))
    for path, tensor in (*model.named_parameters(), *model.named_buffers()):
        found.append(
            (f"{path} tensor", (id(tensor), tensor.requires_grad, tensor.dtype, tensor.device, tensor.tolist()))
        )
        gradient = tensor.grad
        found.append((f"{path} grad", None if gradient is None else (id(gradient), gradient.tolist())))
    return found


def process() -> list[Fact]:
    """Note the state of the process around the model."""
    hooks = torch.nn.modules.module
    return [
        ("torch rng", torch.get_rng_state().tolist()),
        ("numpy rng", np.random.get_state()[1].tolist()),  # type: ignore[index]
        ("python rng", random.getstate()),
        ("dtype", torch.get_default_dtype()),
        ("threads", torch.get_num_threads()),
        ("grad mode", torch.is_grad_enabled()),
        ("inference mode", torch.is_inference_mode_enabled()),
        ("cudnn", [getattr(torch.backends.cudnn, name) for name in ("enabled", "benchmark", "deterministic")]),
        ("fast path", torch.backends.mha.get_fastpath_enabled()),
        ("fusing in scripts", torch._C._get_graph_executor_optimize()),
        ("profiler", torch.autograd.profiler._is_profiler_enabled),
        ("hooks", (dict(hooks._global_forward_hooks), dict(hooks._global_forward_pre_hooks))),
        ("always", dict(hooks._global_forward_hooks_always_called)),
        (
            "unpatched",
            (nn.Module.__call__, nn.Linear.forward, Restless.forward, torch.matmul, torch.nn.functional.linear),
        ),
        ("modes", torch._C._len_torch_dispatch_stack()),
    ]


@pytest.fixture(autouse=True)
def grad_mode() -> Iterator[None]:
    """A test that fails here must not spoil the ones after it."""
    yield
    torch.set_grad_enabled(True)


def run_trace(model: nn.Module, x: torch.Tensor) -> None:
    trace(model, x)


def run_profile(model: nn.Module, x: torch.Tensor) -> None:
    profile(model, x, num_iters=2, warmup=0)


def run_timing(model: nn.Module, x: torch.Tensor) -> None:
    with BACKEND.run(model, ModelInputs(x)) as call:
        for _ in range(3):
            call()


def run_evaluation(model: nn.Module, x: torch.Tensor) -> None:
    # The batches are the user's: a model that writes to its inputs would change his data set without us too.
    profiler = TorchProfiler(model, {"test": [(x.clone(), torch.zeros(2, dtype=torch.int64))]})
    profiler.register_profiler_function(ComputeEvalMetric(get_accuracy))
    profiler.compute_network_status()


def run_memory(model: nn.Module, x: torch.Tensor) -> None:
    BACKEND.measure_memory(model, ModelInputs(x))


Run = Callable[[nn.Module, torch.Tensor], None]
RUNS: list[Run] = [run_trace, run_profile, run_timing, run_evaluation, run_memory]


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("raises", [False, True], ids=["runs", "raises"])
def test_a_restless_model_comes_back_as_it_was(run: Run, raises: bool) -> None:
    model, x = restless(raises), torch.full((2, 4), 3.0)
    model_before, process_before, state = facts(model), process(), copy.deepcopy(model.state_dict())
    with suppress(RuntimeError):
        run(model, x)
    if run is not run_evaluation:
        assert facts(model) == model_before
    else:  # it promises parameters, buffers and structure; what plain tensor attributes hold is the model's own
        assert [fact for fact in facts(model) if fact[0] != "plain attribute"] == [
            fact for fact in model_before if fact[0] != "plain attribute"
        ]
    assert process() == process_before
    assert x.tolist() == torch.full((2, 4), 3.0).tolist()
    for key, value in model.state_dict().items():
        assert torch.equal(value, state[key]), key


@pytest.mark.parametrize("run", RUNS)
def test_running_statistics_of_a_training_model_do_not_move(run: Run) -> None:
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3)).train()
    before = facts(model)
    run(model, torch.randn(2, 4))
    assert facts(model) == before


@pytest.mark.parametrize("run", [run_trace, run_timing])
def test_batch_norm_that_a_model_puts_into_training_itself_has_its_statistics_back(run: Run) -> None:
    def thaw(self: Any, x: torch.Tensor) -> Any:
        float(x.sum())  # no meta tensor can answer: a real run
        self.bn.train()
        return self.bn(x)

    model = Call(thaw, bn=nn.BatchNorm1d(4)).eval()
    before = facts(model)
    run(model, torch.randn(2, 4))
    assert facts(model) == before


@pytest.mark.parametrize("run", [run_trace, run_timing])
def test_statistics_that_an_operator_updates_without_saying_so_come_back(run: Run) -> None:
    def update(self: Any, x: torch.Tensor) -> Any:  # has no kernel for shapes alone: a real run
        return torch.batch_norm_update_stats(x, self.mean, self.variance, 0.5)

    model = Call(update, mean=nn.Buffer(torch.zeros(4)), variance=nn.Buffer(ones(4)))
    before = facts(model)
    run(model, torch.randn(2, 4) + 7)
    assert facts(model) == before


class WritesParameter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(ones(4))
        self.cached = torch.zeros(4)
        self.caches = [torch.zeros(4)]
        self.named = {"a": torch.zeros(4)}
        self.deep = Cache()
        self.deep.keys = [torch.zeros(4)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.weight.mul_(2)
        for tensor in (self.cached, self.caches[0], self.named["a"], self.deep.keys[0]):
            tensor.add_(1)
        return x * self.weight

    def values(self) -> list[Any]:
        held = (self.weight, self.cached, self.caches[0], self.named["a"], self.deep.keys[0])
        return [(id(tensor), tensor.tolist()) for tensor in held]


@pytest.mark.parametrize("run", [run_trace, run_timing, run_profile])
def test_what_a_model_writes_is_written_back(run: Run) -> None:
    model = WritesParameter()
    before = model.values()
    run(model, ones(2, 4))
    assert model.values() == before


def test_what_a_model_writes_in_a_real_run_of_the_trace_is_written_back() -> None:
    class Reads(WritesParameter):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            float(x.sum())
            return super().forward(x)

    model = Reads()
    before = model.values()
    assert trace(model, ones(2, 4)).method == "a real run"
    assert model.values() == before


class Sealed:
    """A plain object without a ``__dict__``."""

    __slots__ = ("tensors",)

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensors = [tensor]


class Named(list[Any]):
    """A list with attributes."""

    def __init__(self, tensor: torch.Tensor) -> None:
        super().__init__()
        self.inner = tensor


class Ring(deque[Any]):
    """A deque with attributes."""

    def __init__(self, tensor: torch.Tensor) -> None:
        super().__init__()
        self.inner = [tensor]


class Table(dict[str, Any]):
    """A dict with a slot."""

    __slots__ = ("inner",)

    def __init__(self, tensor: torch.Tensor) -> None:
        super().__init__()
        self.inner = tensor


#: What a model may hold a tensor in, and how it gets it from there.
HOLDERS: dict[str, tuple[Callable[[torch.Tensor], Any], Callable[[Any], torch.Tensor]]] = {
    "an attribute": (lambda tensor: tensor, lambda holder: holder),
    "a list": (lambda tensor: [tensor], lambda holder: holder[0]),
    "a dict": (lambda tensor: {"a": tensor}, lambda holder: holder["a"]),
    "an object": (lambda tensor: types.SimpleNamespace(inner=[tensor]), lambda holder: holder.inner[0]),
    "slots": (Sealed, lambda holder: holder.tensors[0]),
    "an attribute of a list": (Named, lambda holder: holder.inner),
    "an attribute of a deque": (Ring, lambda holder: holder.inner[0]),
    "a slot of a dict": (Table, lambda holder: holder.inner),
}


class Counting(nn.Module):
    """Counts its calls in a tensor; the first calls raise, so that the trace goes on to its next way."""

    def __init__(self, holder: str, raising: int) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        hold, self.get = HOLDERS[holder]
        self.holder, self.raising = hold(torch.zeros(4)), raising

    def forward(self, x: torch.Tensor) -> Any:
        self.get(self.holder).add_(1)
        if next(find_calls(self)) < self.raising:
            raise KeyError("not yet")
        return self.layer(x)


_calls: dict[int, Iterator[int]] = {}


def find_calls(model: Counting) -> Iterator[int]:
    """Return the counter of a model's calls, which is nothing of the model's: that would come back."""
    return _calls.setdefault(id(model), itertools.count())


@pytest.mark.parametrize(("raising", "method"), [(0, "meta tensors"), (1, "fake tensors"), (2, "a real run")])
@pytest.mark.parametrize("holder", HOLDERS)
def test_a_tensor_comes_back_from_every_way_of_the_trace(holder: str, raising: int, method: str) -> None:
    model = Counting(holder, raising)
    _calls.pop(id(model), None)
    tensor = model.get(model.holder)
    assert trace(model, ones(2, 4)).method == method
    assert model.get(model.holder) is tensor
    assert (tensor.tolist(), tensor._version) == ([0] * 4, 0)


def test_slots_of_a_container_that_a_model_fills_anew_come_back() -> None:
    def fill(self: Any, x: torch.Tensor) -> Any:
        self.table.inner = _table.inner = x
        return self.layer(x)

    kept = torch.zeros(4)
    model: Any = Call(fill, layer=nn.Linear(4, 4))
    model.table = Table(kept)
    _table.inner = kept
    run_timing(model, ones(2, 4))
    assert model.table.inner is _table.inner is kept


_table = Table(torch.zeros(4))


def observe(self: Any, x: torch.Tensor) -> Any:
    """Give the buffers their sizes in the first call, as the observers of quantization do."""
    if self.scale.numel() == 1:
        self.scale.resize_(4).fill_(2)
        self.empty.resize_(4).zero_()
    float(self.scale.sum())
    return self.layer(x) * self.scale


def _evaluate(model: nn.Module, x: torch.Tensor) -> None:
    assert get_accuracy(model, [(x, torch.zeros(2, dtype=torch.long))]) >= 0


@pytest.mark.parametrize("run", [run_trace, run_timing, run_profile, _evaluate])
def test_buffers_that_a_model_makes_longer_come_back(run: Run) -> None:
    buffers = {"scale": nn.Buffer(torch.ones(1)), "empty": nn.Buffer(torch.empty(0))}
    model: Any = Call(observe, layer=nn.Linear(4, 4), **buffers).eval()
    run(model, ones(2, 4))
    for buffer, values in ((model.scale, [1]), (model.empty, [])):
        assert buffer.tolist() == values
        assert buffer.untyped_storage().nbytes() == 4 * len(values)
        assert buffer._version == 0


@pytest.mark.parametrize("autocast", [None, "bfloat16"])
def test_a_timed_run_leaves_no_tensors_outside_of_the_model(autocast: str | None) -> None:
    """Under autocast a cache would have tensors of another dtype than the caller's own calls expect."""
    _timed_cache.clear()
    model = make_caching()
    profile(model, ones(2, 4), metrics=["execution_time"], autocast=autocast, num_iters=2, warmup=0)
    assert _timed_cache == {}


_timed_cache: dict[str, torch.Tensor] = {}


def make_caching() -> Any:
    """Return a model that keeps its output outside itself."""
    return Call(lambda self, x: _timed_cache.setdefault("y", self.layer(x)), layer=nn.Linear(4, 4))


def test_attributes_of_tensors_in_containers_come_back() -> None:
    """``torch.compile`` marks those of a model that it compiles."""
    model = make_caching()
    kept = torch.ones(4)
    model.deep = types.SimpleNamespace(tensors=[kept])
    model.register_forward_pre_hook(lambda module, args: setattr(kept, "mark", 1))
    run_timing(model, ones(2, 4))
    assert vars(kept) == {}


def test_every_part_of_a_storage_that_is_written_is_written_back() -> None:
    def write(self: Any, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.second.add_(1)
            self.first.add_(1)
        return x

    whole = torch.zeros(8)
    model: Any = Call(write, first=nn.Parameter(whole[:4]), second=nn.Parameter(whole[4:]))
    run_timing(model, ones(2, 4))
    assert (model.first.tolist(), model.second.tolist()) == ([0.0] * 4, [0.0] * 4)


@pytest.mark.parametrize("run", [run_trace, run_timing, run_evaluation])
def test_a_buffer_whose_elements_are_one_in_memory_is_written_back(run: Run) -> None:
    def write(self: Any, x: torch.Tensor) -> Any:
        self.rows[:, :1].numpy()[:] = 3
        return self.layer(x)

    model: Any = Call(write, layer=nn.Linear(4, 4), rows=nn.Buffer(torch.zeros(2, 1).expand(2, 4)))
    run(model, ones(2, 4))
    assert model.rows.tolist() == [[0.0] * 4] * 2


def test_evaluation_warns_of_parameters_that_were_changed() -> None:
    with pytest.warns(ModelChangedWarning, match="changed the parameters weight in place"):
        run_evaluation(WritesParameter(), ones(2, 4))


@pytest.mark.parametrize("run", RUNS)
def test_hooks_of_the_user_stay_and_are_called(run: Run) -> None:
    calls = []
    model = nn.Linear(4, 3)
    model.register_forward_hook(lambda module, args, output: calls.append("after"))
    model.register_forward_pre_hook(lambda module, args: calls.append("before"))
    model.register_full_backward_hook(lambda module, grad_input, grad_output: None)
    before = facts(model)
    run(model, ones(2, 4))
    assert facts(model) == before
    assert calls[:2] == ["before", "after"]


@pytest.mark.parametrize("run", RUNS)
def test_a_hook_that_the_user_registered_for_all_modules_stays(run: Run) -> None:
    handle = nn.modules.module.register_module_forward_hook(lambda module, args, output: None)
    model = nn.Linear(4, 3)
    try:
        before = process()
        run(model, ones(2, 4))
        assert process() == before
    finally:
        handle.remove()


@pytest.mark.filterwarnings("ignore:.*torch.jit")
@pytest.mark.parametrize("run", RUNS)
def test_a_scripted_model_comes_back_as_it_was(run: Run) -> None:
    model = torch.jit.script(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)))
    before = copy.deepcopy(model.state_dict())
    pointers, process_before = [tensor.data_ptr() for tensor in model.state_dict().values()], process()
    run(model, ones(2, 4))
    assert process() == process_before
    assert [tensor.data_ptr() for tensor in model.state_dict().values()] == pointers
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert model.training
    assert all(module.training for module in model.modules())


@pytest.mark.parametrize("run", RUNS)
def test_tied_and_parametrised_weights_stay_so(run: Run) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3))
    model[1].weight = model[0].weight
    nn.utils.parametrizations.weight_norm(model[2])
    before = facts(model)
    run(model, ones(2, 4))
    assert facts(model) == before
    assert model[1].weight is model[0].weight


def test_a_trained_step_is_the_same_with_profiling_in_between() -> None:
    def step(measured: bool) -> list[float]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(), nn.Linear(4, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            loss = model(torch.randn(8, 4)).sum()
            if measured:
                run_profile(model, ones(2, 4))
                assert BACKEND.trace_training(model, ModelInputs(ones(2, 4))).failure is None
            loss.backward()
            optimizer.step()
        return [parameter.sum().item() for parameter in model.parameters()]

    assert step(measured=True) == step(measured=False)


def test_a_mapping_that_refuses_to_be_changed_is_put_back_all_the_same() -> None:
    class Frozen(dict[str, int]):
        def clear(self) -> None:
            raise TypeError("frozen")

    def change(self: Any, x: torch.Tensor) -> Any:
        self.config["b"] = 2
        self.named.move_to_end("b")
        return self.layer(x)

    model: Any = Call(change, layer=nn.Linear(4, 3), config=Frozen(a=1), named=OrderedDict(b=1, a=2))
    before = facts(model)
    run_profile(model, ones(2, 4))
    assert facts(model) == before
    assert list(model.named) == ["b", "a"]


def refuse(*args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError


#: What a container is asked by, all of which a subclass may refuse.
QUESTIONS = "__len__ __iter__ __contains__ __getitem__ __bool__ __eq__ __reversed__ __repr__ keys values items get copy"


@pytest.mark.parametrize("kind", [tuple, list, dict, OrderedDict, set, frozenset, deque])
def test_a_container_that_answers_no_question_comes_back(kind: Any) -> None:
    refusals: dict[str, Any] = dict.fromkeys(QUESTIONS.split(), refuse) | {"__hash__": kind.__hash__}
    content = {"a": 1} if issubclass(kind, dict) else ["a"]
    container = type("Refusing", (kind,), refusals)(content)

    def change(self: Any, x: torch.Tensor) -> Any:
        if issubclass(kind, dict):
            kind.__setitem__(self.container, "b", 2)
        elif hasattr(kind, "clear"):
            kind.clear(self.container)
        return self.layer(x)

    model: Any = Call(change, layer=nn.Linear(4, 4), container=container)
    for _ in range(2):  # the second profile compares the model with what it was
        report = profile(model, ones(2, 4), metrics=["macs", "training_macs", "memory_footprint"], strict=True)
        assert (report["macs"], report["training_macs"]) == (2 * 4 * 4, 2 * 2 * 4 * 4)
    profile(model, ones(2, 4), metrics=["execution_time"], max_seconds=0.01, strict=True)
    assert model.container is container
    assert (dict(kind.items(container)) if issubclass(kind, dict) else list(kind.__iter__(container))) == content


@pytest.mark.parametrize("run", RUNS)
def test_sparse_buffers(run: Run) -> None:
    edges = nn.Buffer(torch.eye(2).to_sparse())
    model: Any = Call(lambda self, x: torch.sparse.mm(self.edges, self.layer(x)), layer=nn.Linear(4, 3), edges=edges)
    before = model.edges.to_dense().tolist()
    run(model, ones(2, 4))
    assert model.edges.to_dense().tolist() == before


#: How a model may write to a sparse tensor.
SPARSE_WRITES: dict[str, Callable[[torch.Tensor], Any]] = {
    "its numbers": lambda edges: edges.mul_(2),
    "what it stores": lambda edges: (edges._values() if edges.layout is torch.sparse_coo else edges.values()).fill_(5),
    "another one": lambda edges: edges.copy_(edges * 2),
    "nothing": lambda edges: edges.zero_(),
}


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("write", SPARSE_WRITES)
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_bsc], ids=str)
def test_a_sparse_tensor_comes_back(layout: torch.layout, write: str, run: Run) -> None:
    def change(self: Any, x: torch.Tensor) -> Any:
        SPARSE_WRITES[write](self.edges)
        return self.layer(x)

    edges = torch.eye(4).to_sparse(layout=layout, blocksize=(1, 1) if layout is torch.sparse_bsc else None)
    model: Any = Call(change, layer=nn.Linear(4, 3), edges=nn.Buffer(edges))
    run(model, ones(2, 4))
    assert model.edges.to_dense().tolist() == torch.eye(4).tolist()


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("factor", [1, 2], ids=["as equal", "as twice"])
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged], ids=str)
def test_a_nested_tensor_comes_back(layout: torch.layout, factor: int) -> None:
    def scale(self: Any, x: torch.Tensor) -> Any:
        self.nested.mul_(factor)
        return self.layer(x)

    model: Any = Call(scale, layer=nn.Linear(4, 4))
    model.nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=layout)
    report = profile(model, ones(2, 4), metrics=["macs", "execution_time"], num_iters=2, strict=True)
    assert report["macs"] == 2 * 4 * 4
    assert [sample.tolist() for sample in model.nested.unbind()] == [[[1.0] * 3] * 2, [[1.0] * 3] * 4]


_COMPLEX = torch.full((4,), 1 + 1j)
#: Other readings of the bytes of a tensor.
READINGS: dict[str, tuple[torch.Tensor, Callable[[torch.Tensor], torch.Tensor]]] = {
    "of a byte": (torch.ones(4, dtype=torch.uint8), lambda data: data.view(torch.float8_e4m3fn)),
    "of two bytes": (torch.ones(4, dtype=torch.bfloat16), lambda data: data.view(torch.float16)),
    "as conjugates": (_COMPLEX, torch.conj),
    "with the other sign": (_COMPLEX.imag, lambda data: _COMPLEX.conj().imag),
}


@pytest.mark.parametrize("run", [run_timing, run_profile])
@pytest.mark.parametrize("reading", READINGS)
def test_a_tensor_that_a_model_reads_as_other_numbers_comes_back(reading: str, run: Run) -> None:
    values, read = READINGS[reading]

    def change(self: Any, x: torch.Tensor) -> Any:
        self.data.data = read(values)
        return self.layer(x)

    model: Any = Call(change, layer=nn.Linear(4, 4), data=nn.Buffer(values))
    run(model, ones(2, 4))
    assert (model.data.dtype, model.data.is_conj(), model.data.is_neg()) == (values.dtype, False, False)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float8_e5m2], ids=str)
def test_the_sign_of_zero_comes_back(dtype: torch.dtype) -> None:
    def drop_sign(self: Any, x: torch.Tensor) -> Any:
        self.zeros.zero_()
        return self.layer(x)

    model: Any = Call(drop_sign, layer=nn.Linear(4, 4), zeros=nn.Buffer(torch.full((4,), -0.0).to(dtype)))
    run_timing(model, ones(2, 4))
    assert model.zeros.float().signbit().all()


#: Tensors that store zeros in other tensors, and how these are read.
ZEROS_INSIDE: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], Callable[[torch.Tensor], torch.Tensor]]] = {
    "complex": (lambda zeros: torch.complex(zeros, zeros), torch.view_as_real),
    "sparse": (lambda zeros: torch.sparse_coo_tensor(torch.arange(4)[None], zeros, (4,)), torch.Tensor._values),
    "nested": (lambda zeros: torch.nested.nested_tensor([zeros]), lambda nested: nested.unbind()[0]),
}


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors", "ignore:Sparse")
@pytest.mark.parametrize("kind", ZEROS_INSIDE)
def test_the_sign_of_zeros_inside_a_tensor_comes_back(kind: str) -> None:
    store, read = ZEROS_INSIDE[kind]

    def drop_sign(self: Any, x: torch.Tensor) -> Any:
        read(self.zeros).zero_()
        return self.layer(x)

    model: Any = Call(drop_sign, layer=nn.Linear(4, 4), zeros=nn.Buffer(store(torch.full((4,), -0.0))))
    run_timing(model, ones(2, 4))
    assert read(model.zeros).signbit().all()


def test_the_threads_of_torch_come_back_where_a_value_does_not() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with pytest.raises(RuntimeError, match="size"):
            write_back_alone([KeptValue(torch.zeros(2), torch.zeros(3))])
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("run", RUNS)
def test_weights_made_in_inference_mode(run: Run) -> None:
    with torch.inference_mode():
        model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).train()
    before = [(id(tensor), tensor.tolist()) for tensor in model.state_dict(keep_vars=True).values()]
    run(model, torch.randn(2, 4))
    assert [(id(tensor), tensor.tolist()) for tensor in model.state_dict(keep_vars=True).values()] == before


def hold_broken_view() -> Any:
    """Return a model with a view that raises when it is asked for its graph, as FSDP's weights of several ranks do."""
    whole = torch.zeros(4)
    model = Call(lambda self, x: self.fc(x), fc=nn.Linear(2, 3))
    model.register_buffer("part", whole.split(2)[0])
    whole.copy_(torch.ones(4, requires_grad=True))
    return model


def test_a_view_that_cannot_be_asked_for_its_graph_is_left_alone() -> None:
    model = hold_broken_view()
    with pytest.raises(RuntimeError, match="view"):
        assert model.part.is_leaf
    assert profile(model, torch.ones(1, 2), metrics=["macs"])["macs"] == 6


def test_a_step_of_training_leaves_such_views_alone_too() -> None:
    model = hold_broken_view()
    model.fc.kept = [model.part]
    times = BACKEND.layer_times(model, ModelInputs(torch.ones(1, 2)), passes=1)
    assert [(layer.path, len(layer.own_backward or ())) for layer in times] == [("", 1), ("fc", 1)]
