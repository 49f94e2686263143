"""Operators that move, make or choose data: they do no arithmetic, and are known to cost none."""

from __future__ import annotations

from .registry import register_free

register_free(
    *(
        f"aten::{name}"
        for name in (
            # copies and casts
            "clone _to_copy to copy_ contiguous reshape lift_fresh lift_fresh_copy detach_ resize_ "
            "cat concat stack hstack vstack repeat repeat_interleave tile roll flip rot90 constant_pad_nd pad "
            "reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d "
            "pixel_shuffle pixel_unshuffle native_channel_shuffle channel_shuffle im2col _pack_padded_sequence "
            # new tensors
            "empty_like zeros_like ones_like full_like rand_like randn_like new_empty new_zeros new_ones new_full "
            "new_empty_strided fill_ zero_ fill random_ uniform_ normal_ bernoulli_ bernoulli "
            # choosing
            "where masked_fill masked_fill_ masked_select masked_scatter index index_select index_put index_put_ gather "
            "scatter scatter_ scatter_src take take_along_dim embedding tril triu one_hot nonzero unique2 _unique2 "
            "sort topk argmax argmin argsort bucketize searchsorted unfold_copy slice_scatter select_scatter "
            "max_unpool2d split_with_sizes_copy "
            # asking
            "_local_scalar_dense item equal is_nonzero _assert_async _assert_tensor_metadata sym_size "
            # running statistics' counters, and dropout where it is off
            "alias detach"
        ).split()
    )
)
