"""Matrix products: one multiply-accumulate for each output element and each element summed over.

The gradient of a product by each of its two factors is a product of as many multiply-accumulates. A sparse factor
counts by the elements that it stores.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from .cost import Cost
from .numbers import constants as c


def product(macs: int, biased: int = 0) -> Cost:
    """Return the cost of so many multiply-accumulates, and of an addition for each of ``biased`` output elements.

    ``(m, k) @ (k, n) + bias`` takes m * k * n multiply-accumulates, and m * n additions.
    """
    return Cost.of_macs(macs, biased * c.ADD)


def matrix_product(rows: int, summed: int, columns: int, has_bias: bool = False, batch: int = 1) -> Cost:
    """``(b, m, k) @ (b, k, n)``: b * m * k * n, and an addition for each output element where there is a bias."""
    outputs = batch * rows * columns
    return product(outputs * summed, outputs * has_bias)


def product_gradient(macs: int, by_factors: int, biased: int = 0) -> Cost:
    """Return the cost of the gradients by one or both factors; the bias takes the sum of ``biased`` elements."""
    return product(macs * by_factors, biased)


def trilinear(macs: int) -> Cost:
    """``sum(a * b * c)``: each product of a and b is multiplied with c and added up."""
    return Cost.of_macs(macs, macs * c.MULTIPLY)


def einsum(terms: Sequence[Mapping[str, int]], result: Collection[str]) -> Cost:
    """Return the cost of an einsum whose terms have these labels, of these sizes.

    A label that one term alone has, and the result lacks, is summed over first: an addition for each element of that
    term. Then each combination of the other labels takes a multiply-accumulate if something is left to sum over, as in
    ``ij,jk->ik``. If not, it takes a multiplication, which is no multiply-accumulate: ``i,j->ij``, the angles of rotary
    embeddings. A label of size 1 sums nothing. This is how torch's ``einsum`` goes about it.
    """
    sizes = {label: size for term in terms for label, size in term.items() if size != 1}
    alone = {label for label in sizes if label not in result and sum(label in term for term in terms) == 1}
    summed = [term for term in terms if alone & term.keys()]
    added = sum(math.prod(term.values()) for term in summed) * c.ADD
    if len(terms) == 1:
        return Cost(0, added)
    combinations = math.prod(size for label, size in sizes.items() if label not in alone)
    if sizes.keys() - alone - set(result):
        return Cost.of_macs(combinations, added)
    return Cost(0, (len(terms) - 1) * combinations * c.MULTIPLY + added)


def contraction(terms: Sequence[Mapping[str, int]], result: Collection[str]) -> Cost:
    """Return the cost of an einsum of any number of terms, contracted in pairs from the left to the right.

    Each pair keeps the labels that the result or a later term has. So ``ij,jk,kl->il`` is ``(a @ b) @ c``. onnxruntime
    goes about it so, and so does torch unless ``opt_einsum`` finds another order.
    """
    first, *others = terms
    cost = einsum([first], result) if not others else Cost(0, 0)
    while others:
        second, *others = others
        sizes = {label: max(first.get(label, 1), second.get(label, 1)) for label in (*first, *second)}
        kept = set(result).union(*others)
        cost = cost.plus(einsum((first, second), kept))
        first = {label: size for label, size in sizes.items() if label in kept}
    return cost


def einsum_gradient(terms: Sequence[Mapping[str, int]], result: Mapping[str, int]) -> Cost:
    """Return the cost of the gradient of an einsum by one of its two terms, which is an einsum as well.

    Its terms are the gradient of the einsum's result, and the other term. It takes as many multiply-accumulates as the
    einsum, also where it sums nothing itself: ``i,j->ij`` is the gradient of the product ``ij,j->i`` by its matrix. If
    the einsum sums nothing, its gradient takes as many multiplications, and additions where it sums: none of these are
    multiply-accumulates.
    """
    of_result, other = terms
    product = einsum((result, other), of_result)
    return product if product.macs else Cost(0, product.flops + einsum(terms, result).macs * c.ADD)


def distances(pairs: int, coordinates: int) -> Cost:
    """``sum(abs(x - y) ** p)``: subtract, power and add for each pair of points and each of their coordinates."""
    return Cost(0, pairs * coordinates * (c.SUBTRACT + c.POWER + c.ADD))


def distances_gradient(pairs: int, coordinates: int, among_themselves: bool = False) -> Cost:
    """``sum(dy / distance * (x - y))``: a division for each pair; subtract, multiply and add for each coordinate.

    Of the distances of points among themselves, what one of a pair gains the other loses: a subtraction more.
    """
    operations = c.SUBTRACT + c.MULTIPLY + c.ADD + among_themselves * c.SUBTRACT
    return Cost(0, pairs * (coordinates * operations + c.DIVIDE))
