"""The families of statements that fuzzed modules are made of, and how often each is taken."""

from __future__ import annotations

from fuzz_control import CACHES, CONTEXTS, ESCAPES, LOOPS, QUESTIONS, WRITES
from fuzz_generator import Template
from fuzz_layers import LAYERS, NESTED
from fuzz_statements import ELEMENTWISE, MOVES, PRODUCTS, REDUCTIONS, VIEWS

__all__ = ["FAMILIES"]

FAMILIES: list[tuple[list[Template], float]] = [
    (LAYERS, 22),
    (NESTED, 8),
    (PRODUCTS, 14),
    (ELEMENTWISE, 11),
    (VIEWS, 10),
    (REDUCTIONS, 4),
    (MOVES, 7),
    (QUESTIONS, 9),
    (LOOPS, 5),
    (CACHES, 4),
    (WRITES, 5),
    (CONTEXTS, 5),
    (ESCAPES, 9),
]
