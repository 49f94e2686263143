"""Work that torch's dispatcher does not see makes a count a lower bound that says where; constants do not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from time_limits import join
from tiny import BACKEND, Call
from torch import nn
from torch.utils.checkpoint import checkpoint

from profilerkit import ArgumentError, Completeness, ModelInputs, profile
from profilerkit_torch import Cost, register_module_cost, register_op_cost
from profilerkit_torch.costs import scoped_costs

#: A batch of 4 times a matrix of 8 by 8.
PRODUCT = 4 * 8 * 8
X = torch.randn(4, 8)
#: Gets a tensor that is there before any pass; those that are made when a test is collected are hidden from searches.
TABLES: list[torch.Tensor] = []


@pytest.fixture(scope="module", autouse=True)
def table() -> None:
    TABLES[:] = [torch.randn(8)]  # one of an earlier turn of this file is frozen by now


@pytest.fixture(scope="module")
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as made:
        made.submit(int).result()  # its thread is there before any pass
        yield made


def in_thread(work: Callable[[], Any]) -> Any:
    made: list[Any] = []
    thread = threading.Thread(target=lambda: made.append(work()))
    thread.start()
    join(thread)
    return made[0]


def count_run(run: Callable[..., Any], key: str = "macs", **modules: nn.Module) -> tuple[int, tuple[str, ...]]:
    """Return a count, and what it says is missing; it is complete where that is nothing."""
    record = profile(Call(run, fc=nn.Linear(8, 8), **modules), X, metrics=[key]).status(key)
    assert (record.completeness is Completeness.COMPLETE) == (not record.missing)
    assert record.completeness is not Completeness.FAILED, record.missing
    return int(record.value), record.missing


def numbers(tensor: torch.Tensor) -> Any:
    return tensor.detach().numpy()


class IntoEmpty(torch.autograd.Function):
    """Multiplies in numpy, and fills memory that torch made empty."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        out = torch.empty(len(x), len(weight))
        out.numpy()[...] = numbers(x) @ numbers(weight).T
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return gradients[0], None


class IntoZeros(IntoEmpty):
    """The same, into memory that an operator has written to."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        out = torch.zeros(len(x), len(weight))
        out.numpy()[...] = numbers(x) @ numbers(weight).T
        return out


class BackInNumpy(torch.autograd.Function):
    """Multiplies in torch, and makes the gradient of its weight in numpy."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x @ weight.T

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return None, torch.from_numpy(numbers(gradients[0]).T @ numbers(ctx.saved_tensors[0]))


OUTSIDE = "work outside torch's operators in the model itself (1 call)"


def thread_in_numpy(model: Any, x: torch.Tensor) -> Any:
    made: list[torch.Tensor] = []

    def work() -> None:
        try:
            made.append(torch.from_numpy(numbers(x) @ numbers(model.fc.weight)))
        except (TypeError, RuntimeError):  # of tensors without values
            return

    thread = threading.Thread(target=work)
    thread.start()
    join(thread)
    return made[0]


@pytest.mark.parametrize(
    "run",
    [
        lambda model, x: in_thread(lambda: x @ model.fc.weight),
        lambda model, x: torch.from_numpy(numbers(x) @ numbers(model.fc.weight)),
        lambda model, x: torch.tensor(numbers(x) @ numbers(model.fc.weight)),
        lambda model, x: torch.tensor((numbers(x) @ numbers(model.fc.weight)).tolist()),
        lambda model, x: torch.utils.dlpack.from_dlpack(np.from_dlpack(x.detach()) @ numbers(model.fc.weight)),
        lambda model, x: numbers(x) @ numbers(model.fc.weight),
        thread_in_numpy,
    ],
    ids=["thread", "from_numpy", "tensor", "list", "dlpack", "array", "thread in numpy"],
)
def test_a_product_elsewhere_makes_the_count_a_lower_bound(run: Callable[..., Any]) -> None:
    assert count_run(run) == (0, (OUTSIDE,))


@pytest.mark.parametrize("start", range(3, 7))
@pytest.mark.parametrize("is_tensor", [True, False])
def test_a_product_beside_memory_of_a_tensor_makes_the_count_a_lower_bound(start: int, is_tensor: bool) -> None:
    """The first four rows of an array are a tensor's, which an operator has written; numpy writes others, from 3 on."""

    def run(model: Any, x: torch.Tensor) -> Any:
        rows = np.zeros((10, 8), "float32")
        upper = torch.from_numpy(rows[:4]).add_(1.0)
        factors = numbers(model.fc(x)) + numbers(upper)
        lower = np.matmul(factors, numbers(model.fc.weight), out=rows[start : start + 4])
        return torch.from_numpy(lower) if is_tensor else lower

    assert count_run(run) == (PRODUCT, (OUTSIDE,))


@pytest.mark.parametrize("start", [0, 2, 4, 6])
def test_an_empty_part_of_an_array_is_no_work(start: int) -> None:
    def run(model: Any, x: torch.Tensor) -> Any:
        return model.fc(x), np.zeros((8, 8), "float32")[start:start], numbers(x)[4:]

    assert count_run(run) == (PRODUCT, ())


@pytest.mark.parametrize("function", [IntoEmpty, IntoZeros])
def test_memory_that_no_operator_wrote_makes_the_count_a_lower_bound(function: Any) -> None:
    assert count_run(lambda model, x: function.apply(model.fc(x), model.fc.weight)) == (PRODUCT, (OUTSIDE,))


def test_a_pool_that_was_there_before_is_noticed_in_the_layer_that_reads_its_result(pool: ThreadPoolExecutor) -> None:
    def run(model: Any, x: torch.Tensor) -> Any:
        return model.fc(pool.submit(lambda: x @ model.fc.weight).result())

    assert count_run(run) == (PRODUCT, ("work outside torch's operators in layer fc (1 call)",))


def test_a_pool_that_was_there_before_is_noticed_in_a_real_run_too(pool: ThreadPoolExecutor) -> None:
    def run(model: Any, x: torch.Tensor) -> Any:
        made = pool.submit(torch.no_grad()(lambda: x @ model.fc.weight)).result()
        return model.fc(made) if x.sum().item() < 1e9 else x

    assert count_run(run) == (PRODUCT, ("work outside torch's operators in layer fc (1 call)",))


def with_a_constant(model: Any, x: torch.Tensor) -> Any:
    constant = torch.frombuffer(bytearray(32), dtype=torch.float32)
    return model.fc(x) + constant if x.sum().item() < 1e9 else x


def test_a_thread_that_sleeps_makes_no_count_partial(pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Notebooks and progress bars have threads; that one has run is what the system counts, where it does."""
    assert count_run(with_a_constant) == (PRODUCT, ())
    monkeypatch.setattr("profilerkit_torch.trace.origins._count_runs", lambda: None)
    assert count_run(with_a_constant) == (PRODUCT, (OUTSIDE,))


@pytest.mark.parametrize(
    ("own", "other", "missing"),
    [
        ("5 0 1\n", "5 0 1\n", ()),
        ("5 0 1\n", ProcessLookupError(), ()),  # it has ended after its file was opened
        ("5 0 1\n", FileNotFoundError(), ()),  # or before
        ("0 0 0\n", "0 0 0\n", (OUTSIDE,)),  # what Linux says where it does not count
        (FileNotFoundError(), FileNotFoundError(), (OUTSIDE,)),
        (PermissionError(), PermissionError(), (OUTSIDE,)),
    ],
)
@pytest.mark.usefixtures("pool")
def test_what_a_system_does_not_count_is_no_sleep(
    own: str | OSError, other: str | OSError, missing: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    read_text = Path.read_text

    def read(path: Path, **options: Any) -> str:
        if path.name != "schedstat":
            return read_text(path, **options)
        said = own if path.parent.name == str(threading.get_native_id()) else other
        if isinstance(said, OSError):
            raise said
        return said

    monkeypatch.setattr(Path, "read_text", read)
    assert count_run(with_a_constant) == (PRODUCT, missing)


class Holder:
    """An input for whose tensor nothing stands in."""

    def __init__(self) -> None:
        self.tensor = torch.ones(4, 8)

    def __call__(self) -> int:
        return 0


@pytest.mark.parametrize(
    "work",
    [
        lambda x: torch.from_numpy(numbers(x) @ numbers(x).T),
        lambda x: torch.utils.dlpack.from_dlpack(numbers(x) * 2),
        lambda x: torch.tensor((numbers(x) + 1).tolist()),
        lambda x: in_thread(lambda: x @ x.T),
    ],
    ids=["numpy", "dlpack", "list", "thread"],
)
def test_numbers_of_an_object_among_the_inputs_may_leave_too(work: Callable[..., Any]) -> None:
    model = Call(lambda model, held: work(held.tensor.contiguous()).sum() + model.fc(held.tensor), fc=nn.Linear(8, 8))
    record = profile(model, ModelInputs(Holder()), metrics=["macs"]).status("macs")
    assert (record.value, record.missing) == (PRODUCT, (OUTSIDE,))
    plain = Call(lambda model, held: model.fc(held.tensor) * torch.tensor([0.5] * 8), fc=nn.Linear(8, 8))
    assert profile(plain, ModelInputs(Holder()), metrics=["macs"]).status("macs").missing == ()


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.int8])
@pytest.mark.parametrize(
    "work",
    [
        lambda x: torch.from_numpy(numbers(x) @ numbers(x).T),
        lambda x: torch.utils.dlpack.from_dlpack(numbers(x) * 2),
        lambda x: torch.tensor((numbers(x) + 1).tolist()),
        lambda x: in_thread(lambda: x @ x.T),
        lambda x: IntoZeros.apply(x, x),  # type: ignore[no-untyped-call]
    ],
    ids=["numpy", "dlpack", "list", "thread", "into zeros"],
)
def test_numbers_made_of_integers_may_leave_too(work: Callable[..., Any], dtype: torch.dtype) -> None:
    """Integers keep their values on shapes alone, and so does what is made of them, up to where a weight meets it."""

    def run(model: Any, x: torch.Tensor) -> Any:
        return model.fc(x.float()) + work(x.exp()).sum()

    model, x = Call(run, fc=nn.Linear(8, 8)), torch.ones(4, 8, dtype=dtype)
    record = profile(model, x, metrics=["macs"]).status("macs")
    assert (record.value, record.missing) == (PRODUCT, (OUTSIDE,))
    plain = Call(lambda model, x: numbers(model.fc(x.float()).exp()) is None or x, fc=nn.Linear(8, 8))
    assert profile(plain, x, metrics=["macs"]).status("macs").missing == ()


def from_fake_tensors(model: Any, x: torch.Tensor) -> None:
    """Call an operator without a meta kernel."""
    torch.fake_quantize_per_channel_affine(x.float(), torch.ones(8), torch.zeros(8), 1, 0, 255)


def from_values(model: Any, x: torch.Tensor) -> None:
    """Ask for a number, which a run alone can tell."""
    assert model.fc.weight.sum().item() < 1e9


def write_outside(out: torch.Tensor, numbers_of_out: Any) -> torch.Tensor:
    numbers_of_out[...] = numbers_of_out @ np.ones((8, 8), "float32") + 1
    return out


def write_after_operator(out: torch.Tensor) -> torch.Tensor:
    array = numbers(out)
    out.add_(1)
    return write_outside(out, array)


def write_after_first_operator(out: torch.Tensor) -> torch.Tensor:
    made = torch.empty(4, 8)
    array = numbers(made)
    made.fill_(1)
    return write_outside(made, array)


#: By what numbers or their memory come back, after they have left a tensor.
WAYS_BACK: dict[str, Callable[[torch.Tensor], Any]] = {
    "numpy": lambda known: torch.from_numpy(numbers(known) @ np.ones((8, 8), "float32")),
    "asarray": lambda known: torch.from_numpy(np.asarray(known) * 2),
    "dlpack": lambda known: torch.utils.dlpack.from_dlpack(np.from_dlpack(known) * 2),
    "list": lambda known: torch.tensor((numbers(known) + 1).tolist()),
    "list alone": lambda known: torch.tensor([[2 * number for number in row] for row in known.tolist()]),
    "result": lambda known: numbers(known) * 2,
    "written": lambda known: write_outside(known, numbers(known)),
    "written by a view": lambda known: write_outside(known, numbers(known.view(2, 2, 8))),
    "written after an operator": write_after_operator,
    "written after the first operator": write_after_first_operator,
}


#: What has its values on shapes alone.
KNOWN: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "new": lambda x: x.new_zeros(4, 8, dtype=torch.float32),
    "like": lambda x: torch.ones_like(x, dtype=torch.float32),
    "plain": lambda x: torch.zeros(4, 8),
    "placed": lambda x: torch.arange(32.0, device=x.device).view(4, 8),
    "of Python's numbers": lambda x: torch.tensor([[0.5] * 8] * 4),
    "of numpy's numbers": lambda x: torch.from_numpy(np.ones((4, 8), "float32")),
    "of integers": lambda x: x.exp(),
    "with integers": lambda x: torch.zeros(4, 8, device=x.device) + x,
}


def count_known(way: Callable[[Any, torch.Tensor], None] | None, work: Callable[[torch.Tensor], Any]) -> Any:
    """Return the MACs of a model of integers, and what is missing."""

    def run(model: Any, x: torch.Tensor) -> Any:
        if way is not None:
            way(model, x)
        return model.fc(x.float()), work(x)

    record = profile(Call(run, fc=nn.Linear(8, 8)), torch.ones(4, 8).long(), metrics=["macs"]).status("macs")
    return record.value, record.missing


WAYS = pytest.mark.parametrize("way", [None, from_fake_tensors, from_values], ids=["meta", "fake", "real"])


@WAYS
@pytest.mark.parametrize(
    ("make", "back"),
    [
        *((make, back) for make in KNOWN for back in ("numpy", "list alone")),
        *(("with integers", back) for back in WAYS_BACK if back not in ("numpy", "list alone")),
    ],
)
def test_numbers_that_are_known_on_shapes_alone_may_leave_too(
    make: str, back: str, way: Callable[[Any, torch.Tensor], None] | None
) -> None:
    """What depends on no weight has its values in each pass: it leaves each as it leaves a run."""
    assert count_known(way, lambda x: WAYS_BACK[back](KNOWN[make](x)) * 1) == (PRODUCT, (OUTSIDE,))


@WAYS
@pytest.mark.parametrize("make", ["plain", "with integers"])
def test_numbers_that_are_looked_at_outside_leave_the_count_complete(
    make: str, way: Callable[[Any, torch.Tensor], None] | None
) -> None:
    def look(x: torch.Tensor) -> Any:
        known = KNOWN[make](x)
        array = numbers(known)
        known.add_(1)
        return known * torch.from_numpy(array), numbers(known)

    assert count_known(way, look) == (PRODUCT, ())


ON_ELEMENTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "apply_": lambda made: made.apply_(lambda number: 2 * number),
    "map_": lambda made: made.map_(torch.ones(4, 8), lambda number, other: number * other),
    "map2_": lambda made: made.map2_(
        torch.ones(4, 8), torch.ones(4, 8), lambda number, one, other: number + one * other
    ),
}


@WAYS
@pytest.mark.parametrize("make", ["placed", "with integers", "of weights"])
@pytest.mark.parametrize("name", ON_ELEMENTS)
def test_functions_of_pythons_on_each_element_are_missing(
    name: str, make: str, way: Callable[[Any, torch.Tensor], None] | None
) -> None:
    """No operator shows them; on the meta device torch skips them, and a fake tensor has no memory to write to."""

    def run(model: Any, x: torch.Tensor) -> Any:
        if way is not None:
            way(model, x)
        out = model.fc(x.float())
        return out, ON_ELEMENTS[name](out.detach() if make == "of weights" else KNOWN[make](x))

    record = profile(Call(run, fc=nn.Linear(8, 8)), torch.ones(4, 8).long(), metrics=["macs"]).status("macs")
    assert (record.value, record.missing) == (PRODUCT, (f"Tensor.{name} (1 call)",))


@pytest.mark.parametrize("key", ["memory_footprint", "training_memory"])
def test_memory_of_work_outside_is_not_known(key: str) -> None:
    """numpy's arrays are no tensors: what they take beside these makes the peak a lower bound."""

    def run(model: Any, x: torch.Tensor) -> Any:
        return model.fc(x + torch.from_numpy(np.tanh(numbers(x))))

    assert OUTSIDE.replace(" (", " of unknown size (") in count_run(run, key)[1]


def test_what_was_there_before_numbers_left_is_no_result() -> None:
    def run(model: Any, x: torch.Tensor) -> Any:
        assert numbers(x.exp()).max() > 0
        return model.fc(x.float() * TABLES[0])

    record = profile(Call(run, fc=nn.Linear(8, 8)), torch.ones(4, 8).long(), metrics=["macs"]).status("macs")
    assert (record.value, record.missing) == (PRODUCT, ())


def test_a_pool_that_works_on_numbers_made_of_integers_is_noticed(pool: ThreadPoolExecutor) -> None:
    def run(model: Any, x: torch.Tensor) -> Any:
        return model.fc(x.float()) + pool.submit(lambda: x.float() @ x.float().T).result().sum()

    record = profile(Call(run, fc=nn.Linear(8, 8)), torch.ones(4, 8).long(), metrics=["macs"]).status("macs")
    assert (record.value, record.missing) == (PRODUCT, (OUTSIDE,))


def test_layers_in_a_pool_are_named(pool: ThreadPoolExecutor) -> None:
    count, missing = count_run(lambda model, x: torch.stack(list(pool.map(model.fc, [x, x]))))
    assert count == 0
    assert "Linear in another thread (2 calls)" in missing


def test_a_gradient_made_in_numpy_makes_the_training_step_a_lower_bound() -> None:
    def run(model: Any, x: torch.Tensor) -> Any:
        return BackInNumpy.apply(x, model.fc.weight)  # type: ignore[no-untyped-call]

    assert count_run(run) == (PRODUCT, ())
    assert count_run(run, "training_macs") == (PRODUCT, (OUTSIDE,))


def test_a_formula_for_the_layer_makes_the_count_complete() -> None:
    class Outside(nn.Module):
        def forward(self, x: torch.Tensor, weight: torch.Tensor) -> Any:
            return IntoEmpty.apply(x, weight)  # type: ignore[no-untyped-call]

    def run(model: Any, x: torch.Tensor) -> Any:
        return torch.relu(model.outside(model.fc(x), model.fc.weight))

    with scoped_costs():
        register_module_cost(Outside, lambda module, inputs, outputs: Cost.of_macs(outputs[0].numel * 8))
        assert count_run(run, outside=Outside()) == (2 * PRODUCT, ())


def of_constants(model: Any, x: torch.Tensor) -> Any:
    """Use what every model has: constants of all kinds, and a way that numbers decide."""
    if x.abs().sum().item() > 1e9:  # which has a real run follow
        return x
    array = torch.from_numpy(np.ones(8, "float32"))
    return model.fc(x) * array * TABLES[0] + torch.tensor([0.5] * 8) + torch.FloatTensor([1.0] * 8) + float(x.mean())


def logs(model: Any, x: torch.Tensor) -> Any:
    model.seen = float(numbers(x).mean())
    return torch.relu(model.fc(x))


@pytest.mark.parametrize(
    "run",
    [
        of_constants,
        lambda model, x: numbers(model.fc(x)),
        logs,
        lambda model, x: torch.empty(4, 8).copy_(model.fc(x)) + torch.empty(0).sum(),
        lambda model, x: torch.empty_like(x).copy_(model.fc(x))[[True] * 4] * 1,
        lambda model, x: model.fc(x) + torch.zeros_like(torch.empty(4, 8)),
        lambda model, x: torch.cat([model.fc(x), torch.empty(0, 8)]),
        lambda model, x: in_thread(lambda: 1.0) * model.fc(x),
    ],
    ids=[
        "constants",
        "result in numpy",
        "logging",
        "written",
        "asked where",
        "shape alone",
        "without elements",
        "thread of numbers",
    ],
)
def test_what_every_model_has_leaves_the_count_complete(run: Callable[..., Any]) -> None:
    assert count_run(run) == (PRODUCT, ())


def test_the_profile_function_for_threads_comes_back() -> None:
    before = threading.getprofile()
    count_run(of_constants)
    assert threading.getprofile() is before


def make_indexing(index: Any) -> Callable[..., Any]:
    return lambda model, x: model.fc(x)[index]


def written_at(model: Any, x: torch.Tensor) -> Any:
    made = model.fc(x) * 1
    made[:, [0, 1]] = made[:, [1, 0]]
    made[[True, False, True, False]] = 0
    return made


def again(model: Any, x: torch.Tensor) -> Any:
    return checkpoint(lambda y: model.fc(y)[:, [0, 1]], x, use_reentrant=False)


#: Of what torch makes tensors itself, seen by no mode: the sequences of an index, the values of a constant.
OF_TORCH_ITSELF: dict[str, Callable[..., Any]] = {
    "list": make_indexing((..., [-2], slice(None))),
    "two lists": make_indexing(([0, 1], [1, 2])),
    "nested lists": make_indexing((slice(None), [[0, 1], [1, 2]])),
    "range": make_indexing((slice(None), range(2))),
    "flags": make_indexing([True, False, True, False]),
    "array": make_indexing(np.array([0, 1])),
    "list with a tensor": make_indexing((slice(None), [torch.tensor(0), 1])),
    "written": written_at,
    "vmap": lambda model, x: torch.vmap(lambda row: row[[0, 1]])(model.fc(x)),
    "tensor": lambda model, x: model.fc(x) * torch.tensor([0.5] * 8, device=x.device),
    "new": lambda model, x: model.fc(x) * x.new([0.5] * 8),
    "old constructor": lambda model, x: model.fc(x) * torch.FloatTensor([0.5] * 8).to(x.device),
    "weight made there": lambda model, x: model.fc(x) * nn.Parameter(torch.tensor([0.5] * 8)),
    "on fake tensors alone": lambda model, x: torch.fake_quantize_per_channel_affine(
        model.fc(x), torch.ones(8), torch.zeros(8), 1, 0, 255
    ),
}


@pytest.mark.parametrize("key", ["macs", "training_macs"])
@pytest.mark.parametrize("kind", OF_TORCH_ITSELF)
@pytest.mark.parametrize("is_real", [False, True])
def test_tensors_that_torch_itself_makes_leave_the_count_complete(kind: str, key: str, is_real: bool) -> None:
    run = OF_TORCH_ITSELF[kind]

    def follow_values(model: Any, x: torch.Tensor) -> Any:
        return run(model, x) if x.sum().item() < 1e9 else x

    # A step multiplies forward and for the weight's gradient: the input has none.
    products = 1 if key == "macs" else 2
    assert count_run(follow_values if is_real else run, key) == (products * PRODUCT, ())


@pytest.mark.parametrize(
    "view",
    [
        lambda numbers, y: numbers[:, None].expand_as(y),
        lambda numbers, y: numbers.repeat_interleave(8).view_as(y),
        lambda numbers, y: numbers.repeat_interleave(8).reshape_as(y),
        lambda numbers, y: torch.tensor_split(numbers, torch.tensor([2]))[0][:, None],
    ],
    ids=["expand", "view", "reshape", "split"],
)
def test_a_view_of_integers_with_the_size_of_a_result_leaves_the_count_complete(view: Any) -> None:
    assert count_run(lambda model, x: model.fc(x).gather(0, view(torch.arange(4), x))) == (PRODUCT, ())


def test_a_view_of_integers_takes_no_memory() -> None:
    """Weights of 288 bytes, inputs and a product of 128 each, integers of 256, and what is made of them, of 128."""

    def run(model: Any, x: torch.Tensor) -> Any:
        y = model.fc(x)
        return torch.arange(32).view_as(y).float() + y

    assert count_run(run, "memory_footprint") == (288 + 128 + 128 + 256 + 128, ())


def test_an_index_that_is_read_again_in_the_backward_pass_leaves_the_count_complete() -> None:
    assert count_run(again, "training_macs") == (3 * PRODUCT, ())


def test_memory_that_a_function_of_torchs_fills_itself_leaves_the_count_complete() -> None:
    """The loss of CTC makes its targets' lengths of numbers, and writes them by address."""

    def run(model: Any, x: torch.Tensor) -> Any:
        scores = model.fc(x)[:, None].log_softmax(-1)
        lengths: Any = [4], [2]
        return nn.functional.ctc_loss(scores, torch.tensor([[1, 2]]), *lengths)

    assert count_run(run) == (PRODUCT, ())


def test_numbers_alone_that_leave_leave_the_count_complete() -> None:
    def run(model: Any, x: torch.Tensor) -> Any:
        model.seen = [float(x.mean().numpy()), x.max().tolist()]
        return model.fc(x) * torch.tensor([0.5] * 8)

    assert count_run(run) == (PRODUCT, ())


@pytest.mark.parametrize("is_real", [False, True])
def test_weights_outside_the_model_keep_their_gradients(is_real: bool) -> None:
    """A layer that the model does not know as its own is trained with it: its gradients are put back all the same."""
    outside = [nn.Linear(8, 8), nn.Linear(8, 8)]
    kept = outside[1].weight.grad = torch.ones(8, 8)

    def run(model: Any, x: torch.Tensor) -> Any:
        if is_real and x.sum().item() > 1e9:
            return x
        return checkpoint(outside[1], outside[0](model.fc(x)), use_reentrant=True)

    count, missing = count_run(run, "training_macs")
    assert (count > 3 * PRODUCT, missing) == (True, ())
    assert [weight.grad for layer in outside for weight in layer.parameters()] == [None, None, kept, None]
    assert torch.equal(kept, torch.ones(8, 8))


def test_a_gradient_that_cannot_be_put_back_keeps_no_other_one() -> None:
    grown, kept = (nn.Parameter(torch.ones(8)) for _ in range(2))
    grown.grad, kept.grad = torch.ones(8), torch.full((8,), 5.0)
    before = kept.grad

    def run(model: Any, x: torch.Tensor) -> Any:
        result = model.fc(x) + grown[:8] + kept
        grown.data = torch.cat([grown.data.detach(), torch.ones(1)])  # a gradient of 8 does not fit it
        return result

    with suppress(Exception):
        count_run(run)
    assert grown.shape != (8,)
    assert kept.grad is before


async def awaited(model: Any, x: torch.Tensor) -> Any:
    return model.fc(x)


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (lambda model, x: (model.fc(x) for _ in range(3)), "returned a generator.*call=lambda model, x: list"),
        (lambda model, x: map(model.fc, [x]), "returned a map"),
        (lambda model, x: {"later": (model.fc(x) for _ in range(3))}, "returned a generator"),
        (awaited, r"returned a coroutine.*asyncio\.run"),
    ],
    ids=["generator", "map", "inside", "coroutine"],
)
def test_a_result_that_computes_later_is_refused(run: Callable[..., Any], said: str) -> None:
    report = profile(Call(run, fc=nn.Linear(8, 8)), X, metrics=["macs"])
    assert report.status("macs").completeness is Completeness.FAILED
    with pytest.raises(Exception, match=said):
        profile(Call(run, fc=nn.Linear(8, 8)), X, metrics=["macs"], strict=True)


def test_a_generator_that_is_read_is_counted() -> None:
    model = Call(lambda model, x: (model.fc(x) for _ in range(3)), fc=nn.Linear(8, 8))
    assert profile(model, X, metrics=["macs"], call=lambda model, x: list(model(x)))["macs"] == 3 * PRODUCT


def test_the_cost_of_an_autograd_function_belongs_to_its_module() -> None:
    with pytest.raises(ArgumentError, match="op=IntoEmpty.*register_module_cost"):
        register_op_cost(IntoEmpty, lambda *shapes, out: Cost(0, 0))


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_sparse_tensors_of_others_are_no_work_of_the_model(layout: torch.layout) -> None:
    """As numbers leave torch in the pass, all tensors that exist are noted, and those that sparse ones consist of."""
    of_others = torch.eye(3).to_sparse(layout=layout)
    model = Call(lambda self, x: x.relu() if x.new_zeros(2).tolist() else x)
    operators = [work.operator for work in BACKEND.trace(model, ModelInputs(torch.ones(2))).operators]
    assert operators == ["aten.new_zeros.default", "aten.relu.default"]
    assert of_others.layout is layout
