"""The private names of torch: the only file that knows them, each with what it is for and what happens without it.

A release of torch may be without any of them. Then there is another way to the same numbers, or a capability is off:
a call that needs it raises `NotOfferedError`, or each trace says what is off, by `lacking`. Every name is looked for
once, when this is imported; only what belongs to torch's compiler, which is slow to import, is looked for when it is
asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import torch
from torch.optim import optimizer as torch_optimizer

from profilerkit import InputError, NotOfferedError
from profilerkit.backend_kit.installed import find_version
from profilerkit.backend_kit.private_names import field, find

if TYPE_CHECKING:
    from torch._ops import HigherOrderOperator as HigherOrderOperator  # noqa: PLC0414
    from torch._subclasses.fake_tensor import FakeTensor as FakeTensor  # noqa: PLC0414
    from torch._subclasses.fake_tensor import FakeTensorMode as FakeTensorMode  # noqa: PLC0414
    from torch.utils._python_dispatch import TorchDispatchMode as TorchDispatchMode  # noqa: PLC0414


VERSION = find_version("torch")
#: What is off in this release of torch although calls go on: each trace has these as notes.
lacking: list[str] = []


def _first(*paths: str, instead: Any = None, off: str = "") -> Any:
    """Return what the first of these paths leads to that this release has; ``instead`` where it has none of them.

    ``off`` says what is off then; it is empty where ``instead`` is another way.
    """
    for path in paths:
        value = find(path)
        if value is not None:
            return value
    if off:
        lacking.append(f"torch {VERSION} has no {paths[0]}: {off}")
    return instead


def _find_all(*paths: str) -> tuple[Any, ...]:
    """Return what those of these paths lead to that this release has."""
    return tuple(value for path in paths if (value := find(path)) is not None)


def _refuse(path: str, purpose: str, library: str = "torch") -> Callable[..., Any]:
    """Return a function that raises `NotOfferedError`, for a name without which a capability is off."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise NotOfferedError(
            f"{library} {find_version(library)} has no {path}, by which profilerkit {purpose}; use a release of "
            f"{library} that profilerkit was tested with, or a newer profilerkit"
        )

    return refuse


def _require(path: str, *, purpose: str) -> Any:
    """Return what a path leads to; without it a capability is off, and its function raises `NotOfferedError`."""
    return _first(path, instead=_refuse(path, purpose))


def _require_class(path: str, *, purpose: str) -> Any:
    """Return a class by its path; without it one that cannot be instantiated."""
    return _first(path, instead=type(path.rpartition(".")[2], (), {"__init__": _refuse(path, purpose)}))


# Modes: what sees every operator and every function, and what the caller has switched on.

if not TYPE_CHECKING:
    #: The class of modes that see each operator. Without it nothing is traced: the counts are unavailable.
    TorchDispatchMode = _require_class(
        "torch.utils._python_dispatch.TorchDispatchMode", purpose="sees the operators of a model"
    )

    if not hasattr(TorchDispatchMode, "supports_higher_order_operators"):
        _PlainMode = TorchDispatchMode

        class TorchDispatchMode(_PlainMode):  # type: ignore[no-redef,valid-type,misc]
            """A mode of torch 2.6, where operators that take functions ask each class of modes for a rule of its own.

            One that appears while the mode is on has none, and raises an error that says so.
            """

            supports_higher_order_operators = False

            def __enter__(self) -> Any:
                if self.supports_higher_order_operators:
                    for operator in (find("torch._ops._higher_order_ops") or {}).values():
                        operator.python_key_table[type(self)] = partial(_ask_mode, operator)
                return super().__enter__()

        def _ask_mode(operator: Any, mode: Any, *args: Any, **kwargs: Any) -> Any:
            return mode.__torch_dispatch__(operator, (), args, kwargs)


#: The modes of functions that are on, the innermost last; else they are read one by one.
function_modes: Callable[[], list[Any]] = _first(
    "torch.overrides._get_current_function_mode_stack",
    instead=lambda: [find("torch._C._get_function_stack_at")(index) for index in range(count_function_modes())],
)
#: How many there are; else the list is measured, which is slower.
count_function_modes: Callable[[], int] = _first(
    "torch._C._len_torch_function_stack", instead=lambda: len(function_modes())
)
#: Whether there is any.
is_function_mode_active: Callable[[], bool] = _first(
    "torch._C._is_torch_function_mode_enabled", instead=lambda: count_function_modes() > 0
)
#: Takes the innermost away, and puts it back.
pop_function_mode: Callable[[], Any] = _first("torch.overrides._pop_mode", "torch._C._pop_torch_function_stack")
push_function_mode: Callable[[Any], None] = _first(
    "torch.overrides._push_mode", "torch._C._push_on_torch_function_stack"
)
#: The same for the modes that see operators.
dispatch_modes: Callable[[], list[Any]] = _first(
    "torch.utils._python_dispatch._get_current_dispatch_mode_stack",
    instead=lambda: [find("torch._C._get_dispatch_stack_at")(index) for index in range(count_dispatch_modes())],
)
count_dispatch_modes: Callable[[], int] = _first(
    "torch._C._len_torch_dispatch_stack", instead=lambda: len(dispatch_modes())
)
pop_dispatch_mode: Callable[[], Any] = _first(
    "torch.utils._python_dispatch._pop_mode", "torch._C._pop_torch_dispatch_stack"
)
_push_dispatch_mode: Callable[[Any], None] = _first(
    "torch.utils._python_dispatch._push_mode", "torch._C._push_on_torch_dispatch_stack"
)
#: How many modes of ``torch.export`` are on; none, where that is not known: a profile inside of an export is refused.
count_export_modes: Callable[[], int] = _first("torch._ops._len_torch_dispatch_stack_pre_dispatch", instead=lambda: 0)


@contextmanager
def _without_modes(count: Callable[[], int], pop: Callable[[], Any], push: Callable[[Any], None]) -> Iterator[None]:
    modes = [pop() for _ in range(count())]
    try:
        yield
    finally:
        for mode in reversed(modes):
            push(mode)


#: Takes all modes that see operators away in a block; else they are taken away one by one.
disable_dispatch_modes: Callable[[], AbstractContextManager[Any]] = _first(
    "torch.utils._python_dispatch._disable_current_modes",
    instead=partial(_without_modes, count_dispatch_modes, pop_dispatch_mode, _push_dispatch_mode),
)
#: Takes all modes of functions away in a block.
without_function_modes: Callable[[], AbstractContextManager[Any]] = partial(
    _without_modes, count_function_modes, pop_function_mode, push_function_mode
)
#: Keeps functions from being seen by modes and subclasses in a block; else by modes alone, taken away one by one.
unseen_by_functions: Callable[[], AbstractContextManager[Any]] = _first(
    "torch._C.DisableTorchFunction", instead=without_function_modes
)
#: Keeps functions from being seen by subclasses in a block; else they are asked too.
unseen_by_subclasses: Callable[[], AbstractContextManager[Any]] = _first(
    "torch._C.DisableTorchFunctionSubclass", instead=nullcontext
)

_dispatch_module: Any = find("torch.utils._python_dispatch")
#: Torch's notes of whether a dispatch mode is active, which the exit of a mode puts back; a release has some of them.
_MODE_FLAGS = tuple(
    name
    for name in (
        "_is_in_torch_dispatch_mode",
        "_is_in_non_infra_torch_dispatch_mode",
        "_is_in_any_mode_without_ignore_compile_internals",
    )
    if hasattr(_dispatch_module, name)
)
_set_flag_in_c: Callable[[bool], None] | None = find(
    "torch.utils._python_dispatch.set_is_in_mode_without_ignore_compile_internals"
)


def mode_flags() -> list[bool]:
    """Return torch's notes of whether modes are active."""
    return [getattr(_dispatch_module, name) for name in _MODE_FLAGS]


def set_mode_flags(flags: Sequence[bool]) -> None:
    """Put torch's notes back."""
    for name, flag in zip(_MODE_FLAGS, flags, strict=True):
        setattr(_dispatch_module, name, flag)
    if _set_flag_in_c is not None and flags:
        _set_flag_in_c(flags[-1])


_device_module: Any = find("torch.utils._device")
_device_context: Any = find("torch._GLOBAL_DEVICE_CONTEXT")
#: Whether the default device is where it can be read and put back; else a model that changes it leaves it changed.
_HAS_DEVICE = _first(
    "torch.utils._device.CURRENT_DEVICE.__class__",
    instead=None,
    off="a default device that a model sets while it runs is not put back",
)


#: In place of the mode, which torch has as an attribute from the first call on; torch 2.6 takes no None for it.
_NEVER_SET = object()


def default_device() -> tuple[Any, Any]:
    """Return the default device of tensors, as `set_default_device` takes it: the device, and its mode."""
    return getattr(_device_module, "CURRENT_DEVICE", None), getattr(_device_context, "device_context", _NEVER_SET)


def set_default_device(value: tuple[Any, Any]) -> None:
    """Put the default device back."""
    if _HAS_DEVICE is None or _device_context is None:
        return
    _device_module.CURRENT_DEVICE, mode = value
    if mode is not _NEVER_SET:
        _device_context.device_context = mode
    elif hasattr(_device_context, "device_context"):
        del _device_context.device_context


# What torch records or transforms at the moment: no model is profiled inside of that. Without one of these names a
# profile there is not refused, and fails at its first operator, or becomes part of the recording; elsewhere all is
# the same.

#: What compiles the function that runs.
compiler_callback: Callable[[], Any] = _first(
    "torch._C._dynamo.eval_frame.get_eval_frame_callback", instead=lambda: None
)
#: How deep in transforms of ``torch.func`` this is: None outside of all.
transform_level: Callable[[], Any] = _first(
    "torch._C._functorch.maybe_current_level", "torch._C._functorch.peek_interpreter_stack", instead=lambda: None
)
_fx_module: Any = find("torch.fx._symbolic_trace")
#: Whether ``torch.fx.symbolic_trace`` records: a function, and before torch 2.8 a flag.
is_fx_tracing: Callable[[], bool] = _first(
    "torch.fx._symbolic_trace.is_fx_symbolic_tracing",
    instead=lambda: bool(getattr(_fx_module, "_is_fx_tracing_flag", False)),
)
_dispatch_mode: Callable[[Any], Any] = _first("torch._C._get_dispatch_mode", instead=lambda key: None)
_PROXY: Any = find("torch._C._TorchDispatchModeKey.PROXY")


def is_making_graph() -> bool:
    """Return whether ``make_fx`` records."""
    return _PROXY is not None and _dispatch_mode(_PROXY) is not None


# Operators, and what their classes are. The classes of things that everybody can have need no private name.

OpOverload: Any = type(torch.ops.aten.add.Tensor)
OpOverloadPacket: Any = type(torch.ops.aten.add)
if not TYPE_CHECKING:
    #: The class of operators that take functions: conditions, loops. Without it none is known as one, and a model that
    #: has one is counted in a real run, or refused.
    HigherOrderOperator = _first("torch._ops.HigherOrderOperator", instead=type("HigherOrderOperator", (), {}))
#: What an operator takes and returns, and what it writes to; else it is asked for by the name of the operator.
schema_of: Callable[[Any], Any] = (
    attrgetter("_schema")
    if hasattr(torch.ops.aten.add.Tensor, field("_schema"))
    else lambda func: find("torch._C._get_schema")(func.name().partition(".")[0], func.name().partition(".")[2])
)
#: Whether an operator is made of others; without the key it counts as one that is not known, unless it has a formula.
_COMPOSITE: Any = find("torch._C.DispatchKey.CompositeImplicitAutograd")
#: Whether an operator comes apart in another way for nested tensors; without the keys as for all others.
_NESTED = _find_all(
    "torch._C.DispatchKey.CompositeImplicitAutogradNestedTensor", "torch._C.DispatchKey.NestedTensorCPU"
)
#: The kernel of an operator that takes functions, in Python; without the key what its functions do is not counted.
_EXPLICIT: Any = find("torch._C.DispatchKey.CompositeExplicitAutograd")
#: Whether an operator of that name has a kernel at all; else each is taken to have one.
has_kernel: Callable[[str], bool] = _first("torch._C._dispatch_has_kernel", instead=lambda name: True)


def tag(name: str) -> Any:
    """Return what torch marks operators with by a name; what marks none where this release has no such tag."""
    return _first(f"torch.Tag.{name}", instead=object())


def operator(path: str) -> Any:
    """Return an operator by its path below ``torch.ops``; what is none where this release has no such operator."""
    return _first(f"torch.ops.{path}", instead=object())


def dtype(name: str) -> Any:
    """Return a dtype by its name; what is none where this release has no such dtype."""
    return _first(f"torch.{name}", instead=object())


#: Two numbers in each element: torch 2.8 and newer.
FLOAT4 = dtype("float4_e2m1fn_x2")


def is_composite(func: Any) -> bool:
    """Return whether an operator is made of others, which run in its place."""
    return _COMPOSITE is not None and bool(func.has_kernel_for_dispatch_key(_COMPOSITE))


@cache
def has_nested_kernel(func: Any) -> bool:
    """Return whether an operator does not come apart for nested tensors as it does for others."""
    return any(func.has_kernel_for_dispatch_key(key) for key in _NESTED)


def python_kernel(func: HigherOrderOperator) -> Any:
    """Return what an operator that takes functions does in Python; None where that is not known."""
    return getattr(func, "py_kernels", {}).get(_EXPLICIT)


#: Which one of its kernels torch takes for attention; an operator, though its name begins with an underscore.
choose_attention: Callable[..., int] = _require(
    "torch._fused_sdp_choice", purpose="tells how attention runs, and what memory it takes"
)
#: Attention in one kernel, which the shapes of its results are asked of.
flash_attention: Callable[..., Any] = _first(
    "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default",
    instead=_refuse("aten::_scaled_dot_product_flash_attention_for_cpu", "sees attention as one kernel"),
)
#: The same by the kernel that CUDA has for float32, whose output lies in memory as (batch, length, heads, width).
efficient_attention: Callable[..., Any] = _first(
    "torch.ops.aten._scaled_dot_product_efficient_attention.default",
    instead=_refuse("aten::_scaled_dot_product_efficient_attention", "sees attention in float32 on CUDA as one kernel"),
)
#: The function that a scan calls for its steps; without it a scan is an operator that is not counted.
find_scan: Callable[[], Any] = lambda: find("torch._higher_order_ops.scan.generic_scan")  # noqa: E731


def triton_kernel(number: int) -> Any:
    """Return a kernel of Triton by its number; None where that is not known, and it is called "kernel"."""
    table = find("torch._higher_order_ops.triton_kernel_wrap.kernel_side_table")
    return None if table is None else table.get_kernel(number)


# Stand-ins for tensors: fake ones know their device and have no values.

if not TYPE_CHECKING:
    #: Without these a model that cannot run on meta tensors is counted in a real run.
    FakeTensor = _first("torch._subclasses.fake_tensor.FakeTensor", instead=type("FakeTensor", (), {}))
    FakeTensorMode = _require_class(
        "torch._subclasses.fake_tensor.FakeTensorMode", purpose="runs a model on fake tensors"
    )
#: Where others find the class of fake tensors, to ask whether a tensor is one.
FAKE_NAMESPACE: dict[str, Any] = getattr(find("torch._subclasses"), "__dict__", {})
#: The class of errors and of log lines that fake tensors make; without it they are the model's.
FAKE_MODULE = "torch._subclasses.fake_tensor"

# Modules: what torch keeps in each of them.

_module = torch.nn.Module()


def _reader(name: str, instead: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return what reads an attribute that every module has; ``instead`` where this release has none of that name."""
    return attrgetter(name) if hasattr(_module, name) else instead


#: The parameters of a module itself by name, in torch's own dict; else in another, in which nothing can be replaced.
read_parameters: Callable[[Any], dict[str, Any]] = _reader(
    field("_parameters"),
    lambda module: dict(torch.nn.Module.named_parameters(module, recurse=False, remove_duplicate=False)),
)
#: The same for buffers.
read_buffers: Callable[[Any], dict[str, Any]] = _reader(
    field("_buffers"),
    lambda module: dict(torch.nn.Module.named_buffers(module, recurse=False, remove_duplicate=False)),
)
#: The same for the modules inside.
read_children: Callable[[Any], dict[str, Any]] = _reader(
    field("_modules"),
    lambda module: {
        name: child
        for name, child in torch.nn.Module.named_modules(module, remove_duplicate=False)
        if name and "." not in name
    },
)
#: The names of the buffers that a module does not save; else they are looked for in what it saves.
unsaved_buffers: Callable[[Any], Container[str]] = _reader(
    field("_non_persistent_buffers_set"), lambda module: read_buffers(module).keys() - module.state_dict().keys()
)
#: Where a module has these: what walks over its attributes takes them for what they are.
OWN = (field("_parameters"), field("_buffers"), field("_modules"))
#: What a module keeps about how its state is saved and loaded; else a change of that is one of the model.
OF_STATE_DICTS = frozenset(
    (
        *(field("_load_state_dict_post_hooks"), field("_load_state_dict_pre_hooks"), field("_state_dict_hooks")),
        *(field("_state_dict_pre_hooks"), field("_non_persistent_buffers_set")),
    )
)


def replace_tensors(module: torch.nn.Module, stand_in: Callable[[Any], Any]) -> None:
    """Have others stand in for the parameters and buffers of a module; where that is impossible no pass has any."""
    for read, name in ((read_parameters, "_parameters"), (read_buffers, "_buffers")):
        tensors = read(module)
        if tensors:
            if read(module) is not tensors:
                _refuse(f"Module.{name}", "puts tensors without values in the place of weights")()
            tensors.update([(key, stand_in(tensor)) for key, tensor in tensors.items()])


_before_calls = _reader(field("_forward_pre_hooks"), lambda module: {})
_after_calls = _reader(field("_forward_hooks"), lambda module: {})


def call_hooks(module: Any) -> tuple[dict[int, Any], dict[int, Any]]:
    """Return the hooks before and after a module's calls; without them what hooks do is looked for in runs alone."""
    return _before_calls(module), _after_calls(module)


_CALL, _COMPILED_CALL = field("_call_impl"), field("_compiled_call_impl")


def name_of_call(module: Any) -> str:
    """Return under which name a module has what torch calls for it; without that no layer is timed alone."""
    if not hasattr(module, _CALL):
        _refuse("Module._call_impl", "times single layers")()
    return _COMPILED_CALL if getattr(module, _COMPILED_CALL, None) is not None else _CALL


#: The hooks for gradients that modules have; without these names those of a module act on a step that is counted.
MODULE_GRADIENT_HOOKS = (field("_backward_hooks"), field("_backward_pre_hooks"))
_OFF = "hooks of a model's parameters run in a training step that is counted, and those that a pass adds stay"
#: Where tensors keep the hooks for their gradients, and for what is done once these are there.
GRADIENT_HOOKS = ("_backward_hooks",) if _first("torch.Tensor._backward_hooks", off=_OFF) is not None else ()
ACCUMULATION_HOOKS = (
    ("_post_accumulate_grad_hooks",) if _first("torch.Tensor._post_accumulate_grad_hooks", off=_OFF) is not None else ()
)
#: The hooks before and after the calls of all modules, and those for the gradients of all; without it there are none.
GLOBAL_CALL_HOOKS: tuple[dict[int, Any], ...] = (
    _first("torch.nn.modules.module._global_forward_pre_hooks", instead={}),
    _first("torch.nn.modules.module._global_forward_hooks", instead={}),
)
GLOBAL_GRADIENT_HOOKS: tuple[dict[int, Any], ...] = (
    _first("torch.nn.modules.module._global_backward_pre_hooks", instead={}),
    _first("torch.nn.modules.module._global_backward_hooks", instead={}),
)
#: What torch keeps beside a hook for the calls of all modules, and leaves there: a number, where nobody takes it away.
GLOBAL_HOOK_MARKS: tuple[dict[int, Any], ...] = (
    _first("torch.nn.modules.module._global_forward_hooks_with_kwargs", instead={}),
    _first("torch.nn.modules.module._global_forward_hooks_always_called", instead={}),
)
#: All hooks for all modules and all optimizers, those of later releases too.
ALL_GLOBAL_HOOKS: tuple[dict[Any, Any], ...] = tuple(
    hooks
    for owner in (torch.nn.modules.module, torch_optimizer)
    for name, hooks in vars(owner).items()
    if name.startswith("_global_") and isinstance(hooks, dict)
)


# Autograd.

#: Runs operators before autograd takes them apart. Without it the bytes along the way would be others: no pass is made.
without_autograd_kernels: Callable[[], AbstractContextManager[Any]] = _require(
    "torch._C._AutoDispatchBelowAutograd", purpose="sees operators before they are taken apart"
)
#: The number of the next node of a graph: the nodes of a layer's call are those between its beginning and its end.
next_node: Callable[[], int] = _require(
    "torch._C._autograd._get_sequence_nr", purpose="tells which layer a node of the backward pass is of"
)
_NUMBER = field("_sequence_nr")
_no_number = _refuse("Node._sequence_nr", "tells which layer a node of the backward pass is of")


def node_number(node: Any) -> int:
    """Return the number of a node of a graph, in the order in which they were made."""
    return int(getattr(node, _NUMBER, _no_number)())


#: The node that runs.
current_node: Callable[[], Any] = _require(
    "torch._C._current_autograd_node", purpose="tells which layer a node of the backward pass is of"
)
#: The number of the backward pass that runs, -1 outside of all.
current_task: Callable[[], int] = _require(
    "torch._C._current_graph_task_id", purpose="tells when a backward pass is over"
)
_engine: Any = find("torch.autograd.Variable._execution_engine")


def run_backward(loss: torch.Tensor, gradient: torch.Tensor) -> None:
    """Run the backward pass as ``loss.backward(gradient)`` does, by no function that a mode would handle.

    Without torch's engine it is that function, in which nobody sees which numbers leave torch.
    """
    if _engine is None:
        loss.backward(gradient)
        return
    _engine.run_backward((loss,), (gradient,), False, False, (), allow_unreachable=True, accumulate_grad=True)


#: Has a function called when the backward pass that runs is over.
call_after_backward: Callable[[Callable[[], None]], None] = (
    _refuse("torch.autograd.Variable._execution_engine", "tells when a backward pass is over")
    if _engine is None
    else _engine.queue_callback
)
#: The hooks for tensors that a graph saves: a pair, or None. Without it, as in torch 2.6, no report names them, and
#: those that a model leaves switched on stay.
top_saved_tensors_hooks: Callable[[bool], Any] = _first(
    "torch._C._autograd._top_saved_tensors_default_hooks", instead=lambda ignore_tracing: None
)
_set_version: Any = _first(
    "torch._C._autograd._unsafe_set_version_counter",
    instead=lambda tensors, versions: None,
    off="a graph that was made before the profile may refuse its backward pass",
)


def set_version(tensor: torch.Tensor, version: int) -> None:
    """Give a tensor, whose values are those of before, the count of its writes of before.

    Without it a graph that the caller has made, and that needs the tensor, cannot be gone back through.
    """
    try:
        _set_version((tensor,), (version,))
    except TypeError:  # torch 2.6 takes one tensor
        _set_version(tensor, version)


_in_c: Callable[[], bool] = _first("torch._C._autograd._profiler_enabled", instead=lambda: False)
_profiler_module: Any = find("torch.autograd.profiler")


def is_profiler_enabled() -> bool:
    """Return whether torch's profiler runs, of which there is one; where that is not known torch itself refuses."""
    return _in_c() or bool(getattr(_profiler_module, "_is_profiler_enabled", False))


#: Whether autocast is on for any device; else the devices are asked one by one.
is_any_autocast_enabled: Callable[[], bool] = _first(
    "torch._C._is_any_autocast_enabled",
    instead=lambda: any(map(torch.is_autocast_enabled, ("cpu", "cuda", "xpu", "mps"))),
)

# Tensors.

#: Where several elements of a tensor are one in memory torch answers 1; without it none is taken to have such.
internal_overlap: Callable[[torch.Tensor], int] = _first("torch._debug_has_internal_overlap", instead=lambda tensor: 0)
#: Whether a tensor is a view of another; else none is taken for one.
is_view: Callable[[torch.Tensor], bool] = _first("torch.Tensor._is_view", instead=lambda tensor: False)
#: Whether a tensor is zeros that have no memory; else each tensor is taken to have none.
is_zerotensor: Callable[[torch.Tensor], bool] = _first("torch.Tensor._is_zerotensor", instead=lambda tensor: True)
_VERSION = field("_version")


def count_writes(tensor: torch.Tensor) -> int:
    """Return how often a tensor was written to; without that number nobody is warned of a parameter that was."""
    return int(getattr(tensor, _VERSION, 0))


def _make_tensor(kind: Any, tensor: torch.Tensor, requires_grad: bool) -> Any:
    if issubclass(kind, torch.nn.Parameter):
        return kind(tensor, requires_grad)
    return tensor.as_subclass(kind).requires_grad_(requires_grad)


#: Makes a tensor of a class, or a parameter, that shares its elements with a plain one, by whether it needs a gradient.
#: Torch's own way is without the checks of ``nn.Parameter``, which is the other way.
make_tensor: Callable[[Any, torch.Tensor, bool], torch.Tensor] = _first(
    "torch.Tensor._make_subclass", instead=_make_tensor
)

#: The address of a storage, by which it is known; else that of the object that stands for it in Python.
storage_address: Callable[[Any], int] = attrgetter("_cdata") if find("torch.UntypedStorage._cdata") is not None else id
#: The class of all tensors, those of subclasses that Python code made too.
TensorBase: Any = _first("torch._C.TensorBase", instead=torch.Tensor)
#: ``torch.FloatTensor`` and the like.
tensor_classes: tuple[Any, ...] = tuple(_first("torch._tensor_classes", instead=()))
#: Questions that only autograd's kernels answer; those that are missing cannot be asked.
VIEW_QUESTIONS = _find_all("torch.Tensor._is_view", "torch.Tensor._base.__get__")
#: Makes a tensor that carries its derivative; where it is missing so is what a model would call.
make_dual: Any = find("torch._C._VariableFunctions._make_dual")

# Wrappers: modules that are spread over several processes. Nothing inside could be counted without their names.

#: By the class of a wrapper: the name under which it holds the module inside.
INNER_NAMES = {
    "OptimizedModule": field("_orig_mod"),
    "DataParallel": "module",
    "DistributedDataParallel": "module",
    "FullyShardedDataParallel": field("_fsdp_wrapped_module"),
}


def _read(owner: Any, name: str, path: str, purpose: str, library: str = "torch") -> Any:
    """Return an attribute, which messages name by a path; `NotOfferedError` where the owner has none of that name."""
    if not hasattr(owner, name):
        _refuse(path, purpose, library)()
    return getattr(owner, name)


def _read_wrapped(owner: Any, name: str) -> Any:
    """Return what ``FullyShardedDataParallel`` keeps under a name."""
    return _read(owner, name, f"FullyShardedDataParallel's {name}", "finds the parameters that it has made one of")


def flat_parameter(wrapper: Any) -> Any:
    """Return the parameter that a ``FullyShardedDataParallel`` has made of several; None where it has none."""
    handle = _read_wrapped(wrapper, field("_handle"))
    return None if handle is None else handle.flat_param


def sizes_in_shard(flat: Any) -> list[int]:
    """Return how many elements of each original parameter this rank has, without padding."""
    parts = getattr(flat, field("_shard_param_infos"), None)
    if parts is None:  # it is not spread
        return [shape.numel() for shape in _read_wrapped(flat, field("_shapes"))]
    return [part.numel_in_shard or 0 for part in parts]


def original_parameters(flat: Any) -> Iterator[tuple[torch.nn.Module, str, torch.Size, bool]]:
    """Yield module, name, shape and whether it needs a gradient, for each parameter that a flat one was made of."""
    shapes = _read_wrapped(flat, field("_shapes"))
    originals = getattr(flat, field("_params"), None) or [flat] * len(shapes)
    for info, shape, original in zip(_read_wrapped(flat, field("_param_infos")), shapes, originals, strict=True):
        yield info.module, info.param_name, shape, original.requires_grad


def list_shared_parameters(flat: Any) -> Iterator[tuple[torch.nn.Module, str, torch.nn.Module, str]]:
    """Yield module and name of each parameter that is another one too, with module and name of that."""
    for info in _read_wrapped(flat, field("_shared_param_infos")):
        yield info.module, info.param_name, info.prim_module, info.prim_param_name


# Keras' layers on torch, and configurations of transformers.

_VALUE = field("_value")


def _read_keras(owner: Any, name: str) -> Any:
    return _read(owner, name, f"{type(owner).__name__}.{name}", "finds the weights of a layer", "keras")


def keras_weights(layer: Any) -> list[Any]:
    """Return the variables of a Keras layer itself that training may change."""
    return list(_read_keras(layer, field("_trainable_variables")))


def keras_states(layer: Any) -> list[Any]:
    """Return the variables of a Keras layer itself that it writes to while it runs, those of random numbers too."""
    generators = _read_keras(layer, field("_seed_generators"))
    return [*_read_keras(layer, field("_non_trainable_variables")), *(generator.state for generator in generators)]


def keras_value(variable: Any) -> Any:
    """Return the tensor that a variable of Keras' has now, in its own dtype; None before there is any."""
    return _read_keras(variable, _VALUE)


def set_keras_value(variable: Any, value: Any) -> None:
    """Give a variable of Keras' another tensor."""
    setattr(variable, _VALUE, value)


def read_attention(config: Any) -> str:
    """Return by what a model of transformers runs its attention; empty where the configuration does not tell."""
    name = getattr(config, field("_attn_implementation"), "")
    return "eager" if name is None else str(name)


def read_origin(config: Any) -> str:
    """Return the name or folder that a configuration of transformers was read from; empty where it does not tell."""
    return str(getattr(config, field("_name_or_path"), "") or "")


def read_experts(config: Any) -> str:
    """The same for the experts of a model; before transformers 5 that is torch's operators one by one."""
    return str(getattr(config, field("_experts_implementation"), None) or "eager")


# What torch.compile keeps. It is imported where somebody compiles, and not before.

#: Forgets what was compiled of some code; without it the compiled code stays, which costs memory alone.
forget_code: Callable[[Any], None] = _first("torch._C._dynamo.eval_frame.reset_code", instead=lambda code: None)


def is_compiled_model(model: Any) -> bool:
    """Return whether a model is what ``torch.compile`` has made of one."""
    kind = getattr(sys.modules.get("torch._dynamo"), "OptimizedModule", None)
    return (kind is not None and isinstance(model, kind)) or getattr(model, _COMPILED_CALL, None) is not None


def runs_compiled(module: Any) -> bool:
    """Return whether the calls of a module, or its forward pass alone, are compiled; else its layers are not seen."""
    return is_compiled_model(module) or hasattr(module.forward, field("_torchdynamo_orig_callable"))


#: Torch's compiler, which is imported when something is compiled, and asks for Triton then.
COMPILER = "torch._dynamo"


def is_compiler_imported() -> bool:
    """Return whether torch's compiler is imported."""
    return COMPILER in sys.modules


def restorer_of_stance() -> Callable[[], None]:
    """Return what puts back how compiled code runs, which is set for a pass; else it is the default afterwards."""
    module, name = find("torch._dynamo.eval_frame"), field("_stance")
    if hasattr(module, name):
        return partial(setattr, module, name, getattr(module, name))
    return partial(torch.compiler.set_stance, "default")


def list_compiled_codes() -> list[Any]:
    """Return the lists of code objects that the compiler keeps."""
    module = find("torch._dynamo.convert_frame")
    return [getattr(module, name, None) for name in ("input_codes", "output_codes")]


def read_compiled_states() -> dict[Any, Any]:
    """Return what the compiler remembers of the shapes that each function was called with."""
    states: dict[Any, Any] | None = getattr(find("torch._dynamo.pgo"), "_CODE_STATE", None)
    return {} if states is None else states


# Files and programs.

#: What torch's own files name, of whatever release.
PICKLED_NAMES = ("torch._utils._rebuild", "torch._tensor", "torch.FloatStorage", "collections.OrderedDict")
#: Reads the records of a file of torch's; without it such a file is refused unless it is trusted.
FileReader: Any = _require("torch._C.PyTorchFileReader", purpose="looks into files before they are read")
#: The schemas of all operators of a name; without it none is known as harmless, and a program with one is refused.
schemas_by_name: Callable[[str], list[Any]] = _first("torch._C._jit_get_schemas_for_operator", instead=lambda name: [])
#: Puts values into the form that a program takes.
tree_unflatten: Callable[[Any, Any], Any] = _require(
    "torch.utils._pytree.tree_unflatten", purpose="gives an exported program its inputs"
)


def symbolic_functions() -> tuple[str, ...]:
    """Return the names of functions of sizes that are not fixed; without them a program that uses one is refused."""
    return tuple(find("torch.utils._sympy.functions.__all__") or ())


#: Asks whether there is Triton; without it torch is not kept from importing it where that crashes.
find_triton_question: Callable[[], Any] = lambda: find("torch.utils._triton.has_triton_package")  # noqa: E731

# Settings of the process.

#: Whether scripts fuse operators; else a forked child is left with the setting of a pass.
graph_executor: tuple[Callable[[], bool], Callable[[bool], None]] = (
    _first("torch._C._get_graph_executor_optimize", instead=lambda: True),
    _first("torch._C._set_graph_executor_optimize", instead=lambda value: None),
)


#: Pairs of a getter and a setter that are put back elsewhere, or are no settings of the process.
_NO_SETTINGS = frozenset(
    {
        *("cublas_allow_tf32", "onednn_allow_tf32", "float32_matmul_precision"),  # other names of a precision
        *("deterministic_algorithms", "dispatch_mode", "graph_exec_group", "graph_executor_optimize", "rng_state"),
        *("tensor_metadata", "thread_name", "torch_function_state", "tracing_state", "value_trace"),
    }
)


def settings_of_c() -> Iterator[tuple[Callable[[], Any], Callable[[Any], Any]]]:
    """Yield what reads and what sets each setting that torch keeps in C++: those of later releases too.

    One that is a pair of values is set by both.
    """
    functions = getattr(find("torch._C"), "__dict__", {})
    for name, read in functions.items():
        kept = name.removeprefix("_cuda").removeprefix("_get_")
        write = functions.get(name.replace("get_", "set_", 1))
        is_getter = name in (f"_get_{kept}", f"_cuda_get_{kept}") and kept not in _NO_SETTINGS
        if write is not None and is_getter and _takes_nothing(read):
            yield read, partial(_write, write)


def _takes_nothing(read: Callable[[], Any]) -> bool:
    """Return whether a getter can be called without arguments."""
    try:
        read()
    except TypeError:
        return False
    except RuntimeError:  # what it reads cannot be read now
        pass
    return True


def _write(write: Callable[..., Any], value: Any) -> None:
    write(*value) if isinstance(value, tuple) else write(value)


def find_getter(name: str) -> Callable[[], Any] | None:
    """Return what reads a setting that torch keeps in C++; None where this release has none, and no report names it."""
    getter: Callable[[], Any] | None = find(f"torch._C.{name}")
    return getter


#: The precision of float32 for an operator of a library: torch 2.9 and newer; else there is no such setting.
get_precision: Callable[[str, str], str] | None = _first("torch._C._get_fp32_precision_getter")
set_precision: Callable[[str, str, str], None] | None = _first("torch._C._set_fp32_precision_setter")

# Meshes: a step of one rank of many, in one process. Torch's distributed parts are imported when a mesh is asked for.


#: What a class of tensors has that leaves operators to torch; a torch without it has None there.
_NO_RULES: Any = _first("torch.Tensor.__torch_dispatch__")


def has_dispatch_rules(kind: type) -> bool:
    """Return whether a class of tensors says itself what operators do with it."""
    return getattr(kind, "__torch_dispatch__", None) is not _NO_RULES


def make_fake_store() -> Any:
    """Return the store of a group of processes that sends nothing; importing it makes such groups known to torch."""
    path = "torch.testing._internal.distributed.fake_pg.FakeStore"
    return (find(path) or _refuse(path, "follows one rank of a mesh without the others"))()


def read_script_type(value: torch.ScriptObject) -> str:
    """Return the type of an object of torch's in C++, as text: layers pack their weights in some."""
    return str(_read(value, field("_type"), "ScriptObject._type", "finds the weights that a layer packs")())


def find_process_group(name: str) -> Any:
    """Return the group of processes of a name, which collectives of functions are called with."""
    path = "torch.distributed.distributed_c10d._resolve_process_group"
    return (find(path) or _refuse(path, "tells which ranks a collective is between"))(name)


def find_sharding_planner() -> tuple[Any, str]:
    """Return the class that finds how the result of an operator is spread, with the name of its method.

    It runs operators at the shapes of the whole model, which are no work of a rank.
    """
    path = "torch.distributed.tensor._sharding_prop.ShardingPropagator.propagate_op_sharding_non_cached"
    if find(path) is None:
        _refuse(path, "tells the work of a rank from that of planning it")()
    owner, _, method = path.rpartition(".")
    return find(owner), method


def find_parameter_group() -> Any:
    """Return the class of what ``fully_shard`` gathers and reduces together."""
    path = "torch.distributed.fsdp._fully_shard._fsdp_param_group.FSDPParamGroup"
    return find(path) or _refuse(path, "tells which layer's weights are gathered")()


def read_group_path(group: Any) -> str:
    """Return the path of the module whose weights a group of ``fully_shard`` has, from the module around all."""
    purpose = "tells which layer's weights are gathered"
    return _read(group, field("_module_fqn"), "FSDPParamGroup._module_fqn", purpose) or ""


def read_group_gradients(group: Any) -> Iterator[torch.Tensor]:
    """Yield this rank's share of the gradients that a group of ``fully_shard`` has reduced."""
    for parameter in _read(group, "fsdp_params", "FSDPParamGroup.fsdp_params", "finds the gradients of a rank"):
        gradient = parameter.sharded_param.grad
        if gradient is not None:
            yield gradient.to_local()


def call_for_context_parallel(call: Callable[[], None]) -> None:
    """Have a function called where torch's attention on parts of samples is switched on; a torch without it has none.

    It stays so: the process is one that traces a rank, and nothing else.
    """
    attention = find("torch.distributed.tensor.experimental._context_parallel._attention")
    switch = field("_enable_cp_dtensor_dispatcher")
    if hasattr(attention, switch):
        setattr(attention, switch, call)


def use_given_shapes(stage: Any, schedule: Any) -> None:
    """Have a stage of a pipeline receive what it was told to, instead of asking the ranks before and after it.

    Raises `InputError` where it was not told. A torch without such a question asks nobody where shapes are given.
    """
    mode = find("torch.distributed.pipelining._utils.InferenceMode")
    question, answer = field("_warmup_p2p"), field("_inference_mode")
    if mode is None or not hasattr(schedule, question):
        return
    purpose = "has a stage of a pipeline receive what it was told to"
    told = _read(stage, field("_user_meta"), "PipelineStage._user_meta", purpose)
    _read(stage, answer, "PipelineStage._inference_mode", purpose)
    if mode.needs_dynamic(told, stage_has_backward=True):
        raise InputError(
            f"stage {stage.stage_index} of the pipeline was not told what it receives and returns, and the ranks that "
            "could tell are not here; give PipelineStage(..., input_args=, output_args=) tensors of one microbatch"
        )
    setattr(stage, answer, mode.STATIC)
    setattr(schedule, question, lambda stages, has_backward, p2p_done: None)
