"""Help for testing: fakes for metrics, functions and reports, and the conformance suite that any backend must pass.

No framework is imported here, and no pytest: `BackendConformance` needs it only where pytest collects it.
"""

from __future__ import annotations

from .architectures import ARCHITECTURES
from .conformance import BackendConformance
from .expected import Architecture, ExpectedLayer, InputSpec, LayerNumbers, layer_numbers
from .fake_backend import FakeBackend
from .fakes import FakeClock, FakeLayer, FakeModel, FakeTensor

__all__ = [
    "ARCHITECTURES",
    "Architecture",
    "BackendConformance",
    "ExpectedLayer",
    "FakeBackend",
    "FakeClock",
    "FakeLayer",
    "FakeModel",
    "FakeTensor",
    "InputSpec",
    "LayerNumbers",
    "layer_numbers",
]
