"""The settings of the conformance suite by a backend's author: the backend, its models, and their use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NoReturn

from ..backend import Backend
from ..inputs import ModelInputs
from .expected import DataFormat
from .snapshots import collect_facts

__all__ = ["BackendSettings"]


class BackendSettings:
    """The settings of the class of tests of a backend; see `profilerkit.testing.conformance`."""

    #: The backend under test.
    backend: ClassVar[Backend]
    #: The functions that build each architecture in the framework, with its weights, by its name.
    builders: ClassVar[Mapping[str, Callable[[], Any]]]
    #: The kind of each layer type of the framework, by the type's name.
    kinds: ClassVar[Mapping[str, str]]
    #: The layout of the images that the models take.
    data_format: ClassVar[DataFormat] = "channels_last"
    #: Whether a batch norm's mean and variance are among the parameters.
    statistics_are_parameters: ClassVar[bool] = False
    #: The dtype of word indices: a backend without "int64" names another integer dtype.
    integer_dtype: ClassVar[str] = "int64"
    #: Whether its models consist of layers; if each is a single function, only the totals are compared.
    has_layers: ClassVar[bool] = True
    #: The reasons why the framework cannot express an architecture, by its name.
    not_expressible: ClassVar[Mapping[str, str]] = MappingProxyType({})

    # Methods that the author may override -----------------------------------------------------------------------

    def call(self, model: Any, inputs: ModelInputs) -> Any:
        """Call the model as a user of the framework would, and return its outputs."""
        return model(*inputs.args, **inputs.kwargs)

    def to_numpy(self, tensor: Any) -> Any:
        """Return the values of a tensor as a numpy array."""
        import numpy as np  # imported here, since tests of metrics alone do not need it

        return np.asarray(tensor)

    def snapshot(self, model: Any) -> Any:
        """Return everything that must not change, comparable with ``==``: all objects behind the model's attributes."""
        return collect_facts(model)

    def change_a_parameter(self, model: Any) -> None:
        """Change one value of a parameter in place."""
        self.skip("change_a_parameter(model) is not given")

    def low_precision_model(self, dtype: str) -> Any:
        """Return "mlp" with weights in "bfloat16", or with the matrices among its weights in "int8"."""
        self.skip("low_precision_model(dtype) is not given")

    def threads(self) -> int:
        """Return how many threads an operator may use now: in a pass, or while a run that can be repeated is open."""
        self.skip("threads() is not given")

    def raising_model(self, message: str) -> Any:
        """Return a model that takes the inputs of "mlp" and raises an error with this message when it runs."""
        self.skip("raising_model(message) is not given")

    def uncounted_model(self) -> Any:
        """Return a model that takes the inputs of "mlp" and contains an operation whose cost is not known."""
        self.skip("uncounted_model() is not given")

    def skip(self, reason: str) -> NoReturn:
        """Skip the running test, with the reason."""
        import pytest  # the suite is part of the library, pytest is not

        pytest.skip(reason)
