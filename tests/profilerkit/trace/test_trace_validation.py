"""A trace that breaks a rule is refused, by the backend's name, the path and the rule, and costs no other metric."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from replacing import replace

import profilerkit.trace
from profilerkit import InvalidTraceError, ModelInputs, ModelTrace, profile
from profilerkit.testing import FakeBackend, FakeLayer, FakeModel, FakeTensor
from profilerkit.trace import LayerCall, LayerRecord, MemoryTimeline, OpRecord, TensorInfo, WeightRecord
from profilerkit.trace.validation import validate

INFO = (TensorInfo((1, 2), "float32"),)
WEIGHT = WeightRecord("weight", 1, 4, 16, "float32", True, shape=(2, 2))
ROOT = LayerRecord("", "Net", 0, calls=(LayerCall(INFO, INFO),))
BLOCK = LayerRecord("block", "Block", 1, calls=(LayerCall(INFO, INFO, ("", 0)),))
LINEAR = LayerRecord("block.linear", "Linear", 2, (WEIGHT,), calls=(LayerCall(INFO, INFO, ("block", 0)),))
OP = OpRecord("mm", "block.linear", 0, 4, 8, 24, 8, INFO)
GOOD = ModelTrace((ROOT, BLOCK, LINEAR), (OP, OP), MemoryTimeline(16, 8, (8, 16)), {"odd": 1})


def with_op(**facts: Any) -> ModelTrace:
    return replace(GOOD, operators=(OP, replace(OP, **facts)))


def with_linear(**facts: Any) -> ModelTrace:
    return replace(GOOD, layers=(ROOT, BLOCK, replace(LINEAR, **facts)))


def with_weight(**facts: Any) -> ModelTrace:
    return with_linear(parameters=(replace(WEIGHT, **facts),))


def with_memory(**facts: Any) -> ModelTrace:
    return replace(GOOD, memory=replace(GOOD.memory, **facts))


ANY: Any = None
THREE: Any = 3
NEGATIVE = "is -1: give a whole number from 0"
BROKEN: dict[str, tuple[Any, str, str]] = {
    "no trace at all": (None, "", "trace() returned None: return a ModelTrace"),
    "no layers": (
        ModelTrace(()),
        "",
        "there are no layers: the first layer is the model itself, with the path ''",
    ),
    "negative work of the operators": (
        replace(GOOD, operator_macs=-1),
        "",
        "operator_macs is -1: give a whole number from 0, or None",
    ),
    "an operator that reads itself": (
        with_op(reads=(0, 1)),
        "block.linear",
        "reads of the operator mm is (0, 1): give places of operators before it (it is at 1), or -1 for an input",
    ),
    "an odd spread of the peak": (replace(GOOD, peak_spread=THREE), "", "peak_spread is 3: give a PeakSpread, or None"),
    "no root": (replace(GOOD, layers=(BLOCK, LINEAR)), "", "the first layer has the path 'block': the"),
    "a root that is not the first": (replace(GOOD, layers=(BLOCK, ROOT, LINEAR)), "", "the first layer has the path"),
    "a layer that is none": (replace(GOOD, layers=(ROOT, ANY)), "", "layers has None at index 1, which is no Layer"),
    "two layers of one path": (
        replace(GOOD, layers=(ROOT, BLOCK, LINEAR, LINEAR)),
        "block.linear",
        "two layers have this path",
    ),
    "a gap": (
        replace(GOOD, layers=(ROOT, replace(LINEAR, calls=()))),
        "block.linear",
        "there is no layer 'block' around it: every layer around a layer is one itself",
    ),
    "a wrong depth": (with_linear(depth=1), "block.linear", "depth is 1: that of this path is 2"),
    "a negative weight": (
        with_weight(count=-1),
        "block.linear",
        f"count of the weight 'weight' {NEGATIVE}",
    ),
    "negative bytes": (with_weight(bytes=-1), "block.linear", f"bytes of the weight 'weight' {NEGATIVE}"),
    "negative bytes of a buffer": (
        with_linear(buffers=(replace(WEIGHT, bytes=-1),)),
        "block.linear",
        f"bytes of the weight 'weight' {NEGATIVE}",
    ),
    "half a weight": (with_weight(count=0.5), "block.linear", "count of the weight 'weight' is 0.5: give a whole"),
    "a weight that is none": (
        with_linear(parameters=(4,)),
        "block.linear",
        "the weights have 4, which is no",
    ),
    "a call that is none": (with_linear(calls=(1,)), "block.linear", "the calls have 1, which is no LayerCall"),
    "a caller that was not called": (
        with_linear(calls=(LayerCall(INFO, INFO, ("block", 1)),)),
        "block.linear",
        "the caller of a call is call 1 of 'block', which was called 1 times",
    ),
    "a caller that is no layer": (
        with_linear(calls=(LayerCall(INFO, INFO, ("blocks", 0)),)),
        "block.linear",
        "the caller of a call is call 0 of 'blocks', which was called 0 times",
    ),
    "an operator that is none": (
        replace(GOOD, operators=(OP, ANY)),
        "",
        "operators has None at index 1, which is",
    ),
    "an operator nowhere": (with_op(layer="blocks"), "blocks", "the operator mm runs in this path, which is no layer"),
    "an unknown phase": (
        with_op(phase="sideways"),
        "block.linear",
        "phase of the operator mm is 'sideways': give",
    ),
    "a call before the first": (
        with_op(call=-2),
        "block.linear",
        "call of the operator mm is -2: give an index",
    ),
    "a call between two": (with_op(call=0.5), "block.linear", "call of the operator mm is 0.5: give an index"),
    "too few live bytes": (with_memory(live_bytes=(8,)), "", "live_bytes has 1 values for 2 operators: give one for"),
    "no live bytes": (with_memory(live_bytes=()), "", "live_bytes has 0 values for 2 operators"),
    "negative live bytes": (
        with_memory(live_bytes=(8, -1)),
        "block.linear",
        f"live_bytes after the operator mm {NEGATIVE}",
    ),
    "negative input bytes": (with_memory(input_bytes=-1), "", f"input_bytes of the memory {NEGATIVE}"),
    "negative weight bytes": (with_memory(weight_bytes=-1), "", f"weight_bytes of the memory {NEGATIVE}"),
    "a negative part": (with_memory(parts={"inputs": -1}), "", f"parts['inputs'] of the memory {NEGATIVE}"),
    "no memory": (replace(GOOD, memory=ANY), "", "memory has None at index 0, which is no Memory"),
    "nothing uncounted": (replace(GOOD, uncounted={"odd": 0}), "", "uncounted has 0 calls of odd: give how many"),
    "nothing unsized": (with_memory(unsized={"odd": -1}), "", "unsized has -1 calls of odd: give how many"),
    "a failure in words": (replace(GOOD, failure="odd"), "", "failure is 'odd': give the exception, or None"),
    "a failure with operators": (replace(GOOD, failure=ValueError()), "", "there are a failure and 2 operators"),
    **{
        f"negative {name}": (with_op(**{name: -1}), "block.linear", f"{name} of the operator mm {NEGATIVE}")
        for name in ("macs", "flops", "bytes_read", "bytes_written")
    },
    "half an operation": (with_op(flops=7.5), "block.linear", "flops of the operator mm is 7.5: give a whole number"),
}


def test_a_trace_that_keeps_the_rules_is_handed_on_as_it_is() -> None:
    assert validate(GOOD, "fake") is GOOD
    failed = ModelTrace((ROOT,), failure=ValueError("no"))
    assert validate(failed, "fake") is failed
    outside = with_op(call=-1, layer="", phase="backward")
    assert validate(outside, "fake") is outside


def test_whole_numbers_of_other_libraries_are_taken() -> None:
    np = pytest.importorskip("numpy")
    trace = with_op(macs=np.int64(3))
    assert validate(trace, "fake") is trace
    with pytest.raises(InvalidTraceError, match="macs of the operator mm is"):
        validate(with_op(macs=np.int64(-3)), "fake")


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_rule_is_named(what: str) -> None:
    trace, path, rule = BROKEN[what]
    with pytest.raises(InvalidTraceError) as raised:
        validate(trace, "mine")
    error = raised.value
    assert (error.backend, error.path) == ("mine", path)
    assert rule in error.rule
    where = f"at the layer {path!r}" if path else "of the model"
    assert str(error) == (
        f"the mine backend has made an invalid trace, {where}: {error.rule}; "
        "this is a fault of the backend, not of the model: tell its authors"
    )


def test_the_error_can_be_sent_to_another_process() -> None:
    error = pickle.loads(pickle.dumps(InvalidTraceError("mine", "a.b", "depth is 1")))
    assert (error.backend, error.path, error.rule) == ("mine", "a.b", "depth is 1")


class Broken(FakeBackend):
    """Puts an operator where no layer is."""

    def trace(self, model: FakeModel, inputs: ModelInputs | None) -> ModelTrace:
        found = super().trace(model, inputs)
        lost = tuple(replace(op, layer="nowhere") for op in found.operators)
        return replace(found, operators=lost) if inputs is not None else replace(found, layers=found.layers[1:])


@pytest.mark.parametrize(
    ("inputs", "rule"),
    [(FakeTensor((1, 3)), "fake::op runs in this path"), (None, "the first layer has the path 'layer'")],
)
def test_only_the_metrics_that_read_the_trace_are_lost(inputs: Any, rule: str) -> None:
    model = FakeModel([FakeLayer("layer", params=3, macs=5, flops=10)])
    backend = Broken()
    asked = ["total_params", "macs", "execution_time"] if inputs else ["total_params", "macs"]
    few: Any = {"num_iters": 2, "warmup": 1} if inputs else {}
    report = profile(model, inputs, backend=backend, metrics=asked, **few)
    for name in ("total_params", "macs"):
        record = report.statuses[name]
        assert record.completeness.value == "failed"
        assert "the fake backend has made an invalid trace, " in record.missing[0]
        assert rule in record.missing[0]
    assert backend.traced == 1  # and not once for each metric
    if inputs:
        assert report.statuses["execution_time"].value.median > 0


def list_fields(kind: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(kind).parameters)


@pytest.mark.parametrize(
    "kind",
    [getattr(profilerkit.trace, name) for name in profilerkit.trace.__all__ if "Table" not in name],
    ids=lambda kind: kind.__name__,
)
def test_each_field_of_a_trace_is_documented(kind: Any) -> None:
    described = (inspect.getdoc(kind) or "").partition("Attributes:\n")[2]
    listed = [line.strip().partition(":")[0] for line in described.splitlines() if line.startswith("    ")]
    found = [name for name in listed if name in list_fields(kind)]
    assert found == list_fields(kind)
