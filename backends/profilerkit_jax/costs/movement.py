"""Primitives that move, make, choose or compare data: no floating-point arithmetic.

Comparisons that return truth values cost nothing here, and random numbers neither, as in the other backends.
"""

from __future__ import annotations

from .registry import OPERATORS, register_uncounted

#: Copies, casts and rearrangements.
_MOVED = """
    bitcast_convert_type broadcast_in_dim broadcast_to complex concatenate conj convert_element_type copy device_put
    dynamic_slice dynamic_update_slice from_edtype gather imag layout_constraint name optimization_barrier pad real
    reduce_precision relayout reshape reshard rev shard_alike sharding_constraint slice split squeeze stack
    stage stop_gradient tie tile to_edtype transpose unstack with_memory_space_constraint xla_metadata_value
"""
#: New values.
_MADE = """
    after_all create_token empty empty2 iota iota_2x32_shape philox2x32 philox4x32 platform_index random_bits
    random_clone random_fold_in random_gamma random_seed random_split random_unwrap random_wrap rng_bit_generator
    rng_uniform threefry2x32 threefry4x32 zeros_like
"""
#: Choices, comparisons, truth values and orders.
_CHOSEN = """
    and approx_top_k argmax argmin eq eq_to ge gt is_finite le le_to lt lt_to ne not or reduce_and reduce_or reduce_xor
    select_n sort top_k xor
"""
#: Work on integers.
_INTEGERS = """
    clz lu_pivots_to_permutation mulhi population_count shift_left shift_right_arithmetic shift_right_logical
"""
#: References to values that change, and boxes of them.
_REFERENCES = """
    box_get box_set create_linear empty_ref free_ref freeze get log_extend log_read new_box new_log new_ref pin swap
    unpin
"""
#: Primitives that print or inspect values, and marks.
_LOOKED_AT = "check dce_sink debug_callback debug_print inspect_sharding"
#: Primitives of Equinox: marks that refuse a transformation, choices, and questions about all samples at once.
_OF_EQUINOX = """
    announce_jaxpr maybe_set nonbatchable nondifferentiable_backward nontraceable select_if_vmap unvmap_all unvmap_any
    unvmap_max
"""
for _names in (_MOVED, _MADE, _CHOSEN, _INTEGERS, _REFERENCES, _LOOKED_AT, _OF_EQUINOX):
    OPERATORS.register_free(*_names.split())

register_uncounted("a kernel that the user wrote in Pallas", "pallas_call", "mpmd_map")
register_uncounted("a function that Equinox calls outside of the program", "noinline")
register_uncounted("code outside of JAX", "buffer_callback", "cudnn_fusion", "ffi_call", "io_callback", "pure_callback")
register_uncounted("a program that jax.export made, which holds no equations", "call_exported")
register_uncounted("a primitive of the user's own", "call_hi_primitive", "call_hi_primitive_linearized")
register_uncounted("it exists only while JAX differentiates", "custom_lin", "unreachable")
