"""`isolated` is `profile` in a process of its own: the same arguments, the same numbers, the same errors."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
import types
from functools import partial
from pathlib import Path
from typing import Any

import planted
import pytest
from click.testing import CliRunner, Result
from time_limits import run_program

from profilerkit import (
    ArgumentWarning,
    Completeness,
    IncompleteStatusError,
    InputError,
    ModelFailedError,
    NotOfferedError,
    Report,
    UnknownStatusError,
    isolated,
    profile,
)
from profilerkit.cli import cli
from profilerkit.isolation import forkserver, interpreters, isolated_comparison, processes
from profilerkit.isolation.job_file import require_started
from profilerkit.isolation.limits import Limits
from profilerkit.isolation.messages import Progress
from profilerkit.isolation.reasons import Reason, find_reason
from profilerkit.isolation.reports import add_process, explain_missing, make_unreached_report
from profilerkit.isolation.run import IsolatedRun
from profilerkit.isolation.starting import require_possible
from profilerkit.isolation.supervisor import Ending
from profilerkit.isolation.turns import run_in_turn, wait_for_answer
from profilerkit.isolation.waiting import pump
from profilerkit.job import Job, is_builder

MODELS = str(Path(planted.__file__))
QUICK: dict[str, Any] = {"start_method": "forkserver", "preload": ["numpy"], "timeout": 60}
TWICE: dict[str, Any] = {"num_iters": 3, "warmup": 1}


def static(report: Report) -> dict[str, Any]:
    keys = ("total_params", "trainable_params", "model_size", "macs", "flops", "memory_footprint")
    return {key: report.statuses[key] for key in keys}


@pytest.mark.slow
@pytest.mark.parametrize("start_method", ["spawn", "forkserver"])
def test_the_numbers_are_those_of_this_process_however_it_starts(start_method: Any) -> None:
    here = planted.fine()
    expected = profile(here.model, input_shape=here.input_shape, **TWICE)
    for model in (f"{MODELS}:fine", planted.fine):
        report = isolated(model, start_method=start_method, timeout=60, **TWICE)
        assert static(report) == static(expected)
        assert report.layers == expected.layers
        assert report.operators == expected.operators
        assert (report.name, report.fingerprint) == (expected.name, expected.fingerprint)
        assert len(report["execution_time"].samples) == 3
        assert report.environment["isolation"] == "a process of its own, at most 60 s"


def test_what_is_called_is_a_class_or_a_function_and_no_model_that_can_be_called() -> None:
    assert all(map(is_builder, (planted.fine, partial(planted.fine), type(planted.fine().model), len)))
    assert not is_builder(planted.fine().model)


def test_what_cannot_be_pickled_says_what_else_there_is() -> None:
    with pytest.raises(InputError, match=r"Sequential cannot be sent to a process of its own .* that builds it$"):
        isolated(planted.fine().model, input_shape=(4,))


def test_inputs_of_the_caller_take_the_place_of_the_loaders() -> None:
    report = isolated(f"{MODELS}:fine", input_shape=(4,), batch_size=5, metrics="macs", **QUICK)
    assert (report["macs"], report.batch_size) == (5 * planted.MACS, 5)
    import numpy as np

    report = isolated(f"{MODELS}:fine", np.zeros((3, 4), np.float32), metrics=["macs"], name="Mine", **QUICK)
    assert (report["macs"], report.name, report.inputs) == (3 * planted.MACS, "Mine", "ModelInputs(ndarray(3, 4))")


def test_several_batch_sizes_are_swept() -> None:
    report = isolated(f"{MODELS}:fine", batch_size=(1, 4), **TWICE, **QUICK)
    assert [row["batch_size"] for row in report["batch_sweep"]] == [1, 4]
    assert report["macs"] == planted.MACS


def test_an_error_with_half_of_a_surrogate_pair_is_the_models(tmp_path: Path) -> None:
    """The name of a file that is no UTF-8 has some."""
    (tmp_path / "net.py").write_text("def build():\n    raise ValueError('no file net' + chr(0xDCE9))\n")
    with pytest.raises(ModelFailedError, match=r"raised ValueError: no file net\?"):
        isolated(f"{tmp_path / 'net.py'}:build", **QUICK)


ERRORS: dict[str, tuple[str, dict[str, Any], type[Exception], str]] = {
    "no file": ("nothere.py:fine", {}, InputError, "there is no file 'nothere.py'"),
    "no such name": (f"{MODELS}:fin", {}, InputError, "has no 'fin'; it has, nearest first: fine"),
    "no place": ("nowhere", {}, InputError, "does not say where the model is"),
    "not built": (f"{MODELS}:cannot_be_built", {}, ModelFailedError, "raised KeyError: 'no such thing'"),
    "metric": (f"{MODELS}:fine", {"metrics": ["mac"]}, UnknownStatusError, "nearest first: macs"),
    "left out": (f"{MODELS}:fine", {"leave_out": "mac"}, UnknownStatusError, "leave_out knows, nearest first: macs"),
    "twice": (f"{MODELS}:fine", {"warmup": 1, "drop_first": 2, "strict": True}, InputError, "are two names of one"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_are_those_of_a_profile_in_this_process(case: str) -> None:
    model, arguments, kind, message = ERRORS[case]
    with pytest.raises(kind, match=message):
        isolated(model, **arguments, **QUICK)


def test_strict_raises_for_what_fails_and_for_a_process_that_ends() -> None:
    with pytest.raises(IncompleteStatusError, match="macs of Planted is partial"):
        isolated(f"{MODELS}:raises", strict=True, **QUICK)
    with pytest.raises(ModelFailedError, match="leaves: the process left by itself with exit code 7"):
        isolated(f"{MODELS}:leaves", strict=True, metrics=["total_params", "execution_time"], **QUICK)


def test_a_warning_of_the_process_is_one_of_this_process() -> None:
    with pytest.warns(ArgumentWarning, match="did you mean 'max_seconds'"):
        isolated(f"{MODELS}:fine", metrics="macs", max_secnds=1, **QUICK)


def test_what_it_prints_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    isolated(f"{MODELS}:prints", metrics="macs", **QUICK)
    assert capsys.readouterr() == ("", "built and printed\n")


def test_a_character_that_comes_in_two_pieces_is_shown_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build = "os.write(1, b'\\xc3'); time.sleep(0.1); os.write(1, b'\\xa9'); return fine()"
    (tmp_path / "net.py").write_text(f"import os, time\nfrom planted import fine\ndef build(): {build}\n")
    isolated(f"{tmp_path / 'net.py'}:build", metrics="macs", **QUICK)
    assert capsys.readouterr().err == "\u00e9"


def test_standard_error_of_the_process_is_no_reason_when_all_is_well() -> None:
    report = isolated(f"{MODELS}:prints", metrics="macs", **QUICK)
    assert report.notes == profile(planted.fine().model, input_shape=(4,), metrics="macs").notes


# How it starts --------------------------------------------------------------------------------------------------------


def test_a_way_to_start_that_there_is_not_is_an_error() -> None:
    with pytest.raises(InputError, match="start_method='fork': give one of 'spawn' and 'forkserver'"):
        isolated("x:y", start_method="fork")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="preload=.* is for start_method='forkserver', not for 'spawn'"):
        isolated("x:y", preload=["numpy"])


@pytest.mark.parametrize(("module", "name"), [("tensorflow", "TensorFlow"), ("jax", "JAX")])
def test_what_must_not_be_forked_is_not(module: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for other in ("tensorflow", "jax"):
        monkeypatch.delitem(sys.modules, other, raising=False)
    forkserver.require_forkable()
    monkeypatch.setitem(sys.modules, module, types.ModuleType(module))
    with pytest.raises(InputError, match=f"it has imported {name}, which must not be forked"):
        forkserver.require_forkable()


def test_a_gpu_is_not_forked_whatever_library_holds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("tensorflow", "jax"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setattr(Path, "readlink", lambda self: Path("/dev/nvidia0"))
    with pytest.raises(InputError, match="it uses a GPU, which must not be forked; use start_method='spawn'"):
        forkserver.require_forkable()


def test_a_fork_server_that_cannot_import_says_so() -> None:
    with pytest.raises(InputError, match=r"preload=\('no_such_module',\) could not be started: ModuleNotFoundError"):
        isolated(planted.fine, start_method="forkserver", preload=["no_such_module"])


def test_a_fork_server_that_was_ended_is_started_again() -> None:
    first = isolated(planted.fine, metrics="macs", **QUICK)
    server = interpreters._servers[("numpy",)]
    assert interpreters.start_server(("numpy",)) is server
    for process in interpreters._server_processes:
        process.kill()
        process.wait()
    again = isolated(planted.fine, metrics="macs", **QUICK)
    assert again["macs"] == first["macs"]
    assert interpreters.start_server(("numpy",)) is not server


def test_a_memory_limit_is_refused_where_it_cannot_be_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "LINUX", False)
    with pytest.raises(NotOfferedError, match="a memory limit needs Linux, and a kernel .* this is"):
        require_possible(Limits(memory=2**30))
    require_possible(Limits(timeout=1))


MAIN = """
import profilerkit
from planted import fine
def build():
    return fine()
{guard}report = profilerkit.isolated(build, metrics="macs", timeout=60)
{guard}print(report["macs"])
"""


def run_main(tmp_path: Path, code: str) -> subprocess.CompletedProcess[str]:
    program = tmp_path / "program.py"
    program.write_text(code)
    environment = {**os.environ, "PYTHONPATH": str(Path(MODELS).parent)}
    command = [sys.executable, str(program)]
    return run_program(command, check=False, env=environment, seconds=120)


def test_the_main_program_is_imported_where_something_is_of_it(tmp_path: Path) -> None:
    done = run_main(tmp_path, MAIN.format(guard="if __name__ == '__main__': "))
    assert done.stdout == f"{planted.MACS}\n", done.stderr


def test_a_main_program_that_would_go_on_for_ever_says_what_is_missing(tmp_path: Path) -> None:
    done = run_main(tmp_path, MAIN.format(guard=""))
    assert "put the call behind: if __name__ == '__main__':" in done.stderr
    require_started()  # nothing of that is left here


# Nobody is left -------------------------------------------------------------------------------------------------------

ENDED = """
import os, profilerkit
profilerkit.isolated({model!r}, timeout=300, metrics=["execution_time"])
"""


def _is_running(pid: int) -> bool:
    return processes._read_fields(pid, "status").get(b"State", b"Z").split()[0] != b"Z"


@pytest.mark.slow
@pytest.mark.skipif(not processes.LINUX, reason="only Linux has all of it")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["SIGKILL", "Ctrl-C"])
def test_nothing_is_left_when_the_caller_is_ended(number: signal.Signals, tmp_path: Path) -> None:
    notes = tmp_path / "pids"
    notes.touch()
    environment = {**os.environ, "PLANTED_PIDS": str(notes)}
    code = ENDED.format(model=f"{MODELS}:left_behind_and_hangs")
    caller = subprocess.Popen([sys.executable, "-c", code], env=environment, stderr=subprocess.PIPE)
    assert caller.stderr is not None
    try:
        wait_until(lambda: len(notes.read_text().splitlines()) == 2)
        started = processes.descendants(caller.pid)
        assert len(started) >= 4, "the supervisor, the model's process, and what that started"
        caller.send_signal(number)
        said = caller.stderr.read()
        assert caller.wait(30) == -number
        assert (b"KeyboardInterrupt" in said) == (number == signal.SIGINT)
        wait_until(lambda: not any(map(_is_running, started)))
    finally:
        caller.kill()
        caller.wait()
        caller.stderr.close()


def wait_until(condition: Any) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# Reasons --------------------------------------------------------------------------------------------------------------

LIMITS = Limits(timeout=5, memory=2**30, max_threads=100)


def explain(ending: Ending, **facts: Any) -> Reason:
    return find_reason(ending, LIMITS, **facts)


REASONS = {
    "the process was ended by SIGKILL, which was not sent from here: most often the system does that where memory runs "
    "out, while loading the model": explain(Ending(signal=9), stage="loading the model"),
    "the process was ended by SIGABRT (abort) while computing macs; its standard error ends with: bad_alloc": explain(
        Ending(signal=6), doing=("macs",), stderr="bad_alloc\n"
    ),
    "the process was ended at its memory limit of 1 GiB, holding 1.5 GiB (512 MiB over it), while starting": explain(
        Ending(signal=9, why="memory", peak_bytes=3 * 2**29)
    ),
    "the process was ended at its limit of 100 threads while starting": explain(Ending(signal=9, why="threads")),
    "the process was ended by signal 99 while computing a, b, c, d and 2 more": explain(
        Ending(signal=99), doing=tuple("abcdef")
    ),
    "the process ended while starting": explain(Ending()),
}


@pytest.mark.parametrize("reason", REASONS)
def test_a_reason_names_the_cause_and_what_was_being_done(reason: str) -> None:
    assert str(REASONS[reason]) == reason


def test_only_what_was_being_computed_has_failed() -> None:
    """``table`` is a key without a record: no metric."""
    begun = make_unreached_report("net", ["macs", "flops"])
    reason = explain(Ending(code=1))
    for doing, failed in ((["macs"], ["macs"]), (["table"], ["table"]), ([], ["macs", "flops", "table"])):
        report = explain_missing(begun, ["macs", "flops", "table"], doing, reason)
        states = {name: record.completeness is Completeness.FAILED for name, record in report.statuses.items()}
        assert [name for name, has_failed in states.items() if has_failed] == [n for n in failed if n != "table"]
        verb = "failed:" if "table" in failed else "was not reached:"
        assert report.notes[-1].startswith(f"table {verb} the process left by itself with exit code 1")


def test_processes_that_could_not_be_ended_are_told() -> None:
    report = add_process(make_unreached_report("net", ["macs"]), Limits(), Ending(survivors=2))
    assert report.notes[-1] == "2 processes of the model could not be ended"


def test_a_reason_quotes_little() -> None:
    reason = str(explain(Ending(code=1), stderr="x" * 10_000))
    assert len(reason) < 600


# Side by side ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_times_of_two_processes_are_pairs() -> None:
    comparison = isolated_comparison(f"{MODELS}:slow", f"{MODELS}:twice_as_slow", num_iters=15, warmup=2, timeout=60)
    assert [report.name for report in comparison.reports] == ["Planted (1)", "Planted (2)"]
    first, second = (report["execution_time"] for report in comparison.reports)
    assert first.is_paired_with(second)
    assert (len(first.samples), len(second.samples), len(first.warmup)) == (15, 15, 2)
    ratio = comparison.ratio("execution_time")
    assert ratio.paired
    quotients = sorted(b / a for a, b in zip(first.samples, second.samples, strict=True))
    assert ratio.value == quotients[7], "the middle one of 15"
    throughput = comparison.reference["throughput"]
    assert throughput.samples == tuple(1 / seconds for seconds in first.samples)


@pytest.mark.skipif(not processes.LINUX, reason="only Linux stops a process by a descriptor of it")
def test_a_process_that_waits_is_stopped_with_all_its_threads() -> None:
    """They would take the processors from the model that is measured meanwhile."""
    run = IsolatedRun(Job(f"{MODELS}:fine", gated=True), Limits(timeout=60), ("numpy",))
    try:
        wait_for_answer(run)
        status = Path(f"/proc/{run.progress.pid}/status")
        deadline = time.monotonic() + 10
        while "State:\tT (stopped)" not in status.read_text():
            assert time.monotonic() < deadline, status.read_text()
            time.sleep(0.01)
        run.answer(go=True)
        pump([run], lambda: run.over)
        assert run.result().statuses["execution_time"].completeness is Completeness.COMPLETE
    finally:
        run.close()


@pytest.mark.slow
@pytest.mark.parametrize("bad", ["leaves", "raises", "endless_loop"])
def test_where_one_of_them_fails_the_others_are_pairs_all_the_same(bad: str) -> None:
    models = [f"{MODELS}:{name}" for name in ("fine", bad, "fine")]
    limits = {**QUICK, "timeout": 5} if bad == "endless_loop" else QUICK
    comparison = isolated_comparison(*models, names=["a", "b", "c"], **TWICE, **limits)
    a, b, c = comparison.reports
    assert a["execution_time"].is_paired_with(c["execution_time"])
    assert b.status("execution_time").completeness is Completeness.FAILED
    assert b["macs"] == planted.MACS
    assert c.status("execution_time").completeness is Completeness.COMPLETE


def test_a_comparison_needs_two_and_a_name_for_each() -> None:
    with pytest.raises(TypeError, match="needs a reference and at least one other model"):
        isolated_comparison("a:b")
    with pytest.raises(ValueError, match="names has 1 entries for 2 models; give one for each"):
        isolated_comparison("a:b", "c:d", names=["x"])


def test_a_model_that_there_is_not_is_an_error_before_another_one_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("profilerkit.isolation.api.run_in_turn", lambda runs: pytest.fail("a model was timed"))
    with pytest.raises(InputError, match="has no 'fin'; it has, nearest first: fine"):
        isolated_comparison(f"{MODELS}:fine", f"{MODELS}:fin", **TWICE, **QUICK)


class Waiting:
    """A process that waits to run one function after the other, and notes which."""

    def __init__(self, *turns: str) -> None:
        self.turns, self.over = list(turns), False
        self.progress = Progress(pending=list(turns), turn=turns[0])

    def answer(self, **message: object) -> None:
        log.append((self, self.turns.pop(0)))
        self.over = not self.turns
        self.progress.turn = next(iter(self.turns), None)
        self.progress.pending = self.turns


log: list[tuple[Waiting, str]] = []


def test_who_measures_the_same_measures_together_whatever_comes_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("profilerkit.isolation.turns.wait_for_answer", lambda run: None)
    one, other = Waiting("time", "energy"), Waiting("memory", "time", "energy")
    log.clear()
    run_in_turn([one, other])  # type: ignore[list-item]
    assert log == [(other, "memory"), (one, "time"), (other, "time"), (one, "energy"), (other, "energy")]


# The command line -----------------------------------------------------------------------------------------------------


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments), catch_exceptions=False)


def test_a_model_that_crashes_is_printed_with_what_was_counted() -> None:
    result = run("profile", f"{MODELS}:leaves", "--isolate")
    assert result.exit_code == 3
    assert re.search(r"Total Parameters +58 ", result.stdout)
    assert "Execution Time, Throughput failed: the process left by itself with exit code 7" in result.stdout
    assert result.stderr.endswith("Error: execution_time, throughput of Planted failed\n")


def test_a_limit_implies_a_process_of_its_own(tmp_path: Path) -> None:
    options = ("--metric", "macs", "--format", "json")
    for limit, said in ((("--timeout", "50"), "at most 50 s"), (("--memory", "1 GiB"), "at most 1 GiB, a GPU")):
        result = run("profile", f"{MODELS}:fine", *limit, *options)
        assert result.exit_code == 0
        assert said in result.stdout
    assert '"isolation"' not in run("profile", f"{MODELS}:fine", *options).stdout


def test_a_limit_holds_for_what_does_not_run_too() -> None:
    result = run("profile", f"{MODELS}:fine", "--static", "--timeout", "50", "--format", "csv")
    assert result.exit_code == 0
    assert f"macs,{planted.MACS}," in result.stdout
    assert "execution_time" not in result.stdout
    refused = run("profile", f"{MODELS}:fine", "--static", "--timeout", "50", "--metric", "latency")
    assert "execution_time needs the model to run" in refused.stderr


@pytest.mark.slow
def test_models_and_reports_are_compared_diffed_and_checked(tmp_path: Path) -> None:
    saved = tmp_path / "fine.json"
    isolated(f"{MODELS}:fine", metrics="macs", **QUICK).save(saved)
    options = ("--isolate", "--metric", "macs")
    assert "the same" in run("compare", str(saved), f"{MODELS}:fine", *options).stdout
    assert run("diff", str(saved), f"{MODELS}:fine", *options).exit_code == 0
    kept = run("check", f"{MODELS}:fine", "--limit", "macs <= 1.0x", "--baseline", str(saved), "--timeout", "50")
    assert kept.exit_code == 0
    assert run("check", f"{MODELS}:fine", "--limit", "macs <= 47", "--isolate").exit_code == 1


USAGE = {
    "--timeout=0": "'0': give a number of seconds above zero, such as 30",
    "--timeout=soon": "'soon': give a number of seconds above zero, such as 30",
    "--memory=4 XB": "'4 XB': give a number of bytes, or a text such as '4 GiB'",
    "--memory=4": "'4' is 4 bytes; a process needs 1 MiB at the least: did you mean GiB?",
}


@pytest.mark.parametrize("option", USAGE)
def test_a_limit_that_is_none_is_a_usage_error(option: str) -> None:
    result = run("profile", f"{MODELS}:fine", option)
    assert result.exit_code == 2
    assert USAGE[option] in " ".join(result.stderr.replace("\n", " ").split())


def test_a_model_that_there_is_not_is_a_usage_error_and_one_that_cannot_be_built_is_none() -> None:
    result = run("profile", f"{MODELS}:fin", "--isolate")
    assert (result.exit_code, "Invalid value for MODEL" in result.stderr) == (2, True)
    assert run("profile", f"{MODELS}:cannot_be_built", "--isolate").exit_code == 3


# Frameworks -----------------------------------------------------------------------------------------------------------

TORCH = """
import torch
def build():
    return torch.nn.Linear(4, 8)
"""
KERAS = """
import keras
def build():
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(8)])
"""


@pytest.mark.slow
@pytest.mark.parametrize(("package", "code"), [("torch", TORCH), ("tensorflow", KERAS)], ids=["torch", "keras"])
def test_models_of_frameworks_with_limits_that_leave_them_room(package: str, code: str, tmp_path: Path) -> None:
    pytest.importorskip(package)
    (tmp_path / "net.py").write_text(textwrap.dedent(code))
    report = isolated(
        f"{tmp_path / 'net.py'}:build", input_shape=(4,), timeout=200, memory="1 GiB", num_iters=3, warmup=1
    )
    assert (report["macs"], report["total_params"]) == (4 * 8, 4 * 8 + 8)
    assert len(report["execution_time"].samples) == 3
