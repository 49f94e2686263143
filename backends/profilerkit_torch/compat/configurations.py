"""Configurations of transformers: the implementations that a model runs, and the origin of a configuration."""

from __future__ import annotations

from typing import Any

from profilerkit.backend_kit.private_names import field


def read_attention(config: Any) -> str:
    """Return the implementation of attention in a model of transformers; empty if the configuration names none."""
    name = getattr(config, field("_attn_implementation"), "")
    return "eager" if name is None else str(name)


def read_origin(config: Any) -> str:
    """Return the name or folder that a configuration of transformers was read from; empty if it names none."""
    return str(getattr(config, field("_name_or_path"), "") or "")


def read_experts(config: Any) -> str:
    """Return the implementation of experts in a model; "eager", torch's operators one by one, before transformers 5."""
    return str(getattr(config, field("_experts_implementation"), None) or "eager")
