"""The base class of the conformance suite: the settings of a backend's author, and helpers of the checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, NoReturn, TypeVar

from ..backend import Backend, RunOptions
from ..errors import NotOfferedError
from ..input_shapes import TensorSpec
from ..inputs import ModelInputs
from ..profiler import Profiler
from ..protocols import list_inapplicable, require_capability
from ..trace.records import ModelTrace
from .architectures import ARCHITECTURES
from .expected import Architecture, DataFormat, random_inputs
from .snapshots import collect_facts, differences, process_facts

__all__ = ["BATCH_SIZES", "PRECISIONS", "BackendSubject", "catch_error", "expect", "expect_equal"]

P = TypeVar("P")

BATCH_SIZES = (1, 3)
#: The dtypes of the weights of low-precision models.
PRECISIONS = ("bfloat16", "int8")


def expect(condition: object, message: str) -> None:
    """Fail the test with a message if the condition is false."""
    __tracebackhide__ = True
    if not condition:
        raise AssertionError(message)


def expect_equal(actual: object, expected: object, what: str) -> None:
    """Fail the test if the actual value differs from the expected one."""
    __tracebackhide__ = True
    expect(actual == expected, f"{what}: found {actual!r}, expected {expected!r}")


def catch_error(call: Callable[[], object]) -> Exception | None:
    """Return the exception that a call raises; None if it raises none."""
    try:
        call()
    except Exception as error:
        return error
    return None


class Picked(NamedTuple):
    """An architecture, with its model in the framework and inputs of it."""

    architecture: Architecture
    model: Any
    inputs: ModelInputs


class BackendSubject:
    """The backend under test, as its author describes it; see `profilerkit.testing.conformance`."""

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

    _models: ClassVar[dict[str, Any]] = {}
    _traces: ClassVar[dict[tuple[str, int], ModelTrace]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._models, cls._traces = {}, {}

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

    # Helpers of the checks ----------------------------------------------------------------------------------------

    def skip(self, reason: str) -> NoReturn:
        """Skip the running test, with the reason."""
        import pytest  # the suite is part of the library, pytest is not

        pytest.skip(reason)

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Run a test with a parameter ``architecture`` for each that has a builder: a hook of pytest."""
        built = {name: architecture for name, architecture in ARCHITECTURES.items() if not self.explain_omission(name)}
        cases: dict[str, tuple[Any, ...]] = {
            "name": tuple(ARCHITECTURES),
            "architecture": tuple(built.values()),
            "batch_size": BATCH_SIZES,
            "precision": PRECISIONS,
        }
        names = {"name": tuple(ARCHITECTURES), "architecture": tuple(built)}
        for parameter, values in cases.items():
            if parameter in metafunc.fixturenames:
                metafunc.parametrize(parameter, values, ids=names.get(parameter))

    def explain_omission(self, name: str) -> str:
        """Return why an architecture is not tested; an empty text if it is."""
        if name in self.not_expressible:
            return f"{name} cannot be expressed: {self.not_expressible[name]}"
        return "" if name in getattr(self, "builders", {}) else f"{name} has no builder"

    def get_model(self, architecture: Architecture) -> Any:
        """Return the model of an architecture, the same object for all tests of the class."""
        if architecture.name not in self._models:
            self._models[architecture.name] = self.builders[architecture.name]()
        return self._models[architecture.name]

    def inputs(self, architecture: Architecture, batch_size: int = 3) -> ModelInputs:
        """Return random inputs from the backend."""
        return random_inputs(self.backend, self.shapes(architecture), batch_size)

    def shapes(self, architecture: Architecture) -> list[TensorSpec] | dict[str, TensorSpec]:
        """Return the shapes of the inputs in the layout and with the integer dtype of the backend."""

        def with_integers(spec: TensorSpec) -> TensorSpec:
            return TensorSpec(spec.shape, self.integer_dtype) if spec.dtype == "int64" else spec

        shape = architecture.input_shape(self.data_format)
        if isinstance(shape, dict):
            return {name: with_integers(spec) for name, spec in shape.items()}
        return list(map(with_integers, shape))

    def trace_architecture(self, architecture: Architecture, batch_size: int = 3) -> ModelTrace:
        """Return the trace of an architecture, which must not fail; it is cached."""
        key = (architecture.name, batch_size)
        if key not in self._traces:
            self._traces[key] = self.backend.trace(self.get_model(architecture), self.inputs(architecture, batch_size))
        trace = self._traces[key]
        expect(trace.failure is None, f"the trace of {architecture.name} has failed: {trace.failure}")
        return trace

    def any_architecture(self) -> Architecture:
        """Return the first architecture that has a builder: "mlp" if it has one."""
        for name, architecture in ARCHITECTURES.items():
            if not self.explain_omission(name):
                return architecture
        raise AssertionError("no architecture has a builder; give builders = {'mlp': build_mlp, ...}")

    def pick_any(self) -> Picked:
        """Return `any_architecture` with its model and inputs."""
        architecture = self.any_architecture()
        return Picked(architecture, self.get_model(architecture), self.inputs(architecture))

    def mlp_or_skip(self) -> Architecture:
        """Return "mlp"; skip the running test if it has no builder."""
        if self.explain_omission("mlp"):
            self.skip(self.explain_omission("mlp"))
        return ARCHITECTURES["mlp"]

    @contextmanager
    def where_offered(self) -> Iterator[None]:
        """Skip the running test if the block raises `NotOfferedError`."""
        try:
            yield
        except NotOfferedError as error:
            self.skip(str(error))

    def inputs_of_mlp(self) -> ModelInputs:
        """Return the inputs that `raising_model` and `uncounted_model` are called with."""
        return self.inputs(ARCHITECTURES["mlp"])

    def profiler(self, architecture: Architecture) -> Profiler:
        """Return a profiler of an architecture, without functions."""
        shape = self.shapes(architecture)
        return Profiler(self.get_model(architecture), input_shape=shape, backend=self.backend)

    def knows_trained_weights(self, model: Any) -> bool:
        """Return whether the backend reports which weights of a model are trained; a format of constants cannot."""
        return "trainable_params" not in list_inapplicable(self.backend, model)

    def require_running(self) -> None:
        """Skip the running test if the backend only counts."""
        if not self.backend.runs_models:
            self.skip(f"the {self.backend.name} backend does not run models")

    def run_forward(self, model: Any, inputs: ModelInputs, **options: Any) -> Any:
        """Run one forward pass, as timing does."""
        self.require_running()
        with self.backend.run(model, inputs, RunOptions(**options)) as run:
            return run()

    def require_capability(self, protocol: Callable[..., P]) -> P:
        """Return the backend, typed as the protocol; skip the running test if the backend does not implement it."""
        with self.where_offered():
            return require_capability(self.backend, protocol)

    def make_unfitting_inputs(self, architecture: Architecture) -> ModelInputs:
        """Return inputs that do not fit: each dimension except the batch has one more element."""

        def grow(spec: TensorSpec) -> Any:
            larger = TensorSpec(tuple(size + 1 for size in spec.shape), spec.dtype)
            return self.backend.random_tensor(larger, 3)

        return ModelInputs.of(self.shapes(architecture)).map(grow)

    @contextmanager
    def expect_unchanged(self, model: Any, doing: str) -> Iterator[None]:
        """Fail the test if the block changes the model or the state of the process' random number generators."""
        model_before, process_before = self.snapshot(model), process_facts()
        yield
        self._expect_same(model_before, self.snapshot(model), f"{doing} changed the model")
        self._expect_same(process_before, process_facts(), f"{doing} changed the process")

    @staticmethod
    def _expect_same(before: Any, after: Any, message: str) -> None:
        __tracebackhide__ = True
        expect(before == after, f"{message}; restore it: {differences(before, after)}")
