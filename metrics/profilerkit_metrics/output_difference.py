"""How far the outputs of models that are said to be one network lie apart, on the same inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from profilerkit import Comparative, JointFunction, Metric, Noted, Unavailable
from profilerkit.arguments.checks import FLAG, Check
from profilerkit.backend import Backend, RunOptions
from profilerkit.errors import InputError
from profilerkit.inputs import ModelInputs
from profilerkit.piping.function import Keys
from profilerkit.piping.outcome import Failure
from profilerkit.piping.quantity import format_number
from profilerkit.protocols import fit_inputs

if TYPE_CHECKING:
    from .output_arrays import Difference

__all__ = ["ComputeOutputDifference", "OutputDifference", "RelativeOutputDifference"]

#: If two calls of one model differ by a larger share of its largest output, its outputs are random. A smaller share is
#: the rounding of a device that adds in any order.
_RANDOM = 1e-3


class OutputDifference(Metric):
    """The largest difference between an element of a model's outputs and of the reference's, on the same inputs.

    >>> from torch import nn
    >>> from profilerkit import compare
    >>> model = nn.Linear(8, 2)
    >>> compare(model, model, input_shape=(8,), metrics=["output_difference"])["output_difference"]
    {'Linear (1)': 0.0, 'Linear (2)': 0.0}
    """

    NAME: str = "output_difference"
    COMPARATIVE: Comparative = Comparative.NONE
    FORMULA: str = "max abs(y - y_reference) over the elements of all outputs, in inference mode"
    OMISSIONS: str = "outputs that the other model lacks"
    SOURCE: str = "profilerkit's own definition"


class RelativeOutputDifference(Metric):
    """The largest difference of outputs as a share of the largest output of the reference.

    >>> from torch import nn
    >>> from profilerkit import compare
    >>> model = nn.Linear(8, 2)
    >>> compared = compare(model, model, input_shape=(8,), check_outputs=True, metrics=["macs"])
    >>> compared["relative_output_difference"]
    {'Linear (1)': 0.0, 'Linear (2)': 0.0}
    """

    NAME: str = "relative_output_difference"
    COMPARATIVE: Comparative = Comparative.NONE
    FORMULA: str = "max abs(y - y_reference) / max abs(y_reference) of each output; the largest of these"
    OMISSIONS: str = "outputs that the other model lacks"
    SOURCE: str = "profilerkit's own definition"


class ComputeOutputDifference(JointFunction):
    """Runs compared models on the inputs of the reference. Computed only if requested, or with ``check_outputs``."""

    KEYS: ClassVar[Keys] = (OutputDifference, RelativeOutputDifference)
    CHECKS: ClassVar[Mapping[str, Check]] = {"check_outputs": FLAG}
    ON_DEMAND: ClassVar[bool] = True
    COMPUTED_WITH: ClassVar[tuple[str, ...]] = ("check_outputs",)
    ONLY_THROUGH_BACKEND: ClassVar[bool] = True

    def __call__(
        self, model: Any, backend: Backend, inputs: Any, run_options: RunOptions, check_outputs: bool = True
    ) -> dict[str, Any]:
        """Return the reason why there is no value: one model alone has no difference.

        Args:
            model: The model; it runs in inference mode.
            backend: The model's backend.
            inputs: The inputs of the model's call; in a comparison they get the values of the reference's inputs.
            run_options: A `RunOptions`, instead of the single arguments ``mode``, ``device`` and others.
            check_outputs: If True, the outputs of compared models are checked, beside all other metrics.
        """
        values: dict[str, Any] = self.alone(model=model, backend=backend, inputs=inputs, run_options=run_options)
        return values

    def measure_together(self, calls: Sequence[Mapping[str, Any]]) -> Sequence[dict[str, Any]]:
        """Return the differences of each model's outputs from the outputs of the first model, which differs by 0."""
        from .output_arrays import compare_outputs

        reference, *others = calls
        if not others:
            return [_name_reason(Unavailable("needs another model to compare with: compare(reference, model)"))]
        try:
            outputs, inputs = _run(reference, ModelInputs.of(reference["inputs"]))
        except MemoryError:
            raise
        except Exception as error:  # whatever the model raises; the others are asked for a difference all the same
            why = Unavailable(f"the reference gives no outputs to compare with: {error}")
            return [_name_reason(_explain(error)), *(_name_reason(why) for _ in others)]
        differences = [_measure_difference(outputs, inputs, call) for call in others]
        return [_name_values(compare_outputs(outputs, outputs), inputs), *differences]


def _measure_difference(reference: Sequence[Any], inputs: ModelInputs, call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the difference of one model's outputs from the reference's, whose inputs it gets; or why there is none."""
    from .output_arrays import compare_outputs, copy_values

    backend = call["backend"]
    fit = partial(fit_inputs, backend, call["model"])
    try:
        copied = copy_values(inputs, ModelInputs.of(call["inputs"]), backend.as_tensor, fit)
        outputs = _run(call, copied.inputs).outputs
        return _name_values(compare_outputs(reference, outputs, copied.has_moved), inputs)
    except MemoryError:
        raise
    except Exception as error:  # whatever the model raises
        return _name_reason(_explain(error))


class _Numbers(NamedTuple):
    """The outputs of a model as arrays, and its inputs, both as the numbers that they stand for."""

    outputs: list[Any]
    inputs: ModelInputs


def _run(call: Mapping[str, Any], inputs: ModelInputs) -> _Numbers:
    """Return the outputs of a model for inputs.

    Raises `InputError` for a model whose calls differ: it is random.
    """
    from .output_arrays import compare_outputs, read_outputs

    options = replace(call["run_options"], training=False)
    with call["backend"].run(call["model"], inputs, options) as run:
        outputs, again = (read_outputs(run.read_outputs(run())) for _ in range(2))
        inputs_as_numbers = run.read_inputs(inputs)
    difference = compare_outputs(outputs, again)
    if difference.relative > _RANDOM:
        raise InputError(
            f"two calls with the same inputs differ by {format_number(difference.absolute)}: the model draws random "
            "numbers; leave them out to compare it"
        )
    return _Numbers(outputs, inputs_as_numbers)


def _name_values(difference: Difference, inputs: ModelInputs) -> dict[str, Any]:
    """Return a difference by the names of both metrics, with a note if nobody has chosen the inputs."""
    note = "compared on inputs that were made up; give inputs=x for others" if inputs.are_random else ""
    named = {OutputDifference.NAME: difference.absolute, RelativeOutputDifference.NAME: difference.relative}
    return {name: Noted(value, note) if note else value for name, value in named.items()}


def _name_reason(value: Unavailable | Failure) -> dict[str, Any]:
    return {OutputDifference.NAME: value, RelativeOutputDifference.NAME: value}


def _explain(error: Exception) -> Unavailable | Failure:
    """Return that outputs cannot be compared, or that a model failed."""
    return Unavailable(str(error)) if isinstance(error, InputError) else Failure(error)
