"""Compiled, parallel, scripted and exported models: what is counted is the model that they were made from."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tiny import BACKEND, Call, ones, trace
from torch import nn

from profilerkit import InputError, ModelInputs, ModelTrace, profile
from profilerkit_torch import TorchBackend
from profilerkit_torch.model.programs import make_layered, read_declared_inputs
from profilerkit_torch.model.wrapped import find_inner_model

LINEAR = 2 * 8 * 8  # MACs of an 8 x 8 linear layer for two samples


class Block(nn.Module):
    """A linear layer, and a product of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8, bias=False)
        self.act = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.act(self.linear(x))
        return result @ torch.ones(8, 8)

    def twice(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self(self(x))
        return result


def net() -> nn.Sequential:
    return nn.Sequential(Block(), Block())


def x() -> torch.Tensor:
    return ones(2, 8)


#: What the plain model has: path, type, calls, own MACs, parameters.
PLAIN = [
    ("", "Sequential", 1, 0, 128),
    ("0", "Block", 1, LINEAR, 64),
    ("0.linear", "Linear", 1, LINEAR, 64),
    ("0.act", "ReLU", 1, 0, 0),
    ("1", "Block", 1, LINEAR, 64),
    ("1.linear", "Linear", 1, LINEAR, 64),
    ("1.act", "ReLU", 1, 0, 0),
]


def rows(found: ModelTrace) -> list[tuple[Any, ...]]:
    columns = ("path", "type", "calls", "own_macs", "params")
    return [tuple(row[name] for name in columns) for row in found.table]


def with_first(wrap: Callable[[nn.Module], Any]) -> nn.Module:
    model = net()
    model[0] = wrap(model[0])
    return model


def compile_in_place(model: nn.Module) -> nn.Module:
    model.compile(backend="eager")
    return model


def compile_model(model: nn.Module) -> Any:
    return torch.compile(model, backend="eager")


WRAPPED: dict[str, Callable[[], nn.Module]] = {
    "compiled": lambda: compile_model(net()),
    "compiled block": lambda: with_first(compile_model),
    "compiled in place": lambda: compile_in_place(net()),
    "block compiled in place": lambda: with_first(compile_in_place),
    "compiled twice": lambda: compile_model(with_first(compile_model)),
    "data parallel": lambda: nn.DataParallel(net()),
    "data parallel block": lambda: with_first(nn.DataParallel),
    "compiled data parallel": lambda: compile_model(nn.DataParallel(net())),
}

#: Of these, the model that the user gave is a compiled one, which a trace notes.
COMPILED_WHOLE = ("compiled", "compiled in place", "compiled twice", "compiled data parallel")


def state(model: nn.Module) -> list[Any]:
    """Return what must not change: every module's class, attributes, children, hooks and parameters, as they are."""
    facts: list[Any] = []
    for module in model.modules():
        held = {name: value for name, value in vars(module).items() if not isinstance(value, dict)}
        inside = {name: list(value.items()) for name, value in vars(module).items() if isinstance(value, dict)}
        facts.append((type(module), module.training, held, inside))
    return [*facts, [id(parameter) for parameter in model.parameters()], list(model.state_dict())]


@pytest.mark.parametrize("name", WRAPPED)
def test_a_wrapper_is_looked_through(name: str) -> None:
    model = WRAPPED[name]()
    found = trace(model, x())
    assert found.failure is None
    assert rows(found) == PLAIN
    assert (found.macs, found.total_params, found.size_bytes) == (4 * LINEAR, 128, 512)
    compiled = [condition for condition in found.conditions if condition.startswith("torch.compile: ")]
    assert (len(compiled), len(found.conditions), found.notes) == (*((1, 1) if name in COMPILED_WHOLE else (0, 0)), ())
    assert [row["path"] for row in BACKEND.trace(model, None).table] == [row[0] for row in PLAIN]


@pytest.mark.parametrize("name", WRAPPED)
def test_a_training_step_of_a_wrapped_model_is_that_of_the_model_inside(name: str) -> None:
    """Backward, each block has a product for its input and one for its weight, the second linear layer one more."""
    model = WRAPPED[name]()
    before = state(model)
    found = BACKEND.trace_training(model, ModelInputs(x()))
    assert (found.failure, found.macs) == (None, 4 * LINEAR + 5 * LINEAR)
    assert [row["path"] for row in found.table] == [row[0] for row in PLAIN]
    assert state(model) == before


@pytest.mark.parametrize("name", WRAPPED)
def test_a_wrapped_model_comes_back_untouched(name: str) -> None:
    model = WRAPPED[name]()
    before = state(model)
    trace(model, x())
    trace(model, ones(2, 5))  # raises
    assert state(model) == before
    if "parallel" in name and torch.cuda.is_available():
        return  # there DataParallel moves its inputs to the GPU, and this model is on the CPU
    with torch.no_grad():
        assert torch.equal(model(x()), model(x()))


def test_a_report_calls_the_model_what_it_is() -> None:
    report = profile(compile_model(nn.DataParallel(Block())), x(), metrics=["macs"])
    assert (report.name, report["macs"]) == ("Block", 2 * LINEAR)
    assert report.model_type.endswith("OptimizedModule")


def test_a_function_gets_the_wrapper_it_was_written_for() -> None:
    parallel = nn.DataParallel(Block())
    report = profile(parallel, x(), call=lambda model, x: model.module.twice(x), metrics=["macs"])
    assert report["macs"] == 2 * 2 * LINEAR

    def wrong(model: Any, x: Any) -> Any:
        return model.twice(x)  # the wrapper has no such method

    status = profile(parallel, x(), call=wrong, metrics=["macs"]).status("macs")
    assert "AttributeError: 'DataParallel' object has no attribute 'twice'" in status.missing[0]
    assert "given to wrong" in status.missing[0]
    report = profile(compile_model(Block()), x(), call=lambda model, x: model.twice(x), metrics=["macs"])
    assert report["macs"] == 2 * 2 * LINEAR


@pytest.mark.parametrize("wrap", [lambda model: model, compile_model])
def test_a_function_reads_the_module_inside_data_parallel(wrap: Any) -> None:
    """What ``torch.compile`` returns hands on the names of the wrapper inside it."""
    model = wrap(nn.DataParallel(Block()))
    report = profile(model, x(), call=lambda model, x: model.module.twice(x), metrics=["macs", "effective_macs"])
    assert report["macs"] == report["effective_macs"] == 2 * 2 * LINEAR


def test_nothing_is_compiled_while_a_compiled_model_is_counted() -> None:
    compilations: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        compilations.append(graph)
        return graph

    torch._dynamo.reset()  # it gives up on code that many tests have had compiled
    model = with_first(lambda block: torch.compile(block, backend=backend))
    trace(model, x())
    assert compilations == []
    model(x())
    assert len(compilations) == 1


def test_a_compiled_function_inside_a_model_is_counted() -> None:
    function = torch.compile(lambda x: x @ torch.ones(8, 8), backend="eager")
    assert trace(Call(lambda self, x: function(x)), x()).macs == LINEAR


def test_only_wrappers_are_looked_through() -> None:
    class DataParallel(nn.Module):
        """The user's own class of that name."""

        def __init__(self) -> None:
            super().__init__()
            self.module = nn.Linear(8, 8)

    model = DataParallel()
    assert find_inner_model(model) is model
    assert find_inner_model(nn.DataParallel(nn.DataParallel(model))) is model


# Scripted and traced modules ------------------------------------------------------------------------------------


@pytest.mark.parametrize("script", [torch.jit.script, lambda model: torch.jit.trace(model, x())])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("runs", [0, 3])
def test_a_scripted_model_has_the_right_totals(script: Callable[[nn.Module], Any], runs: int) -> None:
    model = script(net())
    for _ in range(runs):  # by then the interpreter has optimised its code
        model(x())
    found = trace(model, x())
    assert (found.failure, found.missing, found.macs, found.total_params) == (None, (), 4 * LINEAR, 128)
    assert found.flops == 2 * 4 * LINEAR + 2 * 2 * 8
    assert [row[:2] for row in rows(found)] == [row[:2] for row in PLAIN]
    assert rows(found)[0] == ("", "Sequential", 1, 4 * LINEAR, 128)
    assert found.notes[-1] == (
        "scripted modules (Sequential) run outside Python: the work of the layers inside them is counted as their own"
    )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_scripted_block_of_a_model_gets_the_work_inside_it() -> None:
    model = net()
    model[1] = torch.jit.script(model[1])
    found = trace(model, x())
    assert rows(found)[:4] == PLAIN[:4]
    assert rows(found)[4:] == [
        ("1", "Block", 1, 2 * LINEAR, 64),
        ("1.linear", "Linear", 0, 0, 64),
        ("1.act", "ReLU", 0, 0, 0),
    ]
    assert "scripted modules (Block)" in found.notes[-1]
    model(x())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_scripted_layer_without_layers_inside_needs_no_note() -> None:
    model = nn.Sequential(torch.jit.script(nn.Linear(8, 8, bias=False)))
    found = trace(model, x())
    assert rows(found) == [("", "Sequential", 1, 0, 64), ("0", "Linear", 1, LINEAR, 64)]
    assert not any("scripted modules" in note for note in found.notes)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_frozen_script_is_counted_and_says_that_its_weights_cannot_be() -> None:
    frozen = torch.jit.freeze(torch.jit.script(nn.Sequential(nn.Linear(8, 8, bias=False), nn.ReLU()).eval()))
    report = profile(frozen, x(), num_iters=6, warmup=0)
    assert (report["macs"], report["flops"], report["total_params"]) == (LINEAR, 2 * LINEAR + 2 * 8, None)
    assert report["execution_time"].median > 0
    assert report.status("total_params").missing == (
        "not counted: the weights of frozen scripts (Sequential), which are constants of their code: give the model as "
        "it was before torch.jit.freeze()",
    )
    partly = profile(nn.Sequential(frozen, nn.Linear(8, 2)), x(), metrics=["total_params", "macs"])
    assert (partly["total_params"], partly.status("total_params").completeness.value) == (18, "partial")
    assert partly["macs"] == LINEAR + 2 * 8 * 2


# Graph modules and exported programs ----------------------------------------------------------------------------


def test_a_graph_module_keeps_the_layers_that_it_has() -> None:
    found = trace(torch.fx.symbolic_trace(net()), x())
    assert (found.macs, found.total_params) == (4 * LINEAR, 128)
    assert [(row["path"], row["own_macs"]) for row in found.table if row["own_macs"]] == [
        ("", 2 * LINEAR),  # what the blocks did themselves: a graph module has it at its root
        ("0.linear", LINEAR),
        ("1.linear", LINEAR),
    ]


def export_net(model: nn.Module | None = None, **kwargs: Any) -> torch.export.ExportedProgram:
    return torch.export.export(net() if model is None else model, (x(),), **{"strict": False, **kwargs})


def test_a_program_that_torch_cannot_bring_into_layers_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """As torch 2.6 cannot, of a bare `Sequential` that was exported in its strict way."""

    def refuse(program: object) -> None:
        raise RuntimeError("Child module is not a descendant.")

    monkeypatch.setattr(torch.export, "unflatten", refuse)
    with pytest.raises(InputError, match=r"Child module is not a descendant\. Export the model with strict=False"):
        BACKEND.open_model(export_net())


def save_and_load() -> torch.export.ExportedProgram:
    file = io.BytesIO()
    torch.export.save(export_net(), file)
    file.seek(0)
    return torch.export.load(file)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The given buffer is not writable")  # torch 2.11, of its own file
@pytest.mark.parametrize("make", [export_net, save_and_load])
def test_an_exported_program_has_the_layers_of_its_model(make: Callable[[], torch.export.ExportedProgram]) -> None:
    program = make()
    report = profile(program, x(), metrics=["macs", "total_params", "model_size", "trace", "execution_time"])
    known = torch.__version__ >= "2.9"  # torch 2.8 does not keep the type of the model
    name = "Sequential" if known else "UnflattenedModule"
    assert (report.name, report["macs"], report["total_params"]) == (name, 4 * LINEAR, 128)
    assert report["execution_time"].median > 0
    assert [row[: 1 + known] for row in rows(report["trace"])] == [row[: 1 + known] for row in PLAIN]
    assert [row[3:] for row in rows(report["trace"])] == [row[3:] for row in PLAIN]


def test_an_exported_program_is_neither_changed_nor_copied() -> None:
    program = export_net()
    facts, before = dict(program.graph_module.meta), {name: id(value) for name, value in program.state_dict.items()}
    opened = BACKEND.open_model(program)
    pointers = {parameter.data_ptr() for parameter in opened.parameters()}
    assert pointers == {value.data_ptr() for value in program.state_dict.values()}
    trace(opened, x())
    assert program.graph_module.meta == facts
    assert {name: id(value) for name, value in program.state_dict.items()} == before
    assert program.module()(x()).shape == (2, 8)


def test_a_program_with_a_free_batch_takes_any() -> None:
    free = export_net(dynamic_shapes=({0: torch.export.Dim("batch", min=1)},))
    assert profile(free, x(), batch_size=5, metrics=["macs"])["macs"] == 5 * 4 * 64
    assert free.module()(ones(7, 8)).shape == (7, 8), "it is as free as before"


def test_a_program_says_which_sizes_it_takes() -> None:
    failed = BACKEND.trace(BACKEND.open_model(export_net()), ModelInputs(ones(3, 8)))
    assert "to be equal to 2, but got 3" in str(failed.failure)
    wrong = profile(export_net(), ones(2, 5), metrics=["macs"]).status("macs")
    assert "to be equal to 8, but got 5" in wrong.missing[0]
    assert "it was called with ModelInputs(Tensor(2, 5))" in wrong.missing[0]


class Masked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8, bias=False)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None, *, scale: float = 1.0) -> torch.Tensor:
        result: torch.Tensor = self.linear(x) * scale
        return result if mask is None else result * mask


@pytest.mark.parametrize(("args", "kwargs"), [((x(), x()), {}), ((x(),), {"mask": x()}), ((), {"x": x(), "mask": x()})])
@pytest.mark.parametrize(
    "inputs", [ModelInputs(x(), x()), ModelInputs(x(), mask=x()), ModelInputs(mask=x(), x=x())], ids=repr
)
def test_a_program_takes_its_inputs_by_place_and_by_name(args: Any, kwargs: Any, inputs: ModelInputs) -> None:
    program = torch.export.export(Masked(), args, kwargs=kwargs)
    report = profile(program, inputs, metrics=["macs", "flops"])
    assert (report["macs"], report["flops"]) == (LINEAR, 2 * LINEAR + 2 * 8 * 2)


class Reduced(nn.Module):
    """Has a text input that may read as the name of a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8, bias=False)

    def forward(self, x: torch.Tensor, mean: torch.Tensor, reduction: str = "mean") -> torch.Tensor:
        y: torch.Tensor = self.linear(x) - mean
        return y.mean() if reduction == "mean" else y.sum()


@pytest.mark.parametrize("reduction", ["mean", "x", "sum"])
def test_a_text_input_that_is_the_name_of_another_input_stays_a_text(reduction: str) -> None:
    """``reduction="mean"`` was declared as a tensor of the shape of ``mean``, and the pass failed."""
    program = torch.export.export(Reduced(), (x(), torch.ones(8), reduction))
    declared = read_declared_inputs(make_layered(program))
    assert declared is not None
    assert [leaf for leaf in declared.leaves() if isinstance(leaf, str)] == [reduction]
    assert profile(program, metrics=["macs"])["macs"] == LINEAR


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        (ModelInputs(x()), "exported for the inputs x, mask; it got 1 by position, and by name: none"),
        (ModelInputs(x(), x(), x()), "exported for the inputs x, mask; it got 3 by position, and by name: none"),
        (ModelInputs(x(), x=x()), "exported for the inputs x, mask; it got 1 by position, and by name: x"),
        (ModelInputs(x(), masc=x()), "exported for the inputs x, mask; it got 1 by position, and by name: masc"),
    ],
)
def test_a_program_says_which_inputs_it_takes(
    inputs: ModelInputs, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    program = torch.export.export(Masked(), (x(), x()))
    failed = profile(program, inputs, metrics=["macs"]).status("macs")
    assert f"the model raised TypeError: the program was {said}" in failed.missing[0]
    assert capsys.readouterr().out == ""


def test_a_program_whose_layers_are_called_twice_counts_each_call() -> None:
    shared = nn.Linear(8, 8, bias=False)
    program = export_net(Call(lambda self, x: self.a(self.a(x)) @ self.a.weight, a=shared))
    report = profile(program, x(), metrics=["macs", "total_params", "trace"])
    assert (report["macs"], report["total_params"]) == (3 * LINEAR, 64)
    assert sum(row["own_macs"] for row in report["trace"].table) == 3 * LINEAR


def test_buffers_of_a_program_are_buffers() -> None:
    program = export_net(nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)).eval())
    report = profile(program, x(), metrics=["total_params", "model_size"])
    assert report["total_params"] == 64 + 8 + 16
    assert report["model_size"] == (64 + 8 + 16 + 16) * 4 + 8


def test_programs_are_the_backends_too() -> None:
    assert TorchBackend().accepts(export_net())
    with pytest.raises(TypeError, match="the torch backend cannot profile a function; give it a model of its own"):
        profile(lambda x: x, x(), backend="torch")
