"""Without any one of the private names of JAX: the same numbers, or numbers that are not called complete."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from source_tree import SUPPORT

pytest.importorskip("jax")
pytest.importorskip("flax")
pytest.importorskip("equinox")

from profilerkit_jax.compat import ATTRIBUTES, PARAMETERS, PATHS

NAMES = (*PATHS, *ATTRIBUTES, *(f"{primitive}:{name}" for primitive, names in PARAMETERS.items() for name in names))
#: Those that are tried in each run of the tests; all others only with the slow ones.
SAMPLE = (PATHS[0], ATTRIBUTES[0], "scan:jaxpr", "dot_general:dimension_numbers")


def outcomes(*name: str, keras: bool = False) -> dict[str, Any]:
    """Return what the reports say without a name, in a process of its own."""
    environment = {name: value for name, value in os.environ.items() if name != "KERAS_BACKEND"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(SUPPORT / "jax_without_a_name.py"), *name],
        env={**environment, **({"KERAS_BACKEND": "jax"} if keras else {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    return outcomes()


def test_the_numbers_with_all_names(expected: dict[str, Any]) -> None:
    """Five turns, four and three of 3 x 4 x 4 products; two products of 3 x 4 x 3; and so on, by the shapes."""
    by_hand = {
        "scan": (5 + 4 + 3) * 3 * 4 * 4,
        "branches": 2 * 3 * 4 * 3,
        "perceptron": 3 * 4 * 6 + 3 * 6 * 2,
        "algebra": 4 * 4 * 4,
        "nnx": 2 * 8 * 8 * 3 * 3 * 2 * 3 + 2 * 3 * 4,
        "equinox": 3 * 5 + 5 * 4,
    }
    assert {name: found["values"]["macs"] for name, found in expected.items()} == {
        name: [macs, "complete"] for name, macs in by_hand.items()
    }


@pytest.mark.parametrize(
    "name", [name if name in SAMPLE else pytest.param(name, marks=pytest.mark.slow) for name in NAMES]
)
def test_without_a_name(name: str, expected: dict[str, Any]) -> None:
    is_of_keras = name in ATTRIBUTES[2:]
    found = outcomes(name, keras=is_of_keras)
    if is_of_keras:
        keras = found.pop("keras")
        assert {completeness for _, completeness in keras["values"].values()} <= {"failed", "unavailable"}
        assert f"this release of Keras has no {name}" in " ".join(keras["said"])
    for model, with_all in expected.items():
        without = found[model]
        for key, (value, completeness) in without["values"].items():
            if completeness == "complete":
                assert [value, completeness] == with_all["values"][key], (model, key)
            elif [value, completeness] != with_all["values"][key]:
                assert without["said"]
        if without["rows"] != with_all["rows"]:
            assert without["values"]["macs"][1] != "complete"
        assert "fault of the backend" not in " ".join(without["said"])
