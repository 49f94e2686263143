"""The instructions of compiled programs in a profile of JAX's: when each of them ran."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, NamedTuple

from profilerkit_predict.joining.reading import ProfileFile

__all__ = ["RanInstruction", "RanInstructions", "read_instructions"]

#: Where traces of GPUs and TPUs keep the scopes of an instruction.
_SCOPES = ("tf_op", "name", "long_name", "op_name")


@dataclass(eq=False)
class RanInstruction:
    """One run of an instruction.

    Attributes:
        name: Its name in the program.
        program: The name of the program.
        run: The run of the program that it belongs to; None if the profile does not tell.
        start: The second in which it began.
        end: The second in which it ended.
        scopes: The scopes that it was traced in; empty if the profile does not tell.
        process: The process of the profile that it stands in: one for each device.
        inside: The seconds of other instructions that ran inside it.
    """

    name: str
    program: str
    run: Any
    start: float
    end: float
    scopes: str
    process: Any = None
    inside: float = 0.0

    @property
    def seconds(self) -> float:
        """Its seconds without the seconds of the instructions inside it."""
        return max(self.end - self.start - self.inside, 0.0)

    @property
    def span(self) -> tuple[float, float]:
        """When it began and ended."""
        return self.start, self.end


class RanInstructions(NamedTuple):
    """The instructions in order of time, and the device that they ran on; empty for the host."""

    runs: list[RanInstruction]
    device: str


def read_instructions(profile: ProfileFile) -> RanInstructions:
    """Return the instructions in a profile: only the instructions of devices, if any ran on a device."""
    devices = _read_devices(profile)
    events = [event for event in profile.list_timed() if _is_instruction(event)]
    on_device = [event for event in events if event.get("pid") in devices]
    stacks: defaultdict[Any, list[RanInstruction]] = defaultdict(list)
    runs = []
    for event in sorted(on_device or events, key=lambda event: (event["ts"], -event["dur"])):
        instruction = _read_instruction(event)
        _put_inside(instruction, stacks[event.get("pid"), event.get("tid")])
        runs.append(instruction)
    return RanInstructions(runs, ", ".join(sorted({devices[event.get("pid")] for event in on_device})))


def _read_devices(profile: ProfileFile) -> dict[Any, str]:
    """Return the names of the devices of a profile, by the numbers of its processes."""
    names = {
        event.get("pid"): str(event["args"]["name"])
        for event in profile.events
        if event.get("name") == "process_name" and "name" in (event.get("args") or {})
    }
    return {pid: name for pid, name in names.items() if name.startswith("/device:")}


def _is_instruction(event: dict[str, Any]) -> bool:
    return isinstance(event.get("args"), dict) and "hlo_op" in event["args"]


def _read_instruction(event: dict[str, Any]) -> RanInstruction:
    args, start = event["args"], event["ts"] / 1e6
    scopes = next((str(args[key]) for key in _SCOPES if "/" in str(args.get(key, ""))), "")
    run = args.get("run_id", args.get("group_id"))
    end = start + event["dur"] / 1e6
    program = str(args.get("hlo_module", ""))
    return RanInstruction(str(args["hlo_op"]), program, run, start, end, scopes, event.get("pid"))


def _put_inside(instruction: RanInstruction, running: list[RanInstruction]) -> None:
    """Put an instruction on the stack of running instructions of its thread, and note that it ran inside the last one.

    A profile may have an instruction twice, one entry inside the other: the inner entry has the time.
    """
    while running and running[-1].end <= instruction.start:
        running.pop()
    if running:
        running[-1].inside += min(instruction.end, running[-1].end) - instruction.start
    running.append(instruction)
