"""From the instructions in a profile of JAX's to the seconds of kernels in layers."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
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


class _CompiledModel(NamedTuple):
    """The model as it is compiled here.

    Attributes:
        instructions: The instructions of its program, by name; those of the computation that it begins with come last.
        layers: The layers that they work for.
        paths: The paths of all layers.
    """

    instructions: Mapping[str, Instruction]
    layers: InstructionLayers
    paths: frozenset[str]


class _Work(NamedTuple):
    """The path of the layer that an instruction worked for, None if unknown; and "forward" or "backward"."""

    layer: str | None
    phase: str


def read_recording(
    profile: ProfileFile, model: Any, inputs: ModelInputs | None, trace: ModelTrace, skip: int = 0
) -> Recording:
    """Return the passes in a profile of JAX's, with the layer that each instruction worked for.

    Raises `ProfileFileError` for the file of another profiler, without instructions or enough passes, or of another
    model.
    """
    ran, device = _read_instructions(profile)
    compiled = _compile_model(model, inputs, trace)
    program = _find_program(ran, compiled.layers.by_name)
    passes = _list_passes([instruction for instruction in ran if instruction.program == program], compiled)
    require_passes(len(passes), skip)
    kept = passes[skip:]
    if skip:  # other programs, a loss for example, belong to the passes around them
        ran = [instruction for instruction in ran if instruction.start >= kept[0][0].start]
    kernels = _sum_up(ran, program, compiled).average(len(kept))
    _require_layers(kernels)
    spans = [[instruction.span for instruction in one_pass] for one_pass in kept]
    seconds = tuple(map(measure_extent, spans))
    busy = sum_covered(span for of_pass in spans for span in of_pass) / len(kept)
    return Recording(
        kernels,
        seconds,
        max(mean(seconds) - busy, 0.0),
        device=device,
        on_device=bool(device),
        by="the scopes of XLA's instructions, of the program as it is compiled here",
        remarks=_explain_fusions([instruction for one_pass in kept for instruction in one_pass], compiled),
    )


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


def _find_program(ran: Iterable[RanInstruction], layers: Container[str]) -> str:
    """Return the program of the model: the known program whose instructions take the most time."""
    whole: defaultdict[str, float] = defaultdict(float)
    in_layers: defaultdict[str, float] = defaultdict(float)
    for instruction in ran:
        whole[instruction.program] += instruction.seconds
        if instruction.name in layers:
            in_layers[instruction.program] += instruction.seconds
    likely = [program for program, seconds in in_layers.items() if seconds] or list(whole)
    return max(likely, key=lambda program: (in_layers[program], whole[program]))


def _list_passes(ran: Sequence[RanInstruction], compiled: _CompiledModel) -> list[list[RanInstruction]]:
    """Return the instructions of each pass, in order of time.

    Not every profile tells the runs of a program apart. Then a pass begins with the first instruction that runs once in
    each: one outside of loops and branches, which are computations of their own.
    """
    by_pass: defaultdict[Any, list[RanInstruction]] = defaultdict(list)
    if all(instruction.run is not None for instruction in ran):
        for instruction in ran:
            by_pass[instruction.run].append(instruction)
        return list(by_pass.values())
    entry = [one.computation for one in compiled.instructions.values()][-1]
    starts: defaultdict[str, list[float]] = defaultdict(list)
    for instruction in ran:
        if instruction.process == ran[0].process:  # each of several devices runs all of them
            starts[instruction.name].append(instruction.start)
    outside = {name for name, one in compiled.instructions.items() if one.computation == entry} & starts.keys()
    likely = [starts[name] for name in outside or starts]
    [(number, _)] = Counter(map(len, likely)).most_common(1)
    begins = [min(together) for together in zip(*(times for times in likely if len(times) == number), strict=True)]
    for instruction in ran:
        by_pass[max(bisect_right(begins, instruction.start), 1)].append(instruction)
    return list(by_pass.values())


def _sum_up(ran: Iterable[RanInstruction], program: str, compiled: _CompiledModel) -> KernelTimes:
    """Return the seconds of instructions; instructions without a layer are told apart by their programs."""
    times = KernelTimes()
    for instruction in ran:
        # Other programs have instructions of the same names, "fusion.1", so their instructions get no layer.
        work = _find_work(instruction, compiled) if instruction.program == program else _Work(None, "forward")
        around = instruction.program if work.layer is None else ""
        times.add(instruction.seconds, instruction.name, work.layer, work.phase, around)
    return times


def _find_work(ran: RanInstruction, compiled: _CompiledModel) -> _Work:
    """Return the layer and the phase of an instruction: by its scopes in the profile, otherwise in the program.

    JAX writes ``transpose(...)`` into the scopes of a function's gradient.
    """
    layer = find_layer(ran.scopes, compiled.paths) if ran.scopes else None
    if layer is None:
        layer = compiled.layers.by_name.get(ran.name)
    instruction = compiled.instructions.get(ran.name)
    scopes = ran.scopes or (instruction.scopes if instruction is not None else "")
    return _Work(layer, "backward" if "transpose(" in scopes else "forward")


def _require_layers(kernels: Sequence[RecordedKernel]) -> None:
    """Raise `ProfileFileError` if layers have too little of the time."""
    share = compute_layer_share(kernels)
    if share < _LEAST_SHARE:
        raise ProfileFileError(
            f"the profile is of another model, device or version: only {100 * share:.0f} % of its time is in "
            "instructions that the model has as it is compiled here, or whose scopes name layers. Join it where the "
            "same versions of JAX compile for the same device, or profile a model whose layers open scopes "
            "(flax.linen, Keras)"
        )


def _explain_fusions(ran: Iterable[RanInstruction], compiled: _CompiledModel) -> dict[str, str]:
    """Return remarks on layers that contain the time of other layers, because XLA has fused their instructions."""
    others: defaultdict[str, set[str]] = defaultdict(set)
    for instruction in {one.name: one for one in ran}.values():
        layer = _find_work(instruction, compiled).layer
        if layer is not None:
            others[layer] |= compiled.layers.by_fusion.get(instruction.name, set()) - {layer}
    remarks = {}
    for layer, paths in others.items():
        if paths:
            names = ", ".join(repr(path or "the model itself") for path in sorted(paths))
            remarks[layer] = f"has the time of {names} too, which XLA has fused with it, in part"
    return remarks
