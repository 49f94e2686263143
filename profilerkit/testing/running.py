"""Checks of the runs of a backend: timed forward passes, steps of training, evaluations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..backend import RunOptions
from ..errors import InputError
from ..inputs import ModelInputs
from ..times.run import Run
from ..trace.records import ModelTrace
from .expectations import catch_error, expect, expect_equal
from .subject import BackendSubject

__all__ = ["RunningChecks"]

PASSES = 3


class _CountedCall:
    """A function for ``call=`` that counts how often it is called, and calls the model as a user would."""

    def __init__(self, call: Callable[[Any, ModelInputs], Any]) -> None:
        self.times = 0
        self._call = call

    def __call__(self, model: Any, *args: Any, **kwargs: Any) -> Any:
        self.times += 1
        return self._call(model, ModelInputs(*args, **kwargs))


def _is_followed(trace: ModelTrace) -> bool:
    """Return whether a trace followed the function of ``call=``, which `ModelInputs.own_call` refuses."""
    return not isinstance(trace.failure, InputError)


class RunningChecks(BackendSubject):
    """The model runs in inference mode, and its times are positive and consistent."""

    def test_forward_runs_in_every_mode(self) -> None:
        """Each of `execution_modes` yields a run that can be repeated."""
        self.require_running()
        _, model, inputs = self.make_case()
        expect(self.backend.execution_modes, "execution_modes is empty; name the ways the backend can run a model")
        for mode in (None, *self.backend.execution_modes):
            with (
                self.expect_unchanged(model, f"run(mode={mode!r})"),
                self.backend.run(model, inputs, RunOptions(mode=mode)) as run,
            ):
                expect(isinstance(run, Run), f"run(mode={mode!r}) yielded {run!r}; yield a profilerkit.Run")
                run()
                run()
                self._expect_times(run, mode)
            seconds = run.first_call_seconds
            expect(seconds is None or seconds > 0, f"first_call_seconds in mode {mode!r} is {seconds!r}, not positive")

    def _expect_times(self, run: Run, mode: str | None) -> None:
        seconds, parts = run.seconds(), run.parts()
        expect(seconds >= 0, f"run.seconds() in mode {mode!r} returned {seconds}; a time is not negative")
        named = all(isinstance(name, str) and name and seconds >= 0 for name, seconds in parts.items())
        expect(named, f"run.parts() in mode {mode!r} returned {parts!r}; give seconds by the names of the parts")

    def test_a_function_given_as_call_is_what_runs(self) -> None:
        """It runs instead of the model's own call, in traces and timing, with the model and the inputs as arguments."""
        self.require_running()
        _, model, inputs = self.make_case()
        traced = _CountedCall(self.call)
        timed = _CountedCall(self.call)  # not the same: the timed function may be a program that was traced
        trace = self.backend.trace(model, inputs.given_to(traced))
        if not _is_followed(trace):
            self.skip(f"the {self.backend.name} backend follows the model's own call alone: {trace.failure}")
        expect(traced.times, "trace() did not call the function that was given with call=")
        self.run_forward(model, inputs.given_to(timed))
        expect(timed.times, "run() did not call the function that was given with call=")

    def test_threads_are_as_many_as_requested(self) -> None:
        """With ``num_threads``, if it is offered: that many threads during the run, the previous number afterwards.

        `threads` is called inside the function of ``call=``; if the backend follows the model's own call alone, between
        the passes of a run.
        """
        self.require_running()
        _, model, inputs = self.make_case()
        seen: list[int] = []

        def call(network: Any, *args: Any, **kwargs: Any) -> Any:
            seen.append(self.threads())
            return self.call(network, ModelInputs(*args, **kwargs))

        before = self.threads()
        requested = 2 if before == 1 else 1
        options = RunOptions(num_threads=requested)
        follows = _is_followed(self.backend.trace(model, inputs.given_to(call)))
        seen.clear()
        with (
            self.skip_where_not_offered(),
            self.backend.run(model, inputs.given_to(call) if follows else inputs, options) as run,
        ):
            run()
            if not follows:
                seen.append(self.threads())
        del run  # threads may belong to the run
        expect_equal(set(seen), {requested}, f"threads while the model runs with num_threads={requested}")
        expect_equal(self.threads(), before, "threads after the model has run")

    def test_steps_of_training_run(self) -> None:
        """If training is offered, `run` with ``training=True`` yields a run that can be repeated."""
        self.require_running()
        _, model, inputs = self.make_case()
        with (
            self.skip_where_not_offered(),
            self.expect_unchanged(model, "run(training=True)"),
            self.backend.run(model, inputs, RunOptions(training=True)) as run,
        ):
            run()
            run()
            self._expect_times(run, None)

    def test_forward_really_runs_the_model(self) -> None:
        """Inputs that do not fit raise, at the latest when the call is made."""
        architecture = self.find_architecture()
        error = catch_error(
            lambda: self.run_forward(self.get_model(architecture), self.make_unfitting_inputs(architecture))
        )
        expect(
            error is not None,
            f"run of {architecture.name} with inputs that do not fit raised nothing: does the call run the model?",
        )

    def test_an_unknown_mode_is_an_input_error(self) -> None:
        """A mode that the backend does not have is an error before anything runs."""
        _, model, inputs = self.make_case()
        error = catch_error(lambda: self.run_forward(model, inputs, mode="no such mode"))
        expect(
            isinstance(error, InputError) and "no such mode" in str(error),
            f"run(mode='no such mode') raised {error!r}; let self.mode(options) raise InputError",
        )

    def test_times_are_positive_and_give_the_throughput(self) -> None:
        """There are as many samples as requested; the throughput is the batch size divided by the time."""
        self.require_running()
        architecture = self.find_architecture()
        profiler = self.profiler(architecture).register_defaults()
        for batch_size in (1, 3):
            profiler.compute(
                ["execution_time", "throughput"], batch_size=batch_size, num_iters=PASSES, warmup=1, strict=True
            )
            time, throughput = (profiler.status_get(name) for name in ("execution_time", "throughput"))
            expect_equal(len(time.samples), PASSES, f"samples of the execution time of {architecture.name}")
            expect(min(time.samples) > 0, f"the execution time of {architecture.name} is {time.samples}, not positive")
            samples = throughput.median * time.median
            expect(math.isclose(samples, batch_size), f"{samples:g} samples went through in a batch of {batch_size}")

    def test_evaluate_returns_what_the_call_returns(self) -> None:
        """It returns the same object, from a single call."""
        model = self.get_model(self.find_architecture())
        results: list[object] = []

        def call() -> object:
            results.append(object())
            return results[-1]

        returned = self.backend.evaluate(model, call)
        expect_equal(len(results), 1, "calls that evaluate(model, call) made")
        expect(returned is results[0], f"evaluate(model, call) returned {returned!r}, not what the call returned")

    def test_evaluate_lets_errors_pass(self) -> None:
        """The error of the call reaches the caller unchanged, and the model is restored."""
        model = self.get_model(self.find_architecture())
        raised = ArithmeticError("raised inside evaluate")

        def call() -> None:
            raise raised

        with self.expect_unchanged(model, "evaluate(), whose call raised,"):
            error = catch_error(lambda: self.backend.evaluate(model, call))
        expect(error is raised, f"evaluate() raised {error!r} where its call raised {raised!r}; let it pass")

    def test_evaluate_is_in_inference_mode(self) -> None:
        """Two evaluations give equal values: "mlp" has a dropout, which does nothing in inference mode."""
        mlp = self.require_mlp()
        model, inputs = self.get_model(mlp), self.inputs(mlp)
        first, second = (
            self.to_numpy(self.backend.evaluate(model, lambda: self.call(model, inputs))).tobytes() for _ in range(2)
        )
        expect(first == second, "two evaluations of mlp differ: is the dropout in training mode?")
