"""Random small modules: profilerkit's trace against a real run under a plain counter, and the module afterwards.

``make test`` takes a sample; ``make attack`` takes 10,000, in processes of their own, so that one that dies is named.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from attack_sampling import WHOLE
from fuzz_compare import differences, find_truth
from fuzz_generator import program
from fuzz_sampled import SAMPLED, SEEDS, compare_seed, known
from fuzz_seeds import KEPT, Kept
from source_tree import SUPPORT

from profilerkit_torch import costs
from profilerkit_torch.trace import recorded_pass, tracing

HERE = SUPPORT
CHUNK = 500
#: How long a chunk may take before its last seed is taken to hang, in seconds.
PATIENCE = 3600


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("seed", SAMPLED)
def test_a_random_module_is_counted_as_it_runs(seed: int) -> None:
    source, _ = known(seed)
    found, method = compare_seed(seed)
    assert not found, (found, method, source)


@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: kept.name)
def test_what_was_found_stays_mended(kept: Kept) -> None:
    found, method = differences(kept.source, find_truth(kept.source, training=kept.training))
    assert not found, (found, method)


def _in_inference_mode(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tracing._IN_INFERENCE[0], "grad_mode", torch.inference_mode)


def _without_answers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recorded_pass.RecordedPass, "_prepare_answers", lambda *_: None)


@pytest.mark.parametrize(
    ("name", "plant"),
    [
        ("device type", _without_answers),
        ("repr", _without_answers),
        ("inference mode", _in_inference_mode),
        ("an inference tensor", _in_inference_mode),
        ("torch.autograd.functional", _in_inference_mode),
    ],
)
def test_a_planted_difference_is_found(
    name: str, plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    (kept,) = (kept for kept in KEPT if kept.name == name)
    plant(monkeypatch)
    found, _ = differences(kept.source, find_truth(kept.source, training=kept.training))
    assert found


def test_a_wrong_formula_is_found_beside_a_question_and_a_try() -> None:
    forward = (
        "try:\n    y = x0.relu()\nexcept Exception:\n    y = x0\nif y.is_cuda:\n    return y\nreturn torch.mm(y, y.T)"
    )
    source = Kept("", "", forward).source
    truth = find_truth(source)
    assert differences(source, truth)[0] == []
    with costs.override({"aten::mm": lambda a, b, *, out: costs.Cost(1, 2)}):
        found, _ = differences(source, truth)
        assert [difference.kind for difference in found] == ["macs"]


@pytest.mark.skipif(not WHOLE, reason="make attack")
@pytest.mark.parametrize("first", range(0, len(SEEDS), CHUNK))
def test_no_random_module_differs(first: int) -> None:
    command = [sys.executable, "-W", "ignore", str(HERE / "fuzz_chunk.py"), str(first), str(first + CHUNK)]
    results, died = outcome(command)
    assert not died, died
    assert len(results) == CHUNK
    assert sum("skipped" in result for result in results) <= CHUNK // 100
    differing = [result for result in results if result["differences"]]
    assert not differing, differing


def outcome(command: Sequence[str], patience: float = PATIENCE) -> tuple[list[dict[str, Any]], str]:
    """Run a chunk; return what it has found, and the seed that ended it, if one did."""
    try:
        run = subprocess.run(command, capture_output=True, timeout=patience, text=True, check=False)
        output, ended = (
            run.stdout,
            f"ended with exit code {run.returncode}: {run.stderr[-2000:]}" if run.returncode else "",
        )
    except subprocess.TimeoutExpired as late:
        output = late.stdout.decode() if isinstance(late.stdout, bytes) else late.stdout or ""
        ended = f"had not ended after {patience} seconds"
    lines = [json.loads(line) for line in output.splitlines() if line.endswith("}")]
    began = [line["began"] for line in lines if "began" in line]
    return [line for line in lines if "seed" in line], f"seed {began[-1] if began else '?'} {ended}" if ended else ""


BEGUN = """{"began": 7}\n{"seed": 7}\n{"began": 8}\n"""


@pytest.mark.parametrize(
    ("dies", "message"),
    [("import os; os.abort()", "seed 8 ended with exit code"), ("raise ValueError('no such thing')", "no such thing")],
)
def test_a_seed_that_ends_its_process_is_named(dies: str, message: str) -> None:
    results, died = outcome([sys.executable, "-S", "-c", f"print({BEGUN!r}, flush=True); {dies}"])
    assert results == [{"seed": 7}]
    assert message in died


def test_a_seed_that_hangs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: Sequence[str], timeout: float, **_: Any) -> None:
        raise subprocess.TimeoutExpired(list(command), timeout, output=BEGUN.encode())

    monkeypatch.setattr(subprocess, "run", run)
    assert outcome(["chunk"], patience=3) == ([{"seed": 7}], "seed 8 had not ended after 3 seconds")


def test_a_seed_makes_the_same_program_each_time() -> None:
    assert program(3).source == program(3).source != program(4).source
