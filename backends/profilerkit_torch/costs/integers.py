"""Work on quantized integers alone, which is no FLOP: arithmetic, and weights that are packed, unpacked and asked."""

from __future__ import annotations

from .registry import register_free

# arithmetic
register_free(
    "quantized",
    """
    add add_out add_relu add_relu_out add_scalar add_scalar_out add_scalar_relu add_scalar_relu_out mul mul_out mul_relu
    mul_relu_out mul_scalar mul_scalar_out mul_scalar_relu mul_scalar_relu_out batch_norm batch_norm_relu batch_norm1d
    batch_norm1d_relu batch_norm2d batch_norm2d_relu batch_norm3d batch_norm3d_relu cat cat_out cat_relu cat_relu_out
    celu clamp dropout elu group_norm hardswish instance_norm layer_norm leaky_relu max_pool1d max_pool2d prelu relu6
    sigmoid softmax threshold
    """,
)
register_free("_quantized", "add")
register_free("onednn", "qadd qadd_relu qmul")

# putting weights into a package, and taking them out
for _space in ("quantized", "_quantized", "onednn"):
    register_free(
        _space,
        """
        conv_prepack linear_prepack linear_prepack_fp16 linear_prepack_legacy linear_prepack_fp16_legacy linear_unpack
        linear_unpack_fp16 embedding_bag_prepack
        """,
    )
for _space in ("quantized", "_quantized"):
    register_free(_space, "conv1d_prepack conv2d_prepack conv3d_prepack")
    register_free(_space, "conv_transpose1d_prepack conv_transpose2d_prepack conv_transpose3d_prepack")
register_free(
    "quantized",
    """
    conv1d_unpack conv2d_unpack conv3d_unpack conv_transpose1d_unpack conv_transpose2d_unpack conv_transpose3d_unpack
    embedding_bag_byte_prepack embedding_bag_4bit_prepack embedding_bag_2bit_prepack
    embedding_bag_byte_unpack embedding_bag_4bit_unpack embedding_bag_2bit_unpack
    embedding_bag_byte_prepack_with_rowwise_min_max embedding_bag_4bit_prepack_with_rowwise_min_max
    embedding_bag_2bit_prepack_with_rowwise_min_max
    """,
)
register_free("_quantized", "_wrapped_linear_prepack wrapped_fbgemm_pack_gemm_matrix_fp16")
register_free("onednn", "qconv_prepack qlinear_prepack")
register_free("mkldnn_prepacked", "conv1d_prepack conv2d_prepack conv3d_prepack")
register_free("sparse", "qlinear_prepack qlinear_unpack")

# asking the package of a convolution for its settings
register_free(
    "quantized",
    """
    conv2d_stride conv2d_padding conv2d_output_padding conv2d_dilation conv2d_groups conv2d_transpose
    conv3d_stride conv3d_padding conv3d_output_padding conv3d_dilation conv3d_groups conv3d_transpose
    conv_transpose2d_stride conv_transpose2d_padding conv_transpose2d_output_padding conv_transpose2d_dilation
    conv_transpose2d_groups conv_transpose2d_transpose
    conv_transpose3d_stride conv_transpose3d_padding conv_transpose3d_output_padding conv_transpose3d_dilation
    conv_transpose3d_groups conv_transpose3d_transpose
    """,
)
