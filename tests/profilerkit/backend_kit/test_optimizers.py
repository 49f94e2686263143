"""What optimizers keep for weights, by their names, in closed form."""

import pytest

from profilerkit import InputError
from profilerkit.backend_kit.optimizers import OPTIMIZERS, OptimizerBytes, optimizer_bytes
from profilerkit.trace.records import WeightRecord


def weight(*shape: int, element: int = 4, trainable: bool = True, told: bool = True) -> WeightRecord:
    count = 1
    for size in shape:
        count *= size
    return WeightRecord("weight", 0, count, count * element, "float32", trainable, shape=shape if told else ())


def state_bytes(name: str, weights: list[WeightRecord]) -> int | str:
    taken = optimizer_bytes(name, weights)
    return taken if isinstance(taken, str) else taken.state


def test_an_update_needs_copies_of_the_largest_weight() -> None:
    """Adam those of a square root and of its quotient by the bias correction; frozen weights are not updated."""
    weights = [weight(6, 5), weight(5), weight(100, trainable=False)]
    updates = {"sgd": 0, "momentum": 0, "adam": 2 * 120, "adamw": 2 * 120, "adafactor": 120, "adam8bit": 0}
    for name, update in updates.items():
        taken = optimizer_bytes(name, weights)
        assert isinstance(taken, OptimizerBytes)
        assert taken.update == update
    assert optimizer_bytes("adam", []) == OptimizerBytes(0, 0)


def test_one_tensor_of_adam_exists_until_the_next_weight_is_updated() -> None:
    """Of the weights of 120, 20 and 120 bytes the last takes most; of two in a row the second takes a third copy."""
    large, small = weight(6, 5), weight(5)
    for weights, update in (([large, small, large], 2 * 120 + 20), ([large, large], 3 * 120), ([large, small], 240)):
        taken = optimizer_bytes("adam", weights)
        assert isinstance(taken, OptimizerBytes)
        assert taken.update == update


@pytest.mark.parametrize(("name", "values"), [("sgd", 0), ("momentum", 1), ("adam", 2), ("adamw", 2)])
def test_values_for_each_element(name: str, values: int) -> None:
    """In the dtype of the weight; nothing for one that is frozen."""
    weights = [weight(6, 5), weight(5, element=2), weight(100, trainable=False)]
    assert state_bytes(name, weights) == values * (30 * 4 + 5 * 2)


def test_adafactor_keeps_rows_and_columns() -> None:
    """Of a filter of 8 x 3 x 5 x 2 a row and a column for each of the 8 * 3 matrices; of a vector all."""
    assert state_bytes("adafactor", [weight(6, 5)]) == 4 * (6 + 5)
    assert state_bytes("adafactor", [weight(8, 3, 5, 2)]) == 4 * 24 * (5 + 2)
    assert state_bytes("adafactor", [weight(7)]) == 4 * 7


def test_adafactor_needs_shapes() -> None:
    assert state_bytes("adafactor", [weight(6, 5, told=False)]) == (
        "the state of adafactor for weights of unknown shape (weight)"
    )


def test_8_bit_adam_keeps_two_bytes_and_scales_for_blocks() -> None:
    """5,000 elements are 20 blocks of 256; 4,095 are too few to be quantised, 4,096 are not."""
    assert state_bytes("adam8bit", [weight(50, 100)]) == 2 * 5000 + 20 * 8
    assert state_bytes("adam8bit", [weight(4095)]) == 8 * 4095
    assert state_bytes("adam8bit", [weight(4096, element=2)]) == 2 * 4096 + 16 * 8


def test_names_are_accepted_in_any_case() -> None:
    assert state_bytes("AdamW", [weight(3)]) == 24


def test_an_unknown_name_lists_the_known_ones_nearest_first() -> None:
    with pytest.raises(InputError) as raised:
        state_bytes("adan", [])
    assert str(raised.value) == (
        "optimizer='adan' is not a known optimizer; the known ones are, nearest first: "
        "adam, adamw, adam8bit, adafactor, sgd, momentum; or give the framework's own optimizer"
    )
    assert "adan" not in OPTIMIZERS
