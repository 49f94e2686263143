"""Statements of fuzzed modules that are one expression: inputs, element-wise work, views, reductions, products."""

from __future__ import annotations

import random
from collections.abc import Callable

from fuzz_generator import Maker, Template, texts

__all__ = ["ELEMENTWISE", "INPUTS", "MOVES", "PRODUCTS", "REDUCTIONS", "SHORT", "VIEWS", "make_template"]

_SIZES = (1, 2, 2, 3, 3, 4, 4, 5, 6, 8)
_RARE = ("float64", "float16", "bfloat16", "complex64", "complex128")
_WHOLE = ("int8", "int16", "int32", "int64", "uint8")


def _shape(rng: random.Random) -> str:
    dims = [rng.choice(_SIZES) for _ in range(rng.choice((1, 2, 2, 2, 3, 3, 3, 4, 4, 5)))]
    if rng.random() < 0.05:
        dims[rng.randrange(len(dims))] = 0
    return ", ".join(map(str, dims))


def _plain(rng: random.Random) -> str:
    return f"torch.randn({_shape(rng)})"


def _draw_typed(rng: random.Random) -> str:
    return f"torch.randn({_shape(rng)}, dtype=torch.{rng.choice(_RARE)})"


def _indices(rng: random.Random) -> str:
    return f"torch.randint(0, 5, ({_shape(rng)},), dtype=torch.{rng.choice(_WHOLE)})"


def _flags(rng: random.Random) -> str:
    return f"torch.randn({_shape(rng)}) > 0"


def _scalar(rng: random.Random) -> str:
    return f"torch.tensor({rng.choice(('1.5', '3', '-0.5', 'True'))})"


def _odd(rng: random.Random) -> str:
    return rng.choice((
        f"torch.randn(4, 6).t()[:{rng.randint(1, 6)}]",
        "torch.randn(1, 3).expand(4, 3)",
        "torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)",
        "torch.ones(3, 4, requires_grad=True)",
        "torch.randn(20).as_strided((3, 4), (2, 1))",
    ))  # fmt: skip


INPUTS: list[Callable[[random.Random], str]] = [*[_plain] * 12, _draw_typed, _indices, _indices, _flags, _scalar, _odd]

#: Of ``x`` and a small number ``n``.
_UNARY = """
{x}.relu() | {x}.sigmoid() | {x}.tanh() | {x}.exp() | {x}.abs() | -{x} | {x}.square() | {x}.sin() | {x}.erf()
{x} * 2 | {x} + 1 | 1 - {x} | {x} / {n} | {x} ** 2 | {x} // 2 | {x} % {n} | 2 / ({x}.abs() + 1) | {x} > 0 | {x} == {n}
F.gelu({x}) | F.gelu({x}, approximate='tanh') | F.silu({x}) | F.elu({x}) | F.leaky_relu({x}, 0.1) | F.softplus({x})
F.hardswish({x}) | F.mish({x}) | F.selu({x}) | F.hardtanh({x}) | F.relu6({x}) | F.logsigmoid({x}) | F.glu({x}, -1)
{x}.clamp(-1, 1) | {x}.clamp(min=0) | {x}.round() | {x}.sign() | {x}.rsqrt() | {x}.logit(0.1) | {x}.isnan()
{x}.softmax(-1) | {x}.log_softmax(0) | F.softmin({x}, dim=0) | F.normalize({x}, dim=-1) | torch.nan_to_num({x})
{x}.to(torch.float64) | {x}.half() | {x}.bfloat16() | {x}.int() | {x}.bool() | {x}.to(torch.int8) | {x}.float()
{x}.to(torch.complex64) | torch.complex({x}, {x}) | torch.polar({x}, {x}) | {x}.conj() | {x}.angle()
torch.view_as_real({x}) | {x}.real | {x}.float().double() | {x}.long() | ~{x} | {x} & 1 | {x} << 1
torch.full_like({x}, {n}) * {x} | {x}.long().abs() | torch.fft.fft({x}) | torch.fft.rfft({x}) | torch.fft.irfft({x})
torch.fft.fft2({x}) | torch.fft.fftshift({x}) | torch.where({x} > 0, {x}, -{x}) | torch.where({x} > 0, {x}, 0.0)
{x}.masked_fill({x} > 0, 0) | {x}.lerp({x} * 2, 0.5) | torch.addcmul({x}, {x}, {x})
torch.addcdiv({x}, {x}, {x}.abs() + 1) | torch.hypot({x}, {x}) | torch.atan2({x}, {x})
F.dropout({x}, 0.5, self.training) | F.layer_norm({x}, {x}.shape[-1:]) | F.rms_norm({x}, {x}.shape[-1:])
torch.ones(3, {n}) * {x}.mean() | {x} + torch.arange({x}.shape[-1]) | {x}.to(torch.uint8) + 1
torch.heaviside({x}, {x})
"""
_VIEWS = """
{x}.t() | {x}.T | {x}.mT | {x}.transpose(0, -1) | {x}.flatten() | {x}.flatten(1) | {x}.reshape(-1) | {x}.unsqueeze(0)
{x}.unsqueeze(-1) | {x}.squeeze() | {x}.squeeze(0) | {x}[0] | {x}[..., 0] | {x}[:, ::2] | {x}[..., :1] | {x}[::-1]
{x}[None] | {x}.expand(2, *{x}.shape) | {x}.view(-1) | {x}.chunk(2, -1) | {x}.split(1) | {x}.unbind(0)
{x}.unfold(-1, 2, 1) | {x}.diagonal() | {x}.movedim(0, -1) | {x}.permute(*range({x}.dim() - 1, -1, -1))
{x}.contiguous() | {x}.clone() | {x}.detach() | {x}.as_strided((2, 2), (1, 1)) | {x}.view(torch.int32)
{x}.broadcast_to({n}, *{x}.shape) | {x}.narrow(0, 0, 1) | {x}.reshape({x}.shape[0], -1) | {x}.swapaxes(0, -1)
{x}.view_as({x}) | {x}.select(-1, 0) | {x}.tensor_split(2) | {x}.reshape(2, -1) | {x}.unflatten(-1, (1, -1))
{x}.ravel() | {x}.unsqueeze(1) | {x}[1:] | {x}[:0] | torch.atleast_3d({x})
"""
_REDUCTIONS = """
{x}.sum() | {x}.mean() | {x}.max() | {x}.sum(-1) | {x}.mean(0) | {x}.amax(-1) | {x}.max(-1) | {x}.min(0)
{x}.argmax(-1) | {x}.var(-1) | {x}.std() | {x}.norm() | {x}.logsumexp(-1) | {x}.cumsum(-1) | {x}.cumprod(0)
{x}.prod() | {x}.any() | {x}.all(0) | {x}.median() | {x}.mode() | torch.linalg.vector_norm({x}, dim=-1) | {x}.topk(1)
{x}.sort(-1) | {x}.argsort() | {x}.kthvalue(1) | torch.var_mean({x}, dim=0) | {x}.cummax(0)
{x}.sum(dtype=torch.float64) | {x}.count_nonzero() | {x}.nansum() | {x}.aminmax(dim=0) | {x}.trace()
{x}.quantile(0.5) | {x}.mean(-1, keepdim=True) | {x}.sum(0, keepdim=True) | {x}.unique() | {x}.histc(4) | {x}.diff()
torch.trapezoid({x}) | F.mse_loss({x}, {x} * 2) | F.l1_loss({x}, {x} * 2) | F.smooth_l1_loss({x}, {x} + 1)
F.cosine_similarity({x}, {x}, dim=-1) | F.huber_loss({x}, {x} + 1) | F.kl_div({x}, {x}.exp())
F.pairwise_distance({x}, {x})
"""
_MOVES = """
torch.cat([{x}, {x}]) | torch.stack([{x}, {x}], -1) | {x}.flip(0) | {x}.roll(1, 0)
{x}.repeat(2, *[1] * ({x}.dim() - 1)) | F.pad({x}, (1, 1)) | F.pad({x}, (1, 0), mode='reflect') | {x}.tril()
{x}.repeat_interleave(2, 0) | {x}.tile((2,)) | {x}.rot90() | {x}[torch.tensor([0, 0])]
{x}.index_select(0, torch.tensor([0])) | {x}.gather(0, {x}.argsort(0)) | {x}.take(torch.tensor([0]))
{x}.scatter(0, {x}.argsort(0), {x}) | {x}.scatter_add(0, {x}.argsort(0), {x})
torch.zeros_like({x}).index_add(0, torch.tensor([0]), {x}[:1]) | {x}.masked_select({x} > 0) | {x}[{x} > 0]
{x}.nonzero() | {x}.index_fill(0, torch.tensor([0]), 1) | torch.where({x} > 0)[0] | F.one_hot({x}.long().abs() % 4, 4)
F.embedding({x}.long().abs() % 3, torch.ones(3, {n})) | torch.diag({x}) | torch.diag_embed({x})
torch.zeros({n}).index_put((torch.tensor([0]),), {x}.sum(), accumulate=True)
torch.bincount({x}.flatten().long().abs()) | F.unfold({x}, 2) | F.pixel_shuffle({x}, 2)
torch.meshgrid({x}, {x}, indexing='ij') | torch.cartesian_prod({x}, {x}) | {x}.expand_as({x}).clone()
{x}.new_zeros({n}, 2) | torch.zeros_like({x}) | torch.empty_like({x}).copy_({x}) | torch.arange({n}).to({x}.dtype)
torch.rand_like({x}) | torch.scatter_reduce(torch.zeros_like({x}), 0, {x}.argsort(0), {x}, 'amax')
{x}.select_scatter({x}[0] * 2, 0, 0) | {x}.triu(1) | F.interpolate({x}, scale_factor=2)
F.interpolate({x}, scale_factor=2, mode='bilinear') | F.interpolate({x}, size={n}, mode='linear')
F.max_pool1d({x}, 2) | F.max_pool2d({x}, 2) | F.avg_pool1d({x}, 2) | F.avg_pool2d({x}, 2, 1)
F.adaptive_avg_pool2d({x}, 1) | F.adaptive_max_pool1d({x}, 2) | F.lp_pool2d({x}, 2, 2) | F.avg_pool3d({x}, 2)
F.interpolate({x}, scale_factor=2, mode='bicubic') | F.adaptive_avg_pool1d({x}, {n})
F.interpolate({x}, scale_factor=0.5, mode='nearest') | F.local_response_norm({x}, 2)
F.grid_sample({x}, torch.zeros({x}.shape[0], 3, 3, 2), align_corners=False)
F.affine_grid(torch.ones({n}, 2, 3), ({n}, 1, 3, 4), align_corners=True)
"""
#: MKL ends the process where it looks for the eigenvalues of a matrix with NaN.
_PRODUCTS = """
{x} @ {x}.mT | {x}.mT @ {x} | {x} @ {x}[..., 0, :] | torch.outer({x}, {x}) | {x}.dot({x}) | torch.inner({x}, {x})
torch.einsum('...ij,...kj->...ik', {x}, {x}) | torch.einsum('i,j->ij', {x}, {x})
torch.einsum('ij,ik,il->jkl', {x}, {x}, {x}) | torch.einsum('...i,...i->...', {x}, {x}) | torch.einsum('ii', {x})
torch.einsum('bij->ji', {x}) | torch.tensordot({x}, {x}, 1) | torch.tensordot({x}, {x}, ([0], [0]))
torch.cdist({x}, {x}) | torch.cdist({x}, {x}, p=1.0) | torch.bmm({x}, {x}.mT) | {x}.mv({x}[0])
torch.addmm({x}.new_zeros(1), {x}, {x}.t()) | torch.baddbmm({x}.new_zeros(1), {x}, {x}.mT, beta=0.5)
torch.addmv({x}[:, 0], {x}, {x}[0]) | torch.addr(torch.zeros({x}.shape[0], {x}.shape[0], dtype={x}.dtype), {x}, {x})
torch.kron({x}, {x}) | torch.addbmm({x}.new_zeros(1), {x}, {x}.mT)
torch.matmul({x}, torch.ones({x}.shape[-1], {n}, dtype={x}.dtype))
torch.matmul(torch.ones({x}.shape[0], dtype={x}.dtype), {x}) | {x}.matmul(torch.ones({x}.shape[-1], dtype={x}.dtype))
torch.linalg.multi_dot([{x}, {x}.t(), {x}]) | torch.matrix_power({x} @ {x}.mT, 3)
torch.linalg.inv({x} @ {x}.mT + {n} * torch.eye({x}.shape[-2])) | torch.linalg.det({x} @ {x}.mT)
torch.linalg.qr({x}) | torch.linalg.svd({x}) | torch.linalg.eigh({x} @ {x}.mT)
torch.linalg.solve({x} @ {x}.mT + {n} * torch.eye({x}.shape[-2]), {x}) | torch.linalg.svdvals({x})
torch.linalg.cholesky({x} @ {x}.mT + 9 * torch.eye({x}.shape[-2])) | torch.linalg.matrix_exp({x} @ {x}.mT)
torch.corrcoef({x}) | torch.cov({x}) | torch.linalg.vecdot({x}, {x}) | torch.vdot({x}, {x})
torch.chain_matmul({x}, {x}.t()) | F.bilinear({x}, {x}, torch.ones({n}, {x}.shape[-1], {x}.shape[-1]))
F.linear({x}, torch.ones({n}, {x}.shape[-1])) | F.linear({x}, torch.ones({n}, {x}.shape[-1]), torch.ones({n}))
torch.linalg.norm({x} @ {x}.mT) | F.conv1d({x}, torch.ones({n}, {x}.shape[-2], 2))
F.conv2d({x}, torch.ones({n}, {x}.shape[-3], 2, 2), padding=1, stride=2)
F.conv_transpose1d({x}, torch.ones({x}.shape[-2], {n}, 2), stride=2)
F.conv2d({x}, torch.ones({x}.shape[1], 1, 2, 2), groups={x}.shape[1])
F.conv1d({x}, torch.ones({x}.shape[1] * 2, 1, 2), groups={x}.shape[1], dilation=1, padding='same')
F.scaled_dot_product_attention({x}, {x}, {x}) | F.scaled_dot_product_attention({x}, {x}, {x}, is_causal=True)
F.scaled_dot_product_attention({x}[None], {x}[None], {x}[None]) | torch.baddbmm({x}, {x} @ {x}.mT, {x})
torch._int_mm({x}, {x}.t())
F.scaled_dot_product_attention({x}, {x}, {x}, attn_mask=torch.ones({x}.shape[-2], {x}.shape[-2], dtype=torch.bool))
torch.linalg.pinv({x}) | torch.linalg.solve_triangular({x} @ {x}.mT + torch.eye({x}.shape[-2]), {x}, upper=True)
torch.linalg.eigvals(({x} @ {x}.mT).nan_to_num(0, 1, -1)) | torch.sparse.mm({x}.to_sparse(), {x}.t())
{x}.addmm_({x}, {x}.new_ones({x}.shape[1], {x}.shape[1])) | torch.block_diag({x}, {x})
"""
#: As torch's own layer calls it: with the projections of a module that is none.
_HEADS = (
    "torch.nn.functional.multi_head_attention_forward({x}, {x}, {x}, {x}.shape[-1], 1, "
    "torch.ones(3 * {x}.shape[-1], {x}.shape[-1]), None, None, None, False, 0.0, "
    "torch.ones({x}.shape[-1], {x}.shape[-1]), None)[0]"
)
_PAIRS = """
{x} + {y} | {x} * {y} | {x} @ {y} | {x} - {y} | torch.matmul({x}, {y}) | torch.maximum({x}, {y}) | {x} @ {y}.mT
{x}.mT @ {y} | torch.bmm({x}, {y}) | F.linear({x}, {y}) | {x} / {y} | {x} > {y} | torch.where({x} > 0, {x}, {y})
torch.cat([{x}, {y}], -1) | torch.cdist({x}, {y}) | {x} ** {y}
"""


def make_template(text: str) -> Template:
    """Return the template of an expression of a tensor; of float ones where it needs them."""

    def template(maker: Maker) -> str:
        name = maker.any() if maker.rng.random() < 0.3 else maker.real()
        return text.format(x=name, n=maker.size())

    return template


def _both(maker: Maker) -> str:
    """Two tensors, broadcast or multiplied."""
    text = maker.rng.choice(texts(_PAIRS))
    return text.format(x=maker.any(), y=maker.any())


_SHORTEST = "{x}.relu() | {x}.tanh() | {x} * 2 | {x} @ {x}.mT | {x}.sum(0) | {x}.softmax(-1) | {x}.flatten() | -{x}"
SHORT = texts(_SHORTEST) * 2 + texts(_PRODUCTS)[:12]
ELEMENTWISE: list[Template] = [*map(make_template, texts(_UNARY)), _both, _both, _both]
VIEWS: list[Template] = [*map(make_template, texts(_VIEWS))]
REDUCTIONS: list[Template] = [*map(make_template, texts(_REDUCTIONS))]
MOVES: list[Template] = [*map(make_template, texts(_MOVES))]
PRODUCTS: list[Template] = [*map(make_template, [*texts(_PRODUCTS), _HEADS]), *[_both] * 6]
