"""What profilerkit says of a fuzzed module against what a real run of it does, and what the module is afterwards."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import torch
from fuzz_escapes import ESCAPED
from fuzz_generator import load
from fuzz_oracle import Counted, count_run, count_step
from fuzz_snapshot import Bits, alike, caches, content, snapshot
from torch import nn

from profilerkit import ModelInputs, profile
from profilerkit.job import Job
from profilerkit.trace.records import ModelTrace, OpRecord

__all__ = ["Difference", "Truth", "differences", "find_truth"]

#: Operators that are left out of the lists that are compared, with the reason. Their MACs are compared all the same.
LEFT_OUT = {
    "a copy or an allocation costs nothing, and whether one is made depends on the kernel": """
        clone copy_ _to_copy contiguous reshape empty zeros empty_like empty_strided zeros_like new_zeros new_empty to
        zero_ fill_ new_empty_strided resize_ empty_permuted flatten ravel _reshape_copy scalar_tensor full ones
        new_full new_ones ones_like full_like arange resolve_conj resolve_neg set_ _conj_physical conj_physical
        _unsafe_view detach detach_ lift_fresh alias sparse_coo_tensor _sparse_coo_tensor_with_dims_and_tensors""",
    "a view in place moves nothing": """
        squeeze_ unsqueeze_ t_ transpose_ swapaxes_ swapdims_ as_strided_""",
    "a value that Python asks for: the shape pass keeps what it can answer without one": """
        _local_scalar_dense item is_nonzero equal""",
}
#: Operators whose further outputs are what the gradient needs, of sizes that depend on the kernel.
_WITH_SCRATCH = {"aten::_embedding_bag", "aten::native_batch_norm"}
#: Layers that torch runs as one kernel, where it may: a pass takes them apart.
_FUSED_LAYERS = {"aten::_native_multi_head_attention", "aten::_transformer_encoder_layer_fwd"}
_QUIET = {f"aten::{name}" for names in LEFT_OUT.values() for name in names.split()}


@dataclass(frozen=True)
class Difference:
    """Where the two disagree: ``kind`` is a word, ``detail`` has both sides."""

    kind: str
    detail: str


@dataclass
class Truth:
    """What is true of a program: a run of it, the state that it leaves, and what a step of it does, if it has one."""

    run: Counted
    state: Any
    caches: dict[str, Any]
    output: Any
    inputs: Any
    params: tuple[int, int]
    paths: dict[str, str]
    shown: Counted | None = None
    mixed: Counted | None = None
    apart: Counted | None = None
    step: Counted | None = None
    step_state: Any = None
    #: Whether the run, and the step, has worked where torch's dispatcher does not see it.
    has_escaped: bool = False
    step_has_escaped: bool = False


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _built(source: str) -> tuple[dict[str, Any], nn.Module, tuple[Any, ...]]:
    names = load(source)
    model, inputs = names["build"](), names["inputs"]()
    torch.manual_seed(11)
    return names, model, inputs


def find_truth(source: str, *, training: bool = False) -> Truth:
    """Run a program for real, anew each time: as users do, showing its operators whole, and as a training step."""
    with torch.random.fork_rng(), _quiet():
        _, model, inputs = _built(source)
        params, paths = _params(model), _first_paths(model)
        ESCAPED.clear()
        run = count_run(model, inputs)
        has_escaped = bool(ESCAPED)
        names, model, inputs = _built(source)
        with torch.no_grad():  # alone: under any dispatch mode torch 2.13 loses the conjugate bit in `pinv`
            output = content(model.eval()(*inputs))
        truth = Truth(run, content(model), caches(names), output, content(inputs), params, paths)
        truth.has_escaped = has_escaped
        with suppress(Exception):  # a module may need autograd
            _, model, inputs = _built(source)
            shown = count_run(model, inputs, shown=True)
            truth.shown = shown if shown.own_macs == run.own_macs else None  # without it some take another way
            if "inference_mode" in source:
                _, model, inputs = _built(source)
                truth.mixed = count_run(model, inputs, shown=True, autograd=True)
        if any(call.operator in _FUSED_LAYERS for call in run.calls):
            _, model, inputs = _built(source)
            truth.apart = count_run(model, inputs, fused=False)
        if training:
            with suppress(Exception):  # or gradients
                _, model, inputs = _built(source)
                ESCAPED.clear()
                truth.step = count_step(model, inputs)
                truth.step_has_escaped = bool(ESCAPED)
    return truth


def _params(model: nn.Module) -> tuple[int, int]:
    """Elements of the distinct parameters, and of those that training changes; equal elements are one parameter."""
    found = {}
    for index, parameter in enumerate(model.parameters()):
        key = (parameter.data_ptr(), parameter.numel()) if parameter.numel() else index
        found[key] = parameter
    return sum(p.numel() for p in found.values()), sum(p.numel() for p in found.values() if p.requires_grad)


def _first_paths(model: nn.Module) -> dict[str, str]:
    """The path of each module by every path that it has."""
    first: dict[int, str] = {}
    return {path: first.setdefault(id(m), path) for path, m in model.named_modules(remove_duplicate=False)}


def differences(source: str, truth: Truth) -> tuple[list[Difference], str]:
    """Return where profilerkit and the truth disagree, and how it counted: its method, or why it did not."""
    found: list[Difference] = []
    with torch.random.fork_rng(), _quiet():
        names, model, inputs = _built(source)
        before, empty = _surroundings(model, inputs), caches(names)
        profiler = _profiler(model, inputs)
        trace = profiler.compute_status("trace")
        report = Job(model, metrics=["macs", "flops", "total_params", "trainable_params"]).compute_report(profiler)
        has_left = any(words in source for words in _LEAVING)
        found += _counts(report, trace, truth, has_left)
        found += _harm(before, _surroundings(model, inputs))
        if truth.step is not None:
            found += _compare_training(model, inputs, truth.step, (truth.step_has_escaped, has_left))
            found += _harm(before, _surroundings(model, inputs))
        left = caches(names)
        restored = _put_back(truth.caches, list(zip(truth.inputs[1], content(inputs)[1], strict=True)))
        if left not in (empty, truth.caches, restored):
            found.append(Difference("cache", f"{empty} became {left}"[:300]))
        found += _afterwards(model, inputs, truth)
    return found, trace.method if trace.failure is None else f"failed: {trace.failure}"


def _put_back(value: Any, leaves: list[tuple[Any, Any]]) -> Any:
    """Return what a cache holds after a run whose inputs got their values back: it may hold one of them."""
    for written, restored in leaves:
        if value == written:
            return restored
        if isinstance(value, Bits) and isinstance(written, tuple) and value in written:  # of a view of the whole input
            return next(item for item in restored if isinstance(item, Bits))
    if isinstance(value, dict):
        return {key: _put_back(item, leaves) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_put_back(item, leaves) for item in value)
    return value


def _profiler(model: nn.Module, inputs: tuple[Any, ...]) -> Any:
    from profilerkit_torch import TorchProfiler

    return TorchProfiler(model, inputs=ModelInputs(*inputs)).register_defaults()


def _afterwards(model: nn.Module, inputs: tuple[Any, ...], truth: Truth) -> Iterator[Difference]:
    """Run the profiled model: it must do what it does where nobody has profiled it."""
    torch.manual_seed(11)
    try:
        with torch.no_grad():
            output = model.eval()(*inputs)
    except Exception as error:
        yield Difference("output", f"after profiling the model raises {type(error).__name__}: {error}"[:300])
        return
    for name, value, expected in (("output", output, truth.output), ("state", model, truth.state)):
        if not alike(content(value), expected):
            yield Difference("output", f"{name} of a run after profiling is not that of a run without it")
            return


def _surroundings(model: nn.Module, inputs: tuple[Any, ...]) -> dict[str, Any]:
    settings = (
        torch.is_grad_enabled(),
        torch.get_default_dtype(),
        torch.is_autocast_enabled("cpu"),
        torch.get_num_threads(),
    )
    random_state = torch.get_rng_state().numpy().tobytes()
    return {"state": snapshot(model), "inputs": content(inputs), "random": random_state, "settings": settings}


def _harm(before: dict[str, Any], after: dict[str, Any]) -> Iterator[Difference]:
    for kind, was in before.items():
        if was != after[kind]:
            yield Difference(kind, f"profiling changed it: {_first_change(was, after[kind])}")


def _first_change(was: Any, now: Any) -> str:
    if isinstance(was, dict):
        changed = [key for key in {**was, **now} if was.get(key) != now.get(key)]
        return f"{changed[0]}: {str(was.get(changed[0]))[:90]} became {str(now.get(changed[0]))[:90]}"
    return f"{str(was)[:120]} became {str(now)[:120]}"


def _counts(report: Any, trace: ModelTrace, truth: Truth, has_left: bool) -> Iterator[Difference]:
    params = report["total_params"], report["trainable_params"]
    if params != truth.params:
        yield Difference("params", f"{params}, by hand {truth.params}")
    macs = report.status("macs")
    if trace.failure is not None:
        yield Difference(
            "unavailable", f"the run works, the trace: {type(trace.failure).__name__}: {trace.failure}"[:300]
        )
        return
    yield from _said(macs, truth.has_escaped, has_left)
    counted = truth.run.macs
    if macs.completeness.value != "complete":
        if macs.value is None or macs.value > counted:
            yield Difference("bound", f"{macs.completeness.value} {macs.value} MACs, the run has {counted}")
        return
    if macs.value != counted:
        yield Difference("macs", f"{macs.value} MACs, complete; the run has {counted}")
        return
    own: Counter[str] = Counter()
    for op in trace.operators:
        own[truth.paths.get(op.layer, op.layer)] += op.macs
    if {layer: n for layer, n in own.items() if n} != truth.run.own_macs:
        yield Difference("layers", f"{dict(own)}, the run has {truth.run.own_macs}")
    if truth.shown is not None:  # where a pass needs autograd, operators come in pieces, as in the run
        runs = (run for run in (truth.shown, truth.run, truth.mixed, truth.apart) if run is not None)
        yield from min((list(_operators(trace, run)) for run in runs), key=len)


#: What gives numbers or an address away. A constant that is made later then looks like a result, as the page says.
_LEAVING = (".numpy()", "array(", "data_ptr()", "untyped_storage()", "tolist()")


def _said(macs: Any, has_escaped: bool, has_left: bool) -> Iterator[Difference]:
    """Compare whether work that torch's dispatcher does not see was done, and whether it is said."""
    is_said = any("outside torch's operators" in words or "in another thread" in words for words in macs.missing)
    if has_escaped and macs.completeness.value == "complete":
        yield Difference("silent", f"{macs.value} MACs, complete; the model worked outside of torch")
    elif is_said and not (has_escaped or has_left):
        yield Difference("outside", f"{macs.missing}, and there is no such work")


def _name_in_list(operator: OpRecord) -> str:
    name = operator.operator.replace("prims.", "aten.").split(".")  # torch takes some apart into its primitives
    return _name_sum(f"{name[0]}::{name[1]}") if len(name) > 1 else operator.operator


def _name_sum(name: str) -> str:
    """Return the name of an operator; a sum of gradients is in place, but not where the oracle looks."""
    return "aten::add" if name == "aten::add_" else name


def _read_sizes(name: str, sizes: tuple[tuple[int, ...], ...]) -> tuple[str, tuple[tuple[int, ...], ...]]:
    """Return an operator with the sizes of its outputs, less those that a kernel makes for itself."""
    return name, sizes[:1] if name in _WITH_SCRATCH else sizes


def _operators(trace: ModelTrace, shown: Counted) -> Iterator[Difference]:
    ours = Counter(_read_sizes(_name_in_list(op), tuple(o.shape for o in op.outputs)) for op in trace.operators)
    theirs = Counter(_read_sizes(_name_sum(call.operator), call.sizes) for call in shown.calls)
    for listed in (ours, theirs):
        for key in [key for key in listed if key[0] in _QUIET]:
            del listed[key]
    if ours == theirs:
        yield from _flops(trace, shown)
    else:
        yield Difference(
            "operators", f"only in the trace {dict(ours - theirs)}, only in the run {dict(theirs - ours)}"[:600]
        )


def _flops(trace: ModelTrace, shown: Counted) -> Iterator[Difference]:
    """Compare the operations of each operator for which there is a rule for every call."""
    ours: Counter[str] = Counter()
    theirs: Counter[str] = Counter()
    for op in trace.operators:
        ours[_name_in_list(op)] += op.flops
    for call in shown.calls:
        theirs[_name_sum(call.operator)] += call.flops or 0
    for name in theirs.keys() - {_name_sum(call.operator) for call in shown.calls if call.flops is None}:
        if ours[name] != theirs[name]:
            yield Difference("flops", f"{name}: {ours[name]} FLOPs, by the definitions {theirs[name]}")


def _compare_training(
    model: nn.Module, inputs: tuple[Any, ...], step: Counted, outside: tuple[bool, bool]
) -> Iterator[Difference]:
    report = profile(model, ModelInputs(*inputs), metrics=["training_macs"])
    macs = report.status("training_macs")
    yield from _said(macs, *outside)
    if macs.completeness.value == "complete" and macs.value != step.macs:
        yield Difference("training", f"{macs.value} training MACs, complete; the step has {step.macs}")
    elif macs.completeness.value == "partial" and (macs.value or 0) > step.macs:
        yield Difference("training", f"at least {macs.value} training MACs; the step has {step.macs}")
    elif macs.completeness.value in ("failed", "unavailable"):
        yield Difference("unavailable", f"the step works, training_macs: {macs.missing or macs.note}"[:300])
