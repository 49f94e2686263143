"""Without any one of the private names of JAX: the same numbers, or numbers that are not called complete."""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any

import pytest
from absent_names import require_outcomes
from source_tree import SUPPORT
from time_limits import run_program

pytest.importorskip("flax")
pytest.importorskip("equinox")

from profilerkit_jax.compat import ATTRIBUTES, PATHS

#: Parameters of primitives, of each kind of formula and of control flow.
PARAMETERS = (
    *("scan:jaxpr", "scan:length", "while:cond_jaxpr", "while:body_nconsts", "cond:branches", "jit:jaxpr", "jit:name"),
    *(
        "dot_general:dimension_numbers",
        "conv_general_dilated:padding",
        "integer_pow:y",
        "fft:fft_lengths",
        "qr:full_matrices",
    ),
    *("reduce:jaxpr", "reduce_window:window_dimensions", "reduce_window_max:window_dimensions", "scatter:update_jaxpr"),
)
NAMES = (*PATHS, *ATTRIBUTES, *PARAMETERS)
#: Those that are tried in each run of the tests; all others only with the slow ones.
SAMPLE = (PATHS[0], ATTRIBUTES[0], "scan:jaxpr", "dot_general:dimension_numbers")


#: Names of Keras, which the core looks for; a model of it is profiled without each.
OF_KERAS = ("_flatten_layers", "_trainable_variables", "_non_trainable_variables", "_seed_generators", "_value")


def outcomes(*names: str, keras: bool = False) -> dict[str, Any]:
    """Return what the reports say without each name, alone; with all of them for an empty text."""
    environment = {name: value for name, value in os.environ.items() if name != "KERAS_BACKEND"}
    done = run_program(
        [sys.executable, "-W", "ignore", str(SUPPORT / "jax_without_a_name.py"), *names],
        env={**environment, **({"KERAS_BACKEND": "jax"} if keras else {})},
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
def test_without_a_name() -> None:
    """Five turns, four and three of 3 x 4 x 4 products; two products of 3 x 4 x 3; and so on, by the shapes."""
    by_hand = {
        "scan": (5 + 4 + 3) * 3 * 4 * 4,
        "branches": 2 * 3 * 4 * 3,
        "perceptron": 3 * 4 * 6 + 3 * 6 * 2,
        "algebra": 4 * 4 * 4,
        "nnx": 2 * 8 * 8 * 3 * 3 * 2 * 3 + 2 * 3 * 4,
        "equinox": 3 * 5 + 5 * 4,
    }
    found = outcomes("", *SAMPLE)
    usual = {model: outcome["macs"] for model, outcome in found[""].items()}
    assert usual == {model: [macs, "complete", []] for model, macs in by_hand.items()}
    for name in SAMPLE:
        assert found[name], f"no model has {name}"
        require_outcomes(found[""], found[name], name)


@pytest.mark.slow
def test_without_any_name_of_jax() -> None:
    names = [name for name in NAMES if name not in SAMPLE]
    found = outcomes("", *names)
    for name in names:
        require_outcomes(found[""], found[name], name)
    assert all(found.values())


@pytest.mark.slow
def test_without_any_name_of_keras() -> None:
    found = outcomes("", *OF_KERAS, keras=True)
    for name in OF_KERAS:
        require_outcomes(found[""], found[name], name)
        keras = found[name]["keras"]
        assert {completeness for _, completeness, _ in keras.values()} == {"unavailable"}
        assert re.search(rf"keras \S+ has no {name}_taken_away, by which profilerkit finds", str(keras))
