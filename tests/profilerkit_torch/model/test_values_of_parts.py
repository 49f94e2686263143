"""A model that asks for the values of a part of a tensor: on the meta device the part has an address, and no values.

In a process of its own: what goes wrong here ends the process.
"""

from __future__ import annotations

import pytest
from time_limits import run_python

#: Parts of a matrix of four by three that do not begin at its first element.
PARTS = """
    x[1:] | x[1] | x[1, 1:] | x.unbind(0)[1] | x.chunk(2)[1] | x.narrow(0, 1, 1) | x[1].expand(2, 3)
    x.as_strided((2,), (1,), 3) | x.t()[1:] | x.diagonal(1) | x[1:].view(-1) | x[1:].detach() | x[1:].conj()
"""
#: How values are asked for: each of them moves what is not on the CPU there first.
QUESTIONS = """
    y.tolist() | y.cpu().tolist() | y.to('cpu').tolist() | y.to('cpu', torch.float64).tolist() | y.numpy(force=True)
    y.to(torch.empty(1)).tolist() | y.cpu().detach().tolist()
    y.cpu()[..., 1:].tolist() | y.cpu().flatten()[1:].tolist()
"""


def entries(table: str) -> list[str]:
    return [text.strip() for line in table.strip().splitlines() for text in line.split("|")]


CASES = [
    *((part, entries(QUESTIONS)[0]) for part in entries(PARTS)),
    *((entries(PARTS)[0], question) for question in entries(QUESTIONS)),
]
SCRIPT = f"""
import torch
from torch import nn
from profilerkit import profile

class Asking(nn.Module):
    def __init__(self, part, question):
        super().__init__()
        self.part, self.question = part, question

    def forward(self, x):
        y = eval(self.part)
        asked = eval(self.question)
        return x * 2

for part, question in {CASES!r}:
    print(part, question, flush=True)
    report = profile(Asking(part, question), torch.ones(4, 3), metrics=["flops"])
    print(report["flops"], flush=True)
"""


@pytest.mark.slow
def test_values_of_a_part_are_had_from_a_real_run() -> None:
    """One product for each of twelve elements."""
    run = run_python(SCRIPT, check=False)
    lines = run.stdout.splitlines()
    assert run.returncode == 0, (lines[-1:], run.stderr[-1000:])
    assert lines[0::2] == [f"{part} {question}" for part, question in CASES]
    assert set(lines[1::2]) == {"12"}
