"""One static pass: the ways to run it, and what a model and its weights may be like."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from tiny import BACKEND, Call, ones, trace, trace_complete
from torch import nn

from profilerkit import ModelFailedError, profile
from profilerkit_torch.untouched import leftovers

LINEAR = 2 * 8 * 8  # MACs of an 8 x 8 linear layer for two samples


def linear() -> nn.Linear:
    return nn.Linear(8, 8, bias=False)


def x() -> torch.Tensor:
    return ones(2, 8)


def test_shapes_alone_are_enough_for_most_models() -> None:
    assert trace_complete(linear(), x()).method == "meta tensors"


def test_a_model_that_asks_for_its_device_is_answered_on_shapes_alone() -> None:
    def run(self: Any, x: torch.Tensor) -> Any:
        if x.device.type != "cpu":
            raise RuntimeError("this model runs on the CPU alone")
        return self.layer(x)

    found = trace_complete(Call(run, layer=linear()), x())
    assert (found.method, found.macs, found.notes) == ("meta tensors", LINEAR, ())


def test_a_model_that_reads_its_activations_is_run_for_real_and_that_is_said() -> None:
    model = Call(lambda self, x: self.layer(x) if float(x.sum()) > 0 else x, layer=linear())
    found = trace_complete(model, x())
    assert (found.method, found.macs) == ("a real run", LINEAR)
    assert "counted in a real run" in found.notes[0]
    assert "item() cannot be called on meta tensors" in found.notes[0]
    assert trace_complete(model, -x()).macs == 0


def test_integers_keep_their_values() -> None:
    def run(self: Any, x: torch.Tensor, steps: torch.Tensor) -> Any:
        for _ in range(int(steps.max())):
            x = self.layer(x)
        return x

    found = trace_complete(Call(run, layer=linear()), x(), torch.tensor([1, 3]))
    assert (found.method, found.macs) == ("meta tensors", 3 * LINEAR)


def test_embeddings_take_integers() -> None:
    model = nn.Sequential(nn.Embedding(10, 8), linear())
    assert trace_complete(model, torch.tensor([[1, 2]])).macs == LINEAR


def test_routing_by_values_is_counted_for_the_values_given() -> None:
    """A mixture of experts: each of six tokens goes to two of four experts."""

    def run(self: Any, x: torch.Tensor) -> Any:
        weights, chosen = self.gate(x).softmax(-1).topk(2)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            token, slot = (chosen == number).nonzero(as_tuple=True)
            out.index_add_(0, token, expert(x[token]) * weights[token, slot, None])
        return out

    model = Call(run, gate=nn.Linear(8, 4), experts=nn.ModuleList(linear() for _ in range(4)))
    assert trace_complete(model, torch.randn(6, 8)).macs == 6 * 8 * 4 + 6 * 2 * 8 * 8


@dataclass
class Output:
    logits: torch.Tensor
    extra: list[torch.Tensor]


class ModelOutput(OrderedDict[str, torch.Tensor]):
    """Like the outputs of a well-known library, which may not be updated."""

    def update(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError("You cannot use update on a ModelOutput instance.")


@pytest.mark.parametrize(
    "wrap",
    [
        lambda y: (y, y),
        lambda y: [y, (y,)],
        lambda y: {"a": y, "b": {"c": y}},
        lambda y: Output(y, [y]),
        lambda y: ModelOutput(logits=y, other=y),
        lambda y: y.max(dim=1),
    ],
    ids=["tuple", "list", "dict", "dataclass", "model output", "torch's named tuple"],
)
def test_outputs_of_any_structure(wrap: Callable[[torch.Tensor], Any]) -> None:
    found = trace_complete(Call(lambda self, x: wrap(self.layer(x)), layer=linear()), x())
    assert found.macs == LINEAR
    assert len(found.table[""]["output_shapes"]) == 2


def test_inputs_of_any_structure() -> None:
    def run(self: Any, batch: dict[str, Any], pair: tuple[torch.Tensor, ...], *, scale: float, mask: Any = None) -> Any:
        assert mask is None
        return self.layer(batch["x"]) * scale + pair[0] + pair[1]

    model = Call(run, layer=linear())
    found = trace_complete(model, {"x": x()}, (x(), x()), scale=2.0, mask=None)
    assert (found.macs, found.flops) == (LINEAR, 2 * LINEAR + 3 * 16)


def test_an_input_given_twice_stays_one_tensor() -> None:
    def run(self: Any, query: torch.Tensor, key: torch.Tensor) -> Any:
        return self.layer(query) if query is key else query

    shared = x()
    found = trace_complete(Call(run, layer=linear()), shared, shared)
    assert (found.macs, found.memory.input_bytes) == (LINEAR, 2 * 8 * 4)


@pytest.mark.parametrize("inputs", [(x(), x()), (x()[:, :4], x()[:, 4:]), (x().t(), x().int()), (x(), {"a": x()})])
def test_what_stood_in_is_gone_after_a_pass(inputs: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """So no tensor is searched for among all objects, which would take ten times as long as the pass."""

    def search() -> list[torch.Tensor]:
        searches.append("a search")
        return []

    searches: list[str] = []
    monkeypatch.setattr(leftovers, "list_tensors_alive", search)
    trace_complete(Call(lambda self, a, b: (a * 2, b, self.layer(ones(1, 8))), layer=linear()), *inputs)
    assert searches == []


def test_a_failing_model_still_has_layers_and_parameters() -> None:
    def run(self: Any, x: torch.Tensor) -> Any:
        return self.second(self.first(x))

    found = trace(Call(run, first=linear(), second=nn.Linear(9, 9)), x())
    assert isinstance(found.failure, ModelFailedError)
    assert "do these inputs fit it?" in str(found.failure)
    assert "ModelInputs(Tensor(2, 8))" in str(found.failure)
    assert isinstance(found.failure.__cause__, RuntimeError)
    assert (found.total_params, found.operators) == (64 + 90, ())
    report = profile(Call(run, first=linear(), second=nn.Linear(9, 9)), x(), metrics=["macs", "total_params"])
    assert report.status("macs").completeness.value == "failed"
    assert report["total_params"] == 154


def test_without_inputs_there_are_layers_alone() -> None:
    found = BACKEND.trace(linear(), None)
    assert (found.total_params, found.operators, found.failure) == (64, (), None)


def test_tied_weights_count_once() -> None:
    model = nn.Sequential(nn.Embedding(10, 8), nn.Linear(8, 10, bias=False))
    model[1].weight = model[0].weight
    found = trace_complete(model, torch.tensor([[1]]))
    assert (found.total_params, found.size_bytes) == (80, 320)
    assert [row["params"] for row in found.table] == [80, 80, 80]


#: Views of a matrix of six by eight: all or some of its 48 elements, in whatever order.
VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "itself": lambda w: w,
    "its transpose": lambda w: w.t(),
    "its elements in a row": lambda w: w.view(-1),
    "its transpose as a filter": lambda w: w.t()[:, :, None, None],
    "three dimensions, the first one last": lambda w: w.view(2, 3, 8).permute(1, 2, 0),
    "all but a row": lambda w: w[1:],
    "every second column": lambda w: w[:, ::2],
    "every second column of its transpose": lambda w: w.t()[:, ::2],
    "the bytes of its last row": lambda w: w[5].view(torch.bfloat16),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_parameters_over_elements_of_another_one_count_once(view: Callable[[torch.Tensor], torch.Tensor]) -> None:
    model = Call(lambda self, x: x)
    model.first = nn.Parameter(torch.zeros(6, 8))
    model.second = nn.Parameter(view(model.first.data))
    found = trace_complete(model, x())
    assert (found.total_params, found.size_bytes) == (48, 192)


@pytest.mark.parametrize("kind", [nn.Parameter, nn.Buffer])
def test_views_that_overlap_count_what_they_cover(kind: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """20 and 16 of 24 floats, in a buffer of the parent that is met before them, or a parameter."""
    flat = torch.zeros(24)
    model = nn.Sequential(Call(lambda self, x: x))
    model.flat = kind(flat)
    model[0].first, model[0].second = nn.Parameter(flat[:20]), nn.Parameter(flat[8:])
    found = trace_complete(model, x())
    assert (found.total_params, found.size_bytes) == (24, 96)


@pytest.mark.parametrize("cut", [lambda w: (w[:8], w[8:]), lambda w: (w.view(4, 4)[:, :2], w.view(4, 4)[:, 2:])])
def test_views_that_do_not_overlap_are_distinct_parameters(cut: Callable[[torch.Tensor], Any]) -> None:
    model = Call(lambda self, x: x * self.first.sum() * self.second.sum())
    model.first, model.second = map(nn.Parameter, cut(torch.zeros(16)))
    assert trace_complete(model, x()).total_params == 16


def test_a_copy_is_another_parameter() -> None:
    model = Call(lambda self, x: x)
    model.first = nn.Parameter(torch.zeros(6, 8))
    model.second = nn.Parameter(model.first.data.t().clone())
    assert trace_complete(model, x()).total_params == 96


def test_frozen_weights_count_but_are_not_trainable() -> None:
    model = nn.Sequential(nn.Linear(8, 8), linear())
    model[0].requires_grad_(False)
    found = trace_complete(model, x())
    assert (found.total_params, found.trainable_params) == (72 + 64, 64)


@pytest.mark.parametrize(
    ("dtype", "size", "products"),
    [
        (torch.float16, 2, 1),
        (torch.bfloat16, 2, 1),
        (torch.float32, 4, 1),
        (torch.float64, 8, 1),
        (torch.complex64, 8, 4),  # (a + bi)(c + di) takes the real products ac, bd, ad and bc
    ],
)
def test_size_goes_by_the_real_dtype_and_counts_go_by_real_products(
    dtype: torch.dtype, size: int, products: int
) -> None:
    found = trace_complete(nn.Linear(8, 8, bias=False, dtype=dtype), x().to(dtype))
    assert (found.macs, found.flops, found.total_params) == (products * LINEAR, products * 2 * LINEAR, 64)
    assert found.size_bytes == 64 * size
    assert found.memory.peak_bytes(include_weights=False) == 2 * (2 * 8 * size)


def test_mixed_dtypes() -> None:
    model = nn.Sequential(linear().half(), linear())
    found = trace_complete(Call(lambda self, x: self.m[1](self.m[0](x.half()).float()), m=model), x())
    assert (found.macs, found.size_bytes) == (2 * LINEAR, 64 * 2 + 64 * 4)


def test_buffers_are_no_parameters_and_only_persistent_ones_are_saved() -> None:
    model = nn.BatchNorm1d(8)
    model.register_buffer("scratch", torch.zeros(100), persistent=False)
    found = trace_complete(model, x())
    assert found.total_params == 16
    assert found.size_bytes == (16 + 16) * 4 + 8  # weight, bias, mean and variance; the counter has 8 bytes
    assert found.memory.weight_bytes == found.size_bytes + 400


def test_lazy_layers_get_their_size_from_the_inputs_and_stay_lazy() -> None:
    first = nn.LazyLinear(4)
    model = nn.Sequential(first, nn.LazyBatchNorm1d(), nn.Linear(4, 2))
    found = trace_complete(model, x())
    assert found.total_params == (8 * 4 + 4) + 2 * 4 + (4 * 2 + 2)
    assert found.macs == 2 * 8 * 4 + 2 * 4 * 2
    assert "lazy parameters" in found.notes[0]
    assert [type(layer) for layer in model] == [nn.LazyLinear, nn.LazyBatchNorm1d, nn.Linear]
    assert nn.parameter.is_lazy(first.weight)
    assert model(ones(2, 5)).shape == (2, 2)  # still open to another size


def test_lazy_layers_stay_lazy_when_the_model_fails() -> None:
    first = nn.LazyLinear(4)
    found = trace(nn.Sequential(first, nn.Linear(5, 5)), x())
    assert (found.operators, found.total_params) == ((), 30)
    assert isinstance(first, nn.LazyLinear)
    assert nn.parameter.is_lazy(first.weight)


def test_a_model_on_the_meta_device() -> None:
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(8, 8, bias=False), nn.BatchNorm1d(8))
    found = trace_complete(model, x())
    assert (found.macs, found.total_params) == (LINEAR, 64 + 16)


def test_a_billion_parameters_take_no_memory() -> None:
    with torch.device("meta"):
        model = nn.Sequential(*(nn.Linear(4096, 4096, bias=False) for _ in range(60)))
        inputs = torch.empty(1, 2048, 4096)
    found = trace_complete(model, inputs)
    assert found.total_params == 60 * 4096**2 > 10**9
    assert found.macs == 60 * 2048 * 4096**2


def test_real_weights_are_never_copied() -> None:
    model = nn.Sequential(linear(), nn.BatchNorm1d(8))
    pointers = [tensor.data_ptr() for tensor in (*model.parameters(), *model.buffers())]
    trace_complete(model, x())
    assert [tensor.data_ptr() for tensor in (*model.parameters(), *model.buffers())] == pointers
