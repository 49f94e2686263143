"""Formulas of recurrent layers, and what each of them takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from profilerkit.costs import Cost, convention, recurrent

from .case import Case, case


def cases() -> Iterator[Case]:
    # each unit at each position
    lstm = {"ADD": 5, "SIGMOID": 3, "TANH": 2, "MULTIPLY": 3}
    gru = {"ADD": 4, "SIGMOID": 2, "TANH": 1, "MULTIPLY": 3, "SUBTRACT": 1}
    kinds = {"lstm": lstm, "gru": gru, "rnn_tanh": {"ADD": 1, "TANH": 1}, "rnn_relu": {"ADD": 1, "COMPARE": 1}}
    for kind, takes in kinds.items():
        counts = Counter({name: 3 * 4 * count for name, count in takes.items()})
        counts["ADD"] += 3 * 7
        yield case(lambda kind=kind: recurrent.layers(kind, 3, 11, 7, 4), 33, **counts)  # type: ignore[misc]
    # the gates by name: input, forget, candidate, output; reset, update, candidate; one
    for kind, count in {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}.items():
        yield case(lambda kind=kind: Cost(0, recurrent.GATES[kind] * convention.ADD), ADD=count)  # type: ignore[misc]
        yield case(lambda kind=kind: Cost(0, recurrent.gates(kind)), **kinds[kind])  # type: ignore[misc]
    cell = {**gru, "MULTIPLY": 2}
    yield case(lambda: recurrent.layers("gru", 1, 11, 0, 1, cell=True), 11, **cell)
    yield case(lambda: recurrent.layers("lstm", 1, 11, 0, 1, cell=True), 11, **lstm)
    gradients = {
        "lstm": {"ELEMENTARY_GRADIENT": 5, "MULTIPLY": 6, "ADD": 2},
        "gru": {"ELEMENTARY_GRADIENT": 3, "MULTIPLY": 4, "NEGATE": 1, "ADD": 3},
        "rnn_tanh": {"ELEMENTARY_GRADIENT": 1, "ADD": 1},
        "rnn_relu": {"ELEMENTARY_GRADIENT": 1, "ADD": 1},
    }
    for kind, takes in gradients.items():
        counts = Counter({name: 3 * 4 * count for name, count in takes.items()})
        yield case(
            lambda kind=kind: recurrent.layers_gradient(kind, 3, 11, 7, 4, by_weights=False, unwanted_macs=5),  # type: ignore[misc]
            33 - 5,
            **counts,
        )
        counts["ADD"] += 3 * 7
        yield case(lambda kind=kind: recurrent.layers_gradient(kind, 3, 11, 7, 4), 66, **counts)  # type: ignore[misc]
    yield case(lambda: recurrent.cell_after_products("gru", 1, 5), **{**cell, "ADD": cell["ADD"] + 5})
    yield case(lambda: recurrent.lstm_cell_gradient(2, 8, False), MULTIPLY=12, ELEMENTARY_GRADIENT=10, ADD=8)
    yield case(lambda: recurrent.lstm_cell_gradient(2, 8, True), MULTIPLY=12, ELEMENTARY_GRADIENT=10, ADD=10)
    yield case(lambda: recurrent.gru_cell_gradient(2, False), MULTIPLY=8, NEGATE=2, ADD=2, ELEMENTARY_GRADIENT=6)
    yield case(lambda: recurrent.gru_cell_gradient(2, True), MULTIPLY=8, NEGATE=2, ADD=14, ELEMENTARY_GRADIENT=6)
    yield case(lambda: recurrent.lstm_with_joined_product(1, 11, 1, False, False), 11, **lstm)
    yield case(
        lambda: recurrent.lstm_with_joined_product(2, 11, 3, False, True), 22, ADD=36, SIGMOID=18, TANH=12, MULTIPLY=18
    )
    yield case(
        lambda: recurrent.lstm_with_joined_product(1, 11, 1, True, False), 11, **{**lstm, "ADD": 8, "MULTIPLY": 6}
    )
