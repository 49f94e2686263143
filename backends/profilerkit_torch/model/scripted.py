"""Modules that are no Python code any more: scripted and traced ones, which torch's own interpreter runs.

Their operators are seen, but not which of the modules inside they are from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import nn

__all__ = ["frozen_weights", "said_of_scripts", "type_name"]


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
