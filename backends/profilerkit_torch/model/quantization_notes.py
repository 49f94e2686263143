"""Models of transformers that are built without the quantization that their configuration names."""

from __future__ import annotations

from collections.abc import Iterator

import torch

__all__ = ["note_quantization"]


def note_quantization(model: torch.nn.Module) -> Iterator[str]:
    """Yield a note where a model of transformers is built without the quantization that its configuration names.

    A model that transformers loaded quantized has its quantizer, and weights that are counted as they are stored. Any
    other model may have a ``config`` of its own, and whatever in it.
    """
    try:
        quantization = getattr(getattr(model, "config", None), "quantization_config", None)
        has_quantizer = getattr(model, "hf_quantizer", None) is not None
    except MemoryError:
        raise
    except Exception:  # of a property of the user's, which is not asked for its value otherwise
        return
    if has_quantizer:
        return
    content = quantization if isinstance(quantization, dict) else getattr(quantization, "__dict__", {})
    method = content.get("quant_method")
    method = getattr(method, "value", method)  # a member of an enumeration, or its text
    if isinstance(method, str):
        yield (
            f"the configuration of the model says that its weights are stored quantized ({method}); this model has "
            "them unquantized, and its size, memory and times are those of unquantized weights"
        )
