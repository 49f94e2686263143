"""A progress bar on a terminal, silence in a pipe."""

import os
import pty
import re
import subprocess
import sys
import threading

import pytest

from profilerkit.process.progress import track

WORK = """
from profilerkit.process.progress import track
for outer in track(["a", "b"], "Profiling Net"):
    for inner in track(range(3), "Evaluating on test"):
        pass
try:
    for item in track(iter([1, 2]), "Failing"):
        raise ValueError
except ValueError:
    pass
print("done")
"""


def run_on_a_terminal(code: str) -> tuple[str, str]:
    """Run Python with standard error on a pseudo-terminal; return standard output and what the terminal got."""
    leader, follower = pty.openpty()
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=follower, text=True)
    os.close(follower)
    seen: list[bytes] = []

    def read() -> None:
        try:
            while chunk := os.read(leader, 4096):
                seen.append(chunk)
        except OSError:  # the other end is closed
            pass

    reader = threading.Thread(target=read)
    reader.start()
    output = process.communicate(timeout=60)[0]
    reader.join(timeout=10)
    os.close(leader)
    assert process.returncode == 0
    return output, b"".join(seen).decode()


def test_nested_work_is_shown_on_a_terminal_and_standard_output_is_clean() -> None:
    output, terminal = run_on_a_terminal(WORK)
    assert output == "done\n"
    for description in ("Profiling Net", "Evaluating on test", "Failing"):
        assert description in terminal
    assert "Traceback" not in terminal


@pytest.mark.parametrize("name", ["Net [bold]", r"a\[/red]", r"C:\models" + "\\", "[1/2]"])
def test_a_name_with_brackets_is_shown_as_it_is(name: str) -> None:
    """Rich would take them for markup: ``\\[/red]`` ended a call, as a closing tag that was never opened."""
    code = (
        f"from profilerkit.process.progress import track\nfor item in track([1], {name!r}, lambda item: {name!r}): pass"
    )
    assert f"{name}: {name}" in run_on_a_terminal(code)[1]


def test_what_is_printed_meanwhile_goes_where_it_would_go() -> None:
    """Rich draws what is printed above its bar: on the terminal, although standard output is a pipe."""
    code = "from profilerkit.process.progress import track\nfor item in track([1, 2], 'Work'): print('line', item)"
    output, terminal = run_on_a_terminal(code)
    assert output == "line 1\nline 2\n"
    assert "line" not in terminal


HELD = """
import sys
from profilerkit.process.progress import track
streams = sys.stdout, sys.stderr
def work(items):
    tracked = track(items, "Profiling Net")
    for item in tracked:
        item()
def interrupt():
    raise KeyboardInterrupt
class Unsized:
    def __len__(self):
        raise ValueError("no length")
    def __iter__(self):
        return iter([])
class Unread:
    def __iter__(self):
        raise ValueError("no items")
try:
    work(ITEMS)
except BaseException as error:
    kept = error  # and with it the names of the function that it ended
assert (sys.stdout, sys.stderr) == streams
for item in track([1], "Afterwards"):
    pass
print(type(kept).__name__)
"""


@pytest.mark.parametrize(
    ("items", "error", "switches"),
    [
        ("[interrupt]", "KeyboardInterrupt", "lhlh"),
        ("Unsized()", "ValueError", "lh"),  # the error comes before there is anything to show
        ("Unread()", "ValueError", "lhlh"),
    ],
)
def test_a_terminal_is_as_it_was_after_an_error_that_is_kept(
    items: str, error: str, switches: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cursor is hidden by ``ESC [ ? 25 l`` and shown by ``h``; a notebook and a debugger keep the last error."""
    monkeypatch.setenv("TERM", "xterm")
    output, terminal = run_on_a_terminal(HELD.replace("ITEMS", items))
    assert output == f"{error}\n"
    assert "".join(re.findall(r"\x1b\[\?25([hl])", terminal)) == switches
    assert "Afterwards" in terminal


def test_nothing_is_written_to_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    items = [1, 2, 3]
    assert track(items, "Working") is items
    assert capsys.readouterr().err == ""
