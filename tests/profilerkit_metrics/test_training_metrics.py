"""What is said of a training step, over a backend whose trace is written down here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from profilerkit import ModelInputs, ModelTrace, Profiler
from profilerkit.backend_kit.optimizers import OptimizerBytes
from profilerkit.testing import FakeBackend, FakeLayer, FakeModel, FakeTensor
from profilerkit.trace.records import LayerRecord, MemoryTimeline, OpRecord, WeightRecord
from profilerkit_metrics import ComputeTraining
from profilerkit_metrics.training import find_optimizer_bytes

WEIGHTS = (WeightRecord("weight", 0, 10, 40, "float32", True, shape=(5, 2)),)
PARTS = {"inputs": 8, "activations": 30, "gradients": 40, "other": 22}


def trace(parts: dict[str, int] | None = None, **facts: Any) -> ModelTrace:
    forward = OpRecord("product", "layer", 0, 5, 10, 0, 0, ())
    backward = OpRecord("gradient", "layer", 0, 7, 14, 0, 0, (), "backward")
    layers = (LayerRecord("", "Model", 0), LayerRecord("layer", "Linear", 1, WEIGHTS))
    return ModelTrace(layers, (forward, backward), MemoryTimeline(40, 8, (50, 100), parts=parts or {}), **facts)


class Trained(FakeBackend):
    def __init__(self, found: ModelTrace, state: int | str = 0) -> None:
        super().__init__()
        self.found, self.state = found, state

    def trace_training(self, model: Any, inputs: ModelInputs) -> ModelTrace:
        return self.found

    def optimizer_state(self, model: Any) -> int | str:
        return self.state


def make_profiler(backend: FakeBackend, function: ComputeTraining | None = None, **arguments: Any) -> Profiler:
    profiler = Profiler(FakeModel([FakeLayer("layer", 10)]), inputs=FakeTensor((1, 2)), backend=backend)
    profiler.register_profiler_function(function or ComputeTraining())
    profiler.compute([key for key in profiler.status_keys() if key.startswith("training")], **arguments)
    return profiler


def said(profiler: Profiler, name: str) -> tuple[Any, str, tuple[str, ...], str]:
    outcome = profiler.status_get(name, to_value=False).outcome
    return outcome.value, outcome.completeness.value, outcome.missing, outcome.note


def test_counts_parts_and_layers() -> None:
    profiler = make_profiler(Trained(trace(PARTS)), optimizer="momentum")
    values = {name: profiler.status_get(name) for name in ("training_macs", "training_flops", "training_memory")}
    assert values == {"training_macs": 12, "training_flops": 24, "training_memory": 40 + 100 + 40}
    assert profiler.status_get("training_memory_parts") == {
        "weights": 40,
        "gradients": 40,
        "optimizer_state": 40,
        "activations": 30,
        "inputs": 8,
        "other": 22,
        "operator": "gradient",
        "layer": "layer",
        "phase": "backward",
    }
    row = profiler.status_get("training_layers")["layer"]
    assert [row[f"{phase}_{unit}"] for phase in ("forward", "backward") for unit in ("macs", "flops")] == [5, 10, 7, 14]
    assert (row["own_forward_macs"], row["own_backward_flops"]) == (5, 14)


def test_the_parts_are_shown_by_their_shares() -> None:
    status = make_profiler(Trained(trace(PARTS))).status_get("training_memory_parts", to_value=False)
    assert status.show() == "weights 29 %, gradients 29 %, activations 21 %, the rest 21 %"


def test_a_backend_that_tells_no_parts() -> None:
    profiler = make_profiler(Trained(trace()))
    reason = ("the fake backend does not tell what the bytes at the peak are for",)
    assert said(profiler, "training_memory_parts") == (None, "unavailable", reason, "")
    assert profiler.status_get("training_memory_parts", to_value=False).show() == ""


def test_that_no_optimizer_is_counted_is_said() -> None:
    note = "without an optimizer's state; include one with optimizer='adam', for example"
    assert said(make_profiler(Trained(trace())), "training_memory") == (140, "complete", (), note)
    assert said(make_profiler(Trained(trace()), optimizer="sgd"), "training_memory") == (140, "complete", (), "")
    assert said(make_profiler(Trained(trace(), state=60)), "training_memory") == (200, "complete", (), "")


def test_an_optimizer_that_a_plugin_knows_is_counted() -> None:
    class Added:
        def optimizer_state(self, model: Any) -> int:
            return 10_000_000

    class Untold(FakeBackend):
        extensions = (Added(),)

    assert find_optimizer_bytes(Untold(), FakeModel(), trace(), None) == OptimizerBytes(10_000_000)


def test_an_optimizer_given_at_the_call_goes_before_that_of_the_function() -> None:
    """Adam's update is the peak: weights, input and gradients, its state, and two copies of the weight."""
    function = ComputeTraining(optimizer="adam")
    assert make_profiler(Trained(trace()), function).status_get("training_memory") == 40 + 8 + 40 + 80 + 80
    assert make_profiler(Trained(trace()), function, optimizer="sgd").status_get("training_memory") == 140


class TrainedAlone(FakeBackend):
    """A backend whose models hold no optimizer."""

    def trace_training(self, model: Any, inputs: ModelInputs) -> ModelTrace:
        return trace(PARTS)


@pytest.mark.parametrize(
    ("backend", "advice"),
    [
        (Trained(trace(PARTS)), "give the name of one, or compile the model with it"),
        (TrainedAlone(), "give the name of one"),
    ],
)
def test_an_optimizer_that_is_not_known_leaves_a_lower_bound(backend: FakeBackend, advice: str) -> None:
    profiler = make_profiler(backend, optimizer=3.5)
    reason = f"the state of 3.5: the fake backend reads no optimizers; {advice}"
    assert said(profiler, "training_memory") == (140, "partial", (reason,), "")
    assert said(profiler, "training_memory_parts")[1:3] == ("partial", (reason,))


def test_a_models_own_optimizer_that_is_not_known_leaves_a_lower_bound() -> None:
    profiler = make_profiler(Trained(trace(), state="the state of Mine"))
    assert said(profiler, "training_memory") == (140, "partial", ("the state of Mine",), "")


def test_an_unknown_name_fails_before_anything_is_traced() -> None:
    profiler = make_profiler(FakeBackend(), optimizer="adan")
    assert "is not a known optimizer" in str(said(profiler, "training_macs")[2])


@pytest.mark.parametrize("metrics", [["training_memory"], ["training_macs", "training_flops", "training_memory"]])
def test_what_the_trace_says_is_said_once(metrics: list[str]) -> None:
    """Not with each number: the memory's note has a hint of its own, and the same sentence would stand twice."""
    notes = make_profiler(Trained(trace(notes=("unused: a", "unused: b")))).report(metrics).notes
    hint = "Training Memory: without an optimizer's state; include one with optimizer='adam', for example"
    assert notes == ("unused: a", "unused: b", hint)


def test_what_is_uncounted_makes_lower_bounds() -> None:
    profiler = make_profiler(Trained(trace(uncounted={"mystery": 2})))
    for name in ("training_macs", "training_flops", "training_layers"):
        assert said(profiler, name)[1:3] == ("partial", ("mystery (2 calls)",))


def test_a_model_that_fails_and_a_backend_that_cannot() -> None:
    nothing_seen = replace(trace(failure=ValueError("broken")), operators=(), memory=MemoryTimeline())
    failed = make_profiler(Trained(nothing_seen))
    assert said(failed, "training_layers")[1:3] == ("failed", ("ValueError: broken",))
    cannot = make_profiler(FakeBackend())
    assert said(cannot, "training_memory_parts")[1:3] == (
        "unavailable",
        ("the fake backend does not trace training steps",),
    )
