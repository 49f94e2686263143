"""Profiles from files: which profiler has written one, and the events in it."""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from profilerkit.error_text import shown
from profilerkit.errors import ArgumentError, ProfileFileError

#: The key under which the script of ``profilerkit trace-script`` describes its passes.
METADATA = "profilerkit"

Event = dict[str, Any]

_TORCH_CATEGORIES = frozenset(
    ("cpu_op", "kernel", "cuda_runtime", "cuda_driver", "user_annotation", "python_function", "gpu_memcpy")
)
#: As torch 1.8 to 1.11 wrote them.
_OLD_TORCH_CATEGORIES = frozenset(("Operator", "Kernel", "Runtime"))
_ONNXRUNTIME_CATEGORIES = frozenset(("Session", "Node"))
_KINDS = {"torch": "torch.profiler", "onnxruntime": "onnxruntime", "xla": "JAX (XLA)"}


@dataclass(frozen=True)
class ProfileFile:
    """A profile as its file has it.

    Attributes:
        path: The file.
        kind: The framework of its profiler: "torch", "onnxruntime" or "xla".
        events: Its events, unchanged from the JSON, without what can be none; times are in microseconds.
        header: The other fields of the JSON.
    """

    path: Path
    kind: str
    events: tuple[Event, ...]
    header: Mapping[str, Any] = field(default_factory=dict)

    @property
    def profiler(self) -> str:
        """The name of the profiler that wrote it."""
        return _KINDS[self.kind]

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The description of the passes by the script of ``trace-script``; empty for other profiles."""
        value = self.header.get(METADATA, {})
        return value if isinstance(value, Mapping) else {}

    def require_kind(self, kind: str, framework: str) -> None:
        """Raise `ProfileFileError` if it is of another kind than profiles of a framework's models are."""
        if self.kind != kind:
            example = ", such as the .onnx file" if self.kind == "onnxruntime" else ""
            raise ProfileFileError(
                f"{self.path} is a profile of {self.profiler}, and the model is one of {framework}: give the model "
                f"that was profiled{example}"
            )

    def list_timed(self) -> Iterator[Event]:
        """Yield the events that have a name, and a begin and a duration that a float can hold; no duration below 0."""
        for event in self.events:
            are_times = _is_time(event.get("ts")) and _is_time(event.get("dur")) and event["dur"] >= 0
            if event.get("ph") == "X" and isinstance(event.get("name"), str) and are_times:
                yield event


def read_profile(path: str | PathLike[str]) -> ProfileFile:
    """Read the profile in a file, compressed by gzip or not, or in the folder of ``jax.profiler.trace``.

    Raises `ProfileFileError` for a file that cannot be read, is damaged, or holds no profile.
    """
    if not isinstance(path, (str, PathLike)):
        raise ArgumentError(f"profile={shown(path)}: give the path of a profile's file")
    file = _find_file(Path(fspath(path)))
    content = _parse(file)
    header: Mapping[str, Any] = {}
    events: Any = content
    if isinstance(content, dict):
        header = {name: value for name, value in content.items() if name != "traceEvents"}
        events = content.get("traceEvents")
    if not isinstance(events, list):
        raise ProfileFileError(
            f"{file} holds JSON, but no events; give a profile of torch.profiler (export_chrome_trace), of onnxruntime "
            "(enable_profiling) or of jax.profiler.trace"
        )
    kept = tuple(event for event in events if _is_event(event))
    kind = _find_kind(kept, header)
    if kind is None:
        names = ", ".join(sorted({str(event.get("cat")) for event in kept})[:5]) or "none"
        raise ProfileFileError(
            f"{file} has {len(kept)} events, but they are not those of torch.profiler, onnxruntime or JAX (categories "
            f"of its events: {names})"
        )
    return ProfileFile(file, kind, kept, header)


def require_passes(passes: int, skip: int) -> None:
    """Raise `ProfileFileError` if a profile has no pass besides the first passes, which are left out."""
    if skip >= passes:
        raise ProfileFileError(f"skip={skip}: the profile has {passes} passes; leave out fewer")


def _find_file(path: Path) -> Path:
    """Return the file itself, or of a folder the newest of JAX's profiles in it."""
    if not path.is_dir():
        return path
    # Both hold the same events; in the one for Perfetto some are cut off at a million.
    files = sorted(path.rglob("*.trace.json.gz")) or sorted(path.rglob("perfetto_trace.json.gz"))
    if not files:
        raise ProfileFileError(f"the folder {path} has no profile of JAX: no file in it ends in .trace.json.gz")
    return max(files, key=lambda file: file.stat().st_mtime)


def _parse(file: Path) -> Any:
    try:
        raw = file.read_bytes()
        if raw[:2] == b"\x1f\x8b":
            raw = gzip.decompress(raw)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ProfileFileError(f"{file} is a damaged gzip file, perhaps cut off: {error}") from error
    except OSError as error:
        raise ProfileFileError(f"cannot read the profile {file}: {error.strerror or error}") from error
    if not raw.strip():
        raise ProfileFileError(f"{file} is empty; was the profiler stopped before it was written?")
    try:
        return json.loads(raw.decode("utf-8", errors="replace"), strict=False)
    except (ValueError, RecursionError) as error:
        raise ProfileFileError(
            f"{file} is no JSON, or cut off: {error}; write the profile again, and wait until its writer is done"
        ) from error


def _is_event(value: Any) -> bool:
    """Return whether a value is an object with arguments by name; its process and thread are numbers or texts."""
    return (
        isinstance(value, dict)
        and (value.get("args") is None or isinstance(value["args"], dict))
        and not any(isinstance(value.get(key), (dict, list)) for key in ("pid", "tid"))
    )


def _is_time(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def _find_kind(events: tuple[Event, ...], header: Mapping[str, Any]) -> str | None:
    """Return the kind of a profile by the categories of its events and its header; None if it is no profile."""
    categories = {str(event.get("cat")) for event in events}
    if categories & (_TORCH_CATEGORIES | _OLD_TORCH_CATEGORIES) or {"schemaVersion", "deviceProperties"} <= set(header):
        return "torch"
    if categories & _ONNXRUNTIME_CATEGORIES:
        return "onnxruntime"
    if any(_is_of_xla(event) for event in events):
        return "xla"
    return None


def _is_of_xla(event: Event) -> bool:
    """Return whether an event is an instruction of XLA, or names its host or device."""
    args = event.get("args")
    if not isinstance(args, dict):
        return False
    is_process = event.get("ph") == "M" and event.get("name") == "process_name"
    named = str(args.get("name", "")) if is_process else ""
    return "hlo_op" in args or "hlo_module" in args or named.startswith(("/host:", "/device:"))
