"""Sparse products cost by what is stored, nested tensors by each sample's own length."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tiny import Call, cost, ones, trace_complete
from torch import nn

from profilerkit import Completeness, profile

pytestmark = pytest.mark.filterwarnings(
    "ignore:Sparse .* tensor support is in beta state",
    "ignore:The PyTorch API of nested tensors is in prototype stage",
)

LAYOUTS = {"coo": torch.sparse_coo, "csr": torch.sparse_csr, "csc": torch.sparse_csc}

#: Four of sixteen elements.
STORED = 4


def matrix(layout: torch.layout) -> torch.Tensor:
    return torch.eye(4).to_sparse(layout=layout)


# MACs, and FLOPs beyond two for each.
PRODUCTS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...], int, int]] = {
    "sparse @ dense": (lambda w, x: w @ x, (ones(4, 3),), STORED * 3, 0),
    "dense @ sparse": (lambda w, x: x @ w, (ones(3, 4),), STORED * 3, 0),
    "sparse @ vector": (lambda w, x: w @ x, (ones(4),), STORED, 0),
    "sparse @ sparse": (lambda w: w @ w, (), STORED, 0),  # each stored element meets a row of one
    "torch.sparse.mm": (torch.sparse.mm, (ones(4, 3),), STORED * 3, 0),
    "torch.sparse.addmm": (lambda w, x: torch.sparse.addmm(x, w, x), (ones(4, 4),), STORED * 4, 16),
    "linear": (lambda w, x: F.linear(x, w), (ones(3, 4),), STORED * 3, 0),
    "linear of a sparse input": (F.linear, (ones(3, 4),), STORED * 3, 0),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("case", PRODUCTS)
def test_a_sparse_product_costs_by_what_is_stored(case: str, layout: str) -> None:
    function, inputs, macs, further = PRODUCTS[case]
    assert cost(function, matrix(LAYOUTS[layout]), *inputs) == (macs, 2 * macs + further)


def test_a_sum_with_a_sparse_product_costs_by_what_is_stored() -> None:
    """Torch has it in the compressed layouts alone: four products, and four additions."""
    assert cost(lambda w, x: torch.addmv(x, w, x), matrix(torch.sparse_csr), ones(4)) == (STORED, 2 * STORED + 4)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("case", PRODUCTS)
def test_what_becomes_sparse_inside_the_model_costs_the_same(case: str, layout: str) -> None:
    """Without values torch makes such a tensor as if it stored nothing: only a run that has them can tell."""
    function, inputs, macs, further = PRODUCTS[case]

    def made(w: torch.Tensor, *args: torch.Tensor) -> Any:
        return function(w.to_sparse(layout=LAYOUTS[layout]), *args)

    assert cost(made, torch.eye(4), *inputs) == (macs, 2 * macs + further)


#: What makes another sparse tensor of one that stores four elements, and how many that one stores.
REMADE: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], int]] = {
    "sum": (lambda s: s + s, 4),
    "transpose": (lambda s: s.t(), 4),
    "clone": (lambda s: s.clone(), 4),
    "coalesce": (lambda s: s.coalesce(), 4),
    "to_sparse_csr": (lambda s: s.to_sparse_csr(), 4),
    "cat": (lambda s: torch.cat([s, s]), 8),
}


@pytest.mark.parametrize("case", REMADE)
def test_what_is_made_of_a_sparse_tensor_inside_the_model_counts(case: str) -> None:
    remade, stored = REMADE[case]

    def multiplied(edges: torch.Tensor, values: torch.Tensor, x: torch.Tensor) -> Any:
        return remade(torch.sparse_coo_tensor(edges, values, (4, 4))) @ x

    edges = torch.arange(4).expand(2, 4)
    macs, _ = cost(multiplied, edges, ones(4), ones(4, 3))
    assert macs == stored * 3


def test_a_sparse_weight_counts_as_a_sparse_input_does() -> None:
    model = Call(lambda self, x: self.weight @ x)
    model.register_buffer("weight", matrix(torch.sparse_csr))
    found = trace_complete(model, ones(4, 3))
    assert found.macs == STORED * 3
    assert found.method == "a real run"
    assert "the shape of a sparse tensor does not tell how many elements it stores" in found.notes[-1]


def multiply_by_constant(model: Any, x: torch.Tensor) -> Any:
    constant = torch.sparse_coo_tensor(torch.tensor([[0, 1, 2], [2, 0, 1]]), torch.ones(3), (4, 4))
    return torch.sparse.mm(constant, model.fc(x))


def multiply_or_fall_back(model: Any, x: torch.Tensor) -> Any:
    try:
        return multiply_by_constant(model, x)
    except RuntimeError:  # never in a run
        return x


@pytest.mark.parametrize("run", [multiply_by_constant, multiply_or_fall_back])
def test_a_sparse_constant_counts_by_what_it_stores(run: Any) -> None:
    """A layer of 3 by 3 on 4 rows, then 3 stored elements times 3 columns; the gradients take as much again."""
    report = profile(Call(run, fc=nn.Linear(3, 3, bias=False)), ones(4, 3), metrics=["macs", "training_macs"])
    forward = 4 * 3 * 3 + 3 * 3
    assert (report["macs"], report["training_macs"]) == (forward, 2 * forward)
    assert report.status("training_macs").completeness is Completeness.COMPLETE


def test_blocks_count_in_full() -> None:
    blocks = torch.eye(4).to_sparse_bsr((2, 2))  # two blocks of four
    assert cost(lambda w, x: w @ x, blocks, ones(4, 3)) == (8 * 3, 2 * 8 * 3)


@pytest.mark.parametrize(("factors", "further"), [({}, 1), ({"alpha": 2, "beta": 3}, 3), ({"beta": 0}, 0)])
def test_a_sampled_product_costs_by_the_elements_of_its_mask(factors: dict[str, float], further: int) -> None:
    """For each a product over 3, an addition, and a multiplication by each factor."""
    product = partial(torch.sparse.sampled_addmm, **factors)
    found = cost(lambda m, x: product(m, x, x.t()), matrix(torch.sparse_csr), ones(4, 3))
    assert found == (STORED * 3, 2 * STORED * 3 + further * STORED)


@pytest.mark.parametrize(
    ("function", "per_element"), [(torch.relu, 1), (lambda w: torch.sparse.softmax(w, 1), 5), (torch.sparse.sum, 1)]
)
def test_element_wise_work_costs_by_what_is_stored(function: Callable[..., Any], per_element: int) -> None:
    assert cost(function, matrix(torch.sparse_coo)) == (0, per_element * STORED)


def test_a_matrix_made_inside_the_model_counts_too() -> None:
    def convolve(self: Any, edges: torch.Tensor, weights: torch.Tensor, x: torch.Tensor) -> Any:
        return torch.sparse_coo_tensor(edges, weights, (4, 4)) @ self.layer(x)

    model = Call(convolve, layer=nn.Linear(4, 3, bias=False))
    found = trace_complete(model, torch.tensor([[0, 1], [1, 2]]), ones(2), ones(4, 4))
    assert found.macs == 4 * 4 * 3 + 2 * 3


def test_half_a_weight_is_half_the_work() -> None:
    from profilerkit_torch.costs import Shape
    from profilerkit_torch.costs.sparse import semi_structured_addmm, semi_structured_linear

    found = semi_structured_linear(Shape((8, 16)), Shape((32, 8)), None, bias=Shape((32,)), out=Shape((8, 32)))
    assert found == (8 * 32 * 16 // 2, 8 * 32 * 16 + 8 * 32)
    weight, x, bias, out = map(Shape, ((32, 8), (16, 8), (32, 1), (32, 8)))
    scaled = semi_structured_addmm(bias, weight, None, x, alpha=2, beta=3, out=out)
    assert scaled == (
        8 * 32 * 16 // 2,
        8 * 32 * 16 + 2 * 32 * 8 + 32,
    )  # beside the product: alpha, beta, the sum


NESTED = {"strided": torch.strided, "jagged": torch.jagged}


def make_nested(layout: str) -> torch.Tensor:
    """Two samples of three and five rows."""
    made: torch.Tensor = torch.nested.nested_tensor([ones(3, 4), ones(5, 4)], layout=NESTED[layout])
    return made


def heads(x: torch.Tensor) -> torch.Tensor:
    """Two heads of two."""
    if x.layout is torch.jagged:
        jagged: torch.Tensor = x.unflatten(-1, (2, 2)).transpose(1, 2)
        return jagged
    split: torch.Tensor = x.view(2, -1, 2, 2).transpose(1, 2).contiguous()
    return split


def skip_where_it_fails(layout: str, call: Callable[[], Any]) -> None:
    """Skip where torch does not run it in inference mode, in which it keeps operators whole, as a trace does."""
    try:
        with torch.inference_mode():
            call()
    except NotImplementedError:
        pytest.skip(f"torch {torch.__version__} takes this apart for no tensor of layout {layout} but by autograd")


@pytest.mark.parametrize("layout", NESTED)
@pytest.mark.parametrize(
    ("function", "flops"),
    [(torch.relu, 32), (lambda x: x.softmax(-1), 5 * 32), (lambda x: x * 2 + x, 2 * 32)],
    ids=["relu", "softmax", "arithmetic"],
)
def test_a_nested_tensor_counts_the_elements_that_are_there(
    layout: str, function: Callable[..., Any], flops: int
) -> None:
    skip_where_it_fails(layout, lambda: function(make_nested(layout)))
    assert cost(function, make_nested(layout)) == (0, flops)


@pytest.mark.parametrize("layout", NESTED)
def test_a_linear_layer_counts_the_rows_that_are_there(layout: str) -> None:
    found = trace_complete(nn.Linear(4, 6), make_nested(layout))
    assert (found.macs, found.flops) == (8 * 4 * 6, 2 * 8 * 4 * 6 + 8 * 6)


@pytest.mark.parametrize("layout", NESTED)
def test_attention_counts_each_sample_by_its_own_length(layout: str) -> None:
    skip_where_it_fails(layout, lambda: heads(make_nested(layout)))
    found = cost(lambda x: F.scaled_dot_product_attention(*(heads(x),) * 3), make_nested(layout))
    scores = 2 * (3 * 3 + 5 * 5)
    assert found[0] == scores * (2 + 2)


def test_a_nested_tensor_made_inside_the_model_counts_too() -> None:
    def pack(self: Any, x: torch.Tensor) -> Any:
        return torch.nested.to_padded_tensor(self.layer(torch.nested.as_nested_tensor([x, x[:2]])), 0.0)

    assert trace_complete(Call(pack, layer=nn.Linear(4, 6, bias=False)), ones(3, 4)).macs == (3 + 2) * 4 * 6
