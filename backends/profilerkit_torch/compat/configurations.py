"""Configurations of transformers: what they say of how a model runs."""

from __future__ import annotations

from typing import Any

from profilerkit.backend_kit.private_names import field


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
