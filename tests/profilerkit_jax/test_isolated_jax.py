"""Models of JAX in processes of their own, which are spawned: JAX does not survive a fork."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("flax")
import jax.numpy as jnp
import jax_planted
import numpy as np
from click.testing import CliRunner

from profilerkit import InputError, Report, isolated
from profilerkit.cli import cli
from profilerkit_jax import JaxModel

pytestmark = pytest.mark.slow

KEYS = ("total_params", "macs", "execution_time")
ONCE: dict[str, Any] = {"metrics": KEYS, "num_iters": 3, "warmup": 1, "timeout": 300}


def counts(report: Report) -> tuple[str, int, int, bool]:
    return report.backend, report["total_params"], report["macs"], report["execution_time"].median > 0


def test_a_model_from_a_file() -> None:
    report = isolated(f"{jax_planted.__file__}:fine", **ONCE)
    assert counts(report) == ("jax", jax_planted.PARAMS, jax_planted.MACS, True)


@pytest.mark.parametrize(
    ("model", "params", "macs"),
    [
        (jax_planted.Net, jax_planted.PARAMS, 3 * jax_planted.MACS),
        (lambda: JaxModel(jax_planted.product, {"weight": jnp.ones((4, 5))}), 20, 3 * 20),
    ],
    ids=["module", "function"],
)
def test_a_model_that_is_pickled(model: Any, params: int, macs: int) -> None:
    """The weights are sent along."""
    assert counts(isolated(model(), np.ones((3, 4), "float32"), **ONCE)) == ("jax", params, macs, True)


def test_a_function_that_cannot_be_pickled_says_so() -> None:
    with pytest.raises(InputError, match="JaxModel cannot be sent to a process of its own"):
        isolated(JaxModel(lambda x: x @ x.T), np.ones((1, 4), "float32"), **ONCE)


def test_a_model_that_leaves_its_process_has_a_report() -> None:
    report = isolated(f"{jax_planted.__file__}:leaves", **ONCE)
    assert report["total_params"] == 12
    assert report.status("macs").missing == ("the process left by itself with exit code 7 while computing macs",)


def test_from_the_command_line() -> None:
    spec = f"{jax_planted.__file__}:fine"
    arguments = ["profile", spec, "--isolate", "--metric", "macs", "--metric", "total_params"]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    assert "(jax)" in result.output
    assert str(jax_planted.MACS) in result.output
