"""The first pass of a run: under a guard, it shows what the model writes to and how it has to be run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import is_dataclass
from typing import Any, TypeAlias

from profilerkit import InputError, ModelInputs
from profilerkit.arguments.structures import tensors_in
from profilerkit.backend_kit.failures import explain_failure, note_raising_layer
from profilerkit.errors import ModelFailedError
from profilerkit.process.containers import CONTAINERS, refill
from profilerkit.process.object_facts import copy_content
from profilerkit.process.restoring import for_each
from profilerkit.unfinished import require_all_finished

from ..model.inventory import Inventory
from ..model.storages import list_aliases
from ..trace.inference_pass import needs_autograd
from ..untouched.caller_context import as_caller
from ..untouched.mutable_inputs import InputObjects
from ..untouched.snapshots import list_class_tensors
from ..untouched.temporary_settings import disable_compiling
from .observation import ObservingGuard
from .timed_passes import Autocast

__all__ = ["FirstPass", "Step"]

#: Runs one pass of a model, with inputs and a function that makes the context of autocast.
Step: TypeAlias = Callable[[Callable[..., Any], ModelInputs, Autocast], Any]


class FirstPass:
    """The first pass of a model, under a guard that keeps the values it overwrites, and observes the operators."""

    def __init__(self, inventory: Inventory, inputs: ModelInputs, autocast: Autocast) -> None:
        self._inventory, self._inputs, self._autocast = inventory, inputs, autocast
        #: The objects in the inputs beside tensors, such as a cache.
        self.objects: InputObjects = InputObjects(inputs)
        self._containers = [
            (container, copy_content(container)) for container in _list_containers((inputs.args, inputs.kwargs))
        ]
        gradients = [weight.grad for weight in inventory.parameters if weight.grad is not None]
        of_classes = list_class_tensors(inventory)
        #: Notices the operators that write to a tensor of the model or its inputs.
        self.guard: ObservingGuard = ObservingGuard(
            (*inventory.aliases, *list_aliases([*gradients, *of_classes]), *self.objects.aliases)
        )
        others = (*inventory.attributes, *of_classes, *self.objects.all_tensors)
        on_cpu = [tensor for tensor in others if tensor.device.type == "cpu"]  # numpy writes there, without an operator
        self._kept_in_any_case = [*inventory.buffers, *gradients, *on_cpu]

    @contextmanager
    def restore_at_end(self) -> Iterator[None]:
        """Restore at the end of the block everything that the passes in it wrote to."""
        with self.guard.restore_at_end(), self.objects.restore_at_end():
            yield

    def restore_inputs(self) -> None:
        """Give the objects, lists and the like among the inputs their contents from before the first pass."""
        self.objects.restore()
        for_each(refill, self._containers)

    def run(self, usual: Step, with_gradients: Step | None) -> Step:
        """Run once, and return the step that ran: the other one for a model that needs gradients while it runs.

        Raises the error of the usual step if the model fails with both.
        """
        self.guard.keep(self._kept_in_any_case)
        try:
            self._run_by(usual)
        except ModelFailedError as error:
            if with_gradients is None or not needs_autograd(error.__cause__):
                raise
            self.restore_inputs()
            try:
                self._run_by(with_gradients)
            except ModelFailedError:
                raise error from error.__cause__
            return with_gradients
        return usual

    def _run_by(self, step: Step) -> None:
        """Run once by a step; raises `ModelFailedError`, with the model's own error as its cause, if the model raises.

        Functions that the user compiles run as written: under a mode torch would refuse to compile them, for ever.
        """
        self.guard.observation.begin()
        try:
            with disable_compiling(), self.guard, as_caller():
                outputs = step(self._inventory.model, self._inputs, self._autocast)
        except InputError:
            raise
        except Exception as error:  # whatever the model raises
            paths = {id(module): path for path, module in reversed(self._inventory.layers)}  # the first of several
            note_raising_layer(error, paths)
            raise explain_failure(error, self._inputs, "torch", __package__) from error
        require_all_finished(outputs)


def _list_containers(structure: Any) -> Iterator[Any]:
    """Yield the lists and dictionaries in a structure of inputs, and the attributes of its dataclasses.

    A model may change them, like a cache that grows.
    """
    for changeable in tensors_in(structure, _is_changeable):
        container = changeable if isinstance(changeable, CONTAINERS) else vars(changeable)
        yield container
        yield from _list_containers(tuple(container.values() if isinstance(container, Mapping) else container))


def _is_changeable(value: Any) -> bool:
    is_record = is_dataclass(value) and not isinstance(value, type) and hasattr(value, "__dict__")
    return isinstance(value, CONTAINERS) or is_record
