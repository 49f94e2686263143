"""The conformance suite over the numpy backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy_networks

from profilerkit import Backend
from profilerkit.testing import BackendConformance
from profilerkit_numpy.backend import NumpyBackend
from profilerkit_numpy.layers import Array, Layer, Sequential


class TestNumpy(BackendConformance):
    backend: ClassVar[Backend] = NumpyBackend()
    builders: ClassVar[Mapping[str, Callable[[], Any]]] = {"mlp": numpy_networks.mlp, "lenet5": numpy_networks.lenet5}
    kinds: ClassVar[Mapping[str, str]] = numpy_networks.KINDS

    def change_a_parameter(self, model: Sequential) -> None:
        model.layers[0].weights["weight"][3, 5] += 1

    def raising_model(self, message: str) -> Sequential:
        def refuse(x: Array) -> Array:
            raise ValueError(message)

        return Sequential(*numpy_networks.mlp().layers, Layer("Refuse", refuse))

    def uncounted_model(self) -> Sequential:
        return Sequential(Layer("Sorted", lambda x: x + 1), *numpy_networks.mlp().layers)
