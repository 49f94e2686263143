"""Operators that move, make or choose data: they do no arithmetic and cost none."""

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
    "aten::unsafe_split",
    "aten::unsafe_split_with_sizes",
    "aten::_unsafe_view",
    "aten::block_diag",
    "aten::diag_embed",
    "aten::diagonal_copy",
    "aten::complex",
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
    "aten::_foreach_copy_",
    "aten::_foreach_zero_",
    "aten::uniform_",
    "aten::normal_",
    "aten::normal",
    "aten::exponential_",
    "aten::multinomial",
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
    "aten::masked_scatter_",
    "aten::index",
    "aten::_unsafe_index",
    "aten::index_select",
    "aten::index_copy",
    "aten::index_copy_",
    "aten::index_fill",
    "aten::index_fill_",
    "aten::gather",
    "aten::scatter",
    "aten::scatter_",
    "aten::take",
    "aten::take_along_dim",
    "aten::embedding",
    "aten::tril",
    "aten::tril_",
    "aten::triu",
    "aten::triu_",
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
    "aten::max_unpool3d",
    "aten::kthvalue",
    "aten::median",
    "aten::nanmedian",
    "aten::mode",
    "aten::isin",
)

# choosing and sorting by other names
register_free(
    *(f"aten::{name}" for name in ("unique_dim", "unique_consecutive", "unique_dim_consecutive", "_unique")),
    *(f"aten::{name}" for name in ("nonzero_static", "hash_tensor", "histc")),
    *(f"aten::{name}" for name in ("histogram", "_histogramdd_bin_edges", "_histogramdd_from_bin_cts")),
    *("aten::_histogramdd_from_bin_tensors", "aten::_unsafe_masked_index", "aten::diagonal_scatter"),
    *("aten::as_strided_scatter", "aten::_test_parallel_materialize", "aten::__irshift__"),
)

# copies, memory and layouts by other names
register_free(
    *(f"aten::{name}" for name in ("_stack", "_chunk_cat", "copy", "_copy_from", "_copy_from_and_resize")),
    *(f"aten::{name}" for name in ("_lazy_clone", "lift", "_pin_memory", "is_pinned", "record_stream", "resize")),
    *(f"aten::{name}" for name in ("resize_as", "resize_as_", "_resize_output_", "_resize_output", "set", "set_")),
    *(f"aten::{name}" for name in ("is_set_to", "_mkldnn_reshape", "_mkldnn_transpose", "_mkldnn_transpose_")),
    *(f"aten::{name}" for name in ("mkldnn_reorder_conv2d_weight", "mkldnn_reorder_conv3d_weight")),
    *(f"aten::{name}" for name in ("_convert_weight_to_int4pack", "_convert_weight_to_int4pack_for_cpu")),
    *(f"aten::{name}" for name in ("_cudnn_rnn_flatten_weight", "_dyn_quant_pack_4bit_weight", "_foreach_clone")),
    *(f"aten::{name}_copy" for name in ("narrow", "split", "split_with_sizes", "unbind", "_reshape", "_foreach")),
    *(f"aten::{name}" for name in ("zero", "_foreach_zero", "_new_zeros_with_same_feature_meta", "int_repr")),
    *(f"mkldnn::_reorder_{name}" for name in ("convolution_weight", "convolution_transpose_weight", "linear_weight")),
    *("mkldnn::_reorder_mkldnn_rnn_layer_weight", "mkl::_mkl_reorder_linear_weight", "mkldnn::data_ptr"),
    *("mkldnn::_get_mkldnn_serialized_md", "mkldnn::_nbytes", "quantization::_FloatToBfloat16Quantized"),
    "quantization::_Bfloat16QuantizedToFloat",
)

# random numbers and ranges by other names
register_free(
    *(f"aten::{name}" for name in ("cauchy", "cauchy_", "exponential", "geometric", "geometric_", "log_normal")),
    *(f"aten::{name}" for name in ("log_normal_", "random", "uniform", "normal_functional", "poisson", "binomial")),
    *(f"aten::{name}" for name in ("_standard_gamma", "_sample_dirichlet", "randint_like", "linspace", "logspace")),
    *(f"aten::_philox_{name}" for name in ("key_fold_in", "key_split", "normal", "normal_", "uniform", "uniform_")),
    *("aten::_philox_randint", "aten::_philox_randint_", "aten::shallow_copy_data_"),
    "rngprims::philox_rand",
)

# nested tensors: packing, padding, and asking for sizes
register_free(
    *(f"aten::_nested_{name}" for name in ("compute_contiguous_strides_offsets", "from_padded", "get_jagged_dummy")),
    *(f"aten::_nested_get_{name}" for name in ("lengths", "max_seqlen", "min_seqlen", "offsets", "ragged_idx")),
    *(f"aten::_nested_tensor_{name}" for name in ("from_mask", "from_mask_left_aligned", "from_tensor_list")),
    *(f"aten::_nested_tensor_{name}" for name in ("size", "strides", "storage_offsets")),
    *("aten::_nested_from_padded_tensor", "aten::_nested_from_padded_and_nested_example"),
    *("aten::to_padded_tensor", "aten::_jagged_to_padded_dense_forward", "aten::_padded_dense_to_jagged_forward"),
)

# quantised tensors: making them of integers, and asking for scales
register_free(
    *("aten::_empty_affine_quantized", "aten::_empty_per_channel_affine_quantized", "aten::empty_quantized"),
    *("aten::_make_per_tensor_quantized_tensor", "aten::_make_per_channel_quantized_tensor"),
    *(f"aten::q_{name}" for name in ("scale", "zero_point", "per_channel_axis", "per_channel_scales")),
    *("aten::q_per_channel_zero_points", "aten::qscheme", "quantized_decomposed::convert_element_type"),
    *(f"quantized::make_quantized_cell_params{kind}" for kind in ("", "_dynamic", "_fp16")),
)

# as torch's primitives
register_free(
    *(f"prims::{name}" for name in ("as_strided", "as_strided_scatter", "cat", "collapse", "copy_strided", "copy_to")),
    *(f"prims::{name}" for name in ("device_put", "fill", "full_like", "item", "reshape", "resize", "rev")),
    *("prims::_sink_tokens", "prims::shift_left", "prims::shift_right_arithmetic", "prims::convert_element_type"),
)

# reading and asserting
register_free(
    "aten::_local_scalar_dense",
    "aten::item",
    "aten::equal",
    "aten::is_nonzero",
    "aten::_assert_async",
    "aten::_has_same_storage_numel",
    "aten::is_same_size",
    "aten::_assert_tensor_metadata",
    "aten::_functional_assert_async",
    "aten::_functional_assert_scalar",
    "aten::_functional_sym_constrain_range",
    "aten::_functional_sym_constrain_range_for_size",
    "aten::_use_cudnn_ctc_loss",
    "aten::_use_miopen_ctc_loss",
    "aten::_amp_update_scale",
    "aten::_amp_update_scale_",
    "aten::_is_all_true",
    "aten::_is_any_true",
)

# logic of whole numbers and Booleans: no arithmetic of floating-point numbers
register_free(*(f"aten::__{name}__" for name in ("and", "or", "xor", "iand", "ior", "ixor")))
