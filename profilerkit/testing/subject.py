"""What a backend's author says to the conformance suite, and what all of its checks are made with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, ClassVar, NoReturn, TypeVar

from ..backend import Backend, RunOptions
from ..errors import NotOfferedError
from ..inputs import ModelInputs, TensorSpec
from ..profiler import Profiler
from ..protocols import inapplicable_to, offered
from ..trace.records import ModelTrace
from .architectures import ARCHITECTURES
from .expected import Architecture, DataFormat
from .snapshots import differences, facts_of, process_facts

__all__ = ["BATCH_SIZES", "PRECISIONS", "BackendSubject", "expect", "expect_equal", "raised_by"]

P = TypeVar("P")

BATCH_SIZES = (1, 3)
#: The dtypes of weights that a network of low precision has.
PRECISIONS = ("bfloat16", "int8")


def expect(holds: object, message: str) -> None:
    """Fail the test with a message unless something holds."""
    __tracebackhide__ = True
    if not holds:
        raise AssertionError(message)


def expect_equal(actual: object, expected: object, what: str) -> None:
    """Fail the test unless what was found is what is expected."""
    __tracebackhide__ = True
    expect(actual == expected, f"{what}: found {actual!r}, expected {expected!r}")


def raised_by(call: Callable[[], object]) -> Exception | None:
    """Return what a call raises, or None."""
    try:
        call()
    except Exception as error:
        return error
    return None


class BackendSubject:
    """The backend under test, as its author describes it; see `profilerkit.testing.conformance`."""

    #: The backend that is to find the numbers.
    backend: ClassVar[Backend]
    #: What builds each architecture in the framework, with its weights, by its name.
    builders: ClassVar[Mapping[str, Callable[[], Any]]]
    #: The kind of each layer type of the framework that the models are made of.
    kinds: ClassVar[Mapping[str, str]]
    #: The layout of the images that the models take.
    data_format: ClassVar[DataFormat] = "channels_last"
    #: Whether a batch norm's mean and variance are among the parameters.
    statistics_are_parameters: ClassVar[bool] = False
    #: The name of the integers that stand for words: a backend that has no "int64" names another.
    integer_dtype: ClassVar[str] = "int64"
    #: Whether its models are made of layers; where they are one function each, the totals alone are compared.
    has_layers: ClassVar[bool] = True
    #: Why the framework cannot express an architecture, by its name.
    not_expressible: ClassVar[Mapping[str, str]] = MappingProxyType({})

    _models: ClassVar[dict[str, Any]] = {}
    _traces: ClassVar[dict[tuple[str, int], ModelTrace]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._models, cls._traces = {}, {}

    # What the author may say in methods -------------------------------------------------------------------------

    def call(self, model: Any, inputs: ModelInputs) -> Any:
        """Call the model as a user of the framework would, and return its outputs."""
        return model(*inputs.args, **inputs.kwargs)

    def to_numpy(self, tensor: Any) -> Any:
        """Return the values of a tensor as a numpy array."""
        import numpy as np  # whoever tests metrics alone needs none

        return np.asarray(tensor)

    def snapshot(self, model: Any) -> Any:
        """Return all of a model that must not change, comparable with ``==``: what its attributes lead to."""
        return facts_of(model)

    def change_a_parameter(self, model: Any) -> None:
        """Change one value of a parameter in place."""
        self.skip("change_a_parameter(model) is not given")

    def low_precision_model(self, dtype: str) -> Any:
        """Return "mlp" with weights in "bfloat16", or with the matrices among its weights in "int8"."""
        self.skip("low_precision_model(dtype) is not given")

    def threads(self) -> int:
        """Return how many threads an operator may use right now."""
        self.skip("threads() is not given")

    def raising_model(self, message: str) -> Any:
        """Return a model that takes the inputs of "mlp" and raises an error with this message when it runs."""
        self.skip("raising_model(message) is not given")

    def uncounted_model(self) -> Any:
        """Return a model that takes the inputs of "mlp" and contains an operation whose cost is not known."""
        self.skip("uncounted_model() is not given")

    # What the checks are made with ------------------------------------------------------------------------------

    def skip(self, reason: str) -> NoReturn:
        """Leave the running test out, and say why."""
        import pytest  # the suite is part of the library, pytest is not

        pytest.skip(reason)

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Run what takes an ``architecture`` for each that has a builder; the suite needs pytest for no more."""
        built = {name: architecture for name, architecture in ARCHITECTURES.items() if not self.left_out(name)}
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

    def left_out(self, name: str) -> str:
        """Return why an architecture is not tested, or nothing."""
        if name in self.not_expressible:
            return f"{name} cannot be expressed: {self.not_expressible[name]}"
        return "" if name in getattr(self, "builders", {}) else f"{name} has no builder"

    def built(self, architecture: Architecture) -> Any:
        """Return the model of an architecture: one and the same for all tests of the class."""
        if architecture.name not in self._models:
            self._models[architecture.name] = self.builders[architecture.name]()
        return self._models[architecture.name]

    def inputs(self, architecture: Architecture, batch_size: int = 3) -> ModelInputs:
        """Return inputs that the backend makes up."""
        shape = self.shapes(architecture)
        if isinstance(shape, dict):
            return ModelInputs(**{name: self.backend.random_tensor(spec, batch_size) for name, spec in shape.items()})
        return ModelInputs(*(self.backend.random_tensor(spec, batch_size) for spec in shape))

    def shapes(self, architecture: Architecture) -> list[TensorSpec] | dict[str, TensorSpec]:
        """Return the inputs' shapes in the layout and with the integers of the backend."""

        def with_integers(spec: TensorSpec) -> TensorSpec:
            return TensorSpec(spec.shape, self.integer_dtype) if spec.dtype == "int64" else spec

        shape = architecture.input_shape(self.data_format)
        if isinstance(shape, dict):
            return {name: with_integers(spec) for name, spec in shape.items()}
        return list(map(with_integers, shape))

    def traced(self, architecture: Architecture, batch_size: int = 3) -> ModelTrace:
        """Return the trace of an architecture, which must not fail; made once."""
        key = (architecture.name, batch_size)
        if key not in self._traces:
            self._traces[key] = self.backend.trace(self.built(architecture), self.inputs(architecture, batch_size))
        trace = self._traces[key]
        expect(trace.failure is None, f"the trace of {architecture.name} has failed: {trace.failure}")
        return trace

    def any_architecture(self) -> Architecture:
        """Return the first architecture that has a builder: "mlp" if it has one."""
        for name, architecture in ARCHITECTURES.items():
            if not self.left_out(name):
                return architecture
        raise AssertionError("no architecture has a builder; give builders = {'mlp': build_mlp, ...}")

    def mlp_or_skip(self) -> Architecture:
        """Return "mlp"; the running test is skipped where it has no builder."""
        if self.left_out("mlp"):
            self.skip(self.left_out("mlp"))
        return ARCHITECTURES["mlp"]

    @contextmanager
    def where_offered(self) -> Iterator[None]:
        """Skip the running test where the backend does not offer what is done inside."""
        try:
            yield
        except NotOfferedError as error:
            self.skip(str(error))

    def inputs_of_mlp(self, batch_size: int = 3) -> ModelInputs:
        """Return the inputs that `raising_model` and `uncounted_model` are called with."""
        return self.inputs(ARCHITECTURES["mlp"], batch_size)

    def profiler(self, architecture: Architecture) -> Profiler:
        """Return a profiler of an architecture without any function."""
        shape = self.shapes(architecture)
        return Profiler(self.built(architecture), input_shape=shape, backend=self.backend)

    def knows_trained_weights(self, model: Any) -> bool:
        """Say whether the backend tells which weights of a model are trained: a format of constants does not."""
        return "trainable_params" not in inapplicable_to(self.backend, model)

    def require_running(self) -> None:
        """Leave the running test out where the backend only counts."""
        if not self.backend.runs_models:
            self.skip(f"the {self.backend.name} backend does not run models")

    def run_forward(self, model: Any, inputs: ModelInputs, **options: Any) -> Any:
        """Make one forward pass the way that timing does."""
        self.require_running()
        with self.backend.run(model, inputs, RunOptions(**options)) as run:
            return run()

    def offered(self, protocol: Callable[..., P]) -> P:
        """Return the backend as what offers a protocol; the running test is left out where it does not."""
        with self.where_offered():
            return offered(self.backend, protocol)

    def unfitting(self, architecture: Architecture, batch_size: int = 3) -> ModelInputs:
        """Return inputs with one more element in each dimension but the batch, which no layer of the model takes."""

        def grown(spec: TensorSpec) -> Any:
            larger = TensorSpec(tuple(size + 1 for size in spec.shape), spec.dtype)
            return self.backend.random_tensor(larger, batch_size)

        return ModelInputs.of(self.shapes(architecture)).map(grown)

    @contextmanager
    def handed_back(self, model: Any, doing: str) -> Iterator[None]:
        """Fail the test unless the model, and the process' random numbers, come back as they were."""
        model_before, process_before = self.snapshot(model), process_facts()
        yield
        self._expect_same(model_before, self.snapshot(model), f"{doing} changed the model")
        self._expect_same(process_before, process_facts(), f"{doing} changed the process")

    @staticmethod
    def _expect_same(before: Any, after: Any, message: str) -> None:
        __tracebackhide__ = True
        expect(before == after, f"{message}; hand it back as it was: {differences(before, after)}")
