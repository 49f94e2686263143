"""Zeros among the weights, and the multiply-accumulates without them, by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tiny import BACKEND, Call, ones
from torch import nn
from torch.ao.pruning.sparsifier.utils import FakeSparsity
from torch.nn.utils import parametrize, prune

from profilerkit import Completeness, ModelInputs, WithoutValuesError, profile
from profilerkit_torch import Cost, register_op_cost
from profilerkit_torch.costs import scoped_costs


def effective(model: nn.Module, *args: Any) -> int:
    found = BACKEND.trace_nonzero(model, ModelInputs(*args))
    assert found.failure is None, found.failure
    assert found.missing == ()
    return found.macs


def make_holes(layer: Any, zeros: int) -> Any:
    """Set the first elements of a layer's weight to zero, the others to one."""
    with torch.no_grad():
        layer.weight.fill_(1).view(-1)[:zeros] = 0
    return layer


def x() -> torch.Tensor:
    return ones(3, 8)


def test_a_linear_layer_costs_its_nonzero_weights_for_each_sample() -> None:
    assert effective(make_holes(nn.Linear(8, 4), 20), x()) == 3 * (8 * 4 - 20)
    assert effective(make_holes(nn.Linear(8, 4), 0), x()) == 3 * 8 * 4
    assert effective(make_holes(nn.Linear(8, 4), 32), x()) == 0


def test_operations_lose_two_for_each_product_that_is_left_out() -> None:
    found = BACKEND.trace_nonzero(make_holes(nn.Linear(8, 4), 20), ModelInputs(x()))
    assert found.flops == 3 * (2 * (8 * 4 - 20) + 4)


def test_a_convolution_costs_its_nonzero_weights_at_each_place() -> None:
    layer = make_holes(nn.Conv2d(4, 6, 3, groups=2), 30)
    assert effective(layer, ones(1, 4, 7, 7)) == 5 * 5 * (6 * 2 * 9 - 30)


@pytest.mark.parametrize(
    ("dtype", "counts"),
    [  # of eight bits 0x80 is -0
        ("float8_e4m3fn", (2, 4)),
        ("float8_e4m3fnuz", (1, 4)),  # which has no -0: 0x80 is no number
        ("float4_e2m1fn_x2", (7, 8)),  # the 3 in 0x38 is 1.5, each 8 is -0
    ],
)
def test_floats_of_few_bits(dtype: str, counts: tuple[int, int]) -> None:
    if not hasattr(torch, dtype):
        pytest.skip(f"this torch has no {dtype}")
    model = nn.Module()
    packed = torch.tensor([[0x00, 0x80], [0x38, 0x08]], dtype=torch.uint8)
    model.weight = nn.Parameter(packed.view(getattr(torch, dtype)), requires_grad=False)
    assert BACKEND.zero_weights(model) == counts


def test_weights_that_share_their_elements_are_counted_once() -> None:
    """As ``total_params`` counts them, also where they are parameters of their own."""
    first, second = make_holes(nn.Linear(4, 4, bias=False), 5), nn.Linear(4, 4, bias=False)
    second.weight = nn.Parameter(first.weight.data)
    assert BACKEND.zero_weights(nn.Sequential(first, second)) == (5, 16)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float8_e4m3fn])
@pytest.mark.parametrize(
    ("views", "counts"),
    [  # of 0 to 23 in four rows of six, where 0 to 4 are zero
        ([lambda whole: whole, lambda whole: whole[1:3]], (5, 24)),
        ([lambda whole: whole[1:3], lambda whole: whole], (5, 24)),
        ([lambda whole: whole, lambda whole: whole[:, 0]], (5, 24)),
        ([lambda whole: whole[:, 0], lambda whole: whole[0]], (5, 4 + 6 - 1)),
        ([lambda whole: whole[:2], lambda whole: whole[1:], lambda whole: whole[0, 3:]], (5, 24)),
        ([lambda whole: whole[:, :2], lambda whole: whole.T[4:]], (3, 4 * 2 + 2 * 4)),
        ([lambda whole: whole[0], lambda whole: whole[1]], (5, 12)),
    ],
)
def test_weights_that_are_views_of_one_another_are_counted_once(
    views: list[Any], counts: tuple[int, int], dtype: torch.dtype
) -> None:
    whole = torch.ones(4, 6)
    whole.view(-1)[:5] = 0
    whole = whole.to(dtype)
    model = nn.ParameterList([nn.Parameter(view(whole), requires_grad=False) for view in views])
    assert BACKEND.zero_weights(model) == counts


def test_a_mask_of_torchs_pruning_is_applied() -> None:
    layer = nn.Linear(8, 4)
    prune.l1_unstructured(layer, "weight", amount=24)
    assert effective(layer, x()) == 3 * 8
    assert BACKEND.zero_weights(layer) == (24, 8 * 4 + 4)
    prune.remove(layer, "weight")
    assert effective(layer, x()) == 3 * 8
    assert BACKEND.zero_weights(layer) == (24, 8 * 4 + 4)


def test_a_mask_of_a_parametrization_is_applied() -> None:
    """As `torch.ao.pruning` has it until ``squash_mask()``; other parametrizations are not run."""
    layer = nn.Linear(8, 4)
    mask = ones(4, 8)
    mask.view(-1)[:20] = 0
    parametrize.register_parametrization(layer, "weight", FakeSparsity(mask))
    assert BACKEND.zero_weights(layer) == (20, 8 * 4 + 4)
    assert effective(layer, x()) == 3 * (8 * 4 - 20)


def test_rows_that_are_pruned_whole_cost_nothing() -> None:
    layer = nn.Conv2d(3, 8, 3)
    prune.ln_structured(layer, "weight", amount=0.5, n=2, dim=0)
    assert effective(layer, ones(1, 3, 5, 5)) == 3 * 3 * 4 * 3 * 9


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (4,)])
def test_the_zeros_of_a_vector_count(shape: tuple[int, ...]) -> None:
    """A learned vector that pools features, such as that of attention over words, has one zero in four."""
    vector = nn.Module()
    vector.weight = nn.Parameter(torch.tensor([1.0, 0.0, 2.0, 3.0]))
    x = torch.ones(shape)
    assert effective(Call(lambda self, x: x @ self.vector.weight, vector=vector), x) == x.numel() * 3 // 4


@pytest.mark.parametrize(
    "multiply",
    [
        lambda weight, x: torch.addmv(torch.zeros(3), x, weight),
        lambda weight, x: torch.zeros(3).addmv_(x, weight),
        lambda weight, x: torch.addr(torch.zeros(3, 4), x[:, 0], weight),
        lambda weight, x: nn.functional.linear(x, weight),
    ],
)
def test_the_zeros_of_a_vector_count_where_the_bias_is_known(multiply: Callable[..., torch.Tensor]) -> None:
    """The products of 12 numbers and a vector with one zero in four."""
    vector = nn.Module()
    vector.weight = nn.Parameter(torch.tensor([1.0, 0.0, 2.0, 3.0]))
    model = Call(lambda self, x: multiply(self.vector.weight, x), vector=vector)
    assert effective(model, torch.ones(3, 4)) == 3 * 4 * 3 // 4


def test_two_of_four_is_half() -> None:
    layer = nn.Linear(8, 4, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([1.0, 0.0, 2.0, 0.0] * 8).reshape(4, 8))
    assert effective(layer, x()) == 3 * 8 * 4 // 2
    assert profile(layer, x(), metrics=["sparsity"])["sparsity"] == 0.5


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support", "ignore:Sparse invariant checks")
@pytest.mark.parametrize("kind", ["csr", "coo"])
def test_what_a_sparse_matrix_leaves_out_is_left_out_already(kind: str) -> None:
    dense = torch.zeros(4, 8)
    dense[0, :5] = 1
    weight = dense.to_sparse_csr() if kind == "csr" else dense.to_sparse_coo()
    layer = nn.Module()
    layer.weight = nn.Parameter(weight, requires_grad=False)
    assert effective(Call(lambda self, x: self.layer.weight @ x.t(), layer=layer), x()) == 3 * 5
    assert BACKEND.zero_weights(layer) == (4 * 8 - 5, 4 * 8)


def test_attention_between_activations_is_not_thinned() -> None:
    """Scores and sums of 5 tokens, 8 wide; four projections, of which the three for q, k, v lost half."""
    layer = nn.MultiheadAttention(8, 2, bias=False, batch_first=True)
    with torch.no_grad():
        layer.out_proj.weight.fill_(1)
        layer.in_proj_weight.fill_(1)[:, :4] = 0
    tokens = ones(1, 5, 8)
    model = Call(lambda self, x: self.layer(x, x, x, need_weights=False)[0], layer=layer)
    assert effective(model, tokens) == 5 * (3 * 8 * 8 // 2 + 8 * 8) + 2 * 5 * 5 * 8


@pytest.mark.parametrize("computes_gradients", [False, True])
def test_learned_queries_of_zeros_are_not_thinned(computes_gradients: bool) -> None:
    """A model that computes gradients runs a kernel of attention: 2 heads of 4 queries and 4 keys, 8 wide."""

    def run(self: Any, x: torch.Tensor) -> Any:
        if computes_gradients:
            with torch.enable_grad():
                leaf = x.detach().clone().requires_grad_()
                torch.autograd.grad((leaf * leaf).sum(), leaf)
        return nn.functional.scaled_dot_product_attention(self.queries, x, x)

    model = Call(run)
    model.queries = nn.Parameter(torch.zeros(1, 2, 4, 8))
    assert effective(model, ones(1, 2, 4, 8)) == 2 * (2 * 4 * 4 * 8)


def test_the_gradient_of_learned_queries_of_zeros_is_not_thinned() -> None:
    """Two products forward; backward one product for each of dv, d(scores), dq and dk."""

    def run(self: Any, x: torch.Tensor) -> Any:
        with torch.enable_grad():
            leaf = x.detach().clone().requires_grad_()
            out = nn.functional.scaled_dot_product_attention(self.queries, leaf, leaf)
            return torch.autograd.grad(out.sum(), leaf)[0]

    model = Call(run)
    model.queries = nn.Parameter(torch.zeros(1, 2, 4, 8))
    assert effective(model, ones(1, 2, 4, 8)) == (2 + 4) * (2 * 4 * 4 * 8)


def test_the_matrices_of_a_recurrent_layer_count_together() -> None:
    layer = nn.LSTM(6, 4)
    with torch.no_grad():
        for name, weight in layer.named_parameters():
            weight.fill_(0 if name == "weight_hh_l0" else 1)
    model = Call(lambda self, x: self.layer(x)[0], layer=layer)
    assert effective(model, ones(5, 2, 6)) == 5 * 2 * 4 * 4 * 6


def test_zeros_that_are_computed_are_no_weights() -> None:
    """What an input had part in, and a constant that the model makes, are activations, whatever their values."""

    def run(self: Any, x: torch.Tensor) -> Any:
        state = torch.zeros(3, 8)
        return self.layer(x * 0) + self.layer(state)

    assert effective(Call(run, layer=make_holes(nn.Linear(8, 4), 8)), x()) == 2 * 3 * (32 - 8)


def test_what_is_learned_but_multiplied_as_an_activation_is_not_thinned() -> None:
    """Queries that no input has part in, half of them zeros: the layer's weight alone counts."""

    def run(self: Any, x: torch.Tensor) -> Any:
        return self.layer(self.queries) + x.sum()

    model = Call(run, layer=make_holes(nn.Linear(8, 4), 8))
    model.queries = nn.Parameter(torch.eye(8)[:3])
    assert effective(model, x()) == 3 * (32 - 8)


def test_a_weight_that_is_made_of_others_counts_as_it_is_used() -> None:
    def run(self: Any, x: torch.Tensor) -> Any:
        return nn.functional.linear(x, (self.layer.weight * self.gate).to(torch.float64).t().t().float())

    model = Call(run, layer=make_holes(nn.Linear(8, 4), 0))
    model.register_buffer("gate", torch.tensor([1.0, 0, 0, 0] * 2))
    assert effective(model, x()) == 3 * 32 // 4


def test_layers_add_up_and_the_dense_count_stands_beside() -> None:
    model = nn.Sequential(make_holes(nn.Linear(8, 4), 8), nn.ReLU(), make_holes(nn.Linear(4, 2), 2))
    found = BACKEND.trace_nonzero(model, ModelInputs(x()))
    assert [row["own_macs"] for row in found.table if row["is_leaf"]] == [3 * 24, 0, 3 * 6]
    report = profile(model, x(), metrics=["macs", "effective_macs", "sparsity"])
    assert (report["macs"], report["effective_macs"]) == (3 * 40, 3 * 30)
    assert report["sparsity"] == (8 + 2) / (32 + 4 + 8 + 2)


def test_without_values_there_is_a_reason() -> None:
    with torch.device("meta"):
        model = nn.Linear(8, 4)
    report = profile(model, input_shape=(8,), metrics=["macs", "effective_macs", "sparsity"])
    assert report["macs"] == 32
    for key in ("effective_macs", "sparsity"):
        status = report.status(key)
        assert status.completeness.value == "unavailable"
        assert "have no values yet" in status.missing[0]
    with pytest.raises(WithoutValuesError, match="lazy"):
        BACKEND.zero_weights(nn.LazyLinear(4))


def test_integers_are_left_out_of_the_sparsity_and_it_says_so() -> None:
    model = make_holes(nn.Linear(8, 4, bias=False), 8)
    model.codes = nn.Parameter(torch.zeros(10, dtype=torch.int8), requires_grad=False)
    status = profile(model, x(), metrics=["sparsity"]).status("sparsity")
    assert status.value == 8 / 32
    assert status.note == "of the 32 floating-point parameters among the model's 42"


def test_a_model_without_weights_has_no_sparsity() -> None:
    assert profile(nn.ReLU(), x(), metrics=["sparsity"]).status("sparsity").missing == (
        "the model has no floating-point parameters",
    )


def test_an_operator_of_unknown_cost_makes_a_lower_bound() -> None:
    def run(self: Any, x: torch.Tensor) -> Any:
        return torch.ops.prunekit.mystery(self.layer(x))

    library = torch.library.Library("prunekit", "DEF")
    library.define("mystery(Tensor x) -> Tensor")
    library.impl("mystery", lambda x: x + 1, "CompositeExplicitAutograd")
    status = profile(Call(run, layer=make_holes(nn.Linear(8, 4), 8)), x(), metrics=["effective_macs"]).status(
        "effective_macs"
    )
    assert (status.value, status.missing) == (3 * 24, ("prunekit::mystery (1 call)",))


def test_a_model_that_raises_is_named_and_comes_back() -> None:
    def run(self: Any, x: torch.Tensor) -> Any:
        raise ValueError("no")

    model = Call(run, layer=nn.Linear(8, 4)).train()
    status = profile(model, x(), metrics=["effective_macs"]).status("effective_macs")
    assert (status.completeness.value, "ValueError: no" in status.missing[0]) == ("failed", True)
    assert model.training


def test_the_model_comes_back_as_it_was() -> None:
    model = nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4), nn.Dropout())
    prune.random_unstructured(model[0], "weight", amount=0.5)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    attributes = [dict(module.__dict__) for module in model.modules()]
    random = torch.get_rng_state()
    BACKEND.trace_nonzero(model, ModelInputs(x()))
    BACKEND.zero_weights(model)
    assert torch.equal(random, torch.get_rng_state())
    assert [dict(module.__dict__) for module in model.modules()] == attributes
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_the_share_is_of_the_whole_model_where_layers_are_left_out() -> None:
    """Of 16 + 8 weights the first layer has 12 zeros; the values are read from the model, which still has it."""
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 2, bias=False))
    with torch.no_grad():
        for weight, zeros in zip(model.parameters(), (12, 0), strict=True):
            weight.copy_((torch.arange(weight.numel()) >= zeros).reshape_as(weight))
    record = profile(model, metrics=["sparsity"], ignore=["1"]).status("sparsity")
    assert (record.value, record.note) == (0.5, "with the layers that ignore= leaves out")


@pytest.mark.filterwarnings("ignore:.*torch.ao.quantization", "ignore:torch.quantize_per_tensor", "ignore:TypedStorage")
@pytest.mark.parametrize("dtype", [torch.qint8, torch.float16])
def test_zeros_stay_zeros_where_torch_packs_the_weights(dtype: torch.dtype) -> None:
    model = nn.Sequential(make_holes(nn.Linear(8, 4), 20))
    packed = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=dtype)
    assert effective(packed, x()) == 3 * (8 * 4 - 20)


def test_zeros_of_narrow_floats_are_counted() -> None:
    layer = make_holes(nn.Linear(8, 4, bias=False), 20)
    layer.weight = nn.Parameter(layer.weight.to(torch.float8_e4m3fn), requires_grad=False)
    model = Call(lambda self, x: x @ self.layer.weight.to(x.dtype).t(), layer=layer)
    assert BACKEND.zero_weights(model) == (20, 8 * 4)
    assert effective(model, x()) == 3 * (8 * 4 - 20)


def test_integers_in_which_several_numbers_are_packed_count_in_full() -> None:
    model = nn.Module()
    model.register_buffer("weight", torch.zeros(4, 8, dtype=torch.uint8))
    model.forward = lambda x: torch.ops.quantized_holes.product(x, model.weight)
    library = torch.library.Library("quantized_holes", "DEF")
    library.define("product(Tensor x, Tensor packed) -> Tensor")
    library.impl("product", lambda x, packed: x.new_zeros(x.shape[0], 4), "CompositeExplicitAutograd")
    with scoped_costs():
        register_op_cost("quantized_holes::product", lambda x, packed, *, out: Cost.of_macs(x.numel * 4))
        assert effective(model, x()) == 3 * 8 * 4


class Wrapped(torch.Tensor):
    """A class of tensors that wraps another, has no ``dequantize`` of its own, and knows no operators."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Wrapped:
        made: Wrapped = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=torch.float32)
        made.held = inner
        return made

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["held"], None

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        if func in (torch.ops.aten.detach.default, torch.ops.aten.alias.default):
            return cls(args[0].held)
        raise NotImplementedError(f"no {func}")


def test_zeros_of_tensors_that_cannot_tell_them_are_not_known() -> None:
    layer = nn.Linear(4, 3, bias=False)
    layer.weight = nn.Parameter(Wrapped(torch.zeros(3, 4, dtype=torch.int8)), requires_grad=False)
    record = profile(layer, metrics=["sparsity"]).status("sparsity")
    assert record.completeness is Completeness.UNAVAILABLE
    assert "which elements of a Wrapped are zero is not known: it has no dequantize()" in record.missing[0]
