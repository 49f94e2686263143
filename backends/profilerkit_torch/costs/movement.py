"""Operators that move, make or choose data: they do no arithmetic and cost none."""

from __future__ import annotations

from .families import register_free

# copies, casts and layouts
register_free(
    "aten",
    """
    clone _to_copy copy copy_ _foreach_copy _foreach_copy_ _copy_from _copy_from_and_resize _lazy_clone _foreach_clone
    lift lift_fresh lift_fresh_copy shallow_copy_data_ _pin_memory is_pinned
    record_stream _mkldnn_reshape _mkldnn_transpose _mkldnn_transpose_ mkldnn_reorder_conv2d_weight
    mkldnn_reorder_conv3d_weight _cudnn_rnn_flatten_weight _convert_weight_to_int4pack
    _convert_weight_to_int4pack_for_cpu _dyn_quant_pack_4bit_weight
    """,
)
register_free("quantization", "_FloatToBfloat16Quantized _Bfloat16QuantizedToFloat")

# shapes and sizes of memory
register_free(
    "aten",
    """
    _reshape_copy resize resize_ resize_as resize_as_ _resize_output _resize_output_ set set_
    is_set_to
    """,
)

# rearranging
register_free(
    "aten",
    """
    cat _chunk_cat concat stack _stack hstack vstack repeat repeat_interleave.Tensor repeat_interleave.Tensor_out
    tile roll flip rot90 constant_pad_nd pad reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d
    replication_pad2d replication_pad3d pixel_shuffle pixel_unshuffle native_channel_shuffle channel_shuffle im2col
    unsafe_split unsafe_split_with_sizes split_copy split_with_sizes_copy unbind_copy narrow_copy block_diag
    diag_embed diagonal_copy complex _pack_padded_sequence
    """,
)

# new tensors, filling, and random numbers
register_free(
    "aten",
    """
    empty_like zeros_like ones_like full_like new_empty new_zeros new_ones new_full new_empty_strided
    _new_zeros_with_same_feature_meta fill fill_ zero zero_ _foreach_zero _foreach_zero_ linspace logspace rand_like
    randn_like randint_like random random_ uniform uniform_ normal normal_ normal_functional exponential exponential_
    cauchy cauchy_ geometric geometric_ log_normal log_normal_ bernoulli bernoulli_ binomial multinomial poisson
    _standard_gamma _sample_dirichlet _philox_key_fold_in _philox_key_split _philox_normal _philox_normal_
    _philox_uniform _philox_uniform_ _philox_randint _philox_randint_
    """,
)
register_free("rngprims", "philox_rand")

# choosing, comparing to choose, sorting
register_free(
    "aten",
    """
    where masked_fill masked_fill_ masked_select masked_scatter masked_scatter_ index _unsafe_index
    _unsafe_masked_index index_select index_copy index_copy_ index_fill index_fill_ gather scatter scatter_ take
    take_along_dim embedding tril tril_ triu triu_ one_hot nonzero nonzero_static _unique _unique2 unique_dim
    unique_consecutive unique_dim_consecutive sort topk argmax argmin argsort bucketize searchsorted slice_scatter
    select_scatter diagonal_scatter as_strided_scatter max_unpool2d max_unpool3d kthvalue median nanmedian mode isin
    hash_tensor histc _histogramdd_bin_edges _histogramdd_from_bin_cts _histogramdd_from_bin_tensors
    __irshift__ _test_parallel_materialize
    """,
)

# nested tensors: packing, padding, and asking for sizes
register_free(
    "aten",
    """
    _nested_compute_contiguous_strides_offsets _nested_from_padded _nested_get_jagged_dummy _nested_get_lengths
    _nested_get_max_seqlen _nested_get_min_seqlen _nested_get_offsets _nested_get_ragged_idx
    _nested_tensor_from_mask _nested_tensor_from_mask_left_aligned _nested_tensor_from_tensor_list
    _nested_tensor_size _nested_tensor_strides _nested_tensor_storage_offsets _nested_from_padded_tensor
    _nested_from_padded_and_nested_example to_padded_tensor _jagged_to_padded_dense_forward
    _padded_dense_to_jagged_forward
    """,
)

# quantised tensors: making them of integers, and asking for scales
register_free(
    "aten",
    """
    _empty_affine_quantized _empty_per_channel_affine_quantized empty_quantized
    _make_per_tensor_quantized_tensor _make_per_channel_quantized_tensor q_scale q_zero_point q_per_channel_axis
    q_per_channel_scales q_per_channel_zero_points qscheme int_repr
    """,
)
register_free("quantized_decomposed", "convert_element_type")
register_free("quanto", "unpack")
register_free(
    "quantized",
    """
    make_quantized_cell_params make_quantized_cell_params_dynamic make_quantized_cell_params_fp16
    """,
)

# the same in torch's primitives
register_free(
    "prims",
    """
    as_strided as_strided_scatter cat clone collapse copy_strided copy_to device_put fill full_like item reshape
    resize rev _sink_tokens shift_left shift_right_arithmetic convert_element_type
    """,
)

# reading and asserting
register_free(
    "aten",
    """
    _local_scalar_dense item equal is_nonzero _assert_async _has_same_storage_numel is_same_size
    _assert_tensor_metadata _functional_assert_async _functional_assert_scalar _functional_sym_constrain_range
    _functional_sym_constrain_range_for_size _use_cudnn_ctc_loss _use_miopen_ctc_loss _amp_update_scale
    _amp_update_scale_ _is_all_true _is_any_true
    """,
)
