"""What torch 2.13 tags as element-wise operators and as reductions, and older releases do not.

``torch.Tag.reduction`` is of torch 2.10. A test holds the table and the tags together where torch has them.
"""

from __future__ import annotations

__all__ = ["POINTWISE", "REDUCTIONS"]

#: Element-wise operators that torch 2.6 to 2.10 do not tag.
POINTWISE = frozenset(
    [
        "aten::_conj_physical",
        "aten::celu_",
        "aten::elu_",
        "aten::hardsigmoid_",
        "aten::hardtanh_",
        "aten::ldexp.Tensor",
        "aten::leaky_relu",
        "aten::leaky_relu_",
        "aten::selu_",
    ]
)
#: By operator, the overloads that are reductions.
_OVERLOADS = {
    "aten::all": "default all_out dim dims dims_out out",
    "aten::amax": "default out",
    "aten::amin": "default out",
    "aten::aminmax": "default out",
    "aten::any": "default all_out dim dims dims_out out",
    "aten::argmax": "default out",
    "aten::argmin": "default out",
    "aten::count_nonzero": "default dim_IntList",
    "aten::linalg__powsum": "default",
    "aten::linalg_vector_norm": "default out",
    "aten::logsumexp": "default out",
    "aten::max": "default dim dim_max unary_out",
    "aten::mean": "default dim dtype_out out",
    "aten::min": "default dim dim_min unary_out",
    "aten::nansum": "default out",
    "aten::norm": "Scalar ScalarOpt_dim ScalarOpt_dim_dtype ScalarOpt_dtype dtype_out out",
    "aten::prod": "default dim_int int_out",
    "aten::std": "default correction correction_out dim out",
    "aten::std_mean": "default correction dim",
    "aten::sum": "default IntList_out dim_IntList",
    "aten::var": "default correction correction_out dim out",
    "aten::var_mean": "default correction dim",
    "prims::amax": "default",
    "prims::amin": "default",
    "prims::var": "default",
}
REDUCTIONS = frozenset(
    operator if overload == "default" else f"{operator}.{overload}"
    for operator, overloads in _OVERLOADS.items()
    for overload in overloads.split()
)
