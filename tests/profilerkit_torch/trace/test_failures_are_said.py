"""What goes wrong is said as what it is: the model's error, a formula's, or weights without values."""

import pytest
import torch
from torch import nn

from profilerkit import Completeness, CostFormulaError, ModelFailedError, profile
from profilerkit_torch import Cost, register_op_cost
from profilerkit_torch.costs.registry import scoped_costs

X = torch.randn(1, 4)


def test_wrong_inputs_are_said_alike_by_counts_and_times() -> None:
    report = profile(nn.Linear(5, 2), X)
    assert report["total_params"] == 12
    said = {report.status(key).missing for key in ("macs", "flops", "memory_footprint", "execution_time", "throughput")}
    assert len(said) == 1
    (message,) = said.pop()
    assert message.startswith("the model raised RuntimeError: ")
    assert message.endswith("it was called with ModelInputs(Tensor(1, 4)), do these inputs fit it?")
    with pytest.raises(ModelFailedError, match="do these inputs fit it"):
        profile(nn.Linear(5, 2), X, strict=True)


def test_a_model_without_values_is_counted_and_its_time_is_unavailable() -> None:
    with torch.device("meta"):
        model = nn.Linear(4, 2)
    report = profile(model, X)
    assert report["macs"] == 8
    time = report.status("execution_time")
    assert time.completeness is Completeness.UNAVAILABLE
    assert "materialise it with model.to_empty(device='cpu') to time it" in time.missing[0]


def test_a_formula_that_raises_is_not_the_models_fault() -> None:
    def broken(x: object, *args: object, out: object, **kwargs: object) -> Cost:
        raise ZeroDivisionError("no heads")

    with scoped_costs():
        register_op_cost("aten::relu", broken, override=True)
        report = profile(nn.ReLU(), X, metrics=["macs", "total_params"])
        assert report.status("macs").missing[0] == (
            "the cost formula of aten::relu raised ZeroDivisionError: no heads; it was called with ((1, 4),), {} and "
            "out=(1, 4)"
        )
        with pytest.raises(CostFormulaError):
            profile(nn.ReLU(), X, metrics=["macs"], strict=True)
