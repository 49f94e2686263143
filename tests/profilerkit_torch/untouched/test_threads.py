"""Profiling in several threads: what is changed for the whole process meanwhile is the user's again afterwards."""

from __future__ import annotations

import pytest
from time_limits import run_python

TWO_TRACES = """
import threading
import torch
from torch import nn
from profilerkit import profile

class Product(nn.Module):
    def forward(self, x):
        if other.ident is None:
            other.start()  # it comes while this one is under way, and ends after it
            other.join(timeout=0.5)
        return x @ x

def count():
    found.append(profile(Product(), x, metrics=["macs"])["macs"])

x = torch.ones(8, 8)
found = []
other = threading.Thread(target=count)
count()
other.join()

compilations = []
def compiler(graph, inputs):
    compilations.append(graph)
    return graph
torch.compile(nn.Linear(8, 8), backend=compiler)(x)
print(found, len(compilations), torch.backends.mha.get_fastpath_enabled())
"""


@pytest.mark.slow
def test_what_is_compiled_stays_compiled_after_traces_in_two_threads() -> None:
    """In a process of its own: torch's stance towards compiled code, left behind, would make all of it eager."""
    done = run_python(TWO_TRACES)
    assert done.stdout.strip() == "[512, 512] 1 True"
