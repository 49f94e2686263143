"""The conformance suite over the fake backend."""

from __future__ import annotations

from functools import partial
from typing import Any

from profilerkit.testing import ARCHITECTURES, BackendConformance, FakeBackend, FakeLayer, FakeModel

BUILDERS = {name: partial(FakeModel.of, architecture) for name, architecture in ARCHITECTURES.items()}


KINDS = {kind: kind for architecture in ARCHITECTURES.values() for _, kind in architecture.layers}


class FakeConformance(BackendConformance):
    backend, builders, kinds = FakeBackend(), BUILDERS, KINDS

    def snapshot(self, model: FakeModel) -> Any:
        """All but the counter of calls."""
        return {"layers": repr(model.layers), "training": model.training, "on_call": model.on_call}

    def change_a_parameter(self, model: FakeModel) -> None:
        model.layers[-1].value += 1.0

    def low_precision_model(self, dtype: str) -> FakeModel:
        """Of int8, the matrices alone, which have an element for each product of a sample."""
        model = FakeModel.of(ARCHITECTURES["mlp"])
        for layer in model.layers:
            layer.dtype = dtype
            layer.params = layer.macs if dtype == "int8" else layer.params
        return model

    def raising_model(self, message: str) -> FakeModel:
        def fail() -> None:
            raise ValueError(message)

        return FakeModel([FakeLayer("layer", params=3)], on_call=fail)

    def uncounted_model(self) -> FakeModel:
        return FakeModel([FakeLayer("layer", macs=5, flops=10, uncounted="fake::unknown")])
