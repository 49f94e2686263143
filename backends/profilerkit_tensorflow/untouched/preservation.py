"""Restoring the user's model and the process to exactly their earlier state, without copying the model.

`preserve` records what every layer, module, tracker, metric and optimizer holds, and the state of the process, and
restores what changed.
"""

from __future__ import annotations

import warnings
import weakref
from collections import OrderedDict, deque
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from operator import is_
from typing import Any

import tensorflow as tf

from profilerkit import ProfilerKitWarning
from profilerkit.process.locks import Lock
from profilerkit.process.restoring import Step, assign_dict, call_each, for_each, restored

from .caller_context import require_plain_context
from .held_state import MISSING, HeldState, contents
from .leftovers import forget_tensors, graphs_made
from .process_state import process_roots, process_state

__all__ = ["preserve"]

#: Variables of at most so many elements that are not trained are counters and states of random generators.
_SMALL_ELEMENTS = 16
_CONTAINERS = (list, OrderedDict, dict, set, deque)


@contextmanager
def preserve(model: Any, variable_values: bool = False) -> Iterator[None]:
    """Restore the structure of the model and the state of the process at the end of the block, after errors too.

    With ``variable_values`` every variable is restored as well: weights, statistics, states, metrics, those of the
    optimizer. Without, only variables that are not trained and have at most 16 elements are: the states of random
    generators, and counters. No value is copied: TensorFlow itself copies a variable when it is written to while its
    value is referenced elsewhere, so keeping the values takes memory only for variables that are written to.

    Not restored, since nothing can set them: the state of random operators with a seed of their own inside a
    ``tf.function``, and lookup tables. One model is profiled at a time in a process: another thread waits here.

    Tensors that were made while the model was traced are removed from containers and caches elsewhere; a warning names
    what else holds some.

    Raises `TracingError` while a graph is built or gradients are recorded.
    """
    require_plain_context()
    left: list[str] = []
    with _one_at_a_time, graphs_made() as graphs:
        reached = HeldState(model, *process_roots())
        values = _read_values(reached.variables, all_of_them=variable_values)
        change_process, of_process = process_state()
        of_model = _list_steps(reached)

        def forget() -> None:
            left[:] = forget_tensors(graphs)

        # No operator runs in a forked child of TensorFlow's.
        with restored(
            *of_process, *of_model, partial(_write_back, values), forget, in_child=partial(call_each, of_model)
        ):
            change_process()
            yield
    if left:
        warnings.warn(_write_warning(left), ProfilerKitWarning, stacklevel=3)


def _write_warning(names: list[str]) -> str:
    """Return what is said of objects that still hold tensors of a trace."""
    return (
        f"the model has put tensors that it made while it was traced into {', '.join(names)}; they have no values, and "
        "what was there before is not known: set it anew before the model is called, or keep such a cache in a dict, a "
        "list or an attribute of the model, which profilerkit puts back"
    )


_one_at_a_time = Lock()


def _read_values(variables: list[Any], all_of_them: bool) -> list[tuple[Any, Any]]:
    """Return variables' handles with their values."""
    values: list[tuple[Any, Any]] = []
    with tf.init_scope():  # out of a graph that is being traced, and off the user's gradient tapes
        for variable in variables:
            is_small_state = not variable.trainable and (variable.shape.num_elements() or 0) <= _SMALL_ELEMENTS
            if not (all_of_them or is_small_state):
                continue
            handle = variable.handle
            if hasattr(handle, "numpy"):  # else it belongs to a graph
                try:
                    values.append((handle, tf.raw_ops.ReadVariableOp(resource=handle, dtype=variable.dtype)))
                except tf.errors.OpError:  # it has no value yet, or its device is gone
                    continue
    return values


def _write_back(values: list[tuple[Any, Any]]) -> None:
    """Restore the values of variables, without a copy: the variable takes over the kept value."""
    with tf.init_scope():
        for_each(lambda handle, value: tf.raw_ops.AssignVariableOp(resource=handle, value=value), values)


def _list_steps(reached: HeldState) -> list[Step]:
    """Return the steps that restore everything that was reached."""
    return [
        lambda: for_each(lambda set_state, state: set_state(state), reached.generators),
        partial(for_each, _restore_object, reached.objects),
        partial(for_each, _refill_dict, reached.dicts),
        partial(for_each, _refill_sequence, reached.sequences),
        partial(for_each, _refill_set, reached.sets),
        partial(for_each, _refill_cell, reached.cells),
        partial(for_each, _restore_slots, reached.slotted),
        partial(for_each, _restore_global, reached.globals),
        partial(for_each, _restore_class, reached.classes),
    ]


def _restore_object(value: Any, kind: type, names: tuple[Any, ...], values: tuple[Any, ...]) -> None:
    if type(value) is not kind:
        object.__setattr__(value, "__class__", kind)
    attributes = value.__dict__
    if not _holds_same(attributes, attributes.values(), names, values):
        assign_dict(attributes, dict(zip(names, values, strict=True)))


def _restore_global(namespace: dict[str, Any], name: str, value: Any) -> None:
    if value is MISSING:
        namespace.pop(name, None)
    elif namespace.get(name, MISSING) is not value:
        namespace[name] = value


def _refill_set(elements: set[Any], before: frozenset[Any]) -> None:
    if not set.__eq__(elements, before):
        set.clear(elements)
        set.update(elements, before)


def _refill_cell(cell: Any, content: Any) -> None:
    if not _has_content(cell, content):
        cell.cell_contents = content


def _restore_class(kind: type, attributes: dict[str, Any]) -> None:
    current = {name: value for name, value in vars(kind).items() if not name.startswith("__")}
    for name in current.keys() - attributes.keys():
        delattr(kind, name)
    for name, content in attributes.items():
        if current.get(name) is not content or name not in current:
            setattr(kind, name, content)


def _restore_slots(value: Any, attributes: dict[str, Any]) -> None:
    for name, content in attributes.items():
        if getattr(value, name, MISSING) is content:
            continue
        if content is MISSING:
            object.__delattr__(value, name)
        else:
            object.__setattr__(value, name, content)


def _holds_same(
    now_keys: Collection[Any], now_values: Iterable[Any], keys: Collection[Any], values: Iterable[Any]
) -> bool:
    return len(now_keys) == len(keys) and all(map(is_, now_values, values)) and all(map(is_, now_keys, keys))


def _refill_dict(container: dict[Any, Any], keys: tuple[Any, ...], values: tuple[Any, ...]) -> None:
    """Restore the content of a dict, by the methods of its base class: a subclass may refuse, or do more."""
    if _holds_same(*contents(container), keys, values):
        return
    pairs = zip(keys, values, strict=True)
    # One whose object was deleted in between is left out.
    alive = {key: value for key, value in pairs if not (isinstance(key, weakref.ref) and key() is None)}
    assign_dict(container, alive, _find_base(container))


def _refill_sequence(container: Any, items: tuple[Any, ...]) -> None:
    base = _find_base(container)
    if base.__len__(container) != len(items) or not all(map(is_, base.__iter__(container), items)):
        if base is list:
            list.__setitem__(container, slice(None), items)
        else:
            base.clear(container)
            base.extend(container, items)


def _find_base(container: Any) -> Any:
    """Return the built-in class of a container, whose methods have no side effects."""
    return next(kind for kind in _CONTAINERS if isinstance(container, kind))


def _has_content(cell: Any, content: Any) -> bool:
    try:
        return cell.cell_contents is content
    except ValueError:
        return False
