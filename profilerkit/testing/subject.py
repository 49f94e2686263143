"""The base class of the conformance suite's checks: they take the models and inputs under test from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple, TypeVar

from ..backend import RunOptions
from ..errors import NotOfferedError
from ..input_shapes import TensorSpec
from ..inputs import ModelInputs
from ..profiler import Profiler
from ..protocols import list_inapplicable, require_capability
from ..trace.records import ModelTrace
from .architectures import ARCHITECTURES
from .expectations import expect
from .expected import Architecture, random_inputs
from .settings import BackendSettings
from .snapshots import differences, process_facts

__all__ = ["BATCH_SIZES", "PRECISIONS", "BackendSubject"]

P = TypeVar("P")

BATCH_SIZES = (1, 3)
#: The dtypes of the weights of low-precision models.
PRECISIONS = ("bfloat16", "int8")


class Case(NamedTuple):
    """An architecture, with its model in the framework and inputs of it."""

    architecture: Architecture
    model: Any
    inputs: ModelInputs


class BackendSubject(BackendSettings):
    """The backend under test: its models, each built once, their inputs and traces."""

    _models: ClassVar[dict[str, Any]] = {}
    _traces: ClassVar[dict[tuple[str, int], ModelTrace]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._models, cls._traces = {}, {}

    # Architectures: which are tested ------------------------------------------------------------------------------

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

    def find_architecture(self) -> Architecture:
        """Return the first architecture that has a builder: "mlp" if it has one."""
        for name, architecture in ARCHITECTURES.items():
            if not self.explain_omission(name):
                return architecture
        raise AssertionError("no architecture has a builder; give builders = {'mlp': build_mlp, ...}")

    # Their models, inputs and traces --------------------------------------------------------------------------------

    def make_case(self) -> Case:
        """Return the architecture of `find_architecture` with its model and inputs."""
        architecture = self.find_architecture()
        return Case(architecture, self.get_model(architecture), self.inputs(architecture))

    def get_model(self, architecture: Architecture) -> Any:
        """Return the model of an architecture, the same object for all tests of the class."""
        if architecture.name not in self._models:
            self._models[architecture.name] = self.builders[architecture.name]()
        return self._models[architecture.name]

    def inputs(self, architecture: Architecture, batch_size: int = 3) -> ModelInputs:
        """Return random inputs from the backend."""
        return random_inputs(self.backend, self.shapes(architecture), batch_size)

    def make_mlp_inputs(self) -> ModelInputs:
        """Return the inputs that `raising_model` and `uncounted_model` are called with."""
        return self.inputs(ARCHITECTURES["mlp"])

    def make_unfitting_inputs(self, architecture: Architecture) -> ModelInputs:
        """Return inputs that do not fit: each dimension except the batch has one more element."""

        def grow(spec: TensorSpec) -> Any:
            larger = TensorSpec(tuple(size + 1 for size in spec.shape), spec.dtype)
            return self.backend.random_tensor(larger, 3)

        return ModelInputs.of(self.shapes(architecture)).map(grow)

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

    def profiler(self, architecture: Architecture) -> Profiler:
        """Return a profiler of an architecture, without functions."""
        shape = self.shapes(architecture)
        return Profiler(self.get_model(architecture), input_shape=shape, backend=self.backend)

    def run_forward(self, model: Any, inputs: ModelInputs, **options: Any) -> Any:
        """Run one forward pass, as timing does."""
        self.require_running()
        with self.backend.run(model, inputs, RunOptions(**options)) as run:
            return run()

    # Tests that do not apply are skipped ----------------------------------------------------------------------------

    def require_mlp(self) -> Architecture:
        """Return "mlp"; skip the running test if it has no builder."""
        reason = self.explain_omission("mlp")
        if reason:
            self.skip(reason)
        return ARCHITECTURES["mlp"]

    def require_running(self) -> None:
        """Skip the running test if the backend only counts."""
        if not self.backend.runs_models:
            self.skip(f"the {self.backend.name} backend does not run models")

    def require_capability(self, protocol: Callable[..., P]) -> P:
        """Return the backend, typed as the protocol; skip the running test if the backend does not implement it."""
        with self.skip_where_not_offered():
            return require_capability(self.backend, protocol)

    @contextmanager
    def skip_where_not_offered(self) -> Iterator[None]:
        """Skip the running test if the block raises `NotOfferedError`."""
        try:
            yield
        except NotOfferedError as error:
            self.skip(str(error))

    def knows_trained_weights(self, model: Any) -> bool:
        """Return whether the backend reports which weights of a model are trained; a format of constants cannot."""
        return "trainable_params" not in list_inapplicable(self.backend, model)

    # Objects that must not change -----------------------------------------------------------------------------------

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
