"""A number of the convention is written once: one constant changed changes every backend, by as much as it takes."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from convention_probes import PROBES, Probe
from source_tree import ROOT

from profilerkit.costs import Shape, convention

CONSTANTS = {name: value for name, value in vars(convention).items() if name.isupper()}
#: What the functions take by the convention as it stands.
VALUE = {name: 5 if name == "FOURIER_POINT" else 1 for name in CONSTANTS}


def in_torch(probe: Probe) -> Callable[[], int]:
    torch = pytest.importorskip("torch")
    from profilerkit import ModelInputs
    from profilerkit_torch import TorchBackend

    class Probed(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any, y: Any) -> Any:
            assert probe.torch is not None
            return probe.torch(torch, x, y)

    model, inputs = Probed(), ModelInputs(torch.ones(3, 4), torch.ones(3, 4))

    def flops() -> int:
        trace = TorchBackend().trace(model, inputs)
        assert trace.failure is None
        assert not trace.uncounted
        return trace.flops

    return flops


def in_tensorflow(probe: Probe) -> Callable[[], int]:
    tf = pytest.importorskip("tensorflow")
    from profilerkit_tensorflow.costs import OpCall, Shapes, op_cost

    spec, function = tf.TensorSpec((3, 4), "float32"), probe.tensorflow
    assert function is not None
    graph = tf.function(lambda x, y: function(tf, x, y), autograph=False).get_concrete_function(spec, spec).graph
    skipped = ("Placeholder", "Const", "NoOp", "Identity")
    calls = []
    for operator in graph.get_operations():
        if operator.type in skipped:
            continue
        calls.append(
            OpCall(
                operator.type,
                Shapes([Shape(tensor.shape.as_list()) for tensor in operator.inputs]),
                Shapes([Shape(tensor.shape.as_list()) for tensor in operator.outputs]),
                tuple(tensor.dtype.name for tensor in operator.inputs),
                tuple(tensor.dtype.name for tensor in operator.outputs),
                lambda name, operator=operator: (  # type: ignore[misc]
                    operator.get_attr(name) if name in operator.node_def.attr else None
                ),
            )
        )

    def flops() -> int:
        costs = [op_cost(call) for call in calls]
        assert None not in costs
        return sum(cost.flops for cost in costs if cost is not None)

    return flops


BACKENDS = {"torch": in_torch, "tensorflow": in_tensorflow}
CASES = [
    (backend, name) for name, probe in PROBES.items() for backend in BACKENDS if getattr(probe, backend) is not None
]


@pytest.mark.parametrize(("backend", "name"), CASES)
def test_one_constant_changes_every_operator_that_is_made_of_it(
    backend: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe = PROBES[name]
    flops = BACKENDS[backend](probe)
    before = flops()
    assert before == sum(VALUE[constant] * count for constant, count in probe.takes.items())
    for constant, value in CONSTANTS.items():
        with monkeypatch.context() as changed:
            changed.setattr(convention, constant, value + 1)
            assert flops() - before == probe.takes.get(constant, 0), f"{constant} one more"
    assert flops() == before


def test_every_constant_is_taken_by_something() -> None:
    assert {constant for probe in PROBES.values() for constant in probe.takes} == set(CONSTANTS)


def sources() -> list[Path]:
    places = ("profilerkit", "metrics", "backends")
    return [path for place in places for path in sorted((ROOT / place).rglob("*.py"))]


def test_nobody_imports_the_value_of_a_constant() -> None:
    """A formula reads ``convention.EXP`` when it is called; a name of its own would keep the old number."""
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").endswith("convention"):
                raise AssertionError(f"{path.relative_to(ROOT)} imports {[alias.name for alias in node.names]}")


def test_adapters_hold_no_number_of_operations() -> None:
    """``Cost(0, 5 * elements)`` in a backend would be a second place for the convention."""
    for path in sources():
        if "backends" not in path.parts or "costs" not in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Name) and called.id == "Cost":
                assert isinstance(node, ast.Call)
                numbers = [
                    each.value
                    for argument in node.args[1:]
                    for each in ast.walk(argument)
                    if isinstance(each, ast.Constant) and each.value not in (0,)
                ]
                assert not numbers, f"{path.relative_to(ROOT)}:{node.lineno} holds {numbers}"
