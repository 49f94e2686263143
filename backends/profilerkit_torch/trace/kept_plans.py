"""Plans of torch's own operators, kept from one trace of a process to the next.

Models share operators: one that is profiled again, one that it is compared with, the next of a family. A plan follows
from what `signature` has, from the device of the model, from the formulas and from the numbers of the convention.

Two kinds of plans are of one trace alone. A formula of the user's may look at anything: where one is registered, no
plan is kept. Another library may give its operators other kernels: only plans of torch's own operators are kept.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

import torch

from profilerkit.costs import convention

from ..costs import are_as_shipped
from .replay import Plan
from .signatures import may_be_kept

__all__ = ["PlanStore", "find_plans"]

#: The most plans of one device: they are some ten megabytes; the operators of a hundred models are fewer.
_MOST = 4096


class PlanStore(NamedTuple):
    """The plans of operators, by their signatures.

    Attributes:
        kept: Plans of torch's own operators, which later traces may share.
        others: All other plans, of this trace alone.
    """

    kept: dict[Any, Plan]
    others: dict[Any, Plan]

    def find(self, key: Any) -> Plan | None:
        """Return the plan of a signature; None where there is none."""
        try:
            plan = self.kept.get(key)
            if plan is None and self.others:
                return self.others.get(key)
        except TypeError:  # something among the arguments has no hash
            return None
        return plan

    def remember(self, func: Any, key: Any, plan: Plan) -> None:
        """Remember the plan of an operator; of one without a signature nothing."""
        if key is None:
            return
        try:
            (self.kept if may_be_kept(func, key) else self.others)[key] = plan
        except TypeError:
            return
        if len(self.kept) > _MOST:
            self.kept.clear()


class _Shared(NamedTuple):
    """What all plans that traces share depend on, beside the signature: the model's device, and the convention."""

    device: torch.device | None
    numbers: tuple[Any, ...]


_plans: dict[_Shared, dict[Any, Plan]] = {}
_read_numbers = attrgetter(*(name for name in vars(convention) if name.isupper()))


def find_plans(device: torch.device | None) -> PlanStore:
    """Return the plans for a trace on the meta device of a model that would run on another one."""
    if not are_as_shipped():  # a formula of the user's
        return PlanStore({}, {})
    return PlanStore(_plans.setdefault(_Shared(device, _read_numbers(convention)), {}), {})
