"""From the instructions in a profile of JAX's to the seconds of kernels in layers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import mean
from typing import Any

from profilerkit import ModelInputs, ModelTrace, ProfileFileError
from profilerkit_predict.joining.kernel_times import KernelTimes, compute_layer_share, measure_extent, sum_covered
from profilerkit_predict.joining.reading import ProfileFile
from profilerkit_predict.joining.records import Recording

from .programs import Instruction, InstructionLayers, compile_program, find_layer, find_layers, read_program
from .trace_events import RanInstruction, read_instructions

__all__ = ["read_recording"]

#: The least share of the time that instructions of the model have in a profile of it.
_LEAST = 0.5


def read_recording(
    profile: ProfileFile, model: Any, inputs: ModelInputs | None, trace: ModelTrace, skip: int = 0
) -> Recording:
    """Return the passes in a profile of JAX's, with the layer that each instruction worked for.

    Raises `ProfileFileError` for another profiler's file, one without instructions, and one of another model.
    """
    if profile.kind != "xla":
        raise ProfileFileError(
            f"{profile.path} is a profile of {profile.profiler}, and the model is one of JAX: give the model that was "
            "profiled"
        )
    ran, device = read_instructions(profile)
    if not ran:
        raise ProfileFileError(
            f"{profile.path} has {len(profile.events)} events, and no instruction of a compiled program; run the model "
            "under jax.jit, and wait for its result inside of jax.profiler.trace"
        )
    paths = frozenset(layer.path for layer in trace.layers)
    training = any(operator.phase == "backward" for operator in trace.operators)
    instructions = read_program(compile_program(model, inputs or ModelInputs(), training))
    layers = find_layers(instructions, paths)
    program = _find_program(ran, layers.by_name)
    for instruction in ran:
        if instruction.program == program:
            _attribute(instruction, instructions.get(instruction.name), layers, paths)
    runs = list(dict.fromkeys(instruction.run for instruction in ran if instruction.program == program))
    if skip >= len(runs):
        raise ProfileFileError(f"skip={skip}: the profile has {len(runs)} passes; leave out fewer")
    return _make_recording(_leave_out(ran, program, runs[skip]) if skip else ran, program, layers, device)


def _leave_out(ran: Sequence[RanInstruction], program: str, first_run: Any) -> list[RanInstruction]:
    """Return what ran since the first run of a program that is kept, of other programs too."""
    begin = min(one.start for one in ran if one.program == program and one.run == first_run)
    return [instruction for instruction in ran if instruction.start >= begin]


def _find_program(ran: Iterable[RanInstruction], layers: Mapping[str, str]) -> str:
    """Return the program of the model: the one whose instructions take most of the time among those that are known."""
    whole: defaultdict[str, float] = defaultdict(float)
    in_layers: defaultdict[str, float] = defaultdict(float)
    for instruction in ran:
        whole[instruction.program] += instruction.seconds
        if instruction.name in layers:
            in_layers[instruction.program] += instruction.seconds
    likely = [program for program, seconds in in_layers.items() if seconds] or list(whole)
    return max(likely, key=lambda program: (in_layers[program], whole[program]))


def _attribute(
    ran: RanInstruction, compiled: Instruction | None, layers: InstructionLayers, paths: frozenset[str]
) -> None:
    """Note the layer and the phase of an instruction: by its scopes in the profile, else by those in the program."""
    ran.layer = find_layer(ran.scopes, paths) if ran.scopes else None
    ran.layer = ran.layer or layers.by_name.get(ran.name)
    scopes = ran.scopes or (compiled.scopes if compiled is not None else "")
    ran.is_backward = "transpose(" in scopes


def _make_recording(ran: Sequence[RanInstruction], program: str, layers: InstructionLayers, device: str) -> Recording:
    of_program = [instruction for instruction in ran if instruction.program == program]
    passes = _time_passes(of_program)
    kernels = _sum_up(ran).average(len(passes))
    share = compute_layer_share(kernels)
    if share < _LEAST:
        raise ProfileFileError(
            f"the profile is of another model, device or version: only {share:.0%} of its time is in instructions that "
            "the model has as it is compiled here, or whose scopes name layers. Join it where the same versions of JAX "
            "compile for the same device, or profile a model whose layers open scopes (flax.linen, Keras)"
        )
    busy = sum_covered(instruction.span for instruction in of_program) / len(passes)
    return Recording(
        kernels,
        passes,
        max(mean(passes) - busy, 0.0),
        on_device=bool(device),
        by="the scopes of XLA's instructions, of the program as it is compiled here",
        remarks=_explain_fusions({instruction.name: instruction.layer for instruction in of_program}, layers.fused),
        notes=(f"ran on {device}",) if device else (),
    )


def _time_passes(of_program: Iterable[RanInstruction]) -> tuple[float, ...]:
    """Return the seconds of each pass; equal shares where the profile does not tell the runs of the program apart."""
    runs: dict[Any, list[RanInstruction]] = {}
    for instruction in of_program:
        runs.setdefault(instruction.run, []).append(instruction)
    extents = [measure_extent([instruction.span for instruction in run]) for run in runs.values()]
    if list(runs) != [None]:
        return tuple(extents)
    repeats = Counter(instruction.name for instruction in runs[None])  # an instruction runs once in each pass
    [(count, _)] = Counter(repeats.values()).most_common(1)
    return (extents[0] / count,) * count


def _sum_up(ran: Iterable[RanInstruction]) -> KernelTimes:
    times = KernelTimes()
    for instruction in ran:
        phase = "backward" if instruction.is_backward else "forward"
        around = instruction.program if instruction.layer is None else ""
        times.add(instruction.seconds, instruction.name, instruction.layer, phase, around)
    return times


def _explain_fusions(layers: Mapping[str, str | None], fused: Mapping[str, set[str]]) -> dict[str, str]:
    """Return what must be known of layers that have the time of others: XLA has fused their instructions.

    Args:
        layers: The layer of each instruction that ran.
        fused: The layers that each fused instruction works for.
    """
    guests: defaultdict[str, set[str]] = defaultdict(set)
    for name, layer in layers.items():
        if layer is not None:
            guests[layer] |= fused.get(name, set()) - {layer}
    return {layer: _explain_guests(others) for layer, others in guests.items() if others}


def _explain_guests(others: Iterable[str]) -> str:
    names = ", ".join(repr(other or "the model itself") for other in sorted(others))
    return f"has the time of {names} too, which XLA has fused with it, in part"
