"""Titles that are made of the keys of programs, in one place for all: acronyms as people write them."""

from __future__ import annotations

__all__ = ["split_words", "write_title"]

_ACRONYMS = (
    "AI API CNN CPU CUDA DRAM FLOP FLOPs GFLOPs GMACs GPU GiB HBM HFU ID JSON KV KiB LLM LSTM LoRA MAC MACs MBU MFU "
    "MLP MiB MoE NPU ONNX RAM RNN RSS SIMD SRAM TFLOPs TPOT TPU TTFT URL VRAM ViT"
)
#: The spelling of words in lower case that are not spelled as other words. Their plurals have an "s" more.
_SPELLED = {word.lower(): word for word in _ACRONYMS.split()} | {"io": "I/O"}
#: Words that stay small within a title in which every word has a capital.
_SMALL = frozenset(("a", "an", "and", "as", "at", "by", "for", "from", "in", "of", "on", "or", "per", "the", "to"))


def split_words(key: str) -> list[str]:
    """Return the words of a key, acronyms spelled as people write them and all others as they are.

    >>> split_words("weight_bytes_per_mac"), split_words("kv_cache"), split_words("gpus")
    (['weight', 'bytes', 'per', 'MAC'], ['KV', 'cache'], ['GPUs'])
    """
    return [_spell(word) for word in key.split("_") if word]


def write_title(key: str, every_word: bool = False) -> str:
    """Return the title of a key: its first word with a capital, or every word but small ones.

    >>> write_title("total_params"), write_title("macs"), write_title("gpu_name")
    ('Total params', 'MACs', 'GPU name')
    >>> write_title("weight_bytes_per_mac", every_word=True)
    'Weight Bytes per MAC'
    """
    words = split_words(key)
    return " ".join(
        word if index and (not every_word or word in _SMALL) else f"{word[:1].upper()}{word[1:]}"
        for index, word in enumerate(words)
    )


def _spell(word: str) -> str:
    lower = word.lower()
    if lower in _SPELLED:
        return _SPELLED[lower]
    stem = lower.removesuffix("s")
    return f"{_SPELLED[stem]}s" if stem in _SPELLED else word
