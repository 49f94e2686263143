"""The function mode in which a model's code runs on stand-ins: it answers questions about tensors as in a run.

Calls such as ``x.device``, ``x.item()`` and ``x.data_ptr()`` would return other results for stand-ins than in a run.
Each has a handler, which returns the result of a run, notes that it is unknown, or refuses the pass. Questions about
devices are in `device_questions`; here are questions about new memory, autograd and values.

Stand-ins have no values, but some values are known (`KnownValues`): a model that asks for these gets them. A pass is
void if a model asks for unknown values and continues, in a ``try``, or asks for an address, which nobody knows. In a
real run every tensor answers; it is only noted which numbers leave torch, because other code may compute with them.
"""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch.nn import functional

from ..compat.autograd import make_dual
from ..compat.modes import are_subclasses_asked, is_any_autocast_enabled
from ..compat.modules import GLOBAL_CALL_HOOKS, call_hooks
from ..compat.recording import find_transform_level
from ..compat.tensors import VIEW_QUESTIONS, FakeTensor, stands_in, tensor_classes
from ..model.inventory import Inventory
from ..model.tensors import is_wrapper_class
from ..untouched.write_guard import WriteGuard
from .device_questions import Call, DeviceQuestions, Handler
from .hidden_modes import PassMode
from .pass_errors import Refusal, UnansweredError
from .recorder import Recorder

__all__ = ["Questions", "has_type_question", "runs_other_code"]

_TENSOR: Any = torch.Tensor


def _list_methods(*names: str) -> list[Any]:
    """Return the methods of tensors of these names, without those that this release of torch lacks."""
    return [getattr(_TENSOR, name) for name in names if hasattr(_TENSOR, name)]


_DLPACK: tuple[Any, ...] = (_TENSOR.__dlpack__, vars(torch.utils.dlpack)["to_dlpack"])
#: Calls that give numbers to Python, to numpy or to another library.
_READERS: tuple[Any, ...] = (_TENSOR.numpy, _TENSOR.tolist, _TENSOR.__array__, *_DLPACK)
#: Calls that give the memory itself, or its address; ``pickle`` reads it.
_GIVERS = _list_methods("data_ptr", "const_data_ptr", "untyped_storage", "storage", "_typed_storage", "__reduce_ex__")
#: Calls that ask where the memory is, or move it.
_PLACES = _list_methods("is_pinned", "is_shared", "share_memory_", "pin_memory")
#: Calls that call a Python function with each element.
_LOOPS = (_TENSOR.apply_, _TENSOR.map_, _TENSOR.map2_)
#: Functions that return memory which they do not write to.
_MAKERS: tuple[Any, ...] = (
    *(torch.empty, torch.empty_like, torch.empty_strided, torch.empty_permuted),
    *(_TENSOR.new_empty, _TENSOR.new_empty_strided),
)
#: It runs as one kernel on a device; in a transform over meta tensors torch composes it of operators.
_ATTENTION: Any = functional.scaled_dot_product_attention
_PLAIN_INDICES = frozenset((int, slice, type(None), type(Ellipsis), torch.Tensor))
_TYPE_NAMES = frozenset(kind.__name__ for kind in tensor_classes)


def runs_other_code(inventory: Inventory) -> bool:
    """Return whether a call of a model runs code that is not torch's, of other classes or hooks: only that may ask."""
    if any(map(is_wrapper_class, set(map(type, inventory.tensors)))):
        return True
    if any(GLOBAL_CALL_HOOKS) or not all(kind.__module__.startswith("torch.nn.") for kind in inventory.kinds):
        return True
    return any(
        "forward" in attributes or any(call_hooks(module)) for module, attributes in inventory.further_attributes
    )


def has_type_question(names: frozenset[str]) -> bool:
    """Return whether code that uses these names may ask ``isinstance(x, torch.FloatTensor)``: only a run can tell."""
    return "isinstance" in names and not names.isdisjoint(_TYPE_NAMES)


class Questions(PassMode):
    """The mode: it sees each call of a torch function by the model's code, and handles the calls that ask questions.

    It is off while it handles a call, so that it does not see the questions of torch's own functions.

    Args:
        recorder: The recorder of the pass.
        device: The device of a run; None if there are several, or if stand-ins know their device themselves.
        guard: Keeps the values of memory that leaves torch, and may be overwritten unseen.
    """

    def __init__(self, recorder: Recorder, device: torch.device | None, guard: WriteGuard) -> None:
        super().__init__()
        self._recorder = recorder
        self._devices = DeviceQuestions(recorder, device)
        self._guard = guard
        #: Whether the model has the memory of a tensor, which it may free by ``storage.resize_(0)``.
        self._has_given_memory = False
        self._handlers: dict[Any, Handler] = self._list_handlers()

    def _list_handlers(self) -> dict[Any, Handler]:
        """Return the handlers of this kind of pass, by the function that is called: no function has two."""
        handlers: dict[Any, Handler] = {
            **dict.fromkeys(_MAKERS, self._make_empty),
            _TENSOR.new: self._make_new,
            **dict.fromkeys(_LOOPS, self._call_on_elements),
        }
        if self._recorder.settings.stands_in:
            handlers |= {
                **dict.fromkeys((_TENSOR.__getitem__, _TENSOR.__setitem__), self._index),
                **dict.fromkeys(_READERS, self._read),
                **dict.fromkeys((_TENSOR.__repr__, _TENSOR.__format__), self._format),
                **dict.fromkeys((*_GIVERS, *_PLACES), self._give_memory),
                _TENSOR.storage_type: self._devices.note_unknown,
            }
        else:  # every tensor has values and answers
            handlers |= dict.fromkeys((*_READERS, *_GIVERS, _TENSOR.__cuda_array_interface__.__get__), self._leave)
        if self._recorder.settings.on_meta:  # other stand-ins have the device of a run
            handlers |= self._devices.list_handlers()
        if self._recorder.settings.below_autograd:  # no tensor has a graph there, and none is a view
            handlers |= {
                **dict.fromkeys(VIEW_QUESTIONS, self._refuse_view),
                make_dual: self._refuse_dual,
                _ATTENTION: self._attend,
            }
        return handlers

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Handle a question; run any other call, on the meta device where it names the device of a run.

        A device that is no keyword argument, as of ``x.to("cuda")``, is the matter of `DeviceQuestions`.
        """
        if is_any_autocast_enabled():  # by the model: no operator shows it
            self._recorder.require_no_autocast()
        if self._has_given_memory:
            self._recorder.origins.exposed.note_freed()
        handle = self._handlers.get(func)
        if handle is not None:
            return handle(Call(func, args, kwargs or {}))
        if any(map(is_wrapper_class, types)) and are_subclasses_asked():  # torch calls the code of the subclass first
            return NotImplemented
        if not kwargs:
            return func(*args)
        return func(*args, **self._devices.redirect(kwargs))

    # Calls that no operator shows -------------------------------------------------------------------------------------

    def _make_empty(self, call: Call) -> Any:
        """Make memory without writing to it, and note it: code that is not torch's may fill it unseen."""
        result = call.func(*call.args, **self._devices.redirect(call.kwargs))
        self._recorder.origins.exposed.note_empty(result)
        return result

    def _make_new(self, call: Call) -> Any:
        """Make a tensor of the type of another by ``x.new(...)``: of a list of values, or of a size, without values."""
        tensor, *values = call.args
        has_values = len(values) == 1 and isinstance(values[0], (list, tuple)) and not isinstance(values[0], torch.Size)
        if not has_values:
            return self._make_empty(call)
        if self._recorder.settings.on_meta and tensor.is_meta:
            return torch.tensor(values[0], dtype=tensor.dtype, device="cpu")
        return call.run()

    def _index(self, call: Call) -> Any:
        """Index a tensor; where an index has sequences, torch makes tensors of them that no operator shows."""
        index = call.args[1]
        parts = index if type(index) is tuple else (index,)
        if all(type(part) in _PLAIN_INDICES for part in parts):
            return call.run()
        with self._recorder.origins.accept_indices():
            return call.run()

    # Calls that need autograd: another kind of pass follows -----------------------------------------------------------

    def _refuse_view(self, call: Call) -> NoReturn:
        """Refuse to tell whether a tensor is a view: below autograd, a view that a transform makes is not one."""
        self._recorder.refuse(Refusal.VIEW)

    def _refuse_dual(self, call: Call) -> Any:
        """Refuse to give a tensor its derivative along with it; in transforms, which have their own way, do it."""
        if find_transform_level() is None:
            self._recorder.refuse(Refusal.GRADIENTS)
        return call.run()

    def _attend(self, call: Call) -> Any:
        """Run attention; in a transform leave it to the next kind of pass, which has `FusedAttention`."""
        if find_transform_level() is not None:
            self._recorder.refuse(Refusal.GRADIENTS)
        return call.run()

    # Numbers ----------------------------------------------------------------------------------------------------------

    def _read(self, call: Call) -> Any:
        """Give the numbers of a tensor, or the known values of a stand-in."""
        values = self._recorder.values.find(call.tensor)
        if values is None:
            return self._read_unknown(call)
        self._note_leaving(call, values)
        return self._run_on(values, call)

    def _read_unknown(self, call: Call) -> Any:
        """Ask a tensor itself for numbers that are not known; note it if they differ from the numbers of a run.

        A real tensor has other numbers than in a run if a stand-in was written to it. A stand-in raises.
        """
        unanswered = self._recorder.unanswered
        if not stands_in(call.tensor):
            self._note_leaving(call, call.tensor)
        if self._recorder.values.is_overwritten(call.tensor):
            unanswered.append(call.name)
        if call.func in _DLPACK and isinstance(call.tensor, FakeTensor):  # another library would read at address 0
            unanswered.append(call.name)
            raise BufferError(f"{call.name}: a fake tensor has no values")
        try:
            return call.run()
        except Exception:
            unanswered.append(call.name)
            raise

    def _format(self, call: Call) -> Any:
        """Format a tensor as text: by its values, if they are known and on the CPU in a run too."""
        tensor, recorder = call.tensor, self._recorder
        if not (stands_in(tensor) or recorder.values.is_overwritten(tensor)):
            return call.run()
        values = recorder.values.find(tensor) if self._devices.is_on_cpu(tensor) else None
        if values is not None:
            return self._run_on(values, call)
        recorder.formatted.append(call.name)
        return call.run()

    def _run_on(self, values: torch.Tensor, call: Call) -> Any:
        """Return what a call returns for the values of its tensor."""
        return self._recorder.values.run(call.func, (values, *call.args[1:]), call.kwargs)

    def _call_on_elements(self, call: Call) -> Any:
        """Let a function of Python's write each element of the first tensor; note that its work is not seen.

        Refused if a tensor has no values: on the meta device nothing would happen, and a fake one is at address 0.
        """
        *tensors, _ = call.args
        if any(map(stands_in, tensors)):
            self._refuse_memory(call)
        self._guard.keep(call.args[:1])
        self._recorder.miss(call.name)
        return call.run()

    # Memory -----------------------------------------------------------------------------------------------------------

    def _give_memory(self, call: Call) -> Any:
        """Give the memory of a real tensor; a stand-in has none, and code that reads at address 0 ends the process."""
        if stands_in(call.tensor):
            self._refuse_memory(call)
        return self._leave(call)

    def _refuse_memory(self, call: Call) -> NoReturn:
        """Note a question, and raise the error that says so."""
        self._recorder.unanswered.append(call.name)
        raise UnansweredError([call.name])

    def _leave(self, call: Call) -> Any:
        """Give the numbers or the memory of a real tensor to what is not torch."""
        self._has_given_memory = True
        self._note_leaving(call, call.tensor)
        return call.run()

    def _note_leaving(self, call: Call, values: torch.Tensor) -> None:
        """Note that the numbers of a tensor leave torch; unless they are copied to a list, their memory does too.

        ``values`` are the tensor itself, or what is known of a stand-in.
        """
        is_copied = call.func is _TENSOR.tolist
        if not is_copied:
            self._guard.keep([values])
        self._recorder.origins.expose(call.tensor, values, copied=is_copied)
