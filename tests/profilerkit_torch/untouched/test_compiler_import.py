"""Torch's compiler takes a second to import: it is imported only for a model that asks for it, and disabled then."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from time_limits import run_program

PLAIN = """
import sys, torch
from profilerkit import profile
profile(torch.nn.Linear(4, 2), torch.ones(1, 4), num_iters=2)
print("torch._dynamo" in sys.modules)
"""

ASKING = """
import json, sys, torch
from profilerkit import profile

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.compiled, self.backends = torch.nn.Linear(64, 64), [], 0

    def backend(self, graph, inputs):
        self.backends += 1
        return graph

    def forward(self, x):
        if not self.compiled:  # torch's compiler is imported here
            self.compiled.append(torch.compile(lambda y: self.layer(y).relu(), fullgraph=True, backend=self.backend))
        return self.compiled[0](x)

class Imports(torch.nn.Module):
    def add_up(self, x):
        doubled = x * 2
        rectified = doubled.relu()
        import torch._dynamo  # the import keeps the frame with these
        return rectified.sum()

    def forward(self, x):
        return (x + self.add_up(x)).relu() + 1

finders = sys.meta_path[:]
net = {"compiles": Net, "imports": Imports}[sys.argv[1]]()
x = torch.ones(8, 64)
reports = [profile(net, x, metrics=["macs", "flops", "memory_footprint", "execution_time"], num_iters=2) for _ in "abc"]
facts = {
    "values": [[report[name] for name in ("macs", "flops", "memory_footprint")] for report in reports],
    "complete": all(report.status(name).completeness.value == "complete" for report in reports for name in report),
    "compiled": getattr(net, "backends", 0),
    "stance": torch._dynamo.eval_frame._stance.stance,
    "finders": sys.meta_path == finders,
}
net(x)
facts["compiled afterwards"] = getattr(net, "backends", 0)
print(json.dumps(facts))
"""


def run(code: str, *arguments: str) -> str:
    command = [sys.executable, "-c", code, *arguments]
    return run_program(command).stdout


@pytest.mark.slow
def test_a_profile_does_not_import_the_compiler() -> None:
    assert run(PLAIN).strip() == "False"


@pytest.mark.slow
def test_a_model_that_compiles_while_it_runs_is_counted_as_written() -> None:
    facts: dict[str, Any] = json.loads(run(ASKING, "compiles"))
    weights, activation = 4 * (64 * 64 + 64), 4 * 8 * 64
    macs = 8 * 64 * 64
    flops = 2 * macs + 8 * 64 + 8 * 64  # the bias and ReLU
    # In ReLU: the input, the output of the layer and that of ReLU.
    assert facts["values"] == [[macs, flops, weights + 3 * activation]] * 3
    assert facts["complete"]
    assert (facts["stance"], facts["finders"]) == ("default", True)
    # Torch does not remember that something was not compiled.
    assert (facts["compiled"], facts["compiled afterwards"]) == (0, 1)


@pytest.mark.slow
def test_the_import_of_the_compiler_adds_nothing_to_the_peak() -> None:
    facts: dict[str, Any] = json.loads(run(ASKING, "imports"))
    # In the sum: the input, twice as much, what ReLU leaves of it, and one number.
    assert [peak for _, _, peak in facts["values"]] == [4 * (3 * 8 * 64 + 1)] * 3
    assert facts["finders"]
