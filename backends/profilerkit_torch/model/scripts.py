"""Scripted and traced modules, which run in torch's own interpreter, and the class names of modules of any kind.

Their operators are recorded, but not the inner modules that they belong to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import nn

__all__ = ["frozen_weights", "notes_on_scripts", "type_name"]


def notes_on_scripts(scripts: Sequence[torch.jit.ScriptModule]) -> Iterator[str]:
    """Yield a note on the modules inside which layers cannot be followed."""
    inner = {id(child) for script in scripts for child in script.children()}
    hiding = {type_name(script) for script in scripts if id(script) not in inner and any(script.children())}
    if hiding:
        yield (
            f"scripted modules ({', '.join(sorted(hiding))}) run outside Python: the work of the layers inside them is "
            "counted as their own"
        )


def frozen_weights(scripts: Sequence[torch.jit.ScriptModule]) -> str:
    """Return which scripts have weights that cannot be counted, for `ModelTrace.unmade_weights`; empty for none.

    ``torch.jit.freeze`` makes them constants of the code, and takes the attribute ``training`` away.
    """
    frozen = {type_name(script) for script in scripts if not hasattr(script, "training")}
    if not frozen:
        return ""
    return (
        f"the weights of frozen scripts ({', '.join(sorted(frozen))}), which are constants of their code: give the "
        "model as it was before torch.jit.freeze()"
    )


def type_name(module: nn.Module) -> str:
    """Return the name of a module's class; for a scripted or exported module, the class that it was made from."""
    kind = type(module)
    if isinstance(module, torch.jit.ScriptModule):
        return str(getattr(module, "original_name", kind.__name__))
    if kind.__module__ == "torch.export.unflatten":
        recorded_name = getattr(kind, "type_name", None)
        return str((recorded_name and recorded_name(module)) or kind.__name__).rpartition(".")[2]
    return kind.__name__
