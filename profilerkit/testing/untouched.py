"""Checks that the model is unchanged, and that every default metric has a value or a reason why not."""

from __future__ import annotations

from ..hooks.offers import default_functions
from ..piping.outcome import Completeness
from .expectations import catch_error, expect, expect_equal
from .expected import Architecture
from .subject import BackendSubject

__all__ = ["DefaultMetricChecks", "UntouchedChecks"]


class UntouchedChecks(BackendSubject):
    """No method of the backend changes the model."""

    def test_tracing_leaves_the_model_as_it_was(self, architecture: Architecture) -> None:
        """The states of the process' random number generators are unchanged too."""
        model = self.get_model(architecture)
        with self.expect_unchanged(model, f"trace() of {architecture.name}"):
            self.backend.trace(model, self.inputs(architecture))

    def test_running_leaves_the_model_as_it_was(self, architecture: Architecture) -> None:
        """It is unchanged after a forward pass and after an evaluation."""
        model, inputs = self.get_model(architecture), self.inputs(architecture)
        with self.expect_unchanged(model, f"run() of {architecture.name}"):
            self.run_forward(model, inputs)
        with self.expect_unchanged(model, f"evaluate() of {architecture.name}"):
            self.backend.evaluate(model, lambda: self.call(model, inputs))

    def test_a_run_that_fails_leaves_the_model_as_it_was(self) -> None:
        """The run fails inside the model, with inputs that do not fit."""
        architecture = self.find_architecture()
        model = self.get_model(architecture)
        with self.expect_unchanged(model, f"run() of {architecture.name} with inputs that do not fit"):
            catch_error(lambda: self.run_forward(model, self.make_unfitting_inputs(architecture)))

    def test_preserve_says_nothing_of_what_is_raised_inside(self) -> None:
        """An error inside `preserve` is raised unchanged, and the model is restored."""
        model, raised = self.get_model(self.find_architecture()), ArithmeticError("raised inside preserve")

        def fail() -> None:
            with self.backend.preserve(model):
                raise raised

        with self.expect_unchanged(model, "preserve() around an error"):
            error = catch_error(fail)
        expect(error is raised, f"preserve() turned {raised!r} into {error!r}; let it pass")


class DefaultMetricChecks(BackendSubject):
    """The metrics of all installed plugins have a value for the backend, or a reason why not."""

    def test_every_default_metric_has_a_value_or_a_reason(self) -> None:
        """No metric fails on a model that runs, metrics on demand included."""
        architecture = self.find_architecture()
        profiler = self.profiler(architecture).register_defaults()
        names = [key.NAME for function in default_functions(self.backend).functions() for key in function.list_keys()]
        with self.expect_unchanged(profiler.model, "computing all metrics"):
            profiler.compute(names, batch_size=3, num_iters=3, warmup=1)
        for name in names:
            outcome = profiler.status_get(name, to_value=False).outcome
            state = f"{name} of {architecture.name} is {outcome.completeness.value}"
            expect(outcome.completeness is not Completeness.FAILED, f"{state}: {'; '.join(outcome.missing)}")
            if outcome.completeness is Completeness.UNAVAILABLE:
                expect("".join(outcome.missing).strip(), f"{state}, without a reason")

    def test_the_profile_has_the_numbers_of_the_description(self, architecture: Architecture) -> None:
        """The default functions return these numbers from input shapes, for a batch."""
        profiler = self.profiler(architecture).register_defaults()
        numbers = {
            "trainable_params": architecture.params,
            "macs": architecture.macs(3),
            "flops": architecture.flops(3),
        }
        if not self.knows_trained_weights(profiler.model):
            del numbers["trainable_params"]
        profiler.compute([*numbers, "model_size"], batch_size=3, strict=True)
        for name, expected in numbers.items():
            expect_equal(profiler.status_get(name), expected, f"{name} in the profile of {architecture.name}")
        has_known_memory = architecture.name != "lstm"  # how much a kernel of it needs besides, few frameworks say
        profiler.compute(["memory_footprint"], batch_size=3, strict=has_known_memory)
        footprint = profiler.status_get("memory_footprint")
        expect(bool(footprint), f"the memory footprint of {architecture.name} has no bytes, not even as a lower bound")
