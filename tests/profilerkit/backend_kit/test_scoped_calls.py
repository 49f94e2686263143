"""What goes into the calls of layers and comes out, found from the operators that run in them."""

from __future__ import annotations

from typing import Any, NamedTuple

from profilerkit.backend_kit.scoped_calls import PlacedWeight, Scope, layer_calls, layer_records
from profilerkit.trace.records import LayerCall, TensorInfo, WeightRecord


class Value(NamedTuple):
    number: int
    size: int
    constant: bool = False

    @property
    def info(self) -> TensorInfo:
        return TensorInfo((self.size,), "float32")


class Operator(NamedTuple):
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    chain: tuple[Scope, ...]


ROOT, BLOCK, INNER, AGAIN = Scope(""), Scope("block"), Scope("block.inner"), Scope("block.inner", 1)
GIVEN, WEIGHT, FIRST, SECOND, THIRD = (
    Value(0, 10),
    Value(1, 11, constant=True),
    Value(2, 12),
    Value(3, 13),
    Value(4, 14),
)
#: The model reads its input in the block's inner layer, works on it in the block, and calls the inner layer again.
OPERATORS = [
    Operator((GIVEN, WEIGHT), (FIRST,), (ROOT, BLOCK, INNER)),
    Operator((FIRST,), (SECOND,), (ROOT, BLOCK)),
    Operator((SECOND, WEIGHT), (THIRD,), (ROOT, BLOCK, AGAIN)),
]


def list_calls(operators: list[Operator], outputs: list[Value], **further: Any) -> dict[str, list[LayerCall]]:
    return layer_calls(operators, [operator.chain for operator in operators], [GIVEN], outputs, **further)


def of(*values: Value) -> tuple[TensorInfo, ...]:
    return tuple(value.info for value in values)


def test_values_that_cross_the_border_of_a_call_go_in_and_out() -> None:
    calls = list_calls(OPERATORS, [THIRD])
    assert calls == {
        "": [LayerCall(of(GIVEN), of(THIRD), None)],
        "block": [LayerCall(of(GIVEN), of(THIRD), ("", 0))],
        "block.inner": [
            LayerCall(of(GIVEN), of(FIRST), ("block", 0)),
            LayerCall(of(SECOND), of(THIRD), ("block", 0)),
        ],
    }


def test_a_call_whose_values_nobody_reads_gives_its_last() -> None:
    calls = list_calls([*OPERATORS[:1], Operator((GIVEN,), (SECOND,), (ROOT,))], [SECOND])
    assert calls["block"] == [LayerCall(of(GIVEN), of(FIRST), ("", 0))]


def test_calls_in_which_nothing_runs_are_calls() -> None:
    calls = list_calls(OPERATORS[:2], [SECOND], silent=[(ROOT, BLOCK, AGAIN)])
    assert calls["block.inner"][1] == LayerCall((), (), ("block", 0))


def test_layers_stand_in_the_order_of_their_types() -> None:
    weight, table = (WeightRecord(name, index, 11, 44, "float32", True) for index, name in enumerate("wt"))
    weights = [PlacedWeight("block", weight, True), PlacedWeight("block", table, False)]
    layers = layer_records({"": "Model", "block": "Block"}, weights)
    assert [(layer.path, layer.type, layer.depth) for layer in layers] == [("", "Model", 0), ("block", "Block", 1)]
    assert (layers[1].parameters, layers[1].buffers) == ((weight,), (table,))
