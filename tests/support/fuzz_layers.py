"""Statements of fuzzed modules that call layers: torch's own, shared and tied ones, and modules made the same way."""

from __future__ import annotations

import torch
from fuzz_generator import Maker, Misfit, Piece, Template, texts

__all__ = ["LAYERS", "NESTED"]

#: Layers by how many dimensions of input they need, and which of its dimensions is ``c``; ``n`` is any small size.
_TABLE = {
    (2, -1): """
        nn.Linear({c}, {n}) | nn.Linear({c}, {n}, bias=False) | nn.LayerNorm({c}) | nn.BatchNorm1d({c})
        nn.RMSNorm({c}) | nn.PReLU() | nn.PReLU({c})
        nn.Sequential(nn.Linear({c}, {n}), nn.ReLU(), nn.Linear({n}, {c})) | nn.Dropout(0.5)
        nn.BatchNorm1d({c}, track_running_stats=False) | nn.LSTMCell({c}, {n}) | nn.GRUCell({c}, {n})
        nn.RNNCell({c}, {n}) | nn.utils.parametrizations.weight_norm(nn.Linear({c}, {n})) | nn.Identity()
        nn.Softmax(-1) | nn.GELU() | nn.utils.parametrizations.spectral_norm(nn.Linear({c}, {n})) | nn.RNN({c}, {n})
        nn.LSTM({c}, {n}) | nn.GRU({c}, {n}) | nn.utils.parametrizations.orthogonal(nn.Linear({c}, {n}))
    """,
    (3, 1): """
        nn.Conv1d({c}, {n}, 2) | nn.Conv1d({c}, {n}, 3, padding=1, stride=2) | nn.ConvTranspose1d({c}, {n}, 2, stride=2)
        nn.Conv1d({c}, {c}, 2, groups={c}) | nn.Conv1d({c}, {n}, 2, dilation=2, padding=2) | nn.BatchNorm1d({c})
        nn.GroupNorm(1, {c}) | nn.InstanceNorm1d({c}, affine=True)
        nn.Conv1d({c}, {c}, 3, padding='same', padding_mode='circular')
        nn.ConvTranspose1d({c}, {c}, 3, groups={c}, bias=False) | nn.AdaptiveAvgPool1d(2) | nn.MaxPool1d(2)
    """,
    (3, -1): """
        nn.Linear({c}, {n}) | nn.RNN({c}, {n}) | nn.RNN({c}, {n}, nonlinearity='relu', bias=False) | nn.GRU({c}, {n})
        nn.GRU({c}, {n}, 2, batch_first=True, bidirectional=True) | nn.LSTM({c}, {n}) | nn.LayerNorm({c})
        nn.LSTM({c}, {n}, 2, bidirectional=True, batch_first=True) | nn.LSTM({c}, 4, proj_size=2)
        nn.LSTM({c}, {n}, bias=False) | nn.TransformerEncoderLayer({c}, 1, {n})
        nn.TransformerEncoderLayer({c}, 1, {n}, batch_first=True)
        nn.TransformerEncoderLayer({c}, 2, {n}, batch_first=True, norm_first=True, activation='gelu')
        nn.TransformerEncoder(nn.TransformerEncoderLayer({c}, 1, {n}, batch_first=True), 2)
    """,
    (4, 1): """
        nn.Conv2d({c}, {n}, 2) | nn.Conv2d({c}, {n}, 3, padding=1) | nn.Conv2d({c}, {c}, 3, padding=1, groups={c})
        nn.Conv2d({c}, {n}, 2, stride=2, bias=False) | nn.Conv2d({c}, {n}, (1, 2), dilation=(1, 2), padding=1)
        nn.ConvTranspose2d({c}, {n}, 2, stride=2) | nn.ConvTranspose2d({c}, {c}, 3, groups={c}) | nn.BatchNorm2d({c})
        nn.GroupNorm(1, {c}) | nn.InstanceNorm2d({c}) | nn.MaxPool2d(2) | nn.AvgPool2d(2, ceil_mode=True)
        nn.AdaptiveAvgPool2d((1, 2)) | nn.Upsample(scale_factor=2, mode='bilinear') | nn.Conv2d({c}, {n}, 1)
        nn.PReLU({c}) | nn.Conv2d({c}, {n}, 3, padding=1, padding_mode='reflect') | nn.PixelUnshuffle(2) | nn.Unfold(2)
        nn.LPPool2d(2, 2)
    """,
    (5, 1): """
        nn.Conv3d({c}, {n}, 2, padding=1) | nn.Conv3d({c}, {c}, 1, groups={c}) | nn.ConvTranspose3d({c}, {n}, 2)
        nn.BatchNorm3d({c}) | nn.MaxPool3d(2, ceil_mode=True) | nn.AdaptiveAvgPool3d(1)
    """,
}
_DTYPES = (torch.float64, torch.float16, torch.bfloat16, torch.complex64)


def _plain(maker: Maker) -> Piece:
    """A layer whose sizes are those of its input, at the input's dtype."""
    (dims, channel), text = maker.rng.choice(list(_TABLE.items()))
    name = maker.real(dims)
    tensor = maker.value(name)
    made_by = maker.rng.choice(texts(text)).format(c=tensor.shape[channel], n=maker.size())
    if tensor.dtype in _DTYPES:
        made_by += f".to({tensor.dtype})"
    init: list[str] = []
    layer = maker.attribute(made_by, init)
    made = maker.fresh()
    return Piece([f"{made} = {layer}({name})"], made, init)


def _attention(maker: Maker) -> Piece:
    """Attention over heads, with and without masks, other keys, and weights that are asked for."""
    name = maker.real(3)
    batch, length, width = maker.value(name).shape
    rng = maker.rng
    heads = rng.choice([h for h in (1, 2, 4) if width % h == 0])
    first = rng.random() < 0.6
    options = f"batch_first={first}" + rng.choice(
        ("", "", ", bias=False", ", add_bias_kv=True", ", add_zero_attn=True")
    )
    steps = length if first else batch
    mask = f"torch.ones({steps}, {steps}, dtype=torch.bool).triu(1)"
    more = rng.choice(("", ", need_weights=False", f", attn_mask={mask}", f", attn_mask={mask}, is_causal=True"))
    init: list[str] = []
    layer = maker.attribute(f"nn.MultiheadAttention({width}, {heads}, {options})", init)
    made = maker.fresh()
    return Piece([f"{made} = {layer}({name}, {name}, {name}{more})"], made, init)


def _decoder(maker: Maker) -> Piece:
    name = maker.real(3)
    width = maker.value(name).shape[-1]
    init: list[str] = []
    layer = maker.attribute(f"nn.TransformerDecoderLayer({width}, 1, {maker.size()}, batch_first=True)", init)
    made = maker.fresh()
    return Piece([f"{made} = {layer}({name}, {name})"], made, init)


def _embedding(maker: Maker) -> Piece:
    name = maker.any()
    init: list[str] = []
    kind = maker.rng.choice(("Embedding", "Embedding", "EmbeddingBag"))
    if kind == "EmbeddingBag":
        layer = maker.attribute(
            f"nn.EmbeddingBag(5, {maker.size()}, mode='{maker.rng.choice(('sum', 'mean', 'max'))}')", init
        )
    else:
        layer = maker.attribute(f"nn.Embedding(5, {maker.size()})", init)
    made = maker.fresh()
    return Piece([f"{made} = {layer}({name}.long().abs() % 5)"], made, init)


def _parameter(maker: Maker) -> Piece:
    """A bare parameter, multiplied."""
    name = maker.real(1, 2, 3, 4)
    init: list[str] = []
    rows = maker.value(name).shape[-1]
    weight = maker.attribute(f"nn.Parameter(torch.randn({rows}, {maker.size()}))", init)
    made = maker.fresh()
    text = maker.rng.choice(("{x} @ {w}", "F.linear({x}, {w}.t())", "torch.matmul({x}, {w}.relu())", "{x} @ ({w} * 2)"))
    return Piece([f"{made} = {text.format(x=name, w=weight)}"], made, init)


def _bilinear(maker: Maker) -> Piece:
    name = maker.real()
    init: list[str] = []
    width = maker.value(name).shape[-1]
    layer = maker.attribute(f"nn.Bilinear({width}, {width}, {maker.size()})", init)
    made = maker.fresh()
    return Piece([f"{made} = {layer}({name}, {name})"], made, init)


def _shared(maker: Maker) -> Piece:
    """A layer that is called twice, or stands at two places."""
    name = maker.real(2, 3)
    width = maker.value(name).shape[-1]
    init: list[str] = []
    layer = maker.attribute(f"nn.Linear({width}, {width})", init)
    other = maker.attribute(layer, init) if maker.rng.random() < 0.6 else layer
    made = maker.fresh()
    return Piece([f"{made} = {other}({layer}({name}).relu())"], made, init)


def _tied(maker: Maker) -> Piece:
    """Two layers with one weight: the same parameter, or two parameters over the same elements."""
    name = maker.real(2, 3)
    width = maker.value(name).shape[-1]
    init: list[str] = []
    first = maker.attribute(f"nn.Linear({width}, {width})", init)
    second = maker.attribute(f"nn.Linear({width}, {width}, bias=False)", init)
    tie = maker.rng.choice(
        (f"{first}.weight", f"nn.Parameter({first}.weight.data)", f"nn.Parameter({first}.weight.data.t())")
    )
    init.append(f"{second}.weight = {tie}")
    made = maker.fresh()
    return Piece([f"{made} = {second}({first}({name}))"], made, init)


def _block(maker: Maker) -> Piece:
    """A module made the same way, called once or in turn, alone, in a list or behind a wrapper."""
    if maker.depth > 1:
        raise Misfit
    names = [maker.real()] + ([maker.any()] if maker.rng.random() < 0.3 else [])
    values = [maker.value(name).clone() for name in names]
    inner = Maker(maker.rng, maker.classes, values, maker.depth + 1)
    inner.grow(maker.rng.randint(1, 4))
    if not inner.body:
        raise Misfit
    kind = f"Block{len(maker.classes)}"
    text = inner.text(kind)
    init: list[str] = []
    made = maker.fresh()
    arguments = ", ".join(names)
    form = maker.rng.random()
    if form < 0.5:
        block = maker.attribute(f"{kind}()", init)
        body = [f"{made} = {block}({arguments})"]
    elif form < 0.7 and len(names) == 1:
        block = maker.attribute(f"nn.ModuleList([{kind}() for _ in range(2)])", init)
        body = [f"{made} = torch.stack([block({arguments}) for block in {block}])"]
    elif form < 0.85:
        block = maker.attribute(f"nn.ModuleDict({{'a': {kind}()}})", init)
        body = [f"{made} = {block}['a']({arguments})"]
    else:
        block = maker.attribute(f"{kind}()", init)
        body = [f"{made} = checkpoint({block}, {arguments}, use_reentrant={maker.rng.random() < 0.5})"]
    return Piece(body, made, init, [text])


def _frozen(maker: Maker) -> Piece:
    piece = _plain(maker)
    piece.init.append(f"{piece.init[0].split(' = ')[0]}.requires_grad_(False)")
    return piece


def _cast(maker: Maker) -> Piece:
    """A layer at another dtype than its input, which is cast."""
    name = maker.real(2, 3)
    dtype = maker.rng.choice(("float64", "bfloat16", "float16"))
    init: list[str] = []
    layer = maker.attribute(f"nn.Linear({maker.value(name).shape[-1]}, {maker.size()}, dtype=torch.{dtype})", init)
    made = maker.fresh()
    return Piece([f"{made} = {layer}({name}.to(torch.{dtype}))"], made, init)


LAYERS: list[Template] = [
    *[_plain] * 14,
    *[_attention] * 3,
    _decoder,
    _embedding,
    _parameter,
    _bilinear,
    _frozen,
    _cast,
]
NESTED: list[Template] = [_shared, _tied, _block, _block, _block]
