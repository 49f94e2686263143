"""Python's containers that can change: a function that restores their content."""

from __future__ import annotations

import weakref
from collections import OrderedDict, deque
from itertools import compress
from operator import is_
from typing import Any

from .object_facts import copy_content

__all__ = ["CONTAINERS", "refill"]

#: The classes of containers that can change, a class before its base.
CONTAINERS = (OrderedDict, dict, list, set, deque)


def refill(container: Any, content: Any) -> None:
    """Give a container the content that `copy_content` returned, by the methods of its base class.

    A subclass may refuse to be changed. Where the objects are the same, nothing is written. A weak reference as the key
    of a dict does not come back once its object is gone.
    """
    current = container if type(container) in CONTAINERS else copy_content(container)
    has_same_items = len(current) == len(content) and all(map(is_, current, content))
    if has_same_items and (not isinstance(container, dict) or all(map(is_, current.values(), content.values()))):
        return
    kind: Any = next(kind for kind in CONTAINERS if isinstance(container, kind))
    if issubclass(kind, dict):
        is_alive = [not isinstance(key, weakref.ref) or key() is not None for key in content]
        _assign_dict(container, dict(compress(content.items(), is_alive)), kind)
    elif kind is list:
        list.__setitem__(container, slice(None), content)
    else:
        kind.clear(container)
        (kind.extend if kind is deque else kind.update)(container, content)


def _assign_dict(container: Any, content: dict[Any, Any], kind: Any) -> None:
    """Give a dict this content, in its order; at no moment is it without a name that it had.

    It calls the methods of a base class ``kind``, because a subclass may refuse to be changed. For an ``OrderedDict``
    this is ``OrderedDict``, because the methods of ``dict`` do not know its order. It calls only methods that call no
    method of the subclass: ``OrderedDict.update`` does.
    """
    for key, value in content.items():
        kind.__setitem__(container, key, value)
    for key in [key for key in kind.keys(container) if key not in content]:
        kind.__delitem__(container, key)
    is_in_order = all(map(is_, kind.keys(container), content))
    if not is_in_order:
        for key, value in content.items():  # each goes behind all others
            kind.__delitem__(container, key)
            kind.__setitem__(container, key, value)
