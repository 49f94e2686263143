"""The next release of TensorFlow cannot break a call: each private name is taken away in a process of its own.

Then the numbers are those of before, or a number is partial or unavailable and says why.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import pytest
from time_limits import run_program

pytest.importorskip("keras")

from absent_names import names_in, require_outcomes
from source_tree import ROOT, SUPPORT

from profilerkit import NotOfferedError
from profilerkit.backend_kit import keras_layers, keras_variables

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

NAMES = [
    name
    for file in ("backends/profilerkit_tensorflow/compat", "profilerkit/backend_kit/keras_layers.py")
    for name in names_in(ROOT / file)
]
#: Those that are taken away in the quick tests.
SAMPLE = ("tensorflow.python.pywrap_tfe", "_id", "tensorflow.python.framework.func_graph.FuncGraph", "_get_function")
#: Without one of these nobody can say that nothing has left a run that cannot be traced.
OF_EAGER_RUNS = (
    *("tensorflow.python.framework.ops._EagerTensorBase", "_numpy", "tensorflow.python.pywrap_tfe", "_id"),
    *("TFE_Py_FastPathExecute", "TFE_Py_Execute", "TFE_Py_ExecuteCancelable"),
)


def said_without(*names: str) -> Any:
    """Return what the reports say without each name, alone; with all of them for an empty text."""
    command = [sys.executable, "-W", "ignore", str(SUPPORT / "absent_names_tf.py"), *names]
    done = run_program(command)
    return json.loads(done.stdout.splitlines()[-1])


def check(usual: Any, said: Any, name: str) -> None:
    require_outcomes(usual, said, name)
    assert usual["deciding"]["macs"][:2] == [2 * 4 * 4, "complete"]
    assert usual["leaving"]["macs"][:2] == [2 * 4 * 4, "partial"]
    assert usual["module"]["macs"][:2] == usual["saved model"]["macs"][:2] == [3 * 2 * 4 * 4, "complete"]
    assert usual["unbuilt sequential"]["macs"][:2] == [2 * 4 * 4 + 2 * 4 * 2, "complete"]
    if name in OF_EAGER_RUNS:
        assert said["deciding"]["macs"][:2] == [2 * 4 * 4, "partial"]
        assert said["cnn"] == usual["cnn"], "a graph needs none of them"


def test_the_file_names_what_it_looks_for() -> None:
    assert {*SAMPLE, *OF_EAGER_RUNS} <= set(NAMES)
    assert len(NAMES) > 40


@pytest.mark.parametrize(
    ("read", "name"),
    [
        (keras_layers.flat_layers, "_flatten_layers"),
        (keras_layers.direct_layers, "_layers"),
        (lambda layer: list(keras_variables.name_own_weights(layer)), "_non_trainable_variables"),
    ],
)
def test_a_layer_without_a_name_is_refused(read: Any, name: str) -> None:
    with pytest.raises(NotOfferedError, match=f"^keras .* has no {name}, by which profilerkit finds"):
        read(object())


@pytest.mark.slow
def test_a_name_that_is_gone() -> None:
    said = said_without("", *SAMPLE)
    for name in SAMPLE:
        check(said[""], said[name], name)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
def test_any_name_that_is_gone(part: int) -> None:
    names = [name for name in NAMES if name not in SAMPLE][part::2]
    said = said_without("", *names)
    for name in names:
        check(said[""], said[name], name)
