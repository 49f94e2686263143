"""Checks of a backend's errors: missing or unsuitable inputs, a model that raises, a missing device."""

from __future__ import annotations

from ..errors import DeviceNotAvailableError
from ..piping.outcome import Completeness
from ..profiler import Profiler
from ..trace.records import LayerRecord, ModelTrace
from .expectations import catch_error, expect, expect_equal
from .expected import Architecture
from .subject import BackendSubject

__all__ = ["FailingChecks"]

MESSAGE = "raised by the model of the conformance suite"
NO_DEVICE = "no-such-device"


class FailingChecks(BackendSubject):
    """A failure is reported, keeps the facts that are still available, and leaves the model unchanged."""

    def test_without_inputs_there_are_the_layers(self, architecture: Architecture) -> None:
        """The trace has the same layers with the same weights, and nothing that requires a run."""
        model = self.get_model(architecture)
        with self.expect_unchanged(model, "trace() without inputs"):
            trace = self.backend.trace(model, None)
        self._expect_layers_alone(
            trace, self.trace_architecture(architecture), f"the trace of {architecture.name} without inputs"
        )

    def test_inputs_that_do_not_fit_are_a_failure_of_the_trace(self, architecture: Architecture) -> None:
        """The trace does not raise: its failure describes the error, and the layers are present."""
        if architecture.name == "embedding_classifier":
            self.skip("embedding_classifier takes any number of words")
        model = self.get_model(architecture)
        with self.expect_unchanged(model, "trace() with inputs that do not fit"):
            trace = self.backend.trace(model, self.make_unfitting_inputs(architecture))
        what = f"the trace of {architecture.name} with inputs that do not fit"
        expect(isinstance(trace.failure, Exception), f"{what} has the failure {trace.failure!r}, not an exception")
        expect(str(trace.failure), f"the failure of {what} has no message")
        self._expect_layers_alone(trace, self.trace_architecture(architecture), what, inputs_were_given=True)

    def test_a_model_that_raises_is_quoted(self) -> None:
        """The trace's failure has the model's own message; timing raises it."""
        model, inputs = self.raising_model(MESSAGE), self.make_mlp_inputs()
        with self.expect_unchanged(model, "trace() of a model that raises"):
            trace = self.backend.trace(model, inputs)
        expect(
            MESSAGE in str(trace.failure),
            f"the failure of a model that raises is {trace.failure!r}, without its message",
        )
        with self.expect_unchanged(model, "run() of a model that raises"):
            error = catch_error(lambda: self.run_forward(model, inputs))
        expect(MESSAGE in str(error), f"run() of a model that raises raised {error!r}, without the model's message")

    def test_metrics_of_a_model_that_raises_fail_one_by_one(self) -> None:
        """Metrics that need no run have a value; the others have the reason why they do not."""
        model = self.raising_model(MESSAGE)
        profiler = Profiler(model, inputs=self.make_mlp_inputs(), backend=self.backend).register_defaults()
        profiler.compute(["total_params", "macs"])
        params, macs = (profiler.status_get(name, to_value=False).outcome for name in ("total_params", "macs"))
        expect_equal(params.completeness, Completeness.COMPLETE, "total_params of a model that raises")
        expect_equal(macs.completeness, Completeness.FAILED, "macs of a model that raises")
        expect(MESSAGE in " ".join(macs.missing), f"macs of a model that raises says {macs.missing}, not its message")

    def test_what_is_not_counted_is_named(self) -> None:
        """An operation without a formula makes the counts lower bounds, which name the operation."""
        model, inputs = self.uncounted_model(), self.make_mlp_inputs()
        trace = self.backend.trace(model, inputs)
        expect(trace.failure is None, f"the trace of uncounted_model() has failed: {trace.failure}")
        expect(trace.uncounted, "the trace of uncounted_model() names nothing as uncounted: a silent zero")
        incomplete = {op.missing for op in trace.operators if op.missing}
        expect(incomplete, "no operator of the trace of uncounted_model() says that it is not counted: `missing`")
        expect(incomplete <= trace.uncounted.keys(), f"operators lack {incomplete}, the trace {trace.uncounted}")
        profiler = Profiler(model, inputs=inputs, backend=self.backend).register_defaults()
        profiler.compute(["macs", "flops"])
        for name in ("macs", "flops"):
            outcome = profiler.status_get(name, to_value=False).outcome
            expect_equal(outcome.completeness, Completeness.PARTIAL, f"{name} of uncounted_model()")
            expect_equal(tuple(outcome.missing), trace.missing, f"what {name} of uncounted_model() leaves out")

    def test_a_device_that_is_not_there_is_said(self) -> None:
        """Every method that takes a device raises `DeviceNotAvailableError` before anything runs."""
        _, model, inputs = self.make_case()
        ran: list[bool] = []
        calls = {
            "resolve_device": lambda: self.backend.resolve_device(model, NO_DEVICE),
            "run": lambda: self.run_forward(model, inputs, device=NO_DEVICE),
            "evaluate": lambda: self.backend.evaluate(model, lambda: ran.append(True), NO_DEVICE),
        }
        if not self.backend.runs_models:
            del calls["run"]
        for name, call in calls.items():
            error = catch_error(call)
            expect(
                isinstance(error, DeviceNotAvailableError) and NO_DEVICE in str(error),
                f"{name} with device={NO_DEVICE!r} raised {error!r}; raise DeviceNotAvailableError, naming the device",
            )
        expect(not ran, f"evaluate ran its call though there is no {NO_DEVICE!r}")

    @staticmethod
    def _expect_layers_alone(
        trace: ModelTrace, complete: ModelTrace, what: str, inputs_were_given: bool = False
    ) -> None:
        __tracebackhide__ = True

        def describe(layer: LayerRecord) -> tuple[object, ...]:
            return layer.path, layer.type, layer.depth, [weight.count for weight in layer.parameters]

        layers, expected = list(map(describe, trace.layers)), list(map(describe, complete.layers))
        expect_equal(layers, expected, f"paths, types, depths and parameters of the layers in {what}")
        expect_equal(len(trace.operators), 0, f"operators in {what}")
        most = {layer.path: len(layer.calls) if inputs_were_given else 0 for layer in complete.layers}
        too_many = [layer.path for layer in trace.layers if len(layer.calls) > most[layer.path]]
        expect_equal(too_many, [], f"calls of layers in {what}: layers with more than before the error")
