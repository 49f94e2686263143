"""A number of the convention is written once: one constant changed changes every backend, by as much as it takes."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from convention_probes import PROBES, Probe
from source_tree import ROOT

from profilerkit.backend_kit.operator_calls import OperatorCall, Shapes
from profilerkit.costs import Cost, Shape, convention

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


def in_format(price: Callable[[OperatorCall], Cost | None], kind: type[OperatorCall], name: str) -> Callable[[], int]:
    """Return what counts a call of an operator of a format, by its name: of two tensors or one."""
    count = 2 if name.upper() in ("ADD", "SUB", "SUBTRACT", "MUL", "MULTIPLY", "DIV", "DIVIDE") else 1
    shape, dtypes = Shape((3, 4)), ("float32",)
    call = kind(name, Shapes([shape] * count), Shapes([shape]), dtypes * count, dtypes)

    def flops() -> int:
        cost = price(call)
        assert cost is not None
        return cost.flops

    return flops


def in_onnx(probe: Probe) -> Callable[[], int]:
    from profilerkit_onnx.costs.registry import OPERATORS, NodeCall

    return in_format(OPERATORS.cost, NodeCall, str(probe.onnx))


def in_openvino(probe: Probe) -> Callable[[], int]:
    from profilerkit_openvino.costs import OPERATORS, Call

    return in_format(OPERATORS.cost, Call, str(probe.openvino))


def in_litert(probe: Probe) -> Callable[[], int]:
    from profilerkit_litert.costs.registry import OPERATORS, LiteRTCall

    import_module("profilerkit_litert.costs.operators")
    return in_format(OPERATORS.cost, LiteRTCall, str(probe.litert))


def in_jax(probe: Probe) -> Callable[[], int]:
    jax = pytest.importorskip("jax")
    from profilerkit import ModelInputs
    from profilerkit_jax.backend import JaxBackend

    function = probe.jax
    assert function is not None
    inputs = ModelInputs(*[jax.ShapeDtypeStruct((3, 4), "float32")] * 2)

    def flops() -> int:
        trace = JaxBackend().trace(lambda x, y: function(jax, x, y), inputs)
        assert trace.failure is None
        assert not trace.uncounted
        return trace.flops

    return flops


BACKENDS = {"torch": in_torch, "tensorflow": in_tensorflow, "onnx": in_onnx, "jax": in_jax}
BACKENDS |= {"openvino": in_openvino, "litert": in_litert}
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
    others = [constant for constant in CONSTANTS if constant not in probe.takes]
    for constants in (*([constant] for constant in probe.takes), others):
        with monkeypatch.context() as changed:
            for constant in constants:
                changed.setattr(convention, constant, CONSTANTS[constant] + 1)
            increase = sum(probe.takes.get(constant, 0) for constant in constants)
            assert flops() - before == increase, f"one more of {', '.join(constants)}"
    assert flops() == before


def test_every_backend_with_costs_of_operators_is_asked() -> None:
    with_costs = {path.parent.name.removeprefix("profilerkit_") for path in (ROOT / "backends").glob("*/costs*")}
    assert with_costs == set(BACKENDS), "add a function to BACKENDS, and the probes that the backend has"


def columns(table: str) -> tuple[list[str], list[list[str]]]:
    """Return the headers of a simple table or a grid table in reStructuredText, and its rows."""
    rule, *lines = table.splitlines()
    spans = [match.span() for match in re.finditer("[=-]+", rule)]
    cells = [[line[start:end].strip() for start, end in spans] for line in lines if not re.fullmatch(r"[=+ -]+", line)]
    return cells[0], cells[1:]


def count_in(made_of: str, constant: str) -> int:
    """Return how many of an elementary function a column "made of" names: "2 add, exp" has two additions."""
    name = constant.lower().replace("_", " ")
    match = re.search(rf"(?:^|, )(\d+ )?{name}(?:,|$)", made_of)
    return int(match[1] or 1) if match else 0


@pytest.mark.parametrize("constant", CONSTANTS)
def test_one_constant_changes_the_tables_of_the_documentation(constant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each number by as many of the elementary function as the column beside it names, and no other."""
    pytest.importorskip("torch")
    pytest.importorskip("tensorflow")
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    pages = import_module("make_tables").PAGES
    tables = [make for page in ("metrics.rst", "conventions.rst") for make in pages[page].values()]
    before = [make() for make in tables]
    monkeypatch.setattr(convention, constant, CONSTANTS[constant] + 1)
    increased = 0
    for old, make in zip(before, tables, strict=True):
        if not old.startswith(("=", "+")):
            continue
        headers, rows = columns(old)
        for row, new in zip(rows, columns(make())[1], strict=True):
            for column, header in enumerate(headers):
                if not (row[column].isdigit() and new[column].isdigit()):
                    assert new[column] == row[column]
                    continue
                assert headers[column + 1] in ("made of", "what it is"), header
                expected = row[0] == f"``{constant}``" or count_in(row[column + 1], constant)
                assert int(new[column]) - int(row[column]) == int(expected), row
                increased += bool(expected)
    assert increased, f"no table has {constant}"


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
                    part.value
                    for argument in node.args[1:]
                    for part in ast.walk(argument)
                    if isinstance(part, ast.Constant) and part.value not in (0,)
                ]
                assert not numbers, f"{path.relative_to(ROOT)}:{node.lineno} holds {numbers}"
