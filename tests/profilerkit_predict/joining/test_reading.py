"""Which files are profiles, whose they are, and what is said of those that are none."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from profilerkit import ArgumentError, ProfileFileError
from profilerkit_predict.joining import read_profile

TORCH = {"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 2}]}
ONNXRUNTIME = [{"cat": "Session", "name": "model_run", "ts": 1, "dur": 2, "ph": "X", "args": {}}]
XLA = {"traceEvents": [{"ph": "X", "name": "dot", "ts": 1, "dur": 2, "args": {"hlo_op": "dot", "hlo_module": "jit_f"}}]}


def save(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize(
    ("content", "kind"), [(TORCH, "torch"), (ONNXRUNTIME, "onnxruntime"), (XLA, "xla")], ids=["torch", "ort", "xla"]
)
def test_whose_profile_it_is(tmp_path: Path, content: Any, kind: str) -> None:
    plain = read_profile(save(tmp_path / "a.json", content))
    packed = tmp_path / "b"  # by its content, not by its name
    packed.write_bytes(gzip.compress(json.dumps(content).encode()))
    assert plain.kind == read_profile(packed).kind == kind
    assert plain.events == read_profile(packed).events
    assert len(plain.events) == 1


def test_metadata_of_the_script(tmp_path: Path) -> None:
    file = read_profile(save(tmp_path / "a.json", {**TORCH, "profilerkit": {"steps": 3}}))
    assert file.metadata == {"steps": 3}
    assert read_profile(save(tmp_path / "b.json", {**TORCH, "profilerkit": "text"})).metadata == {}


def test_the_folder_of_jax(tmp_path: Path) -> None:
    inner = tmp_path / "plugins" / "profile" / "now"
    inner.mkdir(parents=True)
    (inner / "perfetto_trace.json.gz").write_bytes(gzip.compress(b"{"))
    (inner / "host.trace.json.gz").write_bytes(gzip.compress(json.dumps(XLA).encode()))
    assert read_profile(tmp_path).path == inner / "host.trace.json.gz"
    (inner / "host.trace.json.gz").unlink()
    (inner / "perfetto_trace.json.gz").unlink()
    with pytest.raises(ProfileFileError, match=r"no profile of JAX: no file in it ends in \.trace\.json\.gz"):
        read_profile(tmp_path)


def test_events_without_times_are_left_out(tmp_path: Path) -> None:
    event = TORCH["traceEvents"][0]  # type: ignore[index]
    odd = [{**event, "ts": "1"}, {**event, "dur": None}, {**event, "ts": True}, {**event, "name": 3}, 5]
    odd += [{**event, "ts": 10**400}, {**event, "ts": -(10**400)}, {**event, "dur": 10**400}, {**event, "dur": -1}]
    file = tmp_path / "a.json"
    file.write_text(json.dumps({"traceEvents": [event, *odd]}).replace("null", "Infinity"))
    assert [region["name"] for region in read_profile(file).list_timed()] == ["aten::mm"]


@pytest.mark.parametrize(
    "damage", [{"args": ["name"]}, {"args": "name"}, {"args": 1}, {"pid": [1]}, {"tid": {}}], ids=str
)
def test_what_can_be_no_event_is_left_out(tmp_path: Path, damage: Any) -> None:
    named = {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:GPU:0"}}
    whole = [named, *XLA["traceEvents"]]
    read = read_profile(save(tmp_path / "a.json", {"traceEvents": [{**event, **damage} for event in whole] + whole}))
    assert read.events == tuple(whole)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty; was the profiler stopped"),
        (b'{"traceEvents": [{"ph": "X", ', "is no JSON, or cut off"),
        (gzip.compress(b"[1, 2]" * 999, mtime=0)[:20], "is a damaged gzip file, perhaps cut off"),
        (b"\x1f\x8bnot really", "is a damaged gzip file"),
        (b"\xff\xfe\x00", "is no JSON, or cut off"),
        (b"3", "holds JSON, but no events"),
        (b'{"traceEvents": 3}', "holds JSON, but no events"),
        (b'{"traceEvents": []}', r"has 0 events, but they are not those of .*: none"),
        (b'[{"cat": "blink", "ph": "X"}]', r"has 1 events, .*categories of its events: blink"),
    ],
    ids=["empty", "cut", "cut gzip", "no gzip", "no text", "a number", "no list", "no events", "odd"],
)
def test_damaged_files_are_said(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "profile.json"
    file.write_bytes(content)
    with pytest.raises(ProfileFileError, match=message):
        read_profile(file)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ProfileFileError, match="cannot read the profile .*missing.json: No such file"):
        read_profile(tmp_path / "missing.json")
    with pytest.raises(ArgumentError, match="profile=3: give the path of a profile's file"):
        read_profile(3)  # type: ignore[arg-type]
