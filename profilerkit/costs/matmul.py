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


def scale_and_add(outputs: int, added: int, alpha: float = 1, beta: float = 1) -> Cost:
    """``alpha * (a @ b) + beta * c``: the cost without the product, of so many outputs, for a c of ``added`` elements.

    A factor of 1 is no multiplication, and a term with the factor 0 is not added.
    """
    scaled = (alpha != 1) * outputs + (beta not in (0, 1)) * added
    return Cost(0, scaled * c.MULTIPLY + (beta != 0) * outputs * c.ADD)


def matrix_product(rows: int, summed: int, columns: int, has_bias: bool = False, batch: int = 1) -> Cost:
    """``(b, m, k) @ (b, k, n)``: b * m * k * n, and an addition for each output element if there is a bias."""
    outputs = batch * rows * columns
    return product(outputs * summed, outputs if has_bias else 0)


def product_gradient(macs: int, by_factors: int, biased: int = 0) -> Cost:
    """Return the cost of the gradients of a product by one or two of its factors, and by its bias.

    Args:
        macs: The multiply-accumulates of the product.
        by_factors: The number of factors whose gradients are computed.
        biased: The elements that are added up for the gradient of the bias; 0 if there is none.
    """
    return product(macs * by_factors, biased)


def trilinear(macs: int) -> Cost:
    """``sum(a * b * c)``: each product of a and b is multiplied with c and added up."""
    return Cost.of_macs(macs, macs * c.MULTIPLY)


def einsum(terms: Sequence[Mapping[str, int]], result: Collection[str]) -> Cost:
    """Return the cost of an einsum of one or two terms; each has the sizes of its labels.

    A label that one term alone has, and the result lacks, is summed over first: an addition for each element of that
    term. Then each combination of the other labels takes a multiply-accumulate if something is left to sum over, as in
    ``ij,jk->ik``. If not, it takes a multiplication, which is no multiply-accumulate: ``i,j->ij``, the angles of rotary
    embeddings. torch's ``einsum`` works in this way; it treats a label of size 1 like a label that the term lacks.
    """
    terms = [_drop_ones(term) for term in terms]
    sizes = {label: size for term in terms for label, size in term.items()}
    summed_first = {label for label in sizes if label not in result and sum(label in term for term in terms) == 1}
    added = sum(math.prod(term.values()) for term in terms if summed_first & term.keys()) * c.ADD
    if len(terms) == 1:
        return Cost(0, added)
    combinations = math.prod(size for label, size in sizes.items() if label not in summed_first)
    sums_products = bool(sizes.keys() - summed_first - set(result))
    if sums_products:
        return Cost.of_macs(combinations, added)
    return Cost(0, combinations * c.MULTIPLY + added)


def _drop_ones(term: Mapping[str, int]) -> dict[str, int]:
    return {label: size for label, size in term.items() if size != 1}


def contraction(terms: Sequence[Mapping[str, int]], result: Collection[str]) -> Cost:
    """Return the cost of an einsum of any number of terms, contracted in pairs from the left to the right.

    Each pair keeps the labels that the result or a later term has. So ``ij,jk,kl->il`` is ``(a @ b) @ c``. onnxruntime
    goes about it so, and so does torch unless ``opt_einsum`` finds another order.
    """
    product, *others = map(_drop_ones, terms)
    if not others:
        return einsum([product], result)
    cost = Cost(0, 0)
    for position, term in enumerate(others, start=1):
        kept = set(result).union(*others[position:])
        cost = cost.plus(einsum((product, term), kept))
        product = {label: size for label, size in {**product, **term}.items() if label in kept}
    return cost


def einsum_gradient(terms: Sequence[Mapping[str, int]], result: Mapping[str, int]) -> Cost:
    """Return the cost of the gradient of an einsum by one of its two terms, which is an einsum as well.

    Args:
        terms: The two terms of the gradient: the gradient of the einsum's result, and the einsum's other term.
        result: The result of the gradient, with the labels of the term by which it is.

    The gradient takes as many multiply-accumulates as the einsum, even if the gradient sums nothing: ``i,j->ij`` is the
    gradient of the product ``ij,j->i`` by its matrix. If the einsum sums nothing, its gradient takes as many
    multiplications, and additions if it sums: none of these are multiply-accumulates.
    """
    gradient_of_result, other = terms
    forward = einsum((result, other), gradient_of_result)
    if forward.macs:
        return forward
    return Cost(0, forward.flops + einsum(terms, result).macs * c.ADD)


def distances(pairs: int, coordinates: int) -> Cost:
    """``sum(abs(x - y) ** p)``: subtract, power and add for each pair of points and each of their coordinates."""
    return Cost(0, pairs * coordinates * (c.SUBTRACT + c.POWER + c.ADD))


def distances_gradient(pairs: int, coordinates: int, among_themselves: bool = False) -> Cost:
    """``sum(dy / distance * (x - y))``: a division for each pair; subtract, multiply and add for each coordinate.

    Among the points of one set, the same term is added to one point of a pair and subtracted from the other: one more
    subtraction.
    """
    operations = c.SUBTRACT + c.MULTIPLY + c.ADD
    if among_themselves:
        operations += c.SUBTRACT
    return Cost(0, pairs * (coordinates * operations + c.DIVIDE))
