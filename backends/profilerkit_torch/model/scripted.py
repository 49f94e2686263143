"""Modules that are no Python code any more: scripted and traced ones, which torch's own interpreter runs.

Their operators are seen, but not which of the modules inside they are from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import torch
from torch import nn

from profilerkit.process.locks import undone_in_child

from ..running.compiling import uncompiled
from ..untouched.preservation import one_at_a_time

__all__ = ["frozen_weights", "operator_by_operator", "said_of_scripts", "type_name"]


@contextmanager
def operator_by_operator(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Have compiled code run as it was written, and scripts without fusing operators, so that each is seen.

    These settings are the whole process': another thread waits here, or it would take ours for the user's.
    """
    with one_at_a_time, ExitStack() as settings:
        settings.enter_context(uncompiled())
        if any(isinstance(module, torch.jit.ScriptModule) for module in modules):
            fused = torch._C._get_graph_executor_optimize()
            settings.enter_context(undone_in_child(lambda: torch._C._set_graph_executor_optimize(fused)))
            settings.enter_context(torch.jit.optimized_execution(False))  # type: ignore[attr-defined]
        yield


def said_of_scripts(modules: Sequence[nn.Module]) -> Iterator[str]:
    """Say inside which modules layers cannot be followed."""
    scripts = [module for module in modules if isinstance(module, torch.jit.ScriptModule)]
    inner = {id(child) for script in scripts for child in script.children()}
    hiding = {type_name(script) for script in scripts if id(script) not in inner and any(script.children())}
    if hiding:
        yield (
            f"scripted modules ({', '.join(sorted(hiding))}) run outside Python: the work of the layers inside them is "
            "counted as their own"
        )


def frozen_weights(modules: Sequence[nn.Module]) -> str:
    """Say of which scripts the weights cannot be counted, as `ModelTrace.unmade_weights` does; empty for none.

    ``torch.jit.freeze`` makes them constants of the code, and takes the attribute ``training`` away.
    """
    frozen = {type_name(m) for m in modules if isinstance(m, torch.jit.ScriptModule) and not hasattr(m, "training")}
    if not frozen:
        return ""
    return (
        f"the weights of frozen scripts ({', '.join(sorted(frozen))}), which are constants of their code: give the "
        "model as it was before torch.jit.freeze()"
    )


def type_name(module: nn.Module) -> str:
    """Return the name of a module's class: of a scripted or exported one, that of the class it was made from."""
    kind = type(module)
    if isinstance(module, torch.jit.ScriptModule):
        return str(getattr(module, "original_name", kind.__name__))
    if kind.__module__ == "torch.export.unflatten":
        said = getattr(kind, "type_name", None)
        return str((said and said(module)) or kind.__name__).rpartition(".")[2]
    return kind.__name__
