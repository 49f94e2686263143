"""From the events of JAX's profiler to the seconds of XLA's instructions in layers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from profilerkit import ModelInputs, ModelTrace, ProfileFileError
from profilerkit_predict.joining.reading import ProfileFile
from profilerkit_predict.joining.records import RecordedKernel, Recording

from .programs import instructions_in, layer_in, layers_of_instructions, program_text

__all__ = ["read_recording"]

#: The least share of the time that instructions of the model have in a profile of it.
_LEAST = 0.5
#: Where traces of GPUs and TPUs keep the scopes of an instruction.
_SCOPES = ("tf_op", "name", "long_name", "op_name")


@dataclass(eq=False)
class _Ran:
    """An instruction that ran: its seconds without those that ran inside it."""

    name: str
    module: str
    run: Any
    start: float
    end: float
    scopes: str
    inside: float = 0.0
    layer: str | None = None
    is_backward: bool = False

    @property
    def seconds(self) -> float:
        return max(self.end - self.start - self.inside, 0.0)


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
    ran, device = _list_instructions(profile)
    if not ran:
        raise ProfileFileError(
            f"{profile.path} has {len(profile.events)} events, and no instruction of a compiled program; run the model "
            "under jax.jit, and wait for its result inside of jax.profiler.trace"
        )
    paths = frozenset(layer.path for layer in trace.layers)
    training = any(operator.phase == "backward" for operator in trace.operators)
    text = program_text(model, inputs or ModelInputs(), training)
    instructions = instructions_in(text)
    layers, several = layers_of_instructions(instructions, paths)
    module = _find_module(ran, layers)
    for instruction in ran:
        if instruction.module == module:
            compiled = instructions.get(instruction.name)
            instruction.layer = (layer_in(instruction.scopes, paths) if instruction.scopes else None) or layers.get(
                instruction.name
            )
            instruction.is_backward = "transpose(" in (instruction.scopes or (compiled.scopes if compiled else ""))
    runs = _runs(ran, module)
    if skip >= len(runs):
        raise ProfileFileError(f"skip={skip}: the profile has {len(runs)} passes; leave out fewer")
    kept = [instruction for instruction in ran if instruction.run in runs[skip:] or instruction.module != module]
    return _make_recording(kept, runs[skip:], module, several, device)


def _list_instructions(profile: ProfileFile) -> tuple[list[_Ran], str]:
    """Return the instructions in order of time, and the device that they ran on; empty for the host."""
    devices = {
        event.get("pid"): str(event["args"]["name"])
        for event in profile.events
        if event.get("name") == "process_name" and "name" in (event.get("args") or {})
    }
    on_device = {pid for pid, name in devices.items() if name.startswith("/device:")}
    stacks: defaultdict[Any, list[_Ran]] = defaultdict(list)
    ran: list[_Ran] = []
    events = [
        event for event in profile.list_timed() if isinstance(event.get("args"), dict) and "hlo_op" in event["args"]
    ]
    chosen = [event for event in events if event.get("pid") in on_device] or events
    for event in sorted(chosen, key=lambda event: (event["ts"], -event["dur"])):
        args, start = event["args"], event["ts"] / 1e6
        scopes = next((str(args[key]) for key in _SCOPES if "/" in str(args.get(key, ""))), "")
        run = args.get("run_id", args.get("group_id"))
        number = _Ran(
            str(args["hlo_op"]), str(args.get("hlo_module", "")), run, start, start + event["dur"] / 1e6, scopes
        )
        stack = stacks[event.get("pid"), event.get("tid")]
        while stack and stack[-1].end <= start:
            stack.pop()
        # An instruction may be noted twice, by what it does and by what it belongs to: the inner one has the time.
        if stack:
            stack[-1].inside += min(number.end, stack[-1].end) - number.start
        stack.append(number)
        ran.append(number)
    names = {devices[event.get("pid")] for event in chosen if event.get("pid") in on_device}
    return ran, ", ".join(sorted(names))


def _find_module(ran: Iterable[_Ran], layers: Mapping[str, str]) -> str:
    """Return the program of the model: the one whose instructions take most of the time among those that are known."""
    layer_seconds: Counter[str] = Counter()
    whole: Counter[str] = Counter()
    for instruction in ran:
        whole[instruction.module] += instruction.seconds  # type: ignore[assignment]
        layer_seconds[instruction.module] += instruction.seconds if instruction.name in layers else 0.0  # type: ignore[assignment]
    likely = [module for module in whole if layer_seconds[module]] or list(whole)
    return max(likely, key=lambda module: (layer_seconds[module], whole[module]))


def _runs(ran: Iterable[_Ran], module: str) -> list[Any]:
    """Return the runs of a program in order of time; [None] if the profile does not tell them apart."""
    return list(dict.fromkeys(instruction.run for instruction in ran if instruction.module == module))


def _make_recording(
    ran: Sequence[_Ran],
    runs: Sequence[Any],
    module: str,
    several: Mapping[str, set[str]],
    device: str,
) -> Recording:
    of_module = [instruction for instruction in ran if instruction.module == module]
    count = len(runs)
    if runs == [None]:  # no run is told apart: an instruction runs once in each
        count = Counter(Counter(instruction.name for instruction in of_module).values()).most_common(1)[0][0]
    seconds: defaultdict[tuple[str, str | None, str, str], float] = defaultdict(float)
    calls: Counter[tuple[str, str | None, str, str]] = Counter()
    for instruction in ran:
        phase = "backward" if instruction.is_backward else "forward"
        key = (instruction.name, instruction.layer, phase, "" if instruction.layer is not None else instruction.module)
        seconds[key] += instruction.seconds
        calls[key] += 1
    share = sum(value for key, value in seconds.items() if key[1] is not None) / (sum(seconds.values()) or 1.0)
    if share < _LEAST:
        raise ProfileFileError(
            f"the profile is of another model, device or version: only {share:.0%} of its time is in instructions that "
            "the model has as it is compiled here, or whose scopes name layers. Join it where the same versions of JAX "
            "compile for the same device, or profile a model whose layers open scopes (flax.linen, Keras)"
        )
    walls = [
        _extent([instruction for instruction in of_module if instruction.run == run]) / (count if run is None else 1)
        for run in runs
    ]
    kernels = tuple(
        RecordedKernel(name, layer, value / count, calls[name, layer, phase, around] / count, phase, around)
        for (name, layer, phase, around), value in seconds.items()
    )
    busy = _sum_covered(of_module) / count
    return Recording(
        kernels,
        tuple(walls) if runs != [None] else tuple(walls) * count,
        max(mean(walls) - busy, 0.0),
        on_device=bool(device),
        by="the scopes of XLA's instructions, of the program as it is compiled here",
        remarks=_remarks({instruction.name: instruction.layer for instruction in of_module}, several),
        notes=(f"ran on {device}",) if device else (),
    )


def _remarks(named: Mapping[str, str | None], several: Mapping[str, set[str]]) -> dict[str, str]:
    guests: defaultdict[str, set[str]] = defaultdict(set)
    for name, layer in named.items():
        if layer is not None:
            guests[layer] |= several.get(name, set()) - {layer}
    return {
        layer: f"has the time of {', '.join(repr(other or 'the model itself') for other in sorted(others))} too, which "
        "XLA has fused with it, in part"
        for layer, others in guests.items()
        if others
    }


def _extent(ran: Sequence[_Ran]) -> float:
    return max(instruction.end for instruction in ran) - min(instruction.start for instruction in ran)


def _sum_covered(ran: Iterable[_Ran]) -> float:
    total, until = 0.0, float("-inf")
    for instruction in sorted(ran, key=lambda item: item.start):
        total += max(instruction.end - max(instruction.start, until), 0.0)
        until = max(until, instruction.end)
    return total
