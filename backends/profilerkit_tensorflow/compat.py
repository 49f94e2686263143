"""The private names of TensorFlow and Keras: the only file with them, each with its purpose and its substitute.

A release may be without any of them. Then there is another way to the same numbers, or a capability is off: what needs
it raises `NotOfferedError`, what is counted is a lower bound, or each report says what is off (`lacking`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import tensorflow as tf

from profilerkit import NotOfferedError
from profilerkit.backend_kit.private_names import field, find

#: What is off in this release although calls go on: each report has these as notes.
lacking: list[str] = []


def _first(path: str, instead: Any = None, off: str = "") -> Any:
    """Return what a path leads to; ``instead`` where this release does not have it.

    ``off`` says what is off then; it is empty where ``instead`` is another way, or where its use says it.
    """
    value = find(path)
    if value is None and off:
        lacking.append(f"TensorFlow {tf.__version__} has no {path}: {off}")
    return instead if value is None else value


def _refuse(name: str, purpose: str) -> NotOfferedError:
    return NotOfferedError(
        f"TensorFlow {tf.__version__} has no {name}, by which profilerkit {purpose}; use a release of TensorFlow that "
        "profilerkit was tested with, or a newer profilerkit"
    )


# Graphs: tracing, converting and walking them. ------------------------------------------------------------------------

#: The class of graphs of functions. Without it a model that is not built is built with values, and what keeps tensors
#: of a trace is not found.
FuncGraph: Any = _first(
    "tensorflow.python.framework.func_graph.FuncGraph",
    off="a cache outside of the model may keep tensors without values after a profile",
)
#: Converts code with conditions on tensors as ``tf.function`` does. Without these such a model is not counted.
_tf_convert: Any = find("tensorflow.python.autograph.impl.api.tf_convert")
_ControlStatus: Any = find("tensorflow.python.autograph.core.ag_ctx.ControlStatusCtx")
_Status: Any = find("tensorflow.python.autograph.core.ag_ctx.Status")
_Options: Any = find("tensorflow.python.autograph.core.converter.ConversionOptions")
#: The graph of a function of TensorFlow 1. Without it a model with such a function is not counted.
_to_graph: Any = find("tensorflow.python.framework.function_def_to_graph.function_def_to_graph")
#: The function of a name, in a graph. Without it models with functions, loops or branches are not counted.
_GET_FUNCTION = field("_get_function")
#: Puts a copy of an operator into a graph. Without it shapes are those that the graph itself knows.
_CREATE_OPERATOR = field("_create_op_internal")
#: Gives the copy of a resource the shapes of what it holds. Without it likewise.
_copy_handle_data: Any = find("tensorflow.python.ops.handle_data_util.copy_handle_data")
#: The graph that a loop's or a branch's gradient is taken of. Without it such a gradient is the calling layer's.
_FORWARD_GRAPH = field("_forward_graph")
#: What a ``tf.function`` was made with. Without one of them its layers are not seen: their work is the caller's.
_FUNCTION_ARGUMENTS = {
    "name": field("_name"),
    "autograph": field("_autograph"),
    "jit_compile": field("_jit_compile"),
    "experimental_attributes": field("_attributes"),
    "experimental_autograph_options": field("_experimental_autograph_options"),
}
#: Tensors that a graph refers to beside its operators. Without it the search for tensors of a trace takes longer.
_UNFEEDABLE, _STORAGE = field("_unfeedable_tensors"), field("_storage")
#: The traces of a ``tf.function``. Without it a function without inputs has the weights that its code leads to.
_LIST_TRACES = field("_list_all_concrete_functions")


def convert(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a callable with its Python code converted; unchanged where this release has another way to do so."""
    if not converts():
        return call
    options = _Options(recursive=True, user_requested=True)
    made: Callable[..., Any] = _tf_convert(call, _ControlStatus(status=_Status.ENABLED, options=options))
    return made


def converts() -> bool:
    """Return whether this release shows how to convert code with conditions and loops over tensors."""
    return None not in (_tf_convert, _ControlStatus, _Status, _Options)


def make_twin(function: Any) -> Any:
    """Return a ``tf.function`` of the same code and settings without traces; None if this release hides them."""
    settings = {name: getattr(function, attribute, _refuse) for name, attribute in _FUNCTION_ARGUMENTS.items()}
    return None if _refuse in settings.values() else type(function)(function.python_function, **settings)


def function_named(graph: Any, name: str) -> Any:
    """Return the function of a name in a graph, or in those around it; None where they have none."""
    while graph is not None:
        find_function = getattr(graph, _GET_FUNCTION, None)
        if find_function is None:
            raise _refuse(_GET_FUNCTION, "reads the functions that a graph calls")
        function = find_function(name)
        if function is not None:
            return function
        graph = getattr(graph, "outer_graph", None)
    return None


def find_graph(function: Any, outer: Any) -> Any:
    """Return the graph of a function that ``outer`` calls: its own, or one made of its definition."""
    graph = getattr(function, "graph", None)
    if graph is not None:
        return graph
    if _to_graph is None:
        raise _refuse("function_def_to_graph", "reads functions of TensorFlow 1")
    with outer.as_default():
        return _to_graph(function.definition)


def forward_graph(graph: Any) -> Any:
    """Return the graph whose gradient a graph computes; None for others."""
    return getattr(graph, _FORWARD_GRAPH, None)


def copy_operator(graph: Any, operator: Any, inputs: list[Any], attributes: Mapping[str, Any]) -> Any:
    """Return a copy of an operator in another graph, with other inputs; raises as TensorFlow's inference of shapes."""
    create = getattr(graph, _CREATE_OPERATOR, None)
    if create is None:
        raise TypeError("this release has another way to make operators")
    dtypes = [tensor.dtype for tensor in operator.outputs]
    return create(operator.type, inputs, dtypes, attrs=attributes, op_def=operator.op_def, compute_device=False)


def copy_handle_data(source: Any, target: Any) -> None:
    """Give the copy of a resource what is known of the shapes behind it."""
    if _copy_handle_data is not None:
        _copy_handle_data(source, target)


def unfeedable_tensors(graph: Any) -> list[Any]:
    """Return the tensors that a graph remembers as those that cannot be fed; none if this release hides them."""
    remembered = getattr(graph, _UNFEEDABLE, ())
    return [weak.unwrapped for weak in getattr(remembered, _STORAGE, ())]


def list_traces(function: Any) -> list[Any] | None:
    """Return the traces of a ``tf.function``; None if this release hides them, or for anything else."""
    traces = getattr(function, _LIST_TRACES, None)
    return None if traces is None else list(traces())


# Runs: what TensorFlow shows of the operators that it runs. -----------------------------------------------------------

#: Calls a function after each operator of an eager run. Without these no eager run is counted, nor compared.
_add_callback: Any = find("tensorflow.python.framework.op_callbacks.add_op_callback")
_remove_callback: Any = find("tensorflow.python.framework.op_callbacks.remove_op_callback")
#: Runs a function that was traced. Without it a run in which such a function is called is not compared with the trace.
CALL_FLAT = field("call_flat")
FUNCTION_CLASS: Any = find("tensorflow.python.eager.polymorphic_function.atomic_function.AtomicFunction")
#: The class whose ``_numpy`` gives all values to numpy. Without it an eager run is a lower bound.
EAGER_TENSOR: Any = find("tensorflow.python.framework.ops._EagerTensorBase")
GIVE_VALUES = field("_numpy")
#: The module with the functions that run each operator. Without them an eager run is a lower bound.
RUNTIME: Any = find("tensorflow.python.pywrap_tfe")
_KINDS = (field("TFE_Py_FastPathExecute"), field("TFE_Py_Execute"), field("TFE_Py_ExecuteCancelable"))
EXECUTORS = tuple(name for name in _KINDS if hasattr(RUNTIME, name))
#: The number of an eager tensor. Without it an eager run is a lower bound.
_NUMBER = field("_id")


def shows_operators() -> bool:
    """Return whether this release shows the operators that it runs."""
    return None not in (_add_callback, _remove_callback)


def add_callback(callback: Callable[..., Any]) -> None:
    """Have a function called after each operator; nothing where this release shows none."""
    if shows_operators():
        _add_callback(callback)


def remove_callback(callback: Callable[..., Any]) -> None:
    """Have it called no more; to be repeated at will."""
    if shows_operators():
        with suppress(KeyError):  # it is not there
            _remove_callback(callback)


def read_number(tensor: Any) -> int:
    """Return the number of an eager tensor, which grows with each; 0 without it, so that no result looks foreign."""
    return int(getattr(tensor, _NUMBER, 0))


def shows_departures(tensor: Any) -> bool:
    """Return whether this release shows, of tensors such as this one, all that leaves TensorFlow or runs in threads."""
    return EXECUTORS == _KINDS and hasattr(EAGER_TENSOR, GIVE_VALUES) and read_number(tensor) > 0


# Questions: what a model asks in a graph, and where profilerkit is called. --------------------------------------------

#: The class that ``tf.executing_eagerly()`` asks. Without one of these three any model may have asked: it is run once.
Context: Any = find("tensorflow.python.eager.context.Context")
#: The class of tensors in a graph.
SymbolicTensor: Any = find("tensorflow.python.framework.ops.SymbolicTensor")
#: What ``bool()`` and ``iter()`` of such a tensor call, to raise.
DISALLOW = field("_disallow")


def unheard() -> tuple[str, ...]:
    """Return in words that a model may have asked something that this release does not show; nothing where it does."""
    shows = None not in (Context, SymbolicTensor) and hasattr(tf.Tensor, DISALLOW)
    return () if shows else ("or may do so: this release of TensorFlow does not show it",)


#: Whether gradients are recorded in this thread, or recording was stopped. Without these that is not refused.
_recording_is_off: Any = find("tensorflow.python.pywrap_tfe.TFE_Py_TapeSetIsEmpty")
_recording_is_stopped: Any = find("tensorflow.python.pywrap_tfe.TFE_Py_TapeSetIsStopped")
if None in (_recording_is_off, _recording_is_stopped):
    lacking.append(f"TensorFlow {tf.__version__} does not tell whether a gradient tape records what is profiled")


def is_recorded() -> bool:
    """Return whether a tape records the operators of this thread; False if this release does not tell."""
    return _recording_is_off is not None and not _recording_is_off()


def is_recording_stopped() -> bool:
    """Return whether nothing can be recorded in this thread; False if this release does not tell."""
    return _recording_is_stopped is not None and bool(_recording_is_stopped())


def keras_state() -> Any:
    """Return Keras' module of its state in this thread; None where Keras is not imported, or has it elsewhere."""
    return sys.modules.get(field("keras.src.backend.common.global_state"))


def keras_attribute(name: str) -> Any:
    """Return a part of Keras' state in this thread, such as its scopes; None where there is none.

    Without it a profile inside of a scope of Keras is not refused, and an unbuilt model is built with values.
    """
    read = getattr(keras_state(), "get_global_attribute", None)
    return None if read is None else read(name)


# Variables and models. ------------------------------------------------------------------------------------------------

#: A variable without memory. Without it a model that is not built is built with values.
_UninitializedVariable: Any = find("tensorflow.python.ops.resource_variable_ops.UninitializedVariable")
#: The class of variables with a value of their own. Without it all are asked, also those that wrap such a variable.
ResourceVariable: Any = _first("tensorflow.python.ops.resource_variable_ops.BaseResourceVariable", instead=tf.Variable)
#: The variable that one of Keras wraps. Without it Keras models are refused.
_VALUE = field("_value")
#: What makes a variable's first value. Without it a model that is not built is built with values.
_INITIALIZER = field("_initializer")
#: The mirrored variable that a copy on one device belongs to. Without it a model with such copies is refused.
_HANDLE, _CONTAINER = field("_handle"), field("_distributed_container")
#: The layers and variables of a module by their paths. Without it a module is refused.
_FLATTEN = field("_flatten")
#: The module of the classes of saved models. Without it they are known by what they say about their saving.
_LOADED = field("tensorflow.python.saved_model.load")
#: The arguments of a data set of batches, and the data set before it. Without them the batches are counted.
_BATCH_SIZE, _BEFORE = field("_batch_size"), field("_input_dataset")
#: What the sigmoid of Keras leaves on its result. Without it its operator shows it, where there is a graph.
_LOGITS = field("_keras_logits")
#: Whether XLA compiles a Keras model. Without it a note is left out that changes no number.
_COMPILED = field("_jit_compile")
#: What the file of a saved model holds. Without it such a file is not loaded unless it is trusted.
_SavedModel: Any = find("tensorflow.core.protobuf.saved_model_pb2.SavedModel")


def unwrap_variable(variable: Any) -> Any:
    """Return the variable of TensorFlow that one of Keras wraps; None where it has none yet."""
    value = getattr(variable, _VALUE, _refuse)
    if value is _refuse:
        raise _refuse(_VALUE, "finds the variables of Keras models")
    return value


def makes_unallocated() -> bool:
    """Return whether this release can make variables without values."""
    shows_keras = "keras" not in sys.modules or hasattr(keras_state(), "get_global_attribute")
    return shows_keras and None not in (_UninitializedVariable, FuncGraph)


def make_unallocated_variable(**arguments: Any) -> Any:
    """Return a variable of TensorFlow that has a shape and a dtype, and no value."""
    return _UninitializedVariable(**arguments)


def set_unallocated(variable: Any) -> None:
    """Give a variable of Keras, which has no value yet, one of TensorFlow's without a value; Keras makes none then."""
    stand_in = _UninitializedVariable(
        trainable=variable.trainable, name=variable.name, shape=variable.shape, dtype=tf.as_dtype(variable.dtype)
    )
    setattr(variable, _VALUE, stand_in)
    setattr(variable, _INITIALIZER, None)


def whole_variable(variable: Any) -> Any:
    """Return the mirrored variable that a copy on one device belongs to; a variable of its own as it is."""
    container = getattr(getattr(variable, _HANDLE, None), _CONTAINER, None)
    whole = None if container is None else container()
    return variable if whole is None else whole


def require_whole(variable: Any) -> None:
    """Raise `NotOfferedError` if the copies of a mirrored variable do not show that they are copies."""
    if any(whole_variable(copy) is copy for copy in variable.values):
        raise _refuse(_CONTAINER, "tells copies of a variable on several devices from variables")


def parts_of_module(module: Any, is_part: Callable[[Any], bool]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the parts right inside a ``tf.Module`` with their paths."""
    flatten = getattr(module, _FLATTEN, None)
    if flatten is None:
        raise _refuse(_FLATTEN, "finds the layers and variables of a module")
    yield from flatten(recursive=False, predicate=is_part, with_path=True)


def is_saved_model(value: Any) -> bool:
    """Return whether a value came from ``tf.saved_model.load``."""
    is_loaded = any(base.__module__ == _LOADED for base in type(value).__mro__)
    return is_loaded or isinstance(
        vars(value).get("tensorflow_git_version") if hasattr(value, "__dict__") else None, str
    )


def read_batch_size(dataset: Any) -> Any:
    """Return the batch size that a data set was made with; None for one that makes no batches."""
    return getattr(dataset, _BATCH_SIZE, None)


def dataset_before(dataset: Any) -> Any:
    """Return the data set that another one takes its elements from; None where it has none."""
    return getattr(dataset, _BEFORE, None)


def is_from_sigmoid(tensor: Any) -> bool:
    """Return whether Keras says of a tensor that a sigmoid has made it."""
    return hasattr(tensor, _LOGITS)


def is_compiled(model: Any) -> bool:
    """Return whether a Keras model is compiled by XLA."""
    return getattr(model, _COMPILED, False) is True


def new_saved_model() -> Any:
    """Return an empty description of a saved model, to read a file with."""
    if _SavedModel is None:
        raise _refuse("saved_model_pb2", "looks for code in a saved model; it is loaded with trust")
    return _SavedModel()


#: What a bound method of a module refers to it by, in its ``tf.function``.
MethodTarget: Any = _first(
    "tensorflow.python.eager.polymorphic_function.tf_method_target.TfMethodTarget",
    instead=type("MethodTarget", (), {}),
    off="of a module, a bound method of which is profiled, the variables are not put back",
)


# The profiler of TensorFlow. ------------------------------------------------------------------------------------------

#: Whether a session of the profiler runs: a function, in 2.18 a flag. Without it TensorFlow refuses another one itself.
_trace: Any = find("tensorflow.python.profiler.trace")
_ENABLED = field("enabled")


def session_runs() -> bool:
    """Return whether a session of the profiler runs; False if this release does not tell."""
    enabled = getattr(_trace, _ENABLED, False)
    return bool(enabled() if callable(enabled) else enabled)


def new_xspace() -> Any:
    """Return an empty profile, to read a file with; None if this release has another format: nothing is timed by it."""
    kind = (
        find("tensorflow.tsl.profiler.protobuf.xplane_pb2.XSpace")
        or find("xla.tsl.profiler.protobuf.xplane_pb2.XSpace")
        or find("tensorflow.core.profiler.protobuf.xplane_pb2.XSpace")
    )
    return None if kind is None else kind()


# The state of the process. --------------------------------------------------------------------------------------------

#: The seed of TensorFlow, and the generator of the seeds of operators. Without them each profile says that it draws.
_SEED, _SEEDS = field("_seed"), field("_rng")
_context: Any = find("tensorflow.python.eager.context.context")
if _context is None:
    lacking.append(f"TensorFlow {tf.__version__} hides its random seed: a profile may change what is drawn afterwards")
#: Settings that only these change, or tell. Without them what a model sets there stays, and no report names it.
is_deterministic: Callable[[], bool] = _first(
    "tensorflow.python.framework.config.is_op_determinism_enabled", instead=lambda: False
)
stop_being_deterministic: Callable[[], object] = _first(
    "tensorflow.python.framework.config.disable_op_determinism", instead=lambda: None
)
_promotion: Any = find("tensorflow.python.framework.ops.get_dtype_conversion_mode")
#: Attributes of modules that are settings of the process, or hold its state. One that is not there is not put back.
_STATE: dict[str, tuple[str, ...]] = {
    "tensorflow.python.eager.polymorphic_function.eager_function_run": ("RUN_FUNCTIONS_EAGERLY",),
    "tensorflow.python.data.ops.debug_mode": ("DEBUG_MODE",),
    "tensorflow.python.ops.stateful_random_ops": ("global_generator",),
    "keras.src.backend.config": (
        *("_FLOATX", "_EPSILON", "_IMAGE_DATA_FORMAT", "_NNX_ENABLED", "_MAX_EPOCHS", "_MAX_STEPS_PER_EPOCH"),
    ),
    "keras.src.saving.object_registration": ("GLOBAL_CUSTOM_OBJECTS", "GLOBAL_CUSTOM_NAMES"),
    "keras.src.backend.common.global_state": ("GLOBAL_STATE_TRACKER", "GLOBAL_SETTINGS_TRACKER"),
    "tf_keras.src.backend_config": ("_FLOATX", "_EPSILON", "_IMAGE_DATA_FORMAT"),
    "tf_keras.src.backend": (
        *("PER_GRAPH_OBJECT_NAME_UIDS", "OBSERVED_NAMES", "_MANUAL_VAR_INIT"),
        *("_SEED_GENERATOR", "_USE_GENERATOR_FOR_RNG"),
    ),
    "tf_keras.src.engine.base_layer_utils": ("_call_context",),
    "tf_keras.src.mixed_precision.policy": ("_global_policy",),
    "tf_keras.src.mixed_precision.autocast_variable": ("_autocast_dtype",),
}


def notes() -> list[str]:
    """Return what is off in these releases of TensorFlow and Keras although calls go on."""
    hidden = "keras" in sys.modules and keras_state() is None
    return [*lacking, *(["this release of Keras hides its state: later layers may have other names"] if hidden else [])]


def seeds() -> tuple[Any, Any] | None:
    """Return TensorFlow's seed, and the generator of the seeds of operators; None where this release hides them."""
    context = None if _context is None else _context()
    return (getattr(context, _SEED), getattr(context, _SEEDS, None)) if hasattr(context, _SEED) else None


def set_seeds(seed: Any, generator: Any) -> None:
    """Set both; no generator where there was none."""
    context = _context()
    setattr(context, _SEED, seed)
    if generator is not None:
        setattr(context, _SEEDS, generator)
    else:
        vars(context).pop(_SEEDS, None)


def promotion() -> str:
    """Return how operators convert the dtypes of their arguments; "off", the default, if this release does not tell."""
    return "off" if _promotion is None else str(_promotion().name).lower()


def state_of_modules() -> Iterator[tuple[Any, str, Any]]:
    """Yield the modules that hold the state of Keras and TensorFlow and are imported, a name in each, and its value."""
    for name, attributes in _STATE.items():
        module = sys.modules.get(name)
        for attribute in attributes if module else ():
            if hasattr(module, attribute):
                yield module, attribute, getattr(module, attribute)
