"""The channel between child and parent: whole messages come through, in any pieces, and nothing else does."""

from __future__ import annotations

import json
import os
import pickle
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profilerkit import (
    ArgumentWarning,
    InputError,
    ModelFailedError,
    ProfilerKitError,
    Report,
    UnknownStatusError,
    errors,
)
from profilerkit.errors import InvalidTraceError
from profilerkit.isolation import channel
from profilerkit.isolation.channel import Channel, ChannelError, LineReader, write_line
from profilerkit.isolation.child import error_message
from profilerkit.isolation.messages import Progress
from profilerkit.job import NoModelError
from profilerkit.results.saving import reseal, to_json


@given(st.lists(st.dictionaries(st.text(max_size=20), st.text(max_size=50)), max_size=5), st.integers(1, 50))
def test_messages_come_through_in_any_pieces(messages: list[dict[str, str]], piece: int) -> None:
    stream = b"".join(map(write_line, messages))
    reader = LineReader()
    read = [line for start in range(0, len(stream), piece) for line in reader.read(stream[start : start + piece])]
    assert list(map(json.loads, read)) == messages


@given(st.binary(min_size=1, max_size=300))
def test_stray_output_is_never_a_message(stray: bytes) -> None:
    reader, progress = LineReader(), Progress()
    try:
        for line in reader.read(stray):
            progress.take(line)
    except ChannelError:
        return
    assert progress == Progress(), "nothing was said"
    assert stray.startswith((b"{", b"\n")), "what cannot become a message is noticed at once"


def test_what_is_too_long_is_refused_before_it_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "LONGEST", 10)
    with pytest.raises(ChannelError, match="a message of 14 bytes is longer than the 10 that are allowed"):
        write_line({"doing": []})  # 13 characters and the end of the line
    with pytest.raises(ChannelError, match="more than 10 bytes were sent as one message"):
        list(LineReader().read(b"{" + 10 * b" "))


def test_two_ends_talk() -> None:
    ends = [Channel(end) for end in socket.socketpair()]
    ends[0].send(stage="here", doing=None)
    ends[0].send(done=True)
    assert ends[1].receive() == {"stage": "here", "doing": None}
    assert ends[1].receive() == {"done": True}
    ends[0].socket.close()
    with pytest.raises(ChannelError, match="the other end is closed"):
        ends[1].receive()
    ends[1].socket.close()


def test_a_copy_of_the_process_ends_where_it_would_speak(monkeypatch: pytest.MonkeyPatch) -> None:
    class Left(BaseException):
        pass

    def leave(code: int) -> None:
        raise Left

    mine, theirs = socket.socketpair()
    end = Channel(mine)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    monkeypatch.setattr(os, "_exit", leave)
    with pytest.raises(Left):
        end.send(done=True)
    mine.close()
    theirs.close()


# What the messages say ------------------------------------------------------------------------------------------------

WRONG = {
    "no JSON": b"{",
    "deep": b"[" * 100_000,
    "no mapping": b"[1]",
    "an unknown word": b'{"rm": "-rf"}',
    "a stage that is no text": b'{"stage": 1}',
    "names that are no list": b'{"pending": "macs"}',
    "names that are no texts": b'{"doing": [1]}',
    "too many names": json.dumps({"pending": ["x"] * 10_001}).encode(),
    "an error that is none": b'{"error": 1}',
    "an error without a type": b'{"error": {"text": "x"}}',
    "a warning that is none": b'{"warning": []}',
    "a sample that is a text": b'{"sample": "1"}',
    "a sample that is a truth": b'{"sample": true}',
    "a negative sample": b'{"sample": -1}',
    "an endless sample": b'{"sample": Infinity}',
    "no number": b'{"sample": NaN}',
    "a plan with other parts": b'{"ready": {"max_seconds": 1}}',
    "no plan": b'{"ready": 1}',
    "a turn that is a number": b'{"turn": 1}',
}
PLAN = {
    "num_iters": None,
    "warmup": None,
    "relative_precision": 0.02,
    "max_seconds": 3.0,
    "min_samples": 12,
    "confidence": 0.95,
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_message_is_refused(name: str) -> None:
    with pytest.raises(ChannelError):
        Progress().take(WRONG[name])


@pytest.mark.parametrize(
    "change", [{"num_iters": 1.5}, {"num_iters": True}, {"max_seconds": "3"}, {"max_seconds": -1}, {"confidence": 2}]
)
def test_a_plan_that_is_none_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ChannelError, match=r"a plan for sampling|\$\.ready"):
        Progress().take(json.dumps({"ready": {**PLAN, **change}}).encode())


def test_a_plan_is_read() -> None:
    progress = Progress()
    progress.take(json.dumps({"ready": PLAN}).encode())
    assert progress.ready is not None
    assert (progress.ready.max_seconds, progress.ready.min_samples, progress.waiting) == (3.0, 12, True)


def wrap(report: str) -> bytes:
    """Return the message that holds the text of a report."""
    return f'{{"report": {report}}}'.encode()


def test_a_report_is_read_as_from_a_file() -> None:
    report = Report("net", "numpy", "a.B", {})
    progress = Progress()
    progress.take(wrap(to_json(report)))
    progress.read_report()
    assert progress.report == report
    for content in ("{}", '"pickled"', to_json(report).replace('"net"', '"ten"')):
        with pytest.raises(ChannelError, match="what the process sent is not a report of profilerkit"):
            progress.take(wrap(content))
    content = json.loads(to_json(report)) | {"batch_size": "sealed, and no number"}
    progress.take(wrap(json.dumps(reseal(content))))
    with pytest.raises(
        ChannelError, match="what the process sent is not a report of profilerkit, or damaged: batch_size"
    ):
        progress.read_report()
    assert progress.report == report, "what was read before"


ERRORS: list[Exception] = [
    InputError("no such input"),
    NoModelError("no such model"),
    ModelFailedError("it raised"),
    TypeError("not so"),
    ValueError("nor so"),
    UnknownStatusError("mac", ["macs"], owner="this profiler"),
    InvalidTraceError("torch", "block.0", "a count below zero"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_is_raised_as_what_it_was(error: Exception) -> None:
    progress = Progress()
    progress.take(json.dumps({"error": error_message(error)}).encode())
    assert type(progress.error) is type(error)
    assert str(progress.error) == str(error)


def test_every_error_of_the_library_can_be_raised_again() -> None:
    for name in errors.__all__:
        kind = getattr(errors, name)
        if isinstance(kind, type) and issubclass(kind, ProfilerKitError):
            progress = Progress()
            progress.take(json.dumps({"error": {"type": name, "text": "why"}}).encode())
            for error in (progress.error, pickle.loads(pickle.dumps(progress.error))):
                assert type(error) is kind
                assert (error.args, str(error)) == (("why",), "why")


def test_an_error_has_its_code() -> None:
    """The code is told where the error is, by its type; in the parent there is its message alone."""
    for error, code in ((MemoryError(), "memory"), (ImportError("no x"), "import"), (KeyError("x"), "model")):
        progress = Progress()
        progress.take(json.dumps({"error": error_message(error)}).encode())
        assert progress.failure == code
    with pytest.raises(ChannelError, match="Invalid enum value 'sabotage'"):
        Progress().take(b'{"error": {"type": "ValueError", "text": "", "failure": "sabotage"}}')


@pytest.mark.parametrize("name", ["SystemExit", "KeyboardInterrupt", "os.system", "ProfilerKitWarning", "OSError"])
def test_an_error_of_any_other_type_is_the_models(name: str) -> None:
    progress = Progress()
    progress.take(json.dumps({"error": {"type": name, "text": "boom"}}).encode())
    assert type(progress.error) is ModelFailedError
    assert str(progress.error) == f"{name}: boom"


def test_a_warning_is_given_again() -> None:
    with pytest.warns(ArgumentWarning, match="^no such argument$"):
        Progress().take(b'{"warning": {"type": "ArgumentWarning", "text": "no such argument"}}')
    from profilerkit import ProfilerKitWarning

    with pytest.warns(ProfilerKitWarning, match="^odd$"):
        Progress().take(b'{"warning": {"type": "DeprecationWarning", "text": "odd"}}')
