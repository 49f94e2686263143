"""What goes wrong is said as what it is: the model's error, a formula's, or weights without values."""

import importlib
from collections import OrderedDict
from typing import Any

import pytest
import torch
from tiny import Call
from torch import nn

from profilerkit import Completeness, CostFormulaError, ModelFailedError, ModelInputs, profile
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


def test_counts_and_times_name_the_layer_that_raised() -> None:
    """The second layer takes 8 numbers and gets 4; no wrapper of ours stands around the layers that are timed."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU(), nn.Linear(8, 2)))
    report = profile(model, X, metrics=["macs", "execution_time"])
    (message,) = {report.status(key).missing[0] for key in ("macs", "execution_time")}
    assert ", in layer 1.1; it was called with" in message


def test_a_package_that_is_missing_is_no_fault_of_the_inputs() -> None:
    model = Call(lambda self, x: importlib.import_module("no_such_package"))
    (message,) = profile(model, X, metrics=["macs"]).status("macs").missing
    assert message == (
        "the model raised ModuleNotFoundError: No module named 'no_such_package'; is what it imports installed?"
    )


def test_a_batch_that_is_a_mapping_has_a_hint() -> None:
    class Recommender(nn.Module):
        def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
            return batch["user"] + batch["item"]

    batch = {"item": X, "user": X}
    (message,) = profile(Recommender(), batch, metrics=["flops"]).status("flops").missing
    assert message.endswith("keyword arguments; ModelInputs(batch) passes a mapping as one")
    report = profile(Recommender(), ModelInputs(batch), metrics=["flops"])
    assert (report["flops"], report.inputs) == (4, "ModelInputs({'item': Tensor(1, 4), 'user': Tensor(1, 4)})")


def test_a_model_that_reads_values_and_has_none_is_told_what_it_lacks() -> None:
    """The number of tokens that an expert gets is such a value; with weights it is counted in a run."""

    class Routed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(4, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[self.gate(x).squeeze(-1) > 0]

    with torch.device("meta"):
        model = Routed()
    (message,) = profile(model, X, metrics=["macs"]).status("macs").missing
    advice = "Its weights have no values, as before a first call or on the meta device; some models need them"
    assert message.endswith(f"do these inputs fit it? {advice}")
    assert profile(Routed(), X, metrics=["macs"])["macs"] == 4


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


@pytest.mark.parametrize("place", ["trace.recorder", "trace.static_pass"])
def test_a_mistake_of_the_backend_is_not_the_models_fault(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted where operators are recorded, inside the model's call, and where the trace is put together after it."""
    module = importlib.import_module(f"profilerkit_torch.{place}")
    planted = {"trace.recorder": "read_signature", "trace.static_pass": "layer_records"}[place]
    code = compile("def careless(*args, **kwargs): return {}['planted']", "careless.py", "exec")
    exec(code, namespace := {"__name__": module.__name__})
    monkeypatch.setattr(module, planted, namespace["careless"])
    report = profile(nn.Sequential(nn.Linear(4, 2)), X, metrics=["macs", "execution_time"], max_seconds=0.05)
    (message,) = report.status("macs").missing
    assert message == (
        f"the torch backend raised KeyError: 'planted', at line 1 of profilerkit_torch.{place}; this is a fault of the "
        "backend, not of the model: tell its authors"
    )
    assert report["execution_time"].median > 0


def test_a_mistake_on_shapes_alone_is_named_where_a_real_run_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    from profilerkit_torch.trace import stand_ins

    exec("def careless(tensor): return {}['planted']", namespace := {"__name__": "profilerkit_torch.trace.stand_ins"})
    careless: Any = namespace["careless"]
    monkeypatch.setattr(stand_ins.MetaStandIns, "replace_weight", staticmethod(careless))
    monkeypatch.setattr(stand_ins, "FakeTensorMode", careless)
    report = profile(nn.Linear(4, 2), X, metrics=["macs"])
    assert report["macs"] == 8
    (note,) = [note for note in report.notes if "real run" in note]
    assert note.startswith(
        "counted in a real run: on shapes alone the torch backend raised KeyError: 'planted', at line"
    )


def test_an_error_of_an_operator_in_compiled_code_is_the_models() -> None:
    """Its last frame is that of the backend, which called the operator for the model."""

    strange = Call(lambda self, x: torch.linalg.cholesky(-torch.eye(3)) + x.sum().item())
    (message,) = profile(strange, X, metrics=["macs"]).status("macs").missing
    assert message.startswith("the model raised ")


class Block(nn.Module):
    """A layer of any width, in a module of its own."""

    def __init__(self, width: int, *, tries: bool = False) -> None:
        super().__init__()
        self.fc = nn.Linear(width, 8)
        self.tries = tries

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        try:
            return self.fc(x)  # type: ignore[no-any-return]
        except RuntimeError:
            if self.tries:
                raise ValueError("of the block") from None
            raise


@pytest.mark.parametrize("tries", [False, True])
def test_the_layer_that_raised_is_named(tries: bool) -> None:
    model = nn.Sequential(OrderedDict(blocks=nn.Sequential(Block(8), Block(9, tries=tries))))
    (why,) = profile(model, torch.randn(4, 8), metrics=["macs"]).status("macs").missing
    said = "ValueError: of the block" if tries else "cannot be multiplied (4x8 and 9x8)"
    assert f"{said}, in layer {'blocks.1' if tries else 'blocks.1.fc'}; it was called with" in why


def test_an_error_of_the_model_itself_names_no_layer() -> None:
    (why,) = profile(nn.Linear(9, 8), torch.randn(4, 8), metrics=["macs"]).status("macs").missing
    assert "cannot be multiplied (4x8 and 9x8); it was called with" in why


def test_a_long_message_is_cut_between_words() -> None:
    def refuse(x: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError("a word " * 60)

    library = torch.library.Library("wordykit", "DEF")
    library.define("copy(Tensor x) -> Tensor")
    library.impl("copy", torch.Tensor.clone, "CPU")
    library.impl("copy", refuse, "Meta")
    report = profile(Call(lambda self, x: torch.ops.wordykit.copy(x)), torch.ones(2), metrics=["macs"])
    (note,) = (note for note in report.notes if "real run" in note)
    assert note.endswith("a word ...")
