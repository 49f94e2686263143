"""One pass of LiteRT's interpreter over a model, made ready once: the kernels, the inputs, the first call."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from ai_edge_litert.interpreter import Interpreter, OpResolverType

from profilerkit import ModelInputs, NotOfferedError, Run
from profilerkit.backend_kit.failures import explain_failure
from profilerkit.backend_kit.numpy_data import bind_inputs

from ..model.inputs import dequantize_outputs, list_declared, read_inputs
from ..model.reading import LiteRTModel

__all__ = ["MODES", "make_call", "measure_arena", "prepare_run"]

#: The execution modes: which kernels run, by LiteRT's names of them. XNNPACK takes the operators that it supports; the
#: reference kernels are the plain loops with which other kernels are compared.
MODES = {
    "xnnpack": OpResolverType.AUTO,
    "builtin": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    "reference": OpResolverType.BUILTIN_REF,
}
_HINT = "do these inputs fit it, and does LiteRT know its operators?"


@contextmanager
def prepare_run(model: LiteRTModel, inputs: ModelInputs, mode: str, num_threads: int | None = None) -> Iterator[Run]:
    """Yield the run of a model; the first call is the making of the interpreter, its plan of the memory, and one pass.

    Each call returns the outputs: one array, or several by their names.
    """
    start = time.perf_counter()
    call = make_call(model, inputs, mode, num_threads)
    call()
    yield Run(call, time.perf_counter() - start, partial(dequantize_outputs, model), partial(read_inputs, model))


def make_call(model: LiteRTModel, inputs: ModelInputs, mode: str, num_threads: int | None = None) -> Callable[[], Any]:
    """Return a function that runs one pass on the inputs; the interpreter already has the inputs of the main graph.

    Raises `InputError` as `bind_inputs` does, and `ModelFailedError` for a model that LiteRT refuses.
    """
    bound = bind_inputs(list_declared(model), inputs)
    interpreter = _try(lambda: _make_interpreter(model, mode, num_threads), inputs)
    if model.signature.graph:
        run = partial(interpreter.get_signature_runner(model.signature.key), **bound)
    else:
        _try(lambda: _plan_memory(interpreter, model, bound), inputs)
        run = partial(_run_main_graph, interpreter, model)

    def call() -> Any:
        arrays = _try(run, inputs)
        return next(iter(arrays.values())) if len(arrays) == 1 else arrays

    return call


def _make_interpreter(model: LiteRTModel, mode: str, num_threads: int | None = None) -> Any:
    return Interpreter(model_content=model.content, num_threads=num_threads, experimental_op_resolver_type=MODES[mode])


def _plan_memory(interpreter: Any, model: LiteRTModel, bound: Mapping[str, Any]) -> None:
    """Have an interpreter plan the memory of the main graph for inputs of these shapes, and take them."""
    for name, index in model.signature.inputs.items():
        interpreter.resize_tensor_input(index, bound[name].shape)
    interpreter.allocate_tensors()
    for name, index in model.signature.inputs.items():
        interpreter.set_tensor(index, bound[name])


def _run_main_graph(interpreter: Any, model: LiteRTModel) -> dict[str, Any]:
    interpreter.invoke()
    return {name: interpreter.get_tensor(index) for name, index in model.signature.outputs.items()}


def _try(function: Callable[[], Any], inputs: object) -> Any:
    try:
        return function()
    except (ValueError, RuntimeError) as error:
        raise explain_failure(error, inputs, "litert", __package__ or "", _HINT) from error


def measure_arena(model: LiteRTModel, inputs: ModelInputs) -> int:
    """Return the bytes that the tensors of a pass take in the interpreter's own plan of its memory, without weights.

    Tensors that are never needed at the same time share bytes, which count once. The scratch tensors of kernels are
    included; XNNPACK, which manages other memory, does not run.
    """
    if model.signature.graph:
        raise NotOfferedError(
            f"the signature {model.signature.key!r} has a graph of its own: the litert backend measures the memory of "
            "the main graph alone"
        )
    bound = bind_inputs(list_declared(model), inputs)
    interpreter = _try(lambda: _make_interpreter(model, "builtin"), inputs)
    _try(lambda: _plan_memory(interpreter, model, bound), inputs)
    _try(interpreter.invoke, inputs)
    constants = {index for index, tensor in enumerate(model.graphs[0].tensors) if tensor.data is not None}
    indices = [details["index"] for details in interpreter.get_tensor_details()]
    return _measure_union(_list_spans(interpreter, [index for index in indices if index not in constants]))


def _list_spans(interpreter: Any, tensors: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield the begin and end address of each of these tensors, if a kernel has asked for the tensor."""
    for index in tensors:
        try:
            view = interpreter.tensor(index)()
        except ValueError:  # no kernel has
            continue
        begin = view.__array_interface__["data"][0]
        yield begin, begin + view.nbytes


def _measure_union(spans: Iterable[tuple[int, int]]) -> int:
    """Return how many bytes lie in at least one of these spans."""
    total = reached = 0
    for begin, end in sorted(spans):
        total += max(end - max(begin, reached), 0)
        reached = max(reached, end)
    return total
