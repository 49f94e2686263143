"""Small networks of many kinds, for exporters: each uses operators that the others leave out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional

__all__ = ["NETWORKS"]

Inputs = tuple[torch.Tensor, ...]


class Written(nn.Module):
    """Runs a function of itself and its inputs, over the modules that it gets by name."""

    def __init__(self, function: Callable[..., Any], **modules: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, module in modules.items():
            self.add_module(name, module)

    def forward(self, *args: Any) -> Any:
        return self.function(self, *args)


class RootMeanSquare(nn.Module):
    """``nn.RMSNorm`` spelt out: the older exporter does not know the operator."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Any) -> Any:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


def images(channels: int = 3, side: int = 16) -> Inputs:
    return (torch.randn(2, channels, side, side),)


def steps(width: int = 16, length: int = 10) -> Inputs:
    return (torch.randn(2, length, width),)


def signals(channels: int = 4, length: int = 64) -> Inputs:
    return (torch.randn(2, channels, length),)


def u_net() -> nn.Module:
    def forward(m: Any, x: Any) -> Any:
        fine = torch.relu(m.down(x))
        coarse = torch.relu(m.bottom(m.pool(fine)))
        return m.head(torch.cat([fine, m.up(coarse)], 1))

    return Written(
        forward, down=nn.Conv2d(3, 8, 3, padding=1), pool=nn.MaxPool2d(2), bottom=nn.Conv2d(8, 16, 3, padding=1),
        up=nn.ConvTranspose2d(16, 8, 2, 2), head=nn.Conv2d(16, 2, 1),
    )  # fmt: skip


def gated_wave_net() -> nn.Module:
    def forward(m: Any, x: Any) -> Any:
        for size in (1, 2, 4):
            layer = getattr(m, f"dilated{size}")
            signal, gate = layer(functional.pad(x, (2 * size, 0))).chunk(2, 1)
            x = x + torch.tanh(signal) * torch.sigmoid(gate)
        return m.head(x)

    layers = {f"dilated{size}": nn.Conv1d(4, 8, 3, dilation=size) for size in (1, 2, 4)}
    return Written(forward, head=nn.Conv1d(4, 5, 1), **layers)


def video() -> nn.Module:
    return nn.Sequential(
        nn.Conv3d(2, 4, 3, padding=1), nn.BatchNorm3d(4), nn.ReLU(), nn.MaxPool3d(2),
        nn.Conv3d(4, 6, (1, 3, 3), stride=(1, 2, 2), bias=False), nn.AdaptiveAvgPool3d(1), nn.Flatten(),
        nn.Linear(6, 3),
    )  # fmt: skip


def generator() -> nn.Module:
    return nn.Sequential(
        nn.ConvTranspose2d(8, 12, 4, 1, 0, bias=False), nn.BatchNorm2d(12), nn.ReLU(),
        nn.ConvTranspose2d(12, 6, 4, 2, 1, bias=False), nn.BatchNorm2d(6), nn.ReLU(),
        nn.ConvTranspose2d(6, 3, 3, 2, 1, output_padding=1, groups=3), nn.Tanh(),
    )  # fmt: skip


def super_resolution() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2), nn.PReLU(16), nn.Conv2d(16, 4, 3, padding=1), nn.PixelShuffle(2),
        nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(1, 1, 3, padding=1, padding_mode="reflect"),
    )  # fmt: skip


def dense_net() -> nn.Module:
    def forward(m: Any, x: Any) -> Any:
        for layer, norm in ((m.first, m.norm1), (m.second, m.norm2), (m.third, m.norm3)):
            x = torch.cat([x, layer(torch.relu(norm(x)))], 1)
        return m.head(x.mean((2, 3)))

    return Written(
        forward, norm1=nn.BatchNorm2d(3), first=nn.Conv2d(3, 4, 3, padding=1), norm2=nn.BatchNorm2d(7),
        second=nn.Conv2d(7, 4, 3, padding=1), norm3=nn.BatchNorm2d(11), third=nn.Conv2d(11, 4, 3, padding=1),
        head=nn.Linear(15, 5),
    )  # fmt: skip


def inception() -> nn.Module:
    def forward(m: Any, x: Any) -> Any:
        branches = [m.narrow(x), m.wide(x), m.pooled(functional.avg_pool2d(x, 3, 1, 1))]
        return torch.cat(branches, 1)

    return Written(
        forward, narrow=nn.Conv2d(3, 4, 1),
        wide=nn.Sequential(nn.Conv2d(3, 4, (1, 5), padding=(0, 2)), nn.Conv2d(4, 4, (5, 1), padding=(2, 0))),
        pooled=nn.Conv2d(3, 2, 1),
    )  # fmt: skip


def shuffle_net() -> nn.Module:
    def forward(m: Any, x: Any) -> Any:
        x = m.stem(x)
        batch, channels, height, width = x.shape
        kept, moved = x.chunk(2, 1)
        x = torch.cat([kept, m.branch(moved)], 1)
        x = x.view(batch, 2, channels // 2, height, width).transpose(1, 2).reshape(batch, channels, height, width)
        return m.head(x.mean((2, 3)))

    branch = nn.Sequential(
        nn.Conv2d(4, 4, 1, groups=2), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1, groups=4), nn.BatchNorm2d(4)
    )
    return Written(forward, stem=nn.Conv2d(3, 8, 3, 2, 1), branch=branch, head=nn.Linear(8, 3))


def squeeze_and_excite() -> nn.Module:
    def forward(m: Any, x: Any) -> Any:
        x = functional.silu(m.norm(m.expand(x)))
        return m.project(x * torch.sigmoid(m.excite(functional.silu(m.squeeze(x.mean((2, 3), keepdim=True))))))

    return Written(
        forward, expand=nn.Conv2d(3, 12, 1, bias=False), norm=nn.BatchNorm2d(12), squeeze=nn.Conv2d(12, 3, 1),
        excite=nn.Conv2d(3, 12, 1), project=nn.Conv2d(12, 5, 1),
    )  # fmt: skip


def norms_of_images() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.Hardswish(), nn.Conv2d(8, 8, 3, groups=2),
        nn.InstanceNorm2d(8, affine=True), nn.LeakyReLU(), nn.Conv2d(8, 4, 3), nn.LocalResponseNorm(3), nn.ELU(),
    )  # fmt: skip


def mixer() -> nn.Module:
    def forward(m: Any, x: Any) -> Any:
        x = x + m.tokens(m.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + m.channels(m.norm2(x))

    return Written(
        forward, norm1=nn.LayerNorm(16), tokens=nn.Sequential(nn.Linear(10, 20), nn.GELU(), nn.Linear(20, 10)),
        norm2=nn.LayerNorm(16), channels=nn.Sequential(nn.Linear(16, 32), nn.GELU("tanh"), nn.Linear(32, 16)),
    )  # fmt: skip


def einsum_attention() -> nn.Module:
    def forward(m: Any, x: Any) -> Any:
        q, k, v = (part.unflatten(-1, (4, 4)) for part in m.qkv(x).chunk(3, -1))
        weights = torch.softmax(torch.einsum("bqhd,bkhd->bhqk", q, k) / 2, -1)
        return m.out(torch.einsum("bhqk,bkhd->bqhd", weights, v).flatten(2))

    return Written(forward, qkv=nn.Linear(16, 48), out=nn.Linear(16, 16))


def linear_attention() -> nn.Module:
    def forward(m: Any, x: Any) -> Any:
        q, k, v = functional.elu(m.q(x)) + 1, functional.elu(m.k(x)) + 1, m.v(x)
        summed = k.transpose(1, 2) @ v
        return (q @ summed) / (q @ k.sum(1, keepdim=True).transpose(1, 2))

    return Written(forward, q=nn.Linear(16, 8), k=nn.Linear(16, 8), v=nn.Linear(16, 12))


def llama_block() -> nn.Module:
    """Rotary positions, grouped keys and values, a causal mask, RMS norms and a gated MLP."""

    def turn(x: Any, cosine: Any, sine: Any) -> Any:
        first, second = x.chunk(2, -1)
        return x * cosine + torch.cat([-second, first], -1) * sine

    def forward(m: Any, x: Any) -> Any:
        batch, length, width = x.shape
        y = m.norm1(x)
        q, k, v = (f(y).view(batch, length, -1, 4).transpose(1, 2) for f in (m.q, m.k, m.v))
        angles = torch.arange(length)[:, None] * torch.tensor([1.0, 0.1, 1.0, 0.1])
        q, k = (turn(item, angles.cos(), angles.sin()) for item in (q, k))
        k, v = (item.repeat_interleave(2, 1) for item in (k, v))
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + m.out(attended.transpose(1, 2).reshape(batch, length, width))
        y = m.norm2(x)
        return x + m.down(functional.silu(m.gate(y)) * m.up(y))

    return Written(
        forward, norm1=RootMeanSquare(16), q=nn.Linear(16, 16, bias=False), k=nn.Linear(16, 8, bias=False),
        v=nn.Linear(16, 8, bias=False), out=nn.Linear(16, 16, bias=False), norm2=RootMeanSquare(16),
        gate=nn.Linear(16, 40, bias=False), up=nn.Linear(16, 40, bias=False), down=nn.Linear(40, 16, bias=False),
    )  # fmt: skip


def encoder_layers() -> nn.Module:
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def encoder_decoder() -> nn.Module:
    def forward(m: Any, x: Any, y: Any) -> Any:
        return m.inner(x, y, src_is_causal=False, tgt_is_causal=False)

    return Written(forward, inner=nn.Transformer(16, 4, 1, 1, 32, batch_first=True))


def sequence_to_sequence() -> nn.Module:
    """A GRU that reads, one that writes, and attention of the second to the first."""

    def forward(m: Any, x: Any, y: Any) -> Any:
        read, state = m.encoder(x)
        written, _ = m.decoder(y, state)
        attended, _ = m.attention(written, read, read)
        return m.head(torch.cat([written, attended], -1))

    return Written(
        forward, encoder=nn.GRU(16, 12, batch_first=True), decoder=nn.GRU(8, 12, batch_first=True),
        attention=nn.MultiheadAttention(12, 3, batch_first=True), head=nn.Linear(24, 9),
    )  # fmt: skip


def elman() -> nn.Module:
    def forward(m: Any, x: Any) -> Any:
        return m.head(m.recurrent(x)[0][:, -1])

    return Written(forward, recurrent=nn.RNN(16, 12, 2, batch_first=True, bidirectional=True), head=nn.Linear(24, 3))


def unrolled_cells() -> nn.Module:
    def forward(m: Any, x: Any) -> Any:
        hidden = cell = x.new_zeros(x.shape[0], 12)
        for step in x.unbind(1):
            hidden, cell = m.cell(step, (hidden, cell))
        return m.head(hidden)

    return Written(forward, cell=nn.LSTMCell(16, 12), head=nn.Linear(12, 3))


def conformer_block() -> nn.Module:
    def forward(m: Any, x: Any) -> Any:
        x = x + 0.5 * m.feed(x)
        y = m.norm(x)
        x = x + m.attention(y, y, y, need_weights=False)[0]
        return x + m.convolution(x.transpose(1, 2)).transpose(1, 2)

    return Written(
        forward, feed=nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 16)),
        norm=nn.LayerNorm(16), attention=nn.MultiheadAttention(16, 4, batch_first=True),
        convolution=nn.Sequential(
            nn.Conv1d(16, 32, 1), nn.GLU(1), nn.Conv1d(16, 16, 5, padding=2, groups=16), nn.BatchNorm1d(16), nn.SiLU(),
            nn.Conv1d(16, 16, 1),
        ),
    )  # fmt: skip


def graph_network() -> nn.Module:
    """Messages along a dense adjacency matrix, each divided by the degree."""

    def forward(m: Any, nodes: Any, edges: Any) -> Any:
        degrees = edges.sum(-1, keepdim=True).clamp(min=1)
        for layer in (m.first, m.second):
            nodes = torch.relu(layer(edges @ nodes / degrees))
        return nodes.amax(1)

    return Written(forward, first=nn.Linear(16, 12), second=nn.Linear(12, 8))


def variational() -> nn.Module:
    def forward(m: Any, x: Any) -> Any:
        mean, spread = m.encoder(x).chunk(2, -1)
        return m.decoder(mean + torch.exp(spread / 2)), mean

    return Written(
        forward, encoder=nn.Sequential(nn.Linear(16, 20), nn.Softplus(), nn.Linear(20, 8)),
        decoder=nn.Sequential(nn.Linear(4, 20), nn.Mish(), nn.Linear(20, 16), nn.Sigmoid()),
    )  # fmt: skip


def bag_of_words() -> nn.Module:
    """Collaborative filtering: two tables, a bilinear form and a weighted mean of embeddings."""

    def forward(m: Any, users: Any, items: Any) -> Any:
        user, item = m.users(users), m.items(items).mean(1)
        return torch.sigmoid(m.form(user, item) + (user * item).sum(-1, keepdim=True))

    return Written(forward, users=nn.Embedding(20, 6), items=nn.Embedding(30, 6), form=nn.Bilinear(6, 6, 1))


def mixture() -> nn.Module:
    """Each expert sees each token; the router weighs them."""

    def forward(m: Any, x: Any) -> Any:
        weights = torch.softmax(m.router(x), -1)
        outputs = torch.stack([expert(x) for expert in m.experts], -1)
        return (outputs * weights.unsqueeze(-2)).sum(-1)

    return Written(forward, router=nn.Linear(16, 3), experts=nn.ModuleList(nn.Linear(16, 16) for _ in range(3)))


def shared_and_folded() -> nn.Module:
    """One layer called three times, on parts that `unfold` cuts out, and its weight used as a matrix besides."""

    def forward(m: Any, x: Any) -> Any:
        patches = functional.unfold(x, 4, stride=4).transpose(1, 2)
        for _ in range(3):
            patches = torch.relu(m.shared(patches))
        return patches @ m.shared.weight.T

    return Written(forward, shared=nn.Linear(48, 48))


def siamese() -> nn.Module:
    def forward(m: Any, x: Any, y: Any) -> Any:
        return functional.cosine_similarity(m.trunk(x), m.trunk(y))

    return Written(forward, trunk=nn.Sequential(nn.Conv2d(3, 4, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(196, 8)))


def words(*shape: int) -> torch.Tensor:
    return torch.arange(torch.Size(shape).numel()).reshape(shape) % 20


#: By name: what builds a network, and what makes its inputs.
NETWORKS: Mapping[str, tuple[Callable[[], nn.Module], Callable[[], Inputs]]] = {
    "U-Net": (u_net, images),
    "WaveNet": (gated_wave_net, signals),
    "video": (video, lambda: (torch.randn(2, 2, 4, 12, 12),)),
    "generator": (generator, lambda: (torch.randn(2, 8, 1, 1),)),
    "super-resolution": (super_resolution, lambda: images(1)),
    "DenseNet": (dense_net, images),
    "Inception": (inception, images),
    "ShuffleNet": (shuffle_net, images),
    "squeeze and excite": (squeeze_and_excite, images),
    "norms of images": (norms_of_images, images),
    "Mixer": (mixer, steps),
    "attention by einsum": (einsum_attention, steps),
    "linear attention": (linear_attention, steps),
    "Llama block": (llama_block, steps),
    "nn.TransformerEncoder": (encoder_layers, steps),
    "nn.Transformer": (encoder_decoder, lambda: (*steps(), *steps(length=7))),
    "sequence to sequence": (sequence_to_sequence, lambda: (*steps(), *steps(8, 7))),
    "nn.RNN": (elman, steps),
    "nn.LSTMCell": (unrolled_cells, steps),
    "Conformer block": (conformer_block, steps),
    "graph network": (graph_network, lambda: (*steps(), torch.ones(2, 10, 10))),
    "variational autoencoder": (variational, steps),
    "collaborative filtering": (bag_of_words, lambda: (words(4), words(4, 5))),
    "mixture of experts": (mixture, steps),
    "patches, shared": (shared_and_folded, images),
    "siamese network": (siamese, lambda: (*images(), *images())),
}
