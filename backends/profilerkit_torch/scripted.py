"""Modules that are no Python code any more: scripted and traced ones, which torch's own interpreter runs.

Their operators are seen, but not which of the modules inside they are from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import torch
from torch import nn

__all__ = ["frozen_weights", "operator_by_operator", "said_of_scripts", "type_name"]


@contextmanager
def operator_by_operator(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Have compiled code run as it was written, and scripts without fusing operators, so that each is seen."""
    with ExitStack() as settings:
        settings.enter_context(torch.compiler.set_stance("force_eager"))
        if any(isinstance(module, torch.jit.ScriptModule) for module in modules):
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
    if isinstance(module, torch.jit.ScriptModule):
        return str(getattr(module, "original_name", type(module).__name__))
    said = getattr(type(module), "type_name", None)
    if said is not None and type(module).__module__ == "torch.export.unflatten":
        return str(said(module) or type(module).__name__).rpartition(".")[2]
    return type(module).__name__
