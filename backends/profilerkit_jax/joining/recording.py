"""From the instructions in a profile of JAX's to the seconds of kernels in layers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import mean
from typing import Any, NamedTuple

from profilerkit import ModelInputs, ModelTrace, ProfileFileError
from profilerkit_predict.joining.reading import ProfileFile, require_passes
from profilerkit_predict.joining.records import (
    KernelTimes,
    RecordedKernel,
    Recording,
    compute_layer_share,
    measure_extent,
    sum_covered,
)

from .instruction_layers import InstructionLayers, find_layer, find_layers
from .programs import Instruction, compile_program, read_program
from .trace_events import RanInstruction, RanInstructions, read_instructions

__all__ = ["read_recording"]

#: The least share of the time that instructions of layers have in a profile of the model.
_LEAST_SHARE = 0.5


class _Work(NamedTuple):
    """An instruction that ran, with its layer and phase.

    Attributes:
        ran: The instruction.
        layer: The path of the layer that it worked for; None if unknown.
        phase: ``"forward"`` or ``"backward"``.
    """

    ran: RanInstruction
    layer: str | None = None
    phase: str = "forward"


class _CompiledModel(NamedTuple):
    """The model as it is compiled here.

    Attributes:
        instructions: The instructions of its program, by name.
        layers: The layers that they work for.
        paths: The paths of all layers.
    """

    instructions: Mapping[str, Instruction]
    layers: InstructionLayers
    paths: frozenset[str]


def read_recording(
    profile: ProfileFile, model: Any, inputs: ModelInputs | None, trace: ModelTrace, skip: int = 0
) -> Recording:
    """Return the passes in a profile of JAX's, with the layer that each instruction worked for.

    Raises `ProfileFileError` for the file of another profiler, without instructions, or of another model.
    """
    ran, device = _read_instructions(profile)
    compiled = _compile_model(model, inputs, trace)
    program = _find_program(ran, compiled.layers.by_name)
    kept = _leave_out(ran, program, skip) if skip else ran
    works = [_find_work(instruction, program, compiled) for instruction in kept]
    return _make_recording(works, program, compiled.layers.by_fusion, device)


def _read_instructions(profile: ProfileFile) -> RanInstructions:
    """Return the instructions that ran; raise `ProfileFileError` for another profiler's file, or without any."""
    profile.require_kind("xla", "JAX")
    instructions = read_instructions(profile)
    if not instructions.runs:
        raise ProfileFileError(
            f"{profile.path} has {len(profile.events)} events, and no instruction of a compiled program; run the model "
            "under jax.jit, and wait for its result inside of jax.profiler.trace"
        )
    return instructions


def _compile_model(model: Any, inputs: ModelInputs | None, trace: ModelTrace) -> _CompiledModel:
    """Return the program of a pass, or of a training step if the trace has gradients."""
    is_training = any(operator.phase == "backward" for operator in trace.operators)
    instructions = read_program(compile_program(model, inputs or ModelInputs(), is_training))
    paths = frozenset(layer.path for layer in trace.layers)
    return _CompiledModel(instructions, find_layers(instructions, paths), paths)


def _find_program(ran: Iterable[RanInstruction], layers: Mapping[str, str]) -> str:
    """Return the program of the model: the known program whose instructions take the most time."""
    whole: defaultdict[str, float] = defaultdict(float)
    in_layers: defaultdict[str, float] = defaultdict(float)
    for instruction in ran:
        whole[instruction.program] += instruction.seconds
        if instruction.name in layers:
            in_layers[instruction.program] += instruction.seconds
    likely = [program for program, seconds in in_layers.items() if seconds] or list(whole)
    return max(likely, key=lambda program: (in_layers[program], whole[program]))


def _leave_out(ran: Sequence[RanInstruction], program: str, skip: int) -> list[RanInstruction]:
    """Return the instructions since the first kept run of the program.

    Other programs, a loss for example, belong to the passes around them: their instructions in passes that are left out
    go too. Raises `ProfileFileError` if no pass is left.
    """
    of_program = [instruction for instruction in ran if instruction.program == program]
    runs = list(dict.fromkeys(instruction.run for instruction in of_program))
    require_passes(len(runs), skip)
    begin = min(instruction.start for instruction in of_program if instruction.run == runs[skip])
    return [instruction for instruction in ran if instruction.start >= begin]


def _find_work(ran: RanInstruction, program: str, compiled: _CompiledModel) -> _Work:
    """Return the layer and the phase of an instruction: by its scopes in the profile, otherwise in the program.

    Other programs have instructions of the same names, "fusion.1", so their instructions get no layer. JAX writes
    ``transpose(...)`` into the scopes of a function's gradient.
    """
    if ran.program != program:
        return _Work(ran)
    layer = find_layer(ran.scopes, compiled.paths) if ran.scopes else None
    if layer is None:
        layer = compiled.layers.by_name.get(ran.name)
    instruction = compiled.instructions.get(ran.name)
    scopes = ran.scopes or (instruction.scopes if instruction is not None else "")
    return _Work(ran, layer, "backward" if "transpose(" in scopes else "forward")


def _make_recording(works: Sequence[_Work], program: str, fused: Mapping[str, set[str]], device: str) -> Recording:
    """Return the means over the passes; raise `ProfileFileError` if layers have too little of the time."""
    of_program = [work for work in works if work.ran.program == program]
    passes = _time_passes([work.ran for work in of_program])
    kernels = _sum_up(works).average(len(passes))
    _require_layers(kernels)
    busy = sum_covered(work.ran.span for work in of_program) / len(passes)
    return Recording(
        kernels,
        passes,
        max(mean(passes) - busy, 0.0),
        device=device,
        on_device=bool(device),
        by="the scopes of XLA's instructions, of the program as it is compiled here",
        remarks=_explain_fusions({work.ran.name: work.layer for work in of_program}, fused),
    )


def _require_layers(kernels: Sequence[RecordedKernel]) -> None:
    share = compute_layer_share(kernels)
    if share < _LEAST_SHARE:
        raise ProfileFileError(
            f"the profile is of another model, device or version: only {100 * share:.0f} % of its time is in "
            "instructions that the model has as it is compiled here, or whose scopes name layers. Join it where the "
            "same versions of JAX compile for the same device, or profile a model whose layers open scopes "
            "(flax.linen, Keras)"
        )


def _time_passes(of_program: Sequence[RanInstruction]) -> tuple[float, ...]:
    """Return the seconds of each pass; equal shares if the profile does not tell the runs of the program apart."""
    if all(instruction.run is None for instruction in of_program):
        # Most instructions run once in a pass, all but the instructions of loops and branches.
        repeats = Counter(instruction.name for instruction in of_program)
        [(count, _)] = Counter(repeats.values()).most_common(1)
        return (measure_extent([instruction.span for instruction in of_program]) / count,) * count
    spans_by_run: defaultdict[Any, list[tuple[float, float]]] = defaultdict(list)
    for instruction in of_program:
        spans_by_run[instruction.run].append(instruction.span)
    return tuple(measure_extent(spans) for spans in spans_by_run.values())


def _sum_up(works: Iterable[_Work]) -> KernelTimes:
    """Return the seconds of instructions; instructions without a layer are told apart by their programs."""
    times = KernelTimes()
    for work in works:
        around = work.ran.program if work.layer is None else ""
        times.add(work.ran.seconds, work.ran.name, work.layer, work.phase, around)
    return times


def _explain_fusions(layers: Mapping[str, str | None], fused: Mapping[str, set[str]]) -> dict[str, str]:
    """Return remarks on layers that contain the time of other layers, because XLA has fused their instructions.

    Args:
        layers: The layer of each instruction that ran.
        fused: The layers that each fused instruction works for.
    """
    others: defaultdict[str, set[str]] = defaultdict(set)
    for name, layer in layers.items():
        if layer is not None:
            others[layer] |= fused.get(name, set()) - {layer}
    remarks = {}
    for layer, paths in others.items():
        if paths:
            names = ", ".join(repr(path or "the model itself") for path in sorted(paths))
            remarks[layer] = f"has the time of {names} too, which XLA has fused with it, in part"
    return remarks
