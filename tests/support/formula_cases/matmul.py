"""Formulas of matrix products, and what each of them takes."""

from __future__ import annotations

from collections.abc import Iterator

from profilerkit.costs import matmul

from .case import Case, case


def cases() -> Iterator[Case]:
    yield case(lambda: matmul.product(24), 24)
    yield case(lambda: matmul.product(24, 8), 24, ADD=8)
    yield case(lambda: matmul.scale_and_add(8, 4), ADD=8)
    yield case(lambda: matmul.scale_and_add(8, 4, alpha=0.5), MULTIPLY=8, ADD=8)
    yield case(lambda: matmul.scale_and_add(8, 4, alpha=0.5, beta=2), MULTIPLY=8 + 4, ADD=8)
    yield case(lambda: matmul.scale_and_add(8, 4, beta=0))
    yield case(lambda: matmul.matrix_product(2, 3, 5), 30)
    yield case(lambda: matmul.matrix_product(2, 3, 5, has_bias=True, batch=7), 210, ADD=70)
    yield case(lambda: matmul.product_gradient(24, 2, 8), 48, ADD=8)
    yield case(lambda: matmul.product_gradient(24, 1), 24)
    yield case(lambda: matmul.trilinear(24), 24, MULTIPLY=24)
    yield case(lambda: matmul.einsum([{"i": 2, "j": 3}, {"j": 3, "k": 4}], "ik"), 24)
    yield case(lambda: matmul.einsum([{"i": 2, "j": 3, "k": 4}], "i"), ADD=24)
    yield case(lambda: matmul.einsum([{"i": 2, "j": 3}], "ji"))
    yield case(lambda: matmul.einsum([{"i": 2}, {"j": 3}], "ij"), MULTIPLY=6)
    yield case(lambda: matmul.einsum([{"i": 2, "j": 1}, {"j": 1, "k": 4}], "ik"), MULTIPLY=8)
    yield case(lambda: matmul.einsum([{"i": 2, "j": 3}, {"k": 4}], "ik"), MULTIPLY=8, ADD=6)
    # What has one element in a term is spread over the others, after these are summed: 100 * 7 elements to 7.
    yield case(lambda: matmul.einsum([{"i": 5, "j": 1}, {"j": 100, "k": 7}], "ik"), MULTIPLY=5 * 7, ADD=100 * 7)
    yield case(lambda: matmul.einsum([{"i": 1, "j": 3}, {"i": 4, "j": 3}], "i"), 4 * 3)
    yield case(lambda: matmul.einsum([{"i": 2, "j": 3}, {"j": 3}], ""), 3, ADD=6)
    yield case(lambda: matmul.einsum([{"i": 0, "j": 3}, {"j": 3}], {"i": 0}))  # of nothing
    yield case(lambda: matmul.contraction([{"i": 2, "j": 3}], "i"), ADD=6)
    chain = [{"i": 2, "j": 3}, {"j": 3, "k": 4}, {"k": 4, "l": 5}]
    yield case(lambda: matmul.contraction(chain, "il"), 2 * 3 * 4 + 2 * 4 * 5)
    yield case(lambda: matmul.contraction([{"i": 1, "j": 3}, *chain[1:]], "il"), 3 * 4 + 4 * 5)
    yield case(lambda: matmul.contraction([{"i": 0, "j": 3}, *chain[1:]], "il"))  # of nothing
    yield case(lambda: matmul.contraction([{"i": 1}, {"i": 2, "j": 3}, {"j": 3, "k": 4}], "ik"), 24, MULTIPLY=6)
    narrow = [{"i": 2, "j": 3}, {"j": 3, "k": 1}, {"k": 1, "l": 5}]
    yield case(lambda: matmul.contraction(narrow, "il"), 2 * 3, MULTIPLY=2 * 5)
    star = [{"i": 2, "j": 3}, {"j": 3, "k": 4}, {"j": 3, "l": 5}]  # k is summed first; the last term needs j
    yield case(lambda: matmul.contraction(star, "il"), 2 * 3 * 5, ADD=12, MULTIPLY=6)
    yield case(lambda: matmul.einsum_gradient([{"i": 2}, {"j": 3}], {"i": 2, "j": 3}), 6)  # of ij,j->i by its matrix
    yield case(lambda: matmul.einsum_gradient([{"i": 2, "k": 4}, {"j": 3, "k": 4}], {"i": 2, "j": 3}), 24)
    yield case(lambda: matmul.einsum_gradient([{"i": 2, "j": 3}, {"j": 3}], {"i": 2}), MULTIPLY=6, ADD=6)  # of i,j->ij
    yield case(lambda: matmul.distances(6, 3), SUBTRACT=18, POWER=18, ADD=18)
    yield case(lambda: matmul.distances_gradient(6, 3), SUBTRACT=18, MULTIPLY=18, ADD=18, DIVIDE=6)
    yield case(lambda: matmul.distances_gradient(6, 3, True), SUBTRACT=36, MULTIPLY=18, ADD=18, DIVIDE=6)
