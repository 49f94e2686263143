"""A step in which few of a model's equal blocks run is the whole step, and other blocks all run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mesh_answers import run_steps

pytest.importorskip("torch.distributed.fsdp", reason="this torch has no fully_shard")

from mesh_networks import DEEP, WIDTH

from profilerkit_predict.meshes.records import RankTrace

#: A step as it is, and traced whole.
Steps = tuple[RankTrace, RankTrace]
#: The bytes of a block's weights: six matrices and two norms.
WEIGHTS = (12 * WIDTH**2 + 2 * WIDTH) * 4

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Steps]:
    steps: dict[str, Steps] = run_steps("deep", tmp_path_factory.mktemp("deep"))
    return steps


def find_growth(step: RankTrace) -> list[str]:
    """Return the notes that are there only where blocks were left out."""
    beginning = f"each block from layers.0 to layers.{DEEP - 1} keeps, after its forward pass, "
    return [note.removeprefix(beginning) for note in step.trace.notes if note.startswith(beginning)]


@pytest.mark.parametrize(
    "name",
    [
        *("alone", "fsdp2", "last of fsdp2", "hsdp", "bfloat16", "tp", "sequences", "fsdp2 and tp", "checkpoints"),
        *("checkpoints around", "wrappers", "three passes", "kept", "numbers"),
    ],
)
def test_step_of_few_blocks_is_the_whole_step(deep: dict[str, Steps], name: str) -> None:
    """Operator by operator, and byte by byte."""
    step, whole = deep[name]
    assert find_growth(step)
    assert not find_growth(whole)
    assert replace(step.trace, notes=()) == replace(whole.trace, notes=())
    assert step.trace.notes[: len(whole.trace.notes)] == whole.trace.notes
    assert replace(step, trace=whole.trace) == whole


@pytest.mark.parametrize(
    "name", ["doubling", "one scaled", "one gathered", "ddp", "questions", "choices", "numbers given"]
)
def test_blocks_that_are_not_alike_all_run(deep: dict[str, Steps], name: str) -> None:
    """What is done between two of them, a setting of one, what ``fully_shard`` does with one, buckets over several.

    And one that asks which one it is, also of a list, or gives its number to an operator.
    """
    step, whole = deep[name]
    assert step == whole
    assert not find_growth(step)


def test_memory_that_grows_with_the_blocks_is_a_fault(deep: dict[str, Steps]) -> None:
    (growth,) = find_growth(deep["kept"][0])
    assert f"{WEIGHTS / 1024:.4g} KiB of gathered weights" in growth
    (growth,) = find_growth(deep["fsdp2"][0])
    assert "gathered weights" not in growth
