"""Times of the compiled model: counts are the original's, and what the user has compiled stays compiled."""

from __future__ import annotations

import shutil
import weakref
from typing import Any

import pytest
import torch
from time_limits import run_python
from tiny import BACKEND, Call, ones
from torch import nn

from profilerkit import InputError, ModelInputs, compare, profile
from profilerkit.backend import RunOptions
from profilerkit_torch.running.compiling import use_compiled


class Counting:
    """A compiler that notes how often it compiles, and runs what it gets as it is."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph: Any, inputs: Any) -> Any:
        self.graphs += 1
        return graph.forward


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def test_the_compiled_model_is_timed_and_the_original_counted() -> None:
    compiler = Counting()
    model = network()
    how = {"backend": compiler}
    report = profile(model, ones(3, 4), compile=how, num_iters=5, warmup=1)
    assert compiler.graphs == 1, "compiled once, and run again and again"
    plain = profile(model, ones(3, 4), metrics=["macs", "flops", "memory_footprint", "total_params", "model_size"])
    assert plain["macs"] == 3 * (4 * 8 + 8 * 2)
    assert all(report[key] == plain[key] for key in plain)
    assert float(report["execution_time"]) > 0
    assert any("compiled" in note for note in report.notes)


def test_the_first_call_of_a_compiled_model() -> None:
    report = profile(network(), ones(3, 4), metrics="first_call_time", compile="eager")
    assert report["first_call_time"] > 0
    report = profile(network(), ones(3, 4), metrics="first_call_time")
    assert "compiles nothing in mode 'eager'" in report.status("first_call_time").missing[0]


def test_what_the_user_has_compiled_stays_compiled() -> None:
    torch._dynamo.reset()  # torch 2.6 keeps eight graphs of all, and tests before this one compile too
    theirs, ours = Counting(), Counting()
    model, x = network(), ones(3, 4)
    used = torch.compile(model, backend=theirs)
    used(x)
    for _ in range(3):
        with BACKEND.run(model, ModelInputs(x), options=RunOptions(compile={"backend": ours})) as call:
            call()
    assert (theirs.graphs, ours.graphs) == (1, 3), "each profile compiles anew"
    used(x)
    assert theirs.graphs == 1
    torch._dynamo.reset()


def test_other_shapes_in_between_do_not_make_the_users_model_one_of_any_shape() -> None:
    """A model that is compiled for a second shape is compiled for all shapes, unless its first was forgotten."""
    sizes: list[Any] = []

    def compiler(graph: Any, inputs: Any) -> Any:
        sizes.append([type(tensor).__name__ for tensor in inputs])
        return graph.forward

    model = network()
    for batch_size in (2, 5, 7):
        with BACKEND.run(
            model, ModelInputs(ones(batch_size, 4)), options=RunOptions(compile={"backend": compiler})
        ) as call:
            call()
    assert len(sizes) == 3
    used = torch.compile(model, backend=compiler)
    used(ones(3, 4))
    assert "SymInt" not in sizes[-1]
    torch._dynamo.reset()


def test_what_was_compiled_of_a_broken_graph_is_forgotten() -> None:
    from torch._dynamo.eval_frame import _debug_get_cache_entry_list

    def forward(self: Any, x: torch.Tensor) -> Any:
        y = self.layer(x)
        torch._dynamo.graph_break()
        return y + 1

    class Broken(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

    Broken.forward = forward
    compiler = Counting()
    model = Broken()
    with torch.no_grad(), use_compiled(model, {"backend": compiler}) as call:
        assert torch.equal(call(ones(2, 4)), model(ones(2, 4)))
        entries = len(_debug_get_cache_entry_list(forward))
    assert compiler.graphs == 2
    assert entries == 1
    assert _debug_get_cache_entry_list(forward) == []


def test_what_comes_out_of_the_compiler_is_what_runs() -> None:
    """A compiler that returns something else would be noticed: the timed call is not the model itself."""
    ran: list[int] = []

    def compiler(graph: Any, inputs: Any) -> Any:
        def instead(*arguments: Any) -> Any:
            ran.append(1)
            return graph.forward(*arguments)

        return instead

    profile(network(), ones(3, 4), compile={"backend": compiler}, num_iters=5, warmup=2, metrics="execution_time")
    assert len(ran) == 1 + 2 + 5


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("nope", r"compile='nope': torch.compile does not take that: .*the compilers it knows are .*inductor"),
        ({"mode": "warp"}, r"compile=\{'mode': 'warp'\}: torch.compile does not take that: .*warp"),
        (3, "compile=3: give True, the name of a compiler such as 'inductor', or a mapping of arguments"),
    ],
)
def test_what_torch_compile_does_not_take(how: Any, message: str) -> None:
    with (
        pytest.raises(InputError, match=message),
        BACKEND.run(network(), ModelInputs(ones(1, 4)), options=RunOptions(compile=how)),
    ):
        pass


def test_a_compiler_that_fails_says_so() -> None:
    def compiler(graph: Any, inputs: Any) -> Any:
        raise RuntimeError("no C++ here")

    report = profile(network(), ones(3, 4), compile={"backend": compiler}, metrics=["macs", "execution_time"])
    assert report["macs"] == 3 * (4 * 8 + 8 * 2)
    said = report.status("execution_time").missing[0]
    assert "torch.compile failed: " in said
    assert "no C++ here" in said
    assert "compile='aot_eager' needs neither" in said


def test_a_model_that_is_compiled_already_counts_the_same() -> None:
    model = network()
    used = torch.compile(model, backend="eager")
    comparison = compare(model, used, inputs=ones(3, 4), num_iters=3, metrics=["macs", "flops", "execution_time"])
    assert comparison.ratio("macs").value == comparison.ratio("flops").value == 1.0
    assert comparison.ratio("execution_time").paired
    torch._dynamo.reset()


def test_a_model_that_cannot_be_compiled_whole_runs_in_parts() -> None:
    def forward(self: Any, x: torch.Tensor) -> Any:
        return self.layer(x) * float(x.sum().item() > 0)

    report = profile(Call(forward, layer=nn.Linear(4, 4)), ones(1, 4), compile="eager", num_iters=2, warmup=0)
    assert float(report["execution_time"]) > 0


def test_what_the_caller_has_compiled_may_have_no_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler writes code whose constants have no hash, a dict for one, and keeps it in its books."""
    from torch._dynamo import convert_frame

    code = test_what_the_caller_has_compiled_may_have_no_hash.__code__
    unhashable = code.replace(co_consts=(*code.co_consts, {"a": 1}))
    with pytest.raises(TypeError, match="unhashable"):
        hash(unhashable)
    book = convert_frame.output_codes
    monkeypatch.setattr(book, "seen", [*book.seen, weakref.ref(unhashable)])
    report = profile(network(), ones(1, 4), compile="eager", metrics=["first_call_time"], strict=True)
    assert report["first_call_time"] > 0


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="the usual compiler needs a C++ compiler")
def test_the_usual_compiler() -> None:
    """In a process of its own: the compiler imports setuptools, which fails where distutils was imported before.

    Inference and a training step share the process, since it compiles torch's headers before its first kernel.
    """
    code = """
import torch
from profilerkit import profile
keys = ["execution_time", "first_call_time"]
for training in (False, True):
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    report = profile(model, torch.ones(3, 4), compile=True, training=training, metrics=keys, max_seconds=0.5)
    assert report.status("execution_time").missing == (), (training, report.status("execution_time").missing)
    assert report["first_call_time"] > float(report["execution_time"]) > 0
    print("compiled", training)
"""
    done = run_python(code, check=False)
    assert done.stdout.split() == ["compiled", "False", "compiled", "True"], done.stderr[-2000:]
