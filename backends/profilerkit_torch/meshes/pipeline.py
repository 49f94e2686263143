"""A pipeline: the rank has some of its stages, and runs their parts of each microbatch in the order of a schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from torch import nn
from torch.distributed.pipelining import PipelineStage

from profilerkit import InputError, ModelInputs
from profilerkit.backend_kit.replaced_attributes import replace_attribute

from ..compat.meshes import use_given_shapes
from ..training.differentiation import follow_gradients
from .recorder import RankRecorder
from .step_scheme import StepScheme

__all__ = ["Pipeline"]

_Method = Callable[..., Any]


class Pipeline(StepScheme):
    """Runs torch's own schedule over the rank's stages; received tensors have the shapes given to the stages."""

    def __init__(self, stages: Any, schedule: Any) -> None:
        self._stages: list[Any] = list(stages) if isinstance(stages, list | tuple) else [stages]
        self._schedule = schedule
        if not self._stages or not all(isinstance(stage, PipelineStage) for stage in self._stages):
            raise InputError(
                "parallelize returned two values; for a pipeline these are the rank's stages, each a PipelineStage, "
                "and their schedule: return stages, schedule"
            )
        for stage in self._stages:
            use_given_shapes(stage, schedule)

    @property
    def model(self) -> nn.Module:
        """The modules of the rank's stages: one module itself, several in a list."""
        modules = [stage.submod for stage in self._stages]
        return modules[0] if len(modules) == 1 else nn.ModuleList(modules)

    def select_inputs(self, inputs: ModelInputs) -> ModelInputs:
        """Return the rank's inputs: the first stage gets inputs, the last the target, any stage other named ones."""
        named = dict(inputs.kwargs)
        if not any(stage.is_last for stage in self._stages):
            named.pop("target", None)
        return ModelInputs(*(inputs.args if any(stage.is_first for stage in self._stages) else ()), **named)

    def run(self, model: nn.Module, inputs: ModelInputs, recorder: RankRecorder, passes: int) -> list[str]:
        """Run the schedule, which adds up the gradients of its own microbatches."""
        if passes > 1:
            raise InputError(
                "a pipeline adds up the gradients of its microbatches by itself; leave out "
                "gradient_accumulation_steps, and give the schedule more of them: n_microbatches="
            )
        recorder.begin("forward")
        with follow_gradients(model.parameters(), recorder.note_trained), self._follow_stages(recorder):
            self._schedule.step(*inputs.args, **inputs.kwargs)
        return []

    @contextmanager
    def _follow_stages(self, recorder: RankRecorder) -> Iterator[None]:
        """Record the backward pass of each microbatch as backward, with the tensors sent and received for it."""
        go_back = partial(_count_backward, recorder)
        changes = {
            "backward_one_chunk": go_back,
            "backward_weight_one_chunk": go_back,
            "get_fwd_send_ops": partial(_note_exchanged, recorder, "forward"),
            "get_fwd_recv_ops": partial(_note_exchanged, recorder, "forward"),
            "get_bwd_send_ops": partial(_note_exchanged, recorder, "backward"),
            "get_bwd_recv_ops": partial(_note_exchanged, recorder, "backward"),
        }
        with ExitStack() as replaced:
            for stage in self._stages:
                for name, wrap in changes.items():
                    replaced.enter_context(replace_attribute(stage, name, wrap(getattr(stage, name))))
            yield


def _count_backward(recorder: RankRecorder, method: _Method) -> _Method:
    """Return a method of a stage whose work is recorded as the backward pass."""

    def call(*args: Any, **kwargs: Any) -> Any:
        recorder.begin("backward")
        try:
            with recorder.layers.apart():
                return method(*args, **kwargs)
        finally:
            recorder.begin("forward")

    return call


def _note_exchanged(recorder: RankRecorder, phase: str, method: _Method) -> _Method:
    """Return a method of a stage that also notes the phase for which its tensors are sent or received."""

    def call(*args: Any, **kwargs: Any) -> Any:
        operations = method(*args, **kwargs)
        for operation in operations:
            recorder.exchanges.note_phase(operation.tensor, phase)
        return operations

    return call
