"""How far a batch may grow before the bound does: by hand, for two weights and a device of round figures."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
from torch import nn

from profilerkit import DeviceInfo, predict
from profilerkit.devices import Figure


def abacus(peak: float = 1e6, bandwidth: float = 1e3) -> DeviceInfo:
    return DeviceInfo(
        "abacus",
        dense_peaks={"float32": Figure(peak, "an example")},
        figures={"memory_bandwidth": Figure(bandwidth, "an example")},
    )


def find_growth(model: nn.Module, shape: tuple[int, ...], device: DeviceInfo, batch_size: int = 4) -> list[str]:
    notes = predict(model, input_shape=shape, batch_size=batch_size, on=device).notes
    return [note for note in notes if note.startswith("weights bind")]


def test_a_batch_is_nearly_free_while_weights_bind() -> None:
    """Weights of 505,510 * 4 bytes are fixed; 4 * (1000 + 10) * 4 = 16,160 bytes grow, to 1.1 times 2,038,200 together.

    (1.1 * 2,038,200 - 2,022,040) / 16,160 = 13.6. Products of 4.04 s at 1e6 FLOP/s would allow 1.1 * 2038.2 / 4.04.
    """
    model = nn.Sequential(nn.Linear(1000, 500), nn.ReLU(), nn.Linear(500, 10))
    said = "weights bind: by the bound a batch up to 13 times as large takes a tenth longer at most"
    assert find_growth(model, (1000,), abacus()) == [said]


def test_products_end_it_earlier() -> None:
    """At 4,040 FLOP/s the products take 1000 s of 2038.2: 1.1 * 2038.2 / 1000 = 2.2."""
    model = nn.Sequential(nn.Linear(1000, 500), nn.ReLU(), nn.Linear(500, 10))
    said = "weights bind: by the bound a batch up to 2 times as large takes a tenth longer at most"
    assert find_growth(model, (1000,), abacus(peak=4040.0)) == [said]
    assert not find_growth(model, (1000,), abacus(peak=2020.0)), "2000 s of products: not twice as many"


def test_nothing_is_free_where_inputs_bind() -> None:
    """A weight of 40 bytes beside inputs of 4 * 10 * 100 * 4 bytes."""
    assert not find_growth(nn.Linear(10, 1, bias=False), (100, 10), abacus())


def test_rows_of_a_table_grow_with_the_batch() -> None:
    """Of 1000 rows of 64 numbers 8 are looked up for each sample: these bytes grow, as all others do."""
    notes = predict(nn.Embedding(1000, 64), input_shape=((8,), "int64"), batch_size=1, on=abacus()).notes
    assert not any(note.startswith("weights bind") for note in notes)
