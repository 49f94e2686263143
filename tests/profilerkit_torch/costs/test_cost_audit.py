"""Every operator that torch has is classified: by a formula, as free, or as one that is left out on purpose."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator

import pytest
import torch

from profilerkit_torch.costs import Kind, classify, pricing
from profilerkit_torch.costs.argument_names import name_arguments
from profilerkit_torch.costs.pricing import list_outputs
from profilerkit_torch.costs.registry import find_formula

#: Forward operators without a cost, and why.
DELIBERATE = {
    "aten::_cslt_sparse_mm": "stored elements are compressed with their indices",
    "aten::_dirichlet_grad": "a gradient by random numbers",
    "aten::_spsolve": "the solver fills elements in",
    "aten::_standard_gamma_grad": "a gradient by random numbers",
    "aten::_foobar": "torch's own test",
    "aten::_test_autograd_multiple_dispatch": "torch's own test",
    "aten::_test_functorch_fallback": "torch's own test",
    "aten::_test_optional_filled_intlist": "torch's own test",
    "aten::_test_optional_floatlist": "torch's own test",
    "aten::_test_optional_intlist": "torch's own test",
    "aten::_test_warn_in_autograd": "torch's own test",
    "aten::glu_jvp": "a derivative",
    "aten::linalg_matrix_sqrth": "experimental in torch 2.15, which does not say how it is computed",
    "aten::linalg_polar": "experimental in torch 2.15: which way it is computed depends on the device's libraries",
    "aten::multilabel_margin_loss_forward": "how many pairs there are is in the values of the targets",
    "aten::quantized_gru": "the forms of torch 1.3, which torch no longer runs",
    "aten::quantized_lstm": "the forms of torch 1.3, which torch no longer runs",
    "prims::xor_sum": "of integers",
    **dict.fromkeys(
        (f"sparse::qlinear{variant}" for variant in ("", "_dynamic", "_relu", "_relu_dynamic")),
        "the blocks of the weight that are stored are packed away",
    ),
}
#: Those of torch whose operators a model calls; of oneDNN and MKL only compiled code calls them, which no mode sees.
NAMESPACES = ("aten", "prims", "quantized", "_quantized", "sparse")


def operators(namespace: str) -> Iterator[torch._ops.OpOverload]:
    """Yield a namespace's operators, but those that torch's compiler adds for itself where a test has imported it."""
    compiler = sys.modules.get("torch._inductor.inductor_prims")
    for name in torch._C._dispatch_get_all_op_names():
        space, _, rest = name.partition("::")
        operator, _, overload = rest.partition(".")
        of_compiler = hasattr(compiler, operator) or operator.startswith("inductor_")
        if space == namespace and not (space == "prims" and of_compiler):
            yield getattr(getattr(getattr(torch.ops, space), operator), overload or "default")


def exists(name: str) -> bool:
    space, _, operator = name.partition("::")
    return hasattr(getattr(torch.ops, space), operator)


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_every_forward_operator_of_torch_has_a_cost_or_a_reason_to_have_none(namespace: str) -> None:
    unknown = {
        operator._schema.name
        for operator in operators(namespace)
        if "backward" not in operator._schema.name and classify(operator) is Kind.UNKNOWN
    }
    expected = {name for name in DELIBERATE if name.startswith(f"{namespace}::") and exists(name)}
    gradients = {"aten::_unsafe_masked_index_put_accumulate"}  # of an index, registered with the other gradients
    assert unknown - gradients == expected


@pytest.mark.parametrize("namespace", [*NAMESPACES, "quantized_decomposed"])
@pytest.mark.parametrize("with_defaults", [True, False])
def test_formulas_take_the_arguments_of_every_form_of_their_operator(namespace: str, with_defaults: bool) -> None:
    importlib.import_module("torch.ao.quantization.fx._decomposed")  # has the operators of programs of PT2E
    refused: dict[str, str] = {}
    for operator in operators(namespace):
        formula, outputs = find_formula(operator), list_outputs(operator)
        if formula is None:
            continue
        arguments = [each for each in operator._schema.arguments if with_defaults or not each.has_default_value()]
        positional = tuple(None for each in arguments if not each.kwarg_only)
        named = {each.name: None for each in arguments if each.kwarg_only and each.name not in outputs}
        args, kwargs = name_arguments(formula, operator, positional, named)
        try:
            inspect.signature(formula).bind(*args, **kwargs, out=None)
        except TypeError as error:
            refused[str(operator)] = str(error)
    assert refused == {}


def test_there_is_something_to_audit() -> None:
    """Else the test above could not fail."""
    assert len(list(operators("aten"))) > 2000


@pytest.mark.parametrize(
    ("operator", "kind"),
    [
        (torch.ops.aten.add.out, Kind.POINTWISE),
        (torch.ops.aten.add.Scalar_out, Kind.POINTWISE),  # torch does not tag it
        (torch.ops.aten.relu.out, Kind.POINTWISE),
        (torch.ops.aten.lt_.Scalar, Kind.POINTWISE),
        (torch.ops.aten.sum.out, Kind.REDUCTION),
        (torch.ops.aten.zeros.out, Kind.FREE),
        (torch.ops.aten.addmm_.default, Kind.FORMULA),
        (torch.ops.aten.transpose_copy.int, Kind.FREE),
        (torch.ops.aten.transpose.int, Kind.VIEW),
        (torch.ops.aten.dim.default, Kind.VIEW),
        (torch.ops.aten.tensordot.default, Kind.COMPOSITE),
        (torch.ops.prims.sin.default, Kind.POINTWISE),
        (torch.ops.prims.sum.default, Kind.REDUCTION),
    ],
    ids=str,
)
def test_forms_of_one_operator_are_known_alike(operator: torch._ops.OpOverload, kind: Kind) -> None:
    assert classify(operator) is kind


@pytest.mark.parametrize("namespace", ["aten", "prims"])
def test_releases_that_tag_no_reductions_know_them_too(namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As torch 2.6 to 2.9."""
    kinds = {operator: classify(operator) for operator in operators(namespace)}
    monkeypatch.setattr(pricing, "_REDUCTION", object())
    monkeypatch.setattr(pricing, "_find_kind", pricing._find_kind.__wrapped__)
    assert {operator: classify(operator) for operator in kinds} == kinds
