"""How many processes share the work of a pass, if layers of one model are spread in several ways."""

from __future__ import annotations

import json
import sys

import pytest
import torch
from source_tree import SUPPORT
from time_limits import run_program

pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without distributed")


def test_work_is_shared_along_the_parts_of_a_weight_that_are_not_gathered() -> None:
    """Of 2 x 4 processes, 2 have samples of their own and gather the weights; 4 compute parts of a layer.

    What is gathered in one layer is no reason to believe that the parts of another layer are gathered too.
    """
    done = run_program([sys.executable, str(SUPPORT / "shared_work.py")], seconds=240)
    gathered_and_parallel = json.loads(done.stdout.strip().splitlines()[-1])
    assert gathered_and_parallel == {
        "all, ": 1,
        ", second": 4,
        "all, second": 4,
        "first, second": 4,
        "second, second": 4,
    }
