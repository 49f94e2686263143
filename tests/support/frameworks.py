"""What the tests that are the same for every backend ask of its framework: one `Framework` a backend."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import pytest

from profilerkit import Backend, ModelInputs, Profiler

__all__ = ["Framework", "framework_named"]


def framework_named(name: str) -> Framework:
    """Return what a framework needs; the test is skipped where it is not installed."""
    pytest.importorskip(name)
    made: Framework = import_module(f"framework_{name}").FRAMEWORK
    return made


class Framework(ABC):
    """The models and tensors of one framework that the tests of all backends are written with."""

    name: ClassVar[str]
    #: As messages call it.
    title: ClassVar[str]
    #: What the framework raises for inputs that do not fit.
    misfit: ClassVar[type[Exception]]
    #: What a report says for three numbers given as inputs that could be a shape, but of which the model takes none.
    no_numbers: ClassVar[str]
    #: An operator that has a cost formula, and one that the framework does not know.
    matmul: ClassVar[str]
    new_operator: ClassVar[str]
    #: What the layers of users inherit from.
    layer_class: ClassVar[type]
    #: Metrics that together take every argument of `quick_options` and `profile_arguments`.
    quick_metrics: ClassVar[tuple[str, ...]]
    quick_options: ClassVar[Mapping[str, Any]]
    profile_arguments: ClassVar[Mapping[str, Any]]
    package: ModuleType
    #: The module with the backend's registry of cost formulas.
    costs: Any
    backend: Backend
    profiler: Callable[..., Profiler]
    loader: Callable[..., Any]
    forward_pass: Callable[..., Any]

    def __getattr__(self, name: str) -> Any:
        """Return a name of the backend's package."""
        if name in self.package.__all__:
            return getattr(self.package, name)
        raise AttributeError(name)

    @abstractmethod
    def tensor(self, values: Any) -> Any:
        """Return a tensor with the values and the dtype of an array."""

    @abstractmethod
    def array(self, tensor: Any) -> Any:
        """Return the values of a tensor."""

    @abstractmethod
    def dtype(self, tensor: Any) -> str: ...

    @abstractmethod
    def device(self, tensor: Any) -> str:
        """Return the kind of device a tensor is on, in lower case."""

    @abstractmethod
    def roll(self, tensor: Any) -> Any:
        """Return the tensor with its columns moved on by one."""

    @abstractmethod
    def seed(self, number: int) -> None:
        """Set every generator of random numbers that the framework has."""

    @abstractmethod
    def draws(self) -> list[float]:
        """Return a random number from each generator."""

    @abstractmethod
    def function(self, function: Callable[..., Any]) -> Any:
        """Return a model that calls a function of its inputs."""

    @abstractmethod
    def identity(self, size: int = 3) -> Any:
        """Return a model, of the framework's usual class, that gives what it is given: rows of ``size`` numbers."""

    @abstractmethod
    def identities(self) -> Mapping[str, Callable[[], Any]]:
        """Return models of every kind that give what they are given."""

    @abstractmethod
    def sigmoids(self) -> Sequence[Any]:
        """Return models of one input that are known to end in a sigmoid, whose outputs are therefore probabilities."""

    @abstractmethod
    def dense(self, *sizes: int) -> Any:
        """Return a model of dense layers with bias, from the first size to the last."""

    @abstractmethod
    def words(self) -> Any:
        """Return a model of three numbers of words: an embedding of 10 by 4, and a dense layer of 12 to 2."""

    @abstractmethod
    def convolutional(self) -> Any:
        """Return a model of images of 8 by 8 by 3: a convolution to 4 channels, 3 by 3, and a dense layer to 2."""

    @abstractmethod
    def image(self, height: int, width: int, channels: int) -> tuple[int, ...]:
        """Return the shape of an image in the framework's own order."""

    @abstractmethod
    def declaring(self, *shape: int | None) -> tuple[Any, str]:
        """Return a model of a dense layer of 4 to 2 that declares an input, None where a size is open, and its name."""

    @abstractmethod
    def formula_of_layer(self, layer: Any) -> Any:
        """Return the cost formula that is registered for the class of a layer."""

    @abstractmethod
    def own_calls(self) -> Mapping[str, Any]:
        """Return the public calls that this backend's package has alone, as `bad_calls` has them."""

    @abstractmethod
    def losses(self) -> Sequence[tuple[str, Any]]:
        """Return losses that are the mean of squares, each with the name that it is shown by."""

    @abstractmethod
    def mean(self, tensor: Any) -> Any: ...

    def squared(self, output: Any, target: Any) -> Any:
        """Return the mean of squares."""
        return self.mean((output - target) ** 2)

    def draws_of_python(self) -> list[float]:
        return [float(np.random.normal()), random.random()]

    def inputs(self, *shape: int) -> ModelInputs:
        return ModelInputs(self.tensor(np.ones(shape, np.float32)))
