"""What a forward pass leaves outside the model: taken away, put back, or said."""

from __future__ import annotations

import functools
import gc
import threading
import traceback
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

import pytest
import torch
from time_limits import join
from tiny import Call
from torch import nn

from profilerkit import ModelChangedWarning, ModelInputs, ModelTrace, profile
from profilerkit.backend import RunOptions
from profilerkit_torch import ComputeEvalMetric, TorchBackend, TorchProfiler

BACKEND = TorchBackend()
X = torch.ones(2, 4)
DETERMINISTIC: Any = torch.utils.deterministic
CACHE: dict[str, Any] = {}
SEEN: list[Any] = []
RECENT: deque[Any] = deque(maxlen=3)
BY_KEY: dict[str, list[Any]] = {}
BY_NAME: dict[str, list[Any]] = {"layer": []}
LOCAL = threading.local()
CONTEXT: ContextVar[Any] = ContextVar("CONTEXT", default=None)
TABLE: Any = None
IS_READY = False


@pytest.fixture(autouse=True)
def frozen_objects_are_left_out() -> None:
    """Leave in the search what was imported: the caches of this file are among it."""


class Holder:
    def __init__(self) -> None:
        self.kept: Any = None


class Slotted:
    __slots__ = ("kept",)

    def __init__(self) -> None:
        self.kept: Any = None


HOLDER, SLOTTED = Holder(), Slotted()


@functools.lru_cache
def cached_table(length: int, device: Any) -> torch.Tensor:
    return torch.arange(length, device=device).float()


def remember(function: Callable[..., Any]) -> Callable[..., Any]:
    known: dict[Any, Any] = {}

    def recall(key: Any, *args: Any) -> Any:
        if key not in known:
            known[key] = function(*args)
        return known[key]

    return recall


@remember
def closed_over(y: torch.Tensor) -> torch.Tensor:
    return torch.ones_like(y)


def once() -> Callable[[torch.Tensor], torch.Tensor]:
    table: Any = None

    def made(y: torch.Tensor) -> torch.Tensor:
        nonlocal table
        if table is None:
            table = torch.ones_like(y)
        return table  # type: ignore[no-any-return]

    return made


ONCE = once()


def in_dict(model: nn.Module, y: torch.Tensor) -> Any:
    return CACHE.setdefault("table", torch.ones_like(y))


def in_global(model: nn.Module, y: torch.Tensor) -> Any:
    global TABLE, IS_READY
    if not IS_READY:  # a flag beside it must come back with it
        TABLE, IS_READY = torch.ones_like(y), True
    return TABLE


def in_list(model: nn.Module, y: torch.Tensor) -> Any:
    SEEN.append(y.detach())
    return SEEN[0]


def in_deque(model: nn.Module, y: torch.Tensor) -> Any:
    RECENT.append((y.detach(), {"deep": y.detach()}))
    return RECENT[0][1]["deep"]


def in_nested(model: nn.Module, y: torch.Tensor) -> Any:
    return BY_KEY.setdefault("layers", [torch.ones_like(y)])[0]


def in_object(model: nn.Module, y: torch.Tensor) -> Any:
    HOLDER.kept = HOLDER.kept if HOLDER.kept is not None else (torch.ones_like(y),)
    return HOLDER.kept[0]


def in_slot(model: nn.Module, y: torch.Tensor) -> Any:
    SLOTTED.kept = SLOTTED.kept if SLOTTED.kept is not None else torch.ones_like(y)
    return SLOTTED.kept


def in_lru_cache(model: nn.Module, y: torch.Tensor) -> Any:
    return cached_table(4, y.device)


def in_closure(model: nn.Module, y: torch.Tensor) -> Any:
    return closed_over("key", y)


def in_cell(model: nn.Module, y: torch.Tensor) -> Any:
    return ONCE(y)


def in_class(model: Any, y: torch.Tensor) -> Any:
    if type(model).table is None:
        type(model).table = torch.ones_like(y)
    return type(model).table


def in_slot_of_the_module(model: Any, y: torch.Tensor) -> Any:
    if not hasattr(model, "slot"):
        model.slot = torch.ones_like(y)
    return model.slot


def the_weight(model: Any, y: torch.Tensor) -> Any:
    return CACHE.setdefault("weight", model.layer.weight)[0]


def in_a_default(model: nn.Module, y: torch.Tensor, kept: list[Any] = []) -> Any:  # noqa: B006 - models do
    kept.append(y.detach())
    return kept[0]


def in_a_list_by_name(model: nn.Module, y: torch.Tensor) -> Any:
    BY_NAME["layer"].append(y.detach())
    return BY_NAME["layer"][0]


def in_a_thread_local(model: nn.Module, y: torch.Tensor) -> Any:
    LOCAL.kept = getattr(LOCAL, "kept", None)
    LOCAL.kept = torch.ones_like(y) if LOCAL.kept is None else LOCAL.kept
    return LOCAL.kept


def in_a_context_variable(model: nn.Module, y: torch.Tensor) -> Any:
    if CONTEXT.get() is None:
        CONTEXT.set(torch.ones_like(y))
    return CONTEXT.get()


class Helper:
    shared: dict[str, Any] = {}  # noqa: RUF012 - classes do keep tensors so


def in_the_class_of_a_helper(model: Any, y: torch.Tensor) -> Any:
    return type(model.helper).shared.setdefault("table", torch.ones_like(y))


def made_of_numbers(model: nn.Module, y: torch.Tensor) -> Any:
    """It has values, but of torch's inference mode: it could not be trained with."""
    return CACHE.setdefault("numbers", torch.tensor([1.0, 2.0, 3.0, 4.0]))


def before_an_error(model: nn.Module, y: torch.Tensor) -> Any:
    """Meta and fake tensors cannot answer: the real run would find what the passes before it had cached."""
    found = CACHE.setdefault("table", torch.ones_like(y))
    float(y.detach().sum())
    return found


KEEPERS = [
    *(in_dict, in_global, in_list, in_deque, in_nested, in_object, in_slot, in_lru_cache, in_closure, in_cell),
    *(in_class, in_slot_of_the_module, the_weight, made_of_numbers, before_an_error),
    *(in_a_default, in_a_list_by_name, in_a_thread_local, in_a_context_variable, in_the_class_of_a_helper),
]


class Keeping(nn.Module):
    __slots__ = ("slot",)
    table: Any = None

    def __init__(self, keeper: Callable[[Any, torch.Tensor], Any]) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.keeper = keeper
        self.helper = Helper()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        out: torch.Tensor = y * self.keeper(self, y)
        return out


def find_cell(function: Any, name: str) -> Any:
    return function.__closure__[function.__code__.co_freevars.index(name)]


@pytest.fixture(autouse=True)
def empty() -> Iterator[None]:
    yield
    global TABLE, IS_READY  # noqa: PLW0603 - it is about globals
    for container in (CACHE, SEEN, RECENT, BY_KEY, BY_NAME["layer"], Helper.shared, *(in_a_default.__defaults__ or ())):
        container.clear()
    HOLDER.kept = SLOTTED.kept = TABLE = Keeping.table = None
    IS_READY, LOCAL.kept = False, None
    CONTEXT.set(None)
    cached_table.cache_clear()
    for cell, content in ((find_cell(closed_over, "known"), {}), (find_cell(ONCE, "table"), None)):
        cell.cell_contents = content


def trace_model(model: nn.Module) -> ModelTrace:
    return BACKEND.trace(model, ModelInputs(X))


@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("keeper", KEEPERS)
def test_the_model_runs_and_trains_after_its_pass_was_counted(keeper: Callable[..., Any], training: bool) -> None:
    model = Keeping(keeper)
    found = BACKEND.trace_training(model, ModelInputs(X)) if training else trace_model(model)
    assert found.failure is None
    forward = 2 * 4 * 4  # two rows, four by four weights
    assert found.macs == forward * (2 if training else 1)  # in training the gradients of the weight besides
    out = model(X)
    assert not out.is_meta
    out.sum().backward()
    assert model.layer.weight.grad is not None
    assert not model.layer.weight.grad.is_meta


class _Positions(nn.Module):
    """Caches of methods: on the class itself, and inside a function, as transformers has them."""

    @functools.lru_cache(maxsize=1)  # noqa: B019 - models do
    def table(self, length: int, device: Any) -> torch.Tensor:
        return torch.arange(length, device=device).float()

    def wrapped(func: Any) -> Any:  # a decorator in the class
        cached = functools.lru_cache(maxsize=1)(func)

        @functools.wraps(func)
        def call(*args: Any) -> Any:
            return cached(*args)

        return call

    @wrapped
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.table(4, x.device) + cached_table(4, x.device)


def test_caches_that_the_code_leads_to_are_not_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search goes through millions of objects, and finds none that are frozen."""

    def refused(tensors: list[torch.Tensor]) -> list[str]:
        raise AssertionError(f"a search for {len(tensors)} tensors")

    monkeypatch.setattr("profilerkit_torch.untouched.leftovers._search_holders", refused)
    model = _Positions()
    kept = model.table(3, torch.device("cpu"))
    found = trace_model(model)
    assert (found.failure, found.notes) == (None, ())
    assert not model(X).is_meta
    assert kept.tolist() == [0, 1, 2]


@functools.cache
def endless_table(length: int) -> torch.Tensor:
    return torch.ones(length, length) @ torch.ones(length)


@functools.lru_cache
def short_table(length: int) -> torch.Tensor:
    return torch.ones(length, length) @ torch.ones(length)


def run_in_bfloat16(model: nn.Module) -> None:
    with BACKEND.run(model, ModelInputs(X), RunOptions(autocast="bfloat16")) as run:
        run()


@pytest.mark.parametrize("call", [trace_model, run_in_bfloat16])
def test_a_function_remembers_what_it_did_before_and_no_result_of_ours(call: Callable[[nn.Module], Any]) -> None:
    """A cache without a limit keeps its own results; one of limited length was empty, and is so again."""
    model = Call(lambda self, x: x * endless_table(4) * short_table(4))
    endless_table.cache_clear()
    short_table.cache_clear()
    before = endless_table(3)
    call(model)
    assert (endless_table.cache_info().currsize, short_table.cache_info().currsize) == (1, 0)
    assert endless_table(3) is before
    assert model(X).tolist() == [[16.0] * 4] * 2  # in float32, and with values: 1 x 4 x 4


def make_counting(is_own: bool) -> tuple[nn.Module, Callable[[], int]]:
    """Return a model, and how often its forward pass ran, or a hook on it."""
    calls = 0

    def count(*_: Any) -> None:
        nonlocal calls
        calls += 1

    class Counting(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            count()
            return super().forward(x)

    model = Counting(4, 4) if is_own else nn.Linear(4, 4)
    if not is_own:
        model.register_forward_hook(count)
    return model, lambda: calls


@pytest.mark.parametrize("call", [trace_model, run_in_bfloat16])
def test_a_closure_of_the_model_has_its_number_again_and_a_hook_goes_on_counting(call: Callable[..., Any]) -> None:
    model, count_own = make_counting(is_own=True)
    model(X)
    call(model)
    assert count_own() == 1
    hooked, count_calls = make_counting(is_own=False)
    call(hooked)
    assert count_calls() > 0


def test_the_note_says_where_it_was() -> None:
    notes = trace_model(Keeping(in_dict)).notes
    assert notes == (
        f"the model keeps tensors of its pass outside itself ({__name__}.CACHE); those of this pass were taken away "
        "again",
    )
    assert f"{__name__}.TABLE" in trace_model(Keeping(in_global)).notes[0]
    assert trace_model(Keeping(in_lru_cache)).notes == ()  # the cache computes again what it has lost
    assert "known of remember" in trace_model(Keeping(in_closure)).notes[0]


def test_what_was_there_before_stays() -> None:
    CACHE["other"], SEEN[:] = "mine", [X]
    before = torch.full((2, 4), 3.0)
    CACHE["table"] = before
    trace_model(Keeping(in_dict))
    trace_model(Keeping(in_list))
    assert {"other": "mine", "table": before} == CACHE
    assert CACHE["table"] is before
    assert SEEN == [X]


def test_a_list_that_is_filled_stays_in_its_place() -> None:
    before = BY_NAME["layer"]
    trace_model(Keeping(in_a_list_by_name))
    assert BY_NAME == {"layer": []}
    assert BY_NAME["layer"] is before


def test_what_is_no_tensor_is_the_users_own() -> None:
    """A hook that counts calls, or notes shapes, is meant to."""
    model = nn.Linear(4, 3)
    shapes: list[Any] = []
    model.register_forward_hook(lambda module, args, output: shapes.append(tuple(output.shape)))
    assert trace_model(model).notes == ()
    assert shapes == [(2, 3)]


def test_hooks_that_collect_activations_collect_none_of_ours() -> None:
    model = nn.Linear(4, 3)
    collected: list[Any] = []
    model.register_forward_hook(lambda module, args, output: collected.append((args, output)))
    trace_model(model)
    assert collected == []


def hidden_cache() -> types.ModuleType:
    """A module that the model reaches only through another one, and an object in it."""
    far = types.ModuleType("far")
    exec("class Kept: pass\nKEPT = Kept()\ndef keep(y):\n    KEPT.y = y\n", far.__dict__)
    near = types.ModuleType("near")
    near.__dict__["far"] = far
    exec("def keep(y):\n    far.keep(y)\n", near.__dict__)
    return near


@pytest.mark.slow
def test_what_cannot_be_taken_away_is_said_and_counted_in_a_real_run() -> None:
    near = hidden_cache()

    def keep(model: nn.Module, y: torch.Tensor) -> torch.Tensor:
        near.keep(y.detach())
        return y

    with pytest.warns(ModelChangedWarning, match="where profilerkit cannot take them away.*empty it before"):
        found = trace_model(Keeping(keep))
    assert found.method == "a real run"
    assert "cannot take them away" in " ".join(found.notes)
    kept = near.far.KEPT.y
    assert not kept.is_meta
    assert not kept.is_inference()


def test_where_nothing_is_left_nothing_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*args: Any) -> Any:
        raise AssertionError("the collector was asked")

    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.BatchNorm1d(4), nn.Linear(4, 2)).eval()
    for name in ("collect", "get_objects", "get_referrers"):
        monkeypatch.setattr(gc, name, never)
    assert trace_model(model).method == "meta tensors"


def test_a_model_that_raises_leaves_nothing_to_look_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """On meta, where no run can follow: torch's call of a module has its arguments in cells, which are emptied."""

    def never(*args: Any) -> Any:
        raise AssertionError("the collector was asked")

    def refusing(model: nn.Module, y: torch.Tensor) -> torch.Tensor:
        if y.sum() > 0:
            return y
        return -y

    model = Keeping(refusing).to("meta")
    trace_model(model)  # modules that torch imports meanwhile make what the collector is asked for
    for name in ("collect", "get_objects"):
        monkeypatch.setattr(gc, name, never)
    failure = trace_model(model).failure
    assert failure is not None
    assert "meta tensors" in str(failure)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_an_error_that_is_kept_keeps_no_tensor_of_its_pass(device: str) -> None:
    """Its traceback leads to the line in the model all the same."""
    made: list[Any] = []

    def refusing(model: nn.Module, y: torch.Tensor) -> torch.Tensor:
        local = y * 2
        made.append(weakref.ref(local))
        raise ValueError("half-way")

    failure = trace_model(Keeping(refusing).to(device)).failure
    assert failure is not None
    assert isinstance(failure.__cause__, ValueError)
    assert "refusing" in [frame.name for frame in traceback.extract_tb(failure.__cause__.__traceback__)]
    gc.collect()
    assert made
    assert [alive for alive in made if alive() is not None] == []


def test_an_error_in_putting_one_thing_back_leaves_nothing_else_behind() -> None:
    class Refusing(dict[str, int]):
        def __len__(self) -> int:
            raise RuntimeError("refused")

    def keeper(model: Any, y: torch.Tensor) -> torch.Tensor:
        model.added = 1
        model.layer.weight.data = model.layer.weight.data * 2
        model.config["a"] = 2
        return y

    model: Any = Keeping(keeper)
    model.config = {"a": 1}
    before = model.layer.weight.tolist()
    from profilerkit_torch.untouched import preservation

    with pytest.raises(RuntimeError, match="cannot be set"), preservation.preserve(model):
        model.layer.requires_grad_(False)
        model.layer.weight.data = model.layer.weight.data * 2
        model.added = 1
        model.__class__ = type("Other", (Keeping,), {"training": property(lambda self: False, refuse)})
        model.layer.__class__ = type("Sealed", (nn.Linear,), {"__class__": property(lambda self: nn.Linear, refuse)})
    assert model.layer.weight.tolist() == before
    assert model.layer.weight.requires_grad
    assert not hasattr(model, "added")


def refuse(self: Any, value: Any) -> None:
    raise RuntimeError("cannot be set")


def evaluate(model: nn.Module) -> None:
    profiler = TorchProfiler(model, {"test": [X]})
    profiler.register_profiler_function(ComputeEvalMetric(lambda network, loader: float(network(X) is not None)))
    profiler.compute_status("eval_metric")


def test_plain_tensors_come_back_after_an_evaluation() -> None:
    def keeper(model: Any, y: torch.Tensor) -> torch.Tensor:
        model.table_of_mine.add_(1)
        model.tables["a"].add_(1)
        return y

    model: Any = Keeping(keeper)
    model.table_of_mine, model.tables = torch.zeros(4), {"a": torch.zeros(4)}
    evaluate(model)
    assert (model.table_of_mine.tolist(), model.tables["a"].tolist()) == ([0.0] * 4, [0.0] * 4)


def test_another_thread_that_calls_the_model_meanwhile_is_warned_of() -> None:
    inside, done = threading.Event(), threading.Event()
    main = threading.current_thread()

    def wait(module: nn.Module, y: torch.Tensor) -> torch.Tensor:
        if threading.current_thread() is main:
            inside.set()
            done.wait(10)
        return y

    model = Keeping(wait)

    def call() -> None:
        inside.wait(10)
        with suppress(RuntimeError):
            model(X)
        done.set()

    other = threading.Thread(target=call)
    other.start()
    with pytest.warns(ModelChangedWarning, match="another thread called the model.*copy.deepcopy"):
        trace_model(model)
    join(other)
    assert not model(X).is_meta


class ListOfItsOwn(list[Any]):
    """A list whose methods are not those of a list."""

    def clear(self, why: str) -> None:  # type: ignore[override]
        raise AssertionError(why)

    extend = clear  # type: ignore[assignment]


def fill_dict(container: Any, y: torch.Tensor) -> None:
    container[str(y.device)] = y


def fill_key(container: Any, y: torch.Tensor) -> None:
    container[y] = 1


def fill_list(container: Any, y: torch.Tensor) -> None:
    container.append(y)


def fill_set(container: Any, y: torch.Tensor) -> None:
    container.add(y)


@pytest.mark.parametrize(
    ("kind", "fill"),
    [
        (OrderedDict, fill_dict),
        (dict, fill_dict),
        (OrderedDict, fill_key),
        (ListOfItsOwn, fill_list),
        (deque, fill_list),
        (set, fill_set),
    ],
)
def test_a_long_container_of_any_kind_is_whole_when_the_tensors_of_a_pass_are_taken_away(kind: Any, fill: Any) -> None:
    """What is too long to be noted before a pass is searched for after it."""
    container = kind((number, number) for number in range(1001)) if issubclass(kind, dict) else kind(range(1001))
    before = list(container)

    def keep(model: nn.Module, x: torch.Tensor) -> Any:
        y = model(x)
        fill(container, y)
        return y

    linear = nn.Linear(4, 2)
    trace = BACKEND.trace(linear, ModelInputs(X).given_to(keep))
    assert trace.macs == 16
    assert list(container) == before
    assert len(container) == 1001
    if isinstance(container, dict):
        container["more"] = 1
        assert list(container) == [*before, "more"]


class Refusing(torch.Tensor):
    """A tensor of others that takes no functions."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise ValueError(f"{func} is not for this tensor")


def test_tensors_of_others_that_take_no_functions_do_no_harm() -> None:
    """All tensors of the process are searched for those that are left: also lazy ones, which refuse functions."""
    of_others = [nn.LazyLinear(3), torch.zeros(2).as_subclass(Refusing)]
    kept: list[Any] = []

    class Keeping(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            output = super().forward(x)
            kept.append(output)
            return output

    report = profile(Keeping(4, 3), torch.ones(2, 4), metrics=["macs"])
    assert (report["macs"], kept, len(of_others)) == (2 * 4 * 3, [], 2)
