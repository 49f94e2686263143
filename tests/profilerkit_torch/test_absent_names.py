"""The next release of torch cannot break a call: each private name is taken away, one at a time, in its own process.

Then the numbers are those of before, or a number is partial or unavailable and the report says why. None of the errors
is a traceback of ours, and no other number is called complete.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from typing import Any

import pytest
from absent_names import METRICS, names_in
from source_tree import ROOT, SUPPORT

COMPAT = ROOT / "backends" / "profilerkit_torch" / "compat.py"
#: Tags, operators and dtypes that other files ask for, by functions of that file.
FURTHER = (
    *("torch.Tag.inplace_view", "torch.Tag.pointwise", "torch.Tag.reduction", "torch.Tag.nondeterministic_seeded"),
    *("torch.Tag.dynamic_output_shape", "torch.Tag.data_dependent_output", "torch.Tag.maybe_aliasing_or_mutating"),
    *("torch.ops.aten.dropout.default", "torch.ops.aten._to_copy.default", "torch.ops.aten.detach.default"),
    *("torch.ops.aten.scaled_dot_product_attention.default", "torch.ops.aten.index.Tensor", "torch.quint4x2"),
)
#: One that has another way, one without which nothing is traced, one without which operators are not known, and a tag.
SAMPLE = (
    "torch._C._len_torch_function_stack",
    "torch.utils._python_dispatch.TorchDispatchMode",
    "torch._C.DispatchKey.CompositeImplicitAutograd",
    "torch.Tag.reduction",
)


@cache
def said_without(name: str) -> Any:
    """Return what the reports say without a name; with all of them for an empty text."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(SUPPORT / "absent_names.py"), *filter(None, [name])],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def check(name: str) -> None:
    usual, said = said_without(""), said_without(name)
    for network in usual:
        for metric in METRICS:
            before, now = (report[network]["values"][metric] for report in (usual, said))
            assert before[1] == "complete"
            if now[1] == "complete":
                assert now == before, f"{network}: another {metric} is called complete"
            else:
                assert now[1] in ("partial", "unavailable"), f"{network}: {metric}: {now}"
                assert now[2], f"{network}: {metric} does not say why"
                assert "fault of the backend" not in str(now[2])


def test_the_file_names_what_it_looks_for() -> None:
    names = names_in(COMPAT)
    assert len(names) > 60
    assert set(SAMPLE) <= {*names, *FURTHER}


@pytest.mark.parametrize("name", SAMPLE)
def test_a_name_that_is_gone(name: str) -> None:
    check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*names_in(COMPAT), *FURTHER} - {*SAMPLE}))
def test_any_name_that_is_gone(name: str) -> None:
    check(name)
