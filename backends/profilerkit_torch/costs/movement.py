"""Operators that move, make or choose data: they do no arithmetic, and are known to cost none."""

from __future__ import annotations

from .registry import register_free

# copies and casts
register_free(
    "aten::clone",
    "aten::_to_copy",
    "aten::to",
    "aten::copy_",
    "aten::contiguous",
    "aten::reshape",
    "aten::lift_fresh",
    "aten::lift_fresh_copy",
    "aten::detach_",
    "aten::resize_",
    "aten::alias",
    "aten::detach",
)

# rearranging
register_free(
    "aten::cat",
    "aten::concat",
    "aten::stack",
    "aten::hstack",
    "aten::vstack",
    "aten::repeat",
    "aten::repeat_interleave",
    "aten::tile",
    "aten::roll",
    "aten::flip",
    "aten::rot90",
    "aten::constant_pad_nd",
    "aten::pad",
    "aten::reflection_pad1d",
    "aten::reflection_pad2d",
    "aten::reflection_pad3d",
    "aten::replication_pad1d",
    "aten::replication_pad2d",
    "aten::replication_pad3d",
    "aten::pixel_shuffle",
    "aten::pixel_unshuffle",
    "aten::native_channel_shuffle",
    "aten::channel_shuffle",
    "aten::im2col",
    "aten::_pack_padded_sequence",
)

# new tensors like others, and filling
register_free(
    "aten::empty_like",
    "aten::zeros_like",
    "aten::ones_like",
    "aten::full_like",
    "aten::rand_like",
    "aten::randn_like",
    "aten::new_empty",
    "aten::new_zeros",
    "aten::new_ones",
    "aten::new_full",
    "aten::new_empty_strided",
    "aten::fill_",
    "aten::zero_",
    "aten::fill",
    "aten::random_",
    "aten::uniform_",
    "aten::normal_",
    "aten::bernoulli_",
    "aten::bernoulli",
)

# choosing, comparing to choose, sorting
register_free(
    "aten::where",
    "aten::masked_fill",
    "aten::masked_fill_",
    "aten::masked_select",
    "aten::masked_scatter",
    "aten::index",
    "aten::index_select",
    "aten::index_put",
    "aten::index_put_",
    "aten::gather",
    "aten::scatter",
    "aten::scatter_",
    "aten::take",
    "aten::take_along_dim",
    "aten::embedding",
    "aten::tril",
    "aten::triu",
    "aten::one_hot",
    "aten::nonzero",
    "aten::_unique2",
    "aten::sort",
    "aten::topk",
    "aten::argmax",
    "aten::argmin",
    "aten::argsort",
    "aten::bucketize",
    "aten::searchsorted",
    "aten::slice_scatter",
    "aten::select_scatter",
    "aten::max_unpool2d",
)

# reading and asserting
register_free(
    "aten::_local_scalar_dense",
    "aten::item",
    "aten::equal",
    "aten::is_nonzero",
    "aten::_assert_async",
    "aten::_assert_tensor_metadata",
)
