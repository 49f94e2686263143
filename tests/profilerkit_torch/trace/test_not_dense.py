"""Sparse, nested and subclassed tensors: what their shapes leave out is never guessed, and read only if need be."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tiny import Call
from torch import nn

from profilerkit import profile
from profilerkit.piping.outcome import Completeness


def macs(model: nn.Module, *inputs: Any) -> int:
    """Return the multiply-accumulates of a model, which must be complete."""
    record = profile(model, inputs, metrics=["macs"]).status("macs")
    assert record.completeness is Completeness.COMPLETE, record.missing
    return int(record.value)


def make_stored(count: int) -> torch.Tensor:
    """Return a matrix of 10 rows and 6 columns with so many numbers that are not zero."""
    matrix = torch.zeros(10, 6)
    matrix.view(-1)[:count] = 1.0
    return matrix


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc])
def test_each_sparse_product_costs_what_its_own_matrix_stores(layout: torch.layout) -> None:
    first, second = (nn.Buffer(make_stored(count).to_sparse(layout=layout)) for count in (3, 60))
    model = Call(lambda self, x: (self.first @ x, self.second @ x), first=first, second=second)
    assert macs(model, torch.randn(6, 4)) == 3 * 4 + 60 * 4


def test_each_product_of_nested_tensors_costs_what_its_own_samples_have() -> None:
    def run(self: Any, x: torch.Tensor) -> Any:
        few = torch.nested.nested_tensor([x[:1], x[:1]], layout=torch.jagged)
        many = torch.nested.nested_tensor([x[:4], x[:3]], layout=torch.jagged)
        return self.fc(few), self.fc(many)

    assert macs(Call(run, fc=nn.Linear(8, 8, bias=False)), torch.randn(4, 8)) == (1 + 1) * 64 + (4 + 3) * 64


def with_buffer(buffer: torch.Tensor, *, reads: bool = False) -> Call:
    """Return a layer with a buffer, which it reads only if asked to."""
    run = (lambda self, x: self.table @ self.fc(x)) if reads else (lambda self, x: self.fc(x))
    return Call(run, fc=nn.Linear(8, 8), table=nn.Buffer(buffer))


def make_nested() -> torch.Tensor:
    return torch.nested.nested_tensor([torch.randn(2, 3), torch.randn(4, 3)])


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("make", [lambda: torch.eye(4).to_sparse(), make_nested], ids=["sparse", "nested"])
def test_a_buffer_that_no_operator_reads_costs_no_run(make: Any) -> None:
    report = profile(with_buffer(make()), torch.randn(4, 8), metrics=["macs", "total_params", "training_macs"])
    assert report["macs"] == 4 * 8 * 8
    assert report["total_params"] == 8 * 8 + 8
    assert report["training_macs"] == 4 * 8 * 8 * 2  # and the gradient of the weights; the input needs none
    assert not [note for note in report.notes if "real run" in note]


def test_an_unused_sparse_buffer_on_the_meta_device_is_counted() -> None:
    assert macs(with_buffer(torch.eye(4).to_sparse()).to("meta"), torch.randn(4, 8)) == 4 * 8 * 8


def test_a_sparse_buffer_that_an_operator_reads_is_counted_in_a_run() -> None:
    report = profile(with_buffer(torch.eye(4).to_sparse(), reads=True), torch.randn(4, 8), metrics=["macs"])
    assert report["macs"] == 4 * 8 * 8 + 4 * 8
    assert any("real run" in note for note in report.notes)


def test_a_sparse_buffer_without_values_that_an_operator_reads_is_refused() -> None:
    model = with_buffer(torch.eye(4).to_sparse(), reads=True).to("meta")
    record = profile(model, torch.randn(4, 8), metrics=["macs"]).status("macs")
    assert record.completeness is Completeness.FAILED
    assert "how many elements it stores" in record.missing[0]


class Doubling(torch.Tensor):
    """A tensor that multiplies matrices twice."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
            if func is torch.Tensor.detach:
                return result.as_subclass(cls)
            if func in (torch.Tensor.matmul, torch.nn.functional.linear):
                func(*args, **(kwargs or {}))
            return result


@pytest.mark.parametrize("kind", [nn.Parameter, lambda weight: weight])
def test_a_weight_that_answers_functions_itself_does_so_in_a_trace(kind: Any) -> None:
    model = Call(lambda self, x: x @ self.weight)
    model.register_buffer("weight", None)
    model.weight = kind(torch.randn(8, 8).as_subclass(Doubling))
    assert macs(model, torch.randn(4, 8)) == 2 * 4 * 8 * 8


def test_an_input_that_answers_functions_itself_does_so_in_a_trace() -> None:
    assert macs(nn.Linear(8, 8), torch.randn(4, 8).as_subclass(Doubling)) == 2 * 4 * 8 * 8


def multiply(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.relu(x @ weight).reshape(-1).clone()


@pytest.mark.filterwarnings("ignore:.*torch.jit.script. is deprecated")
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_our_own_questions_are_none_of_the_models(device: str) -> None:
    """One model is a script, the other gives each sample a convolution of its own."""
    scripted = torch.jit.script(multiply)
    script = Call(lambda self, x: scripted(x, self.weight), weight=nn.Parameter(torch.randn(8, 8))).to(device)
    of_script = profile(script, torch.randn(4, 8), metrics=["macs"])
    weights = nn.Parameter(torch.randn(4, 6, 3, 3, 3))
    samples = Call(lambda self, x: torch.vmap(torch.nn.functional.conv2d)(x, self.weight), weight=weights).to(device)
    of_samples = profile(samples, torch.randn(4, 1, 3, 6, 6), metrics=["macs"])
    assert of_script["macs"] == 4 * 8 * 8
    assert of_samples["macs"] == 4 * 6 * (3 * 3 * 3) * (4 * 4)
    assert not [note for note in (*of_script.notes, *of_samples.notes) if "real run" in note]


def run_on_samples(self: Any, x: torch.Tensor) -> Any:
    """Run a layer on samples of three and five rows, which are joined to a nested tensor before it or in it."""
    if not x.is_nested:
        x = torch.nested.as_nested_tensor([x[:3], x[3:]], layout=torch.jagged)
    return self.fc(x).values()


def test_a_step_on_nested_tensors_counts_their_values_once() -> None:
    """Alive are the rows, their copy in the nested tensor, output, its gradient, three offsets, and the weight's."""
    rows = 8 * 32 * 4
    report = profile(
        Call(run_on_samples, fc=nn.Linear(32, 32, bias=False)),
        torch.randn(8, 32),
        metrics=["training_macs", "training_memory_parts"],
    )
    assert report["training_macs"] == 2 * 8 * 32 * 32, "the product, and the gradient of the weight"
    parts = report["training_memory_parts"]
    names = ("inputs", "activations", "gradients", "other")
    assert sum(parts[name] for name in names) == 4 * rows + 3 * 8 + 32 * 32 * 4


def test_a_step_on_nested_inputs_is_counted() -> None:
    """Alive are the rows with three offsets, the output, its gradient, and the weight's."""
    rows = 8 * 32 * 4
    samples = torch.nested.nested_tensor([torch.randn(3, 32), torch.randn(5, 32)], layout=torch.jagged)
    report = profile(
        Call(run_on_samples, fc=nn.Linear(32, 32, bias=False)),
        samples,
        metrics=["training_macs", "training_memory_parts"],
    )
    assert report["training_macs"] == 2 * 8 * 32 * 32
    parts = report["training_memory_parts"]
    assert parts["inputs"] == rows + 3 * 8
    names = ("activations", "gradients", "other")
    assert sum(parts[name] for name in names) == 2 * rows + 32 * 32 * 4


def test_what_a_wrapper_is_made_of_is_work_of_operators() -> None:
    """Each half of the weight is multiplied, and the outputs are wrapped again, which is no work elsewhere."""
    from torch.testing._internal.two_tensor import TwoTensor

    layer = nn.Linear(32, 32, bias=False)
    layer.weight = nn.Parameter(TwoTensor(torch.ones(32, 32), torch.ones(32, 32)))
    report = profile(layer, torch.randn(8, 32), metrics=["macs", "memory_footprint"])
    assert (report["macs"], report["memory_footprint"]) == (2 * 8 * 32 * 32, 4 * (2 * 32 * 32 + 3 * 8 * 32))
    assert report.status("macs").completeness is report.status("memory_footprint").completeness is Completeness.COMPLETE


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_attention_on_nested_tensors_is_counted_in_a_step() -> None:
    """Of three and five tokens each pair has a product of query and key, and one with a value."""

    def attend(self: Any, x: torch.Tensor) -> Any:
        nested: Any = torch.nested.as_nested_tensor([x[:3], x[3:]], layout=torch.jagged)
        heads = self.fc(nested).view(2, -1, 2, 16).transpose(1, 2)
        attended: Any = nn.functional.scaled_dot_product_attention(heads, heads, heads)
        return attended.transpose(1, 2).values()

    model = Call(attend, fc=nn.Linear(32, 32, bias=False))
    report = profile(model, torch.randn(8, 32), metrics=["macs", "training_macs", "memory_footprint"])
    assert report["macs"] == 8 * 32 * 32 + 2 * (3 * 3 + 5 * 5) * 32
    (missing,) = report.status("memory_footprint").missing
    assert missing.startswith("the workspace of _scaled_dot_product_attention_math"), "which makes all scores"
    assert report.status("training_macs").completeness is Completeness.COMPLETE
