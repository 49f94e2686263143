"""Thousands of damaged files: each is refused in words, or says what the whole one said; none ends the process."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from attack_sampling import WHOLE
from hostile import change_at_random, full_comparison, full_report
from source_tree import SUPPORT
from time_limits import run_program

from profilerkit import InputError, ReportFileError
from profilerkit.errors import BudgetError
from profilerkit.process.files import require_whole
from profilerkit.results.saving import parse, to_json
from profilerkit_budgets import Budget, Limit, check


@pytest.mark.parametrize("kind", ["report", "comparison"])
def test_damaged_reports(kind: str) -> None:
    original = full_report() if kind == "report" else full_comparison()
    content, said, refused = to_json(original).encode(), str(original), 0
    count = 2_750 if WHOLE else 150
    for seed in range(count):
        damaged = change_at_random(content, random.Random(seed))
        try:
            assert str(parse(damaged, "it")) == said, seed
        except ReportFileError as error:
            assert str(error).startswith("it is not a report of profilerkit"), seed
            refused += 1
    assert refused > 0.9 * count


BUDGET = b"""# What the model may cost
macs = "<= 5 G"
total_params = ["<= 26 M", ">= 1"]
execution_time = "<= 1.10x"
model_size = "<= 25 MiB"

[layers."first"]
params = "<= 1 M"

[layers."*"]
macs = "<= 1 G"
"""


def test_damaged_budgets(tmp_path: Path) -> None:
    """A budget has no checksum: what it says must be what is read, which is written and read again."""
    report, path = full_report(), tmp_path / "budget.toml"
    count, refused = 1_000 if WHOLE else 300, 0
    path.write_bytes(BUDGET)
    assert len(Budget.load(path).limits) == 7
    for seed in range(count):
        path.write_bytes(change_at_random(BUDGET, random.Random(seed)))
        try:
            budget = Budget.load(path)
            for limit in budget.limits:
                amount = f"{limit.comparison} {limit.number!r} {limit.suffix}"
                assert Limit.parse(limit.key, amount, limit.pattern) == limit, seed
            assert len(check(report, budget, report)) >= 1
        except BudgetError as error:
            assert 10 < len(str(error)) < 1_000, seed
            refused += 1
    assert 0.2 * count < refused < count


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzzed")


MAKE = {
    "pt2": """
import torch
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 2))
torch.export.save(torch.export.export(net, (torch.ones(1, 4),)), path)
""",
    "keras": """
import tensorflow as tf
tf.keras.utils.set_random_seed(0)
layers = [tf.keras.Input((4,)), tf.keras.layers.Dense(6, "relu"), tf.keras.layers.Dense(2)]
tf.keras.Sequential(layers).save(path)
""",
}


def ran(command: list[str], check: bool = True) -> subprocess.CompletedProcess[str]:
    variables = {"OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    return run_program([sys.executable, *command], check=check, seconds=3_000, variables=variables)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pt2", "keras"])
def test_damaged_models(kind: str, folder: Path) -> None:
    """By hand: products of 4 x 6 and 6 x 2, and 6 + 2 biases."""
    pytest.importorskip("torch" if kind == "pt2" else "tensorflow")
    ran(["-c", f"path = {str(folder / f'whole.{kind}')!r}{MAKE[kind]}"])
    count = 1_000 if WHOLE else {"pt2": 25, "keras": 8}[kind]
    said: dict[int, Any] = {}
    while len(said) < count:
        done = ran([str(SUPPORT / "fuzzed_models.py"), kind, str(folder), str(len(said)), str(count)], False)
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
        said.update((seed, what) for seed, what in lines)
        assert len(said) == count, f"the process ended with {done.returncode} at seed {len(said)}: {done.stderr[-800:]}"
    assert said[0][:2] == [4 * 6 + 6 * 2, 4 * 6 + 6 + 6 * 2 + 2]
    refused = {seed: what for seed, what in said.items() if isinstance(what, str)}
    assert all(what.startswith("refused InputError: ") for what in refused.values()), refused
    assert all(what == said[0] for seed, what in said.items() if seed not in refused)
    assert len(refused) > 0.5 * count


def test_an_archive_that_is_not_whole_is_named(tmp_path: Path) -> None:
    import zipfile

    path = tmp_path / "model.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("weights", b"12345678" * 100)
    require_whole(path)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"12345678", b"12345679", 1))
    with pytest.raises(
        InputError, match=r"model\.pt2 cannot be read: 'weights' in it is damaged; save the model again"
    ):
        require_whole(path)
    path.write_bytes(content[:500])
    with pytest.raises(InputError, match=r"it is damaged, or no archive of a model \(BadZipFile: File is not a zip"):
        require_whole(path)
