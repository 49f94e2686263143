"""Formulas of quantization, and what each of them takes."""

from __future__ import annotations

from collections.abc import Iterator

from profilerkit.costs import quantization

from .case import Case, case


def cases() -> Iterator[Case]:
    there = {"DIVIDE": 1, "ROUND": 1, "COMPARE": 2}
    back = {"SUBTRACT": 1, "MULTIPLY": 1}
    yield case(lambda: quantization.quantize(1), **there)
    yield case(lambda: quantization.quantize(1, finds_range=True), **{**there, "COMPARE": 4})
    yield case(lambda: quantization.dequantize(1), **back)
    yield case(lambda: quantization.find_range(3), COMPARE=6)
    yield case(lambda: quantization.fake_quantize(1), **there, **back)
    yield case(lambda: quantization.fake_quantize(1, True), **{**there, "COMPARE": 4}, **back)
    yield case(lambda: quantization.fake_quantize_gradient(2), ELEMENTARY_GRADIENT=2)
    yield case(lambda: quantization.fake_quantize_gradient(2, True), ELEMENTARY_GRADIENT=2, ADD=4)
    learned = {"DIVIDE": 1, "ADD": 3, "ROUND": 1, "COMPARE": 2, "ELEMENTARY_GRADIENT": 1, "SUBTRACT": 1, "MULTIPLY": 2}
    yield case(lambda: quantization.learned_quantization_gradient(1), **learned)
    yield case(lambda: quantization.dequantize_and_add(1), ADD=1, **back)
