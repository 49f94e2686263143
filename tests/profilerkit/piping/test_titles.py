"""Titles that are made of keys: acronyms as people write them, in one place."""

import pytest

from profilerkit.piping.titles import write_title


@pytest.mark.parametrize(
    ("key", "title", "every"),
    [
        ("weight_bytes_per_mac", "Weight bytes per MAC", "Weight Bytes per MAC"),
        ("flops", "FLOPs", "FLOPs"),
        ("gpu_time", "GPU time", "GPU Time"),
        ("kv_cache_of_gpus", "KV cache of GPUs", "KV Cache of GPUs"),
        ("io_bytes", "I/O bytes", "I/O Bytes"),
        ("mean_MFU", "Mean MFU", "Mean MFU"),
        ("_private__key", "Private key", "Private Key"),
        ("by_dtype", "By dtype", "By Dtype"),
        ("classes", "Classes", "Classes"),
    ],
)
def test_a_title_keeps_acronyms(key: str, title: str, every: str) -> None:
    assert (write_title(key), write_title(key, every_word=True)) == (title, every)
