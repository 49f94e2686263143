"""The channel between child and parent: whole messages come through, in any pieces, and nothing else does."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

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
from profilerkit.isolation.channel import MESSAGE, REPORT, Channel, ChannelError, FrameReader, frame
from profilerkit.isolation.child import error_message
from profilerkit.isolation.messages import Progress
from profilerkit.isolation.waiting import BoundedOutput
from profilerkit.job import NoModelError
from profilerkit.results.saving import reseal, to_json


@given(st.lists(st.binary(max_size=200), max_size=5), st.integers(1, 50))
def test_messages_come_through_in_any_pieces(contents: list[bytes], piece: int) -> None:
    stream = b"".join(frame(MESSAGE, content) for content in contents)
    reader = FrameReader()
    read = [item for start in range(0, len(stream), piece) for item in reader.read(stream[start : start + piece])]
    assert read == [(MESSAGE, content) for content in contents]


@given(st.binary(min_size=1, max_size=300))
def test_stray_output_is_never_a_message(stray: bytes) -> None:
    reader = FrameReader()
    try:
        assert list(reader.read(stray)) == []
    except ChannelError:
        return
    assert stray.startswith(b"pk1"[: len(stray)]), "what cannot become a message is noticed at once"


@given(st.binary(max_size=100), st.data())
def test_a_message_with_a_byte_changed_is_refused(content: bytes, data: st.DataObject) -> None:
    message = bytearray(frame(MESSAGE, content))
    place = data.draw(st.integers(0, len(message) - 1))
    message[place] ^= data.draw(st.integers(1, 255))
    reader = FrameReader()
    try:
        read = list(reader.read(bytes(message)))
    except ChannelError:
        return
    # The kind is no part of the checksum; a longer length makes it wait for more.
    assert read in ([], [(REPORT, content)])


def test_what_is_too_long_is_refused_before_it_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "LONGEST", 10)
    with pytest.raises(ChannelError, match="a message of 11 bytes is longer than the 10 that are allowed"):
        frame(MESSAGE, b"x" * 11)
    monkeypatch.undo()
    head = channel._HEAD.pack(b"pk1M", channel.LONGEST + 1, 0)
    with pytest.raises(ChannelError, match="it begins with"):
        list(FrameReader().read(head))
    monkeypatch.setattr(channel, "MOST", 100)
    reader = FrameReader()
    with pytest.raises(ChannelError, match="more than 100 bytes were sent"):
        for _ in range(10):
            list(reader.read(frame(MESSAGE, b"{}")))


def test_two_ends_talk(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = [Channel(end) for end in socket.socketpair()]
    ends[0].send(sample=0.25, ready=None)
    ends[0].send(done=True)
    assert ends[1].receive() == {"sample": 0.25, "ready": None}
    assert ends[1].receive() == {"done": True}
    ends[0].socket.close()
    with pytest.raises(ChannelError, match="the other end is closed"):
        ends[1].receive()
    ends[1].socket.close()


def test_a_report_is_no_small_message() -> None:
    """Not even if its content could be one; the message behind it is received."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        Channel(ours).send_report(b'{"go": true}')
        Channel(ours).send(go=False)
        end = Channel(theirs)
        with pytest.raises(ChannelError, match="a report came in place of a message"):
            end.receive()
        assert end.receive() == {"go": False}


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
    "a sample that is a text": b'{"sample": "1"}',
    "a sample that is a truth": b'{"sample": true}',
    "a negative sample": b'{"sample": -1}',
    "an endless sample": b'{"sample": Infinity}',
    "no number": b'{"sample": NaN}',
    "a plan with other parts": b'{"ready": {"max_seconds": 1}}',
    "no plan": b'{"ready": 1}',
    "an error that is none": b'{"error": 1}',
    "an error without a type": b'{"error": {"text": "x"}}',
    "a warning that is none": b'{"warning": []}',
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
        Progress().take(MESSAGE, WRONG[name])


@pytest.mark.parametrize(
    "change", [{"num_iters": 1.5}, {"num_iters": True}, {"max_seconds": "3"}, {"max_seconds": -1}, {"confidence": 2}]
)
def test_a_plan_that_is_none_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ChannelError, match=r"a plan for sampling|\$\.ready"):
        Progress().take(MESSAGE, json.dumps({"ready": {**PLAN, **change}}).encode())


def test_a_plan_is_read() -> None:
    progress = Progress()
    progress.take(MESSAGE, json.dumps({"ready": PLAN}).encode())
    assert progress.ready is not None
    assert (progress.ready.max_seconds, progress.ready.min_samples, progress.times_ready) == (3.0, 12, 1)


def test_a_report_is_read_as_from_a_file() -> None:
    report = Report("net", "numpy", "a.B", {})
    progress = Progress()
    progress.take(REPORT, to_json(report).encode())
    progress.read_report()
    assert progress.report == report
    for content in (b"{}", b"\x80\x04pickled", to_json(report).replace('"net"', '"ten"').encode()):
        with pytest.raises(ChannelError, match="what the process sent is not a report of profilerkit"):
            progress.take(REPORT, content)
    content = json.loads(to_json(report)) | {"batch_size": "sealed, and no number"}
    progress.take(REPORT, json.dumps(reseal(content)).encode())
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
    progress.take(MESSAGE, json.dumps({"error": error_message(error)}).encode())
    assert type(progress.error) is type(error)
    assert str(progress.error) == str(error)
    assert vars(progress.error) == vars(error)


def test_every_error_of_the_library_can_be_raised_again() -> None:
    """The types whose text is made of facts are in the list above; the others take their text alone."""
    facts = {type(error).__name__ for error in ERRORS if vars(error)}
    for name in errors.__all__:
        kind = getattr(errors, name)
        if isinstance(kind, type) and issubclass(kind, ProfilerKitError) and name not in facts:
            progress = Progress()
            progress.take(MESSAGE, json.dumps({"error": {"type": name, "text": "why"}}).encode())
            assert type(progress.error) is kind
            assert progress.error.args == ("why",)


def test_an_error_without_its_facts_is_no_message() -> None:
    with pytest.raises(ChannelError, match="an error of the type InvalidTraceError has the facts"):
        Progress().take(MESSAGE, b'{"error": {"type": "InvalidTraceError", "text": "", "facts": {"path": ""}}}')


def test_an_error_has_its_code() -> None:
    """The code is told where the error is, by its type; in the parent there is its message alone."""
    for error, code in ((MemoryError(), "memory"), (ImportError("no x"), "import"), (KeyError("x"), "model")):
        progress = Progress()
        progress.take(MESSAGE, json.dumps({"error": error_message(error)}).encode())
        assert progress.failure == code
    with pytest.raises(ChannelError, match="Invalid enum value 'sabotage'"):
        Progress().take(MESSAGE, b'{"error": {"type": "ValueError", "text": "", "failure": "sabotage"}}')


@pytest.mark.parametrize("name", ["SystemExit", "KeyboardInterrupt", "os.system", "ProfilerKitWarning", "OSError"])
def test_an_error_of_any_other_type_is_the_models(name: str) -> None:
    progress = Progress()
    progress.take(MESSAGE, json.dumps({"error": {"type": name, "text": "boom"}}).encode())
    assert type(progress.error) is ModelFailedError
    assert str(progress.error) == f"{name}: boom"


def test_a_warning_is_given_again() -> None:
    with pytest.warns(ArgumentWarning, match="^no such argument$"):
        Progress().take(MESSAGE, b'{"warning": {"type": "ArgumentWarning", "text": "no such argument"}}')
    from profilerkit import ProfilerKitWarning

    with pytest.warns(ProfilerKitWarning, match="^odd$"):
        Progress().take(MESSAGE, b'{"warning": {"type": "DeprecationWarning", "text": "odd"}}')


# What is printed ------------------------------------------------------------------------------------------------------


@pytest.fixture
def bounded(capsys: pytest.CaptureFixture[str]) -> Callable[[list[bytes]], str]:
    def feed(pieces: list[bytes]) -> str:
        output = BoundedOutput("standard output", head=4, tail=6)
        for piece in pieces:
            output.add(piece)
        output.finish()
        return capsys.readouterr().err

    return feed


def test_little_output_is_shown_as_it_is(bounded: Callable[[list[bytes]], str]) -> None:
    assert bounded([]) == ""
    assert bounded([b"ab", b"cd"]) == "abcd"
    assert bounded([b"abcd", b"efgh", b"ij"]) == "abcdefghij"


def test_of_a_flood_the_first_and_the_last_are_shown(bounded: Callable[[list[bytes]], str]) -> None:
    said = "\n[profilerkit: 2 B of the model's standard output are left out here]\n"
    for pieces in ([b"abcdefghijkl"], [b"abc", b"defghijk", b"l"], [bytes([letter]) for letter in b"abcdefghijkl"]):
        assert bounded(pieces) == f"abcd{said}ghijkl"


def test_a_flood_takes_no_memory() -> None:
    output = BoundedOutput("standard output", head=0, tail=1000)
    for _ in range(5_000):
        output.add(b"x" * 300)
    assert output.received == 1_500_000
    assert len(output.tail) == 1000


def test_a_program_without_a_console_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    BoundedOutput("standard output").add(b"unseen")

    class Closed:
        def write(self, text: str) -> None:
            raise ValueError("I/O operation on closed file")

    monkeypatch.setattr("sys.stderr", Closed())
    BoundedOutput("standard output").add(b"unseen")


def test_receiving_a_message_leaves_the_descriptors_that_come_after_it() -> None:
    """A request to the fork server begins with descriptors, and the next request may be there already."""
    ours, theirs = socket.socketpair()
    with ours, theirs, Path(os.devnull).open("rb") as file:
        for number in (1, 2):
            socket.send_fds(ours, [b"+"], [file.fileno()])
            ours.sendall(frame(MESSAGE, json.dumps({"number": number}).encode()))
        channel = Channel(theirs)
        for number in (1, 2):
            start, descriptors, _, _ = socket.recv_fds(theirs, 1, 1)
            for descriptor in descriptors:
                os.close(descriptor)
            assert (start, len(descriptors), channel.receive()) == (b"+", 1, {"number": number})
